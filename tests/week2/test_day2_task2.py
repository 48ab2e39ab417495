"""Week 2, day 2, task 2: bytes of a step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25, by_architecture, by_head, random_model
from tests.week2.counting import moved, same_counts

from tiny_llm.config import ModelConfig
from tiny_llm.measure import accounting
from tiny_llm.measure.step import Step, Storage, Traffic
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def counted_bytes(model, storage, length, offset, batch, swept=False):
    case = f"{model}, {in_words(storage)}, L {length}, offset {offset}, N {batch}"
    step = Step(ModelConfig.from_dict(model.config), length, offset, batch)
    with noted(case):
        found = accounting.traffic(step, storage)
    expected = moved(model, storage, length, offset, batch)
    same_counts(found, Traffic, expected, case, length * batch + offset, swept)


def in_words(storage):
    if storage.bits is None:
        return f"{storage.size} bytes a number"
    packed = f"{storage.bits} bits in groups of {storage.group_size}, scales of {storage.scale_size} bytes"
    return f"{packed}, unpacked numbers of {storage.size}"


WIDE = {"hidden_size": 128, "intermediate_size": 384, "head_dim": 64, "num_attention_heads": 6, "vocab_size": 37}
STORAGES = [
    Storage(bits=4),
    Storage(bits=8, group_size=32),
    Storage(2, bits=4, group_size=128, scale_size=2),
    Storage(4, bits=4, group_size=64, scale_size=2),
    Storage(2, bits=6, group_size=32, scale_size=4),
]


@by_head
@by_architecture
@pytest.mark.parametrize("size", [4, 2])
def test_task_2_traffic_one_token(base, tied, size):
    counted_bytes(random_model(base, 1, tie_word_embeddings=tied), Storage(size), 1, 0, 1)


@by_head
@by_architecture
@pytest.mark.parametrize(("length", "offset", "batch"), [(5, 0, 1), (1, 7, 1), (3, 4, 1), (1, 0, 5), (2, 3, 5)])
def test_task_2_traffic_steps(base, tied, length, offset, batch):
    counted_bytes(random_model(base, 2, tie_word_embeddings=tied), Storage(), length, offset, batch)


@by_head
@by_architecture
@pytest.mark.parametrize("storage", STORAGES, ids=in_words)
def test_task_2_traffic_quantized(base, tied, storage):
    """With matrices packed by `mx.quantize`."""
    model = random_model(base, 3, **WIDE, tie_word_embeddings=tied)
    counted_bytes(model, storage, 1, 2, 1)
    counted_bytes(model, storage, 3, 2, 5)


def test_task_2_traffic_of_known_models():
    """Qwen3-0.6B in bfloat16 and in 4 bits, for one token after 127: the weights agree with a checkpoint's files."""
    config = ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True)
    cache = {"cache_read": 128 * 114688, "cache_written": 114688}
    for storage, weights, row in ((Storage(2), 1_192_101_888, 2048), (Storage(2, 4, 64, 2), 335_372_864, 576)):
        case = f"Qwen3-0.6B, {in_words(storage)}, L 1, offset 127, N 1"
        with noted(case):
            found, two = (accounting.traffic(Step(config, length, 127), storage) for length in (1, 2))
        other = f"{case}, and the same with L 2"
        fail_if_different("bytes of the second token's embedding row", row, two.weights - found.weights, other)
        same_counts(found, Traffic, {"weights": weights, **cache}, case, 128)


def test_task_2_traffic_sweep():
    for n in sizes(N=9, L=1100, S=4200, K=4, G=4, P=8):
        measures = {
            "num_attention_heads": n.K * n.G,
            "num_key_value_heads": n.K,
            "head_dim": 2 * n.P,
            "num_hidden_layers": n.turn(2, 1, 3),
            "tie_word_embeddings": n.turn(True, False),
        }
        base = n.turn(QWEN3, QWEN25, QWEN3)
        counted_bytes(random_model(base, n.seed, **measures), Storage(n.turn(2, 4)), n.L, n.S - 1, n.N, swept=True)
        wide = {**WIDE, "num_attention_heads": 2 * n.K, "num_key_value_heads": n.K}
        counted_bytes(random_model(base, n.seed, **wide), n.turn(*STORAGES), n.L, n.S - 1, n.N, swept=True)


@property_test
@given(length=st.integers(1, 9), offset=st.integers(0, 9), batch=st.integers(1, 4))
def test_task_2_traffic_one_at_a_time(length, offset, batch):
    """One token at a time writes as much, and reads the weights again for each."""
    config = ModelConfig.from_dict(QWEN3)
    case = f"Qwen3, L {length}, offset {offset}, N {batch}, against as many steps of one token"
    with noted(case):
        whole = accounting.traffic(Step(config, length, offset, batch), Storage())
        steps = [accounting.traffic(Step(config, 1, offset + i, batch), Storage()) for i in range(length)]
    row = 4 * config.hidden_size * batch
    again = (length - 1) * (steps[0].weights - row)
    expected = {
        "weights": sum(step.weights for step in steps) - again,
        "cache_read": steps[-1].cache_read,
        "cache_written": sum(step.cache_written for step in steps),
    }
    same_counts(whole, Traffic, expected, case, length)
