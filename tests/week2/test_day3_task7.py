"""Week 2, day 3, task 7: quantized embedding."""

import functools
import itertools

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.packed import Words, by_bits, by_group, linear64, quantized, weights64

from tiny_llm.quantized import layers
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less, peak_bytes
from tiny_llm_course.testkit.rounding import EPSILON, exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def looked_up(scales, tokens, triple, group_size=64, bits=4, dtype=None):
    table = layers.QuantizedEmbedding(triple[0], scales, triple[2], group_size, bits, dtype)
    return lambda tokens: table(tokens)


def looked_up64(scales, tokens, triple, group_size=64, bits=4, dtype=None, *, r=exact):
    table = weights64(triple[0], mx.array(scales.astype(np.float32)), triple[2], group_size, bits)
    return r(table)[np.array(tokens).astype(int)]


def looks_up(seed, dtype, shape, group_size, bits, vocab=11, groups=2, wanted=None):
    triple = Words(quantized(seed, vocab, groups * group_size, group_size, bits, dtype))
    tokens = mx.array(np.random.default_rng(seed).integers(0, vocab, shape).astype(np.int32))
    out = wanted or dtype
    agrees(looked_up, looked_up64, triple[1], tokens, triple, group_size, bits, wanted, seed=seed, dtype=out)


@by_dtype
@by_bits
@by_group
def test_task_7_embedding_rows(group_size, bits, dtype):
    looks_up(1, dtype, (2, 3), group_size, bits)


@pytest.mark.parametrize("shape", [(), (4,), (1, 1), (2, 3, 2)], ids=str)
def test_task_7_embedding_any_tokens(shape):
    looks_up(2, mx.float32, shape, 32, 4)


@by_dtype
@pytest.mark.parametrize("wanted", DTYPES, ids=str)
def test_task_7_embedding_requested_dtype(wanted, dtype):
    looks_up(3, dtype, (2, 3), 64, 4, wanted=wanted)


@pytest.mark.parametrize("wanted", DTYPES[1:], ids=str)
def test_task_7_embedding_computes_in_float32(wanted):
    """scale * q and the bias nearly cancel: what remains is the error of a scale that was rounded first."""
    scales = normals(9)(11, 2)
    packed, biases = mx.full((11, 16), 0xFFFFFFFF, mx.uint32), -(scales * 15)
    case = f"{dtype_word(wanted)} from float32, every q 15, biases -scales * 15, tokens 3, seed 9"
    with noted(case):
        found = layers.QuantizedEmbedding(packed, scales, biases, 64, 4, wanted)(mx.array([3, 10, 0]))
    expected = weights64(packed, scales, biases, 64, 4)[[3, 10, 0]]
    compare(found, expected, wanted, EPSILON[mx.float32] * np.abs(to_float64(biases)).max(), case, expected.size)


def test_task_7_embedding_mlx():
    triple = Words(quantized(4, 11, 128, 64, 4))
    tokens = mx.array([[3, 10, 0], [7, 7, 1]])
    rows = (x[tokens] for x in triple)
    expected = to_float64(mx.dequantize(*rows, group_size=64, bits=4))
    agrees(looked_up, looked_up64, triple[1], tokens, triple, seed=4, expected=expected)


@built
def scores(x, triple, group_size=64, bits=4):
    table = layers.QuantizedEmbedding(*triple, group_size, bits)
    return lambda x: table.as_linear(x)


def scores64(x, triple, group_size=64, bits=4, *, r=exact):
    return linear64(x, None, triple, group_size, bits, r=r)


@by_dtype
@by_bits
def test_task_7_embedding_as_linear(bits, dtype):
    for leading, group_size in itertools.product([(2, 3), (4,), ()], (32, 64)):
        triple = Words(quantized(5, 11, 2 * group_size, group_size, bits, dtype))
        x = normals(6, dtype)(*leading, 2 * group_size)
        agrees(scores, scores64, x, triple, group_size, bits, seed=5)


def test_task_7_embedding_adds_in_float32():
    for dtype in DTYPES:
        triple = Words(quantized(6, 3, 4096, 64, 4, mx.float16))
        agrees(scores, scores64, normals(7, dtype)(2, 4096), triple, seed=6)


def test_task_7_embedding_other_rows_stay_packed():
    """A lookup of two tokens allocates less than a fiftieth of the float32 table, which takes 4 MB."""
    triple = Words(quantized(8, 2048, 512, 64, 4))
    tokens = mx.array([[3, 2000]])
    with noted(case := f"float32, tokens 1 x 2, {triple}, seed 8"):
        table = layers.QuantizedEmbedding(*triple)
        mx.eval(table(tokens))
        taken = peak_bytes(lambda: table(tokens))
    if taken > 2048 * 512 * 4 // 50:
        headline = f"two tokens take {taken / 1e6:.2g} MB: the whole table is dequantized"
        raise CheckFailed(Finding(Kind.VALUES, headline, ("at most   0.08 MB",), case))


def test_task_7_embedding_head_stays_packed():
    """The scores of one token allocate less than half of the float32 table, which takes 4 MB."""
    triple = Words(quantized(8, 2048, 512, 64, 4))
    x = normals(9)(1, 512)
    with noted(case := f"as_linear, float32, x 1 x 512, {triple}, seed 8"):
        table = layers.QuantizedEmbedding(*triple)
        mx.eval(table.as_linear(x))
        holds_less(lambda: table.as_linear(x), 2048 * 512 * 4 // 2, "half of the float32 table", case=case)


def test_task_7_embedding_construction_keeps_the_table_packed():
    """The constructor allocates less than half of the float32 table, together with a lookup or with the scores."""
    triple = Words(quantized(8, 2048, 512, 64, 4))
    x, tokens = normals(9)(1, 512), mx.array([[3, 2000]])
    mx.eval(x, tokens, *triple)
    uses = {"tokens 1 x 2": lambda table: table(tokens), "as_linear, x 1 x 512": lambda table: table.as_linear(x)}
    for words, use in uses.items():
        with noted(case := f"the constructor and {words}, float32, {triple}, seed 8"):
            mx.eval(use(layers.QuantizedEmbedding(*triple)))
            new = functools.partial(lambda use: use(layers.QuantizedEmbedding(*triple)), use)
            holds_less(new, 2048 * 512 * 4 // 2, "half of the float32 table", case=case)


def test_task_7_embedding_sweep():
    for n in sweep(L=130, V=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        looks_up(n.seed, n.dtype, (n.L,), group_size, bits, n.V, n.G)
        triple = Words(quantized(n.seed, n.V, n.G * group_size, group_size, bits, n.dtype))
        x = normals(n.seed + 1, n.dtype)(n.L, n.G * group_size) * n.spread
        agrees(scores, scores64, x, triple, group_size, bits, seed=n)
