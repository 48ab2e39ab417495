"""Week 2, day 2, task 3: FLOPs of a step."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25, by_architecture, by_head, random_model
from tests.week2.counting import computed, same_counts

from tiny_llm.config import ModelConfig
from tiny_llm.measure import accounting
from tiny_llm.measure.step import Flops, Step
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def counted_flops(config, length, offset, batch, swept=False):
    model = random_model(config, 0) if not swept else None
    letters = {"E": "hidden_size", "H": "num_attention_heads", "H_kv": "num_key_value_heads", "D": "head_dim"}
    words = ", ".join(f"{letter} {config[name]}" for letter, name in letters.items())
    case = f"{model or f'Qwen3 ({words})'}, L {length}, offset {offset}, N {batch}"
    with noted(case):
        found = accounting.flops(Step(ModelConfig.from_dict(config), length, offset, batch))
    same_counts(found, Flops, computed(config, length, offset, batch), case, length * batch + offset, swept)


@by_architecture
def test_task_3_flops_one_token(base):
    counted_flops(base, 1, 0, 1)


@by_head
@by_architecture
@pytest.mark.parametrize(("length", "offset", "batch"), [(1, 7, 1), (5, 0, 1), (3, 4, 1), (1, 0, 5), (2, 3, 5)])
def test_task_3_flops_steps(base, tied, length, offset, batch):
    counted_flops({**base, "tie_word_embeddings": tied}, length, offset, batch)


def by_pytorch(torch, sizes, seen):
    """Return PyTorch's FLOP count for a layer of these sizes and a head, for one token after `seen` - 1 others."""
    from torch.utils.flop_counter import FlopCounterMode

    size, heads, pairs, dims, inner, vocabulary = sizes
    functional, found, x = torch.nn.functional, [], torch.zeros(1, size)

    def projections():
        for outputs in (heads * dims, pairs * dims, pairs * dims):
            functional.linear(x, torch.zeros(outputs, size))
        functional.linear(torch.zeros(1, heads * dims), torch.zeros(size, heads * dims))

    def attention():
        weights = torch.zeros(heads, 1, dims) @ torch.zeros(heads, dims, seen)
        return weights @ torch.zeros(heads, seen, dims)

    def mlp():
        for _ in ("gate", "up"):
            functional.linear(x, torch.zeros(inner, size))
        functional.linear(torch.zeros(1, inner), torch.zeros(size, inner))

    def head():
        functional.linear(x, torch.zeros(vocabulary, size))

    for part in (projections, attention, mlp, head):
        with FlopCounterMode(display=False) as counter:
            part()
        found.append(counter.get_total_flops())
    return torch.tensor(found)


@pytest.mark.parametrize("seen", [1, 6])
def test_task_3_flops_pytorch(pytorch, seen):
    config = ModelConfig.from_dict({**QWEN3, "num_hidden_layers": 1})
    letters = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
    counts = pytorch(by_pytorch, tuple(QWEN3[name] for name in (*letters, "vocab_size")), seen)
    expected = dict(zip(("projections", "attention", "mlp", "head"), map(int, counts), strict=True))
    case = f"Qwen3 with 1 layer, L 1, offset {seen - 1}, N 1, against PyTorch's FlopCounterMode"
    with noted(case):
        found = accounting.flops(Step(config, 1, seen - 1))
    same_counts(found, Flops, expected, case, seen)


def test_task_3_flops_of_known_models():
    """Qwen3-0.6B: about 2 FLOPs per weight, 0.88 billion in the layers; the head runs on one position of a prompt."""
    config = ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True)
    for step, parts in (
        (Step(config, 1, 127), (352321536, 29360128, 528482304, 311164928)),
        (Step(config, 128), (45097156608, 1893728256, 67645734912, 311164928)),
    ):
        case = f"Qwen3-0.6B, L {step.length}, offset {step.offset}, N 1"
        with noted(case):
            found = accounting.flops(step)
        expected = dict(zip(("projections", "attention", "mlp", "head"), parts, strict=True))
        same_counts(found, Flops, expected, case, 128)


def test_task_3_flops_sweep():
    for n in sizes(N=4, L=17, S=70, K=4, G=4, P=4):
        measures = {
            "num_attention_heads": n.K * n.G,
            "num_key_value_heads": n.K,
            "head_dim": 2 * n.P,
            "num_hidden_layers": n.turn(2, 1, 3),
            "tie_word_embeddings": n.turn(True, False),
        }
        counted_flops({**n.turn(QWEN3, QWEN25, QWEN3), **measures}, n.L, n.S - 1, n.N, swept=True)


@property_test
@given(parts=st.lists(st.integers(1, 5), min_size=1, max_size=4), offset=st.integers(0, 6), batch=st.integers(1, 3))
def test_task_3_flops_any_split(parts, offset, batch):
    """However a sequence is split into calls, everything but the head is computed once."""
    config = ModelConfig.from_dict(QWEN3)
    case = f"Qwen3, parts {' + '.join(map(str, parts))} after {offset}, N {batch}, against all in one call"
    starts = itertools.accumulate(parts[:-1], initial=offset)
    with noted(case):
        whole = accounting.flops(Step(config, sum(parts), offset, batch))
        calls = [accounting.flops(Step(config, size, at, batch)) for size, at in zip(parts, starts, strict=True)]
    expected = {name: sum(getattr(call, name) for call in calls) for name in ("projections", "attention", "mlp")}
    same_counts(whole, Flops, {**expected, "head": calls[0].head}, case, sum(parts))
