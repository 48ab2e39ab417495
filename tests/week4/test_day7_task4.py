"""Task 4.7.4, RoPE with given frequencies, checked against its formula, `mx.fast.rope` and transformers."""

import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.configs import config_of, turned_of
from tests.week4.formulas_day7 import linear64, ntk64, scaled_rope64

from tiny_llm.long_context import rope, scaling
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare, computed
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, Array64, Round, exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

PAIRINGS = pytest.mark.parametrize("traditional", [False, True])


@built
def turned(x, frequencies, attention_factor, traditional, offset=None):
    """Call the learner's program without the arguments at their defaults."""
    layer = rope.ScaledRoPE(x.shape[-1], frequencies, attention_factor, traditional)
    return lambda x: layer(x) if offset is None else layer(x, offset)


class Growing:
    """Frequencies that depend on the sequence length: a function, with a description for a failing case."""

    def __init__(self, dims: int, base: float = 300, original_length: int = 6) -> None:
        self.dims, self.base, self.original_length = dims, base, original_length

    def __call__(self, length: int) -> mx.array:
        return mx.array(self.in_float64(length).astype(np.float32))

    def __str__(self) -> str:
        return f"by length, for dims {self.dims}"

    def in_float64(self, length: int) -> Array64:
        """The same for a formula; dynamic NTK without the learner's code."""
        return ntk64(self.dims, self.base, 2, int(length), self.original_length)


def turned64(
    x: Array64,
    frequencies: Array64 | Growing,
    attention_factor: float,
    traditional: bool,
    offset: int | slice | list[slice] | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """`scaled_rope64`, in the words of `turned`."""
    paces: Array64 | Callable[[int], Array64]
    paces = frequencies.in_float64 if isinstance(frequencies, Growing) else frequencies
    return scaled_rope64(x, paces, attention_factor, traditional, offset, r=r)


def tokens(seed, dtype=mx.float32, batch=2, length=3, heads=4, dims=12):
    """N, L, H, D and D/2 all different, so a mixed-up axis shows."""
    return normals(seed, dtype)(batch, length, heads, dims)


def paces_of(dims=12, base=300, seed=0):
    """Frequencies that are not powers of any base: they decrease from 1, with noise."""
    shaken = 1 + 0.3 * np.random.default_rng(seed).random(dims // 2)
    return mx.array((linear64(dims, base, 1) * shaken).astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@PAIRINGS
@pytest.mark.parametrize(("batch", "heads"), [(1, 3), (2, 4)])
def test_task_4_rope_formula(batch, heads, traditional, dtype):
    agrees(turned, turned64, tokens(1, dtype, batch, 5, heads), paces_of(), 1.0, traditional, seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention_factor", [1.2, 0.7, 2.5])
def test_task_4_rope_attention_factor(attention_factor, dtype):
    agrees(turned, turned64, tokens(2, dtype), paces_of(), attention_factor, False, slice(4, 7), seed=2)


@PAIRINGS
@pytest.mark.parametrize("offset", [slice(0, 3), slice(4, 7), 4, 0, [slice(4, 7), slice(1, 4)]], ids=str)
def test_task_4_rope_offset(offset, traditional):
    agrees(turned, turned64, tokens(3), paces_of(), 1.3, traditional, offset, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@PAIRINGS
def test_task_4_rope_slice_for_each_row(traditional, dtype):
    x, rows = tokens(4, dtype, batch=3, length=2), [slice(5, 7), slice(0, 2), slice(9, 11)]
    agrees(turned, turned64, x, paces_of(), 1.0, traditional, rows, seed=4)


@pytest.mark.parametrize("first", [0, 2, 3, 4, 9, 500])
def test_task_4_rope_by_length(first):
    """The frequencies are those of first + 3 positions: all up to the end of this call."""
    agrees(turned, turned64, tokens(5), Growing(12), 1.0, False, slice(first, first + 3), seed=5)


@PAIRINGS
def test_task_4_rope_by_each_rows_length(traditional):
    """A short sequence beside a long one is rotated as if it were alone."""
    x, rows = tokens(6, batch=3), [slice(20, 23), slice(0, 3), slice(7, 10)]
    agrees(turned, turned64, x, Growing(12), 1.3, traditional, rows, seed=6)


def test_task_4_rope_by_length_in_every_call():
    """One object gets a prompt, then token after token: the frequencies are recomputed each time."""
    x = tokens(7, length=12)
    layer = rope.ScaledRoPE(12, Growing(12))
    steps = [layer(x[:, :5]), *(layer(x[:, p : p + 1], slice(p, p + 1)) for p in range(5, 12)), layer(x[:, :5])]
    by_step = [(0, 5), *((p, p + 1) for p in range(5, 12)), (0, 5)]
    wide = to_float64(x)
    expected = [turned64(wide[:, a:b], Growing(12), 1.0, False, slice(a, b)) for a, b in by_step]
    case = "float32, x 2 x 12 x 4 x 12: 5 tokens, then 7 one by one, then the 5 again, by one object"
    compare(mx.concatenate(steps, axis=1), np.concatenate(expected, axis=1), mx.float32, 2e-5, case, x.size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "offset",
    [slice(4997, 5001), [slice(4997, 5001), slice(301, 305)], slice(199997, 200001)],
    ids=["slice", "list", "past position 131072"],
)
def test_task_4_rope_far_positions(offset, dtype):
    """There is no last position, and the angles are float32."""
    agrees(turned, turned64, tokens(8, dtype, length=4), paces_of(), 1.0, False, offset, seed=8)


def test_task_4_rope_defaults():
    @built
    def by_default(x, frequencies, attention_factor, traditional):
        layer = rope.ScaledRoPE(x.shape[-1], frequencies)
        return lambda x: layer(x)

    agrees(by_default, turned64, tokens(9, length=5), paces_of(), 1.0, False, seed=9)


@PAIRINGS
@pytest.mark.parametrize(("length", "heads", "dims"), [(5, 1, 2), (4, 2, 8), (1, 3, 10), (3, 3, 4)])
def test_task_4_rope_sizes(length, heads, dims, traditional):
    agrees(turned, turned64, tokens(10, mx.float32, 2, length, heads, dims), paces_of(dims), 1.1, traditional, seed=10)


@PAIRINGS
def test_task_4_rope_mlx(traditional):
    """MLX's operator expects the inverses of the frequencies, and the length as the second axis from the end."""
    x, paces = tokens(11), paces_of()
    found = mx.fast.rope(x.swapaxes(1, 2), 12, traditional=traditional, base=None, scale=1.0, offset=4, freqs=1 / paces)
    expected = 1.3 * to_float64(found.swapaxes(1, 2))
    agrees(turned, turned64, x, paces, 1.3, traditional, slice(4, 7), seed=11, expected=expected)


CONFIGS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 50, "beta_fast": 8.0},
    "yarn, its factor stated": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 50,
        "attention_factor": 1.5,
    },
    "yarn, two scales": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 50,
        "mscale": 1.0,
        "mscale_all_dim": 0.4,
        "truncate": False,
    },
}


@pytest.mark.parametrize("first", [0, 90, 300])
@pytest.mark.parametrize("kind", CONFIGS)
def test_task_4_rope_of_config_transformers(kind, first, pytorch):
    """`rope_of`, which is given, combines all tasks: queries as a Llama of this config.json rotates them."""
    x, table = tokens(12, batch=1, length=6), CONFIGS[kind]
    expected = pytorch(turned_of, x, 12, 300.0, 100, table, first)
    layer = scaling.rope_of(config_of(12, 300.0, 100, table))
    case = f"float32, x 1 x 6 x 4 x 12 from position {first}, {kind}: {table}"
    found = computed(layer, case, x, slice(first, first + 6))
    compare(found, expected, mx.float32, 2e-4 if first else 2e-5, case, x.size)


@PAIRINGS
def test_task_4_rope_sweep(traditional):
    for n in sweep(N=20, L=4200, H=20, P=66):
        x = normals(n.seed, n.dtype)(n.N, n.L, n.H, 2 * n.P, spread=n.spread)
        first = n.turn(0, 3, 1000, 0, 4100)
        rows = [slice(first + row % 3, first + row % 3 + n.L) for row in range(n.N)]
        offset = n.turn(None, rows, rows[0], [rows[-1]] * n.N, first)
        paces = n.turn(paces_of(2 * n.P), Growing(2 * n.P), paces_of(2 * n.P, 50)) if n.P > 1 else paces_of(2)
        agrees(turned, turned64, x, paces, n.turn(1.0, 1.25), traditional, offset, seed=n)


@property_test
@given(first=st.integers(0, 3000), length=st.integers(1, 5), traditional=st.booleans(), seed=st.integers(0, 99))
def test_task_4_rope_lengthens_by_the_attention_factor(first, length, traditional, seed):
    """A rotated vector is as long as before, times the factor: scores are multiplied by its square."""
    x = tokens(seed, mx.float32, 2, length, 3, 6)
    factor = 1 + seed / 100
    expected = factor * np.linalg.norm(to_float64(x), axis=-1)
    found = turned(x, paces_of(6), factor, traditional, slice(first, first + length))
    case = f"float32, lengths of the vectors of x 2 x {length} x 3 x 6, attention factor {factor}, seed {seed}"
    allowed = 8 * EPSILON[mx.float32] * expected.max()
    compare(mx.linalg.norm(found, axis=-1), expected, mx.float32, allowed, case, x.size)


REFUSED_BY_ROPE = {
    "other dims": ((2, 3, 4, 8), None),
    "a single pair": ((2, 3, 4, 2), None),
    "a slice of fewer": ((2, 3, 4, 12), slice(0, 2)),
    "a slice of one": ((2, 3, 4, 12), slice(5, 6)),
    "a slice of more": ((2, 1, 4, 12), slice(0, 3)),
    "across the start": ((2, 3, 4, 12), slice(-2, 1)),
    "counted from the end": ((2, 3, 4, 12), slice(-4, -1)),
    "a negative position": ((2, 3, 4, 12), -1),
    "no slices for two rows": ((2, 3, 4, 12), []),
    "one slice for two rows": ((2, 3, 4, 12), [slice(0, 3)]),
    "three slices for two rows": ((2, 3, 4, 12), [slice(0, 3)] * 3),
    "two slices for one row": ((1, 3, 4, 12), [slice(0, 3)] * 2),
    "one of the rows of one": ((2, 3, 4, 12), [slice(0, 3), slice(0, 1)]),
    "one of the rows counted from the end": ((2, 3, 4, 12), [slice(0, 3), slice(-4, -1)]),
}


@pytest.mark.parametrize("why", REFUSED_BY_ROPE)
def test_task_4_rope_refuses(why):
    shape, offset = REFUSED_BY_ROPE[why]
    layer = rope.ScaledRoPE(12, paces_of())
    words = "no offset" if offset is None else f"offset {offset}"
    with raises_value_error(f"dims 12, x {' x '.join(map(str, shape))}, {words}"):
        x = normals(13)(*shape)
        mx.eval(layer(x) if offset is None else layer(x, offset))


@pytest.mark.parametrize(("dims", "paces"), [(7, 3), (12, 5), (12, 1), (12, 12)])
def test_task_4_rope_refuses_wrong_frequencies(dims, paces):
    with raises_value_error(f"dims {dims}, {paces} frequencies"):
        rope.ScaledRoPE(dims, mx.ones(paces))


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (6, 6), (2, 3)], ids=str)
def test_task_4_rope_refuses_frequencies_of_two_axes(shape):
    """The shape is D/2, even if the number of elements or an axis is right."""
    with raises_value_error(f"dims 12, frequencies {' x '.join(map(str, shape))}"):
        rope.ScaledRoPE(12, mx.ones(shape))


def test_task_4_rope_refuses_odd_dims_for_a_function():
    """The constructor raises, before the first call."""
    with raises_value_error("dims 7, frequencies by length"):
        rope.ScaledRoPE(7, Growing(6))


def test_task_4_rope_scores_are_sharper():
    """The scores of YaRN: those of its frequencies, times the square of the attention factor."""
    x, factor = tokens(14, batch=1, length=6), 0.1 * math.log(8) + 1
    plain, sharper = (turned(x, paces_of(), f, False)[0, :, 0] for f in (1.0, factor))
    expected = factor**2 * to_float64(plain @ plain.T)
    case = f"float32, x 1 x 6 x 4 x 12: scores with an attention factor of {factor:.4f}, against those with 1"
    compare(sharper @ sharper.T, expected, mx.float32, 2e-5 * np.abs(expected).max(), case, x.size)
