"""Week 3, day 3, task 2: what pages cost.

All sizes are checked against arrays of the same shapes, whose bytes MLX reports.
"""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25

from tiny_llm.config import ModelConfig
from tiny_llm.paged import sizes
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes
from tiny_llm_course.testkit.texts import same_number


def config_of(base=QWEN3, **changes):
    return ModelConfig.from_dict({**base, **changes})


def config_words(config):
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim")
    return ", ".join(f"{name} {getattr(config, name)}" for name in names)


def sizes_agree(config, page, dtype, lengths, longest, caps):
    """Check all sizes against arrays of the same shapes, whose bytes MLX reports."""
    case = f"{config_words(config)}, page {page}, {dtype}, requests of {lengths} tokens"

    def room(tokens):
        shape = (config.num_key_value_heads, tokens, config.head_dim)
        return 2 * config.num_hidden_layers * mx.zeros(shape, dtype).nbytes

    with noted(case):
        found = sizes.PageSizes(config, page, dtype)
    same_number(getattr(found, "page_size", None), page, "page_size", case)
    same_number(found.token_bytes, room(1), "token_bytes", case)
    same_number(found.page_bytes, room(page), "page_bytes", case)
    for cap in caps:
        cap = int(cap * room(page))
        with noted(f"{case}, cap {cap}"):
            fitting = found.pages_within(cap)
        same_number(fitting, cap // room(page), f"pages_within({cap})", case)
    with noted(case):
        waste, reserved = found.waste(iter(lengths)), found.reserved_waste(iter(lengths), longest)
    used = sum(map(room, lengths))
    taken = sum(room(next(p for p in range(0, n + page, page) if p >= n)) for n in lengths)
    same_number(waste, taken - used, f"waste({lengths})"[:60], case)
    same_number(reserved, len(lengths) * room(longest) - used, f"reserved_waste({lengths}, {longest})"[-60:], case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
def test_task_2_sizes_by_arrays(base, dtype):
    """Five layers, six query heads that share three KV heads, and H * D is not E."""
    config = config_of(base, num_hidden_layers=5)
    sizes_agree(config, 4, dtype, [5, 1, 8, 11], 24, (1, 1.5, 2, 7.99, 100))


def test_task_2_sizes_of_a_blue_dog():
    """Five tokens in pages of four, in the model of 0.6 billion parameters: 28 layers, 8 KV heads, 128 dimensions."""
    config = config_of(num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128)
    case = f"{config_words(config)}, page 4, float16"
    with noted(case):
        found = sizes.PageSizes(config, 4, mx.float16)
        figures = [found.token_bytes, found.page_bytes, found.waste([5]), found.reserved_waste([5], 40)]
    same_number(figures[0], 114688, "token_bytes", case)
    same_number(figures[1], 458752, "page_bytes", case)
    same_number(figures[2], 344064, "waste([5])", case)
    same_number(figures[3], 4014080, "reserved_waste([5], 40)", case)


def test_task_2_sizes_default_float32():
    found = sizes.PageSizes(config_of(), 2)
    same_number(found.token_bytes, 2 * 2 * 3 * 8 * 4, "token_bytes", f"{config_words(config_of())}, page 2")


@pytest.mark.parametrize("lengths", [[], [4], [4, 8, 12], [3], [1, 1, 1], [9, 4, 7], [0, 5]], ids=str)
def test_task_2_sizes_waste(lengths):
    """The waste of each request alone; a full last page wastes nothing."""
    sizes_agree(config_of(), 4, mx.float16, lengths, 12, ())


def test_task_2_sizes_refuses_what_does_not_fit():
    found = sizes.PageSizes(config_of(), 4)
    case = f"{config_words(config_of())}, page 4, float32"
    for cap in (0, 1535):
        with raises_value_error(f"{case}, pages_within({cap})", "1536", str(cap)):
            found.pages_within(cap)
    for longest in (8, 5):
        with raises_value_error(f"{case}, reserved_waste([3, 9, 2], {longest})", "9", str(longest)):
            found.reserved_waste(iter([3, 9, 2]), longest)


@property_test
@given(page=st.integers(1, 9), lengths=st.lists(st.integers(0, 40), max_size=6), layers=st.integers(1, 4))
def test_task_2_sizes_any(page, lengths, layers):
    sizes_agree(config_of(num_hidden_layers=layers), page, mx.bfloat16, lengths, 40, (1, 3.2))


def test_task_2_sizes_sweep():
    for n in drawn_sizes(M=40, K=40, D=257, P=1100):
        config = config_of(num_hidden_layers=n.M, num_key_value_heads=n.K, num_attention_heads=2 * n.K, head_dim=n.D)
        sizes_agree(config, n.P, n.turn(*DTYPES), [n.P, 1, n.P + 1, 3 * n.P - 1], 4 * n.P, (1, 2.5))
