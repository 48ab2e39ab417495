"""Task 4.3.3, tiled attention, checked against dense attention with the mask, around the window's length."""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day3 import sees, window64, windowed64
from tests.week4.windows import by_window

from tiny_llm.local_attention import blocks
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def windowed(query, key, value, window, sinks=0, scale=None, block_size=64):
    return blocks.windowed_attention(query, key, value, window, sinks, scale, block_size)


def inputs(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_3_blocks_formula(leading, dtype):
    agrees(windowed, windowed64, *inputs(1, dtype, leading, length=9, keys=9), 3, 1, block_size=4, seed=1)


@by_window
@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 64])
def test_task_3_blocks_windows(block_size, window, sinks):
    agrees(windowed, windowed64, *inputs(2, length=9, keys=12), window, sinks, block_size=block_size, seed=2)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13])
@pytest.mark.parametrize("sinks", [0, 1, 5])
def test_task_3_blocks_lengths_around_the_window(length, sinks):
    """A window of 4: shorter sequences, ones that just fill it, and longer ones; also with tokens before."""
    for before in (0, 1, 3, 4, 7):
        agrees(
            windowed, windowed64, *inputs(3, leading=(), length=length, keys=before + length), 4, sinks,
            block_size=3, seed=3,
        )  # fmt: skip


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3), (6, 2)])
def test_task_3_blocks_heads(heads, kv_heads):
    three = inputs(4, heads=heads, kv_heads=kv_heads, length=8, keys=8)
    agrees(windowed, windowed64, *three, 3, 2, block_size=3, seed=4)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_3_blocks_scale(scale):
    agrees(windowed, windowed64, *inputs(5, length=7), 3, 1, scale=scale, block_size=3, seed=5)


@pytest.mark.parametrize(("window", "sinks"), [(3, 0), (3, 2), (None, 0)])
def test_task_3_blocks_mlx(window, sinks):
    """MLX's operator, given the full mask."""
    query, key, value = inputs(6, length=7, keys=11)
    mask = mx.array(window64(7, 11, window, sinks).astype(np.float32))
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(windowed, windowed64, query, key, value, window, sinks, 0.5, 3, seed=6, expected=expected)


@pytest.mark.parametrize("length", [4, 11])
def test_task_3_blocks_pytorch(pytorch, length):
    """PyTorch's operator, given which keys are visible."""
    query, key, value = inputs(7, length=length, keys=11)

    def sdpa(torch, q, k, v):
        positions = torch.arange(11)
        back = positions[11 - length :, None] - positions
        seen = (back >= 0) & ((back < 4) | (positions < 2))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    agrees(windowed, windowed64, query, key, value, 4, 2, None, 3, seed=7, expected=pytorch(sdpa, query, key, value))


@pytest.mark.parametrize(("window", "sinks"), [(4, 0), (4, 2), (1, 1), (None, 0), (4, 8)])
@pytest.mark.parametrize("before", [0, 6])
def test_task_3_blocks_ignore_other_keys(before, window, sinks):
    """For each tile of queries: NaN in all keys and values that none of them sees, sinks after the tile included."""
    size, length = 5, 18
    query, key, value = inputs(8, leading=(), length=length, keys=before + length)
    agrees(windowed, windowed64, query, key, value, window, sinks, block_size=size, seed=8)
    expected = windowed64(*(to_float64(x) for x in (query, key, value)), window, sinks)
    for first in range(0, length, size):
        rows = range(first, min(length, first + size))
        seen = [any(sees(before + i, j, window, sinks) for i in rows) for j in range(before + length)]
        poison = mx.where(mx.array(seen)[:, None], 0.0, mx.nan)
        case = (
            f"float32, query 6 x {length} x 8, key 2 x {before + length} x 8, window {window}, sinks {sinks}, "
            f"block_size {size}, NaN in the {seen.count(False)} keys hidden from queries {first} to {rows[-1]}, seed 8"
        )
        with noted(case):
            output = windowed(query, key + poison, value + poison, window, sinks, block_size=size)
        some = slice(first, rows[-1] + 1)
        compare(output[:, some], expected[:, some], mx.float32, 1e-5, case, query.size, indirect=False)


@pytest.mark.parametrize(("length", "keys"), [(2048, 2048), (32, 8192)])
def test_task_3_blocks_allocate_no_full_matrix(length, keys):
    """Many queries, and few after many keys: tiles are evaluated one by one, and masked keys not computed."""
    query, key, value = inputs(9, leading=(), heads=2, kv_heads=1, length=length, keys=keys)
    mx.eval(query, key, value)
    agrees(windowed, windowed64, *inputs(9, length=9, keys=9), 3, 1, block_size=4, seed=9)
    case = f"float32, query 2 x {length} x 8, key 1 x {keys} x 8, window 32, sinks 4, block_size 32, seed 9"
    most = max(2**18, length * keys // 8)
    with noted(case):
        run = partial(windowed, query, key, value, 32, 4, None, 32)
        holds_less(run, most, "what a few tiles take", case=case)


def test_task_3_blocks_sweep():
    for n in sweep(N=9, K=9, G=9, L=257, X=1100, D=70, W=1100):
        three = inputs(n.seed, n.dtype, (n.N,), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        query, value = three[0] * n.spread, three[2] * n.spread
        window, sinks, size = n.turn(n.W, 1, n.L, None, 7), n.turn(0, 4, n.W, 1), n.turn(64, n.L, 1, 7)
        if n.L > 20 and size < 7:
            size = 64
        agrees(windowed, windowed64, query, three[1], value, window, sinks, n.turn(None, -0.7), size, seed=n)


@property_test
@given(
    length=st.integers(1, 12),
    before=st.integers(0, 9),
    window=st.integers(1, 8),
    sinks=st.integers(0, 6),
    size=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_task_3_blocks_make_no_difference(length, before, window, sinks, size, seed):
    three = inputs(seed, leading=(), heads=4, length=length, keys=before + length)
    agrees(windowed, windowed64, *three, window, sinks, block_size=size, seed=seed)


@property_test
@given(changed=st.integers(0, 11), window=st.integers(1, 5), sinks=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_3_blocks_only_what_sees_it_changes(changed, window, sinks, seed):
    """Changing the key and value at one position changes the queries that see it, and no others."""
    query, key, value = inputs(seed, leading=(), heads=4, length=12, keys=12)
    agrees(windowed, windowed64, query, key, value, window, sinks, block_size=4, seed=seed)
    noise = mx.where(mx.arange(12)[:, None] == changed, 3.0, 0.0)
    one = windowed(query, key, value, window, sinks, block_size=4)
    other = windowed(query, key + noise, value - noise, window, sinks, block_size=4)
    rows = [i for i in range(12) if not sees(i, changed, window, sinks)]
    case = f"float32, L 12, S 12, window {window}, sinks {sinks}, block_size 4, key {changed} changed, seed {seed}"
    kept = mx.array(rows, mx.int32)
    compare(other[:, kept], to_float64(one[:, kept]), mx.float32, 1e-5, case, query.size)


@pytest.mark.parametrize("keys", [5, 4])
def test_task_3_blocks_refuse_more_queries_than_keys(keys):
    query, key, value = normals(17)(4, 6, 3), normals(18)(2, keys, 3), normals(19)(2, keys, 3)
    with raises_value_error(f"float32, query 4 x 6 x 3, key 2 x {keys} x 3, window 2", "6", str(keys)):
        mx.eval(blocks.windowed_attention(query, key, value, 2))


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-1, 2), (2, -3)])
def test_task_3_blocks_refuse_invalid_windows(window, sinks):
    query, key, value = inputs(20, leading=())
    case = f"float32, query 6 x 4 x 8, key 2 x 7 x 8, window {window}, sinks {sinks}"
    with raises_value_error(case, str(min(window, sinks))):
        mx.eval(blocks.windowed_attention(query, key, value, window, sinks))
