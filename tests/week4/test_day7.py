"""Week 4, day 7: paces for long texts by interpolation, by a larger base and by parts, and RoPE that is given them.

Each task is held to its formula in float64, to `mx.fast.rope` where that knows it, and to transformers' functions.
"""

import functools
import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.configs import config_of, frequencies_of, turned_of
from tests.week4.formulas_day7 import attention_factor64, linear64, ntk64, scaled_rope64, yarn64

from tiny_llm.long_context import interpolation, ntk, rope, scaling, yarn
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare, computed
from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, Array64, Round, exact, to_float64
from tiny_llm_course.testkit.sizes import sizes as sizes_of
from tiny_llm_course.testkit.sizes import sweep

in_float32 = functools.partial(agrees, dtype=mx.float32)
PAIRINGS = pytest.mark.parametrize("traditional", [False, True])


# Task 1, position interpolation


def linear(dims, base, factor):
    return interpolation.linear_frequencies(dims, base, factor)


@pytest.mark.parametrize(
    ("dims", "base", "factor"), [(6, 300, 4), (8, 50, 2), (10, 2, 3), (2, 300, 5), (12, 10000, 8), (64, 1000000.0, 16)]
)
def test_task_1_linear_formula(dims, base, factor):
    in_float32(linear, linear64, dims, base, factor, seed=1)


@pytest.mark.parametrize("factor", [1.5, 2.75, 40.3])
def test_task_1_linear_factor_is_no_whole_number(factor):
    in_float32(linear, linear64, 8, 300, factor, seed=1)


@pytest.mark.parametrize("dims", [2, 8, 64])
def test_task_1_linear_factor_1(dims):
    """The paces of RoPE without scaling."""
    in_float32(linear, linear64, dims, 300, 1, seed=1)


def test_task_1_linear_mlx():
    """`mx.fast.rope` multiplies positions by a scale: 1 / factor. It turns (1, 0) into (cos, sin) of the angle."""

    def directions(dims, base, factor):
        angles = mx.arange(7)[:, None] * linear(dims, base, factor)
        return mx.stack([mx.cos(angles), mx.sin(angles)], axis=-1)

    def directions64(dims: int, base: float, factor: float, *, r: Round = exact) -> Array64:
        angles = r(np.outer(np.arange(7), linear64(dims, base, factor, r=r)))
        return np.stack([r(np.cos(angles)), r(np.sin(angles))], axis=-1)

    ones = mx.broadcast_to(mx.array([1.0, 0.0]), (7, 3, 2)).reshape(1, 1, 7, 6)
    turned = mx.fast.rope(ones, 6, traditional=True, base=300.0, scale=0.25, offset=0)
    in_float32(directions, directions64, 6, 300, 4, seed=1, expected=to_float64(turned).reshape(7, 3, 2))


@pytest.mark.parametrize(("dims", "factor"), [(8, 4.0), (64, 2.5)])
def test_task_1_linear_transformers(dims, factor, pytorch):
    found = pytorch(frequencies_of, dims, 300.0, 100, {"rope_type": "linear", "factor": factor}, 100)
    in_float32(linear, linear64, dims, 300.0, factor, seed=1, expected=found[:-1])


@property_test
@given(pairs=st.integers(1, 9), base=st.integers(2, 2000), factor=st.integers(1, 9), position=st.integers(0, 50))
def test_task_1_linear_positions_are_squeezed(pairs, base, factor, position):
    """At position factor * p the hands stand where those of the unscaled model stand at position p."""
    case = f"float32, dims {2 * pairs}, base {base}, factor {factor}: position {factor * position}"
    expected = position * linear64(2 * pairs, base, 1)
    angles = factor * position * linear(2 * pairs, base, factor)
    compare(angles, expected, mx.float32, 8 * EPSILON[mx.float32] * max(position, 1), case, pairs)


REFUSED = {"odd dims": (7, 300, 2), "a factor of less than 1": (8, 300, 0.5), "a factor of 0": (8, 300, 0)}


@pytest.mark.parametrize("why", REFUSED)
def test_task_1_linear_refuses(why):
    dims, base, factor = REFUSED[why]
    with raises_value_error(f"dims {dims}, base {base}, factor {factor}"):
        mx.eval(linear(dims, base, factor))


def test_task_1_linear_sweep():
    for n in sizes_of(P=131):
        in_float32(linear, linear64, 2 * n.P, n.turn(10000, 50, 1e6, 2, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3), seed=n)


# Task 2, NTK-aware scaling


def by_ntk(dims, base, factor, length=None, original_length=None):
    """The learner's program, called without what is left at its default."""
    if length is None:
        return ntk.ntk_frequencies(dims, base, factor)
    return ntk.ntk_frequencies(dims, base, factor, length, original_length)


@pytest.mark.parametrize(
    ("dims", "base", "factor"), [(6, 300, 4), (8, 50, 2), (10, 2, 3), (4, 300, 5), (12, 10000, 8), (64, 1000000.0, 16)]
)
def test_task_2_ntk_formula(dims, base, factor):
    in_float32(by_ntk, ntk64, dims, base, factor, seed=1)


@pytest.mark.parametrize("factor", [1, 1.5, 40.3])
def test_task_2_ntk_factor_is_no_whole_number(factor):
    in_float32(by_ntk, ntk64, 8, 300, factor, seed=1)


@pytest.mark.parametrize("factor", [1, 2, 4.5])
@pytest.mark.parametrize("length", [101, 150, 200, 777])
def test_task_2_ntk_dynamic(length, factor):
    """Longer than the 100 positions of the training: the base grows with the text."""
    in_float32(by_ntk, ntk64, 8, 300, factor, length, 100, seed=1)


@pytest.mark.parametrize("length", [1, 50, 75, 99, 100])
def test_task_2_ntk_dynamic_within_the_training(length):
    """Nothing is scaled before it must be."""
    in_float32(by_ntk, ntk64, 8, 300, 4, length, 100, seed=1)


def test_task_2_ntk_original_length_alone():
    """Without a length the factor is fixed."""

    def without_length(dims, base, factor, original_length):
        return ntk.ntk_frequencies(dims, base, factor, original_length=original_length)

    def formula(dims: int, base: float, factor: float, original_length: int, *, r: Round = exact) -> Array64:
        return ntk64(dims, base, factor, r=r)

    in_float32(without_length, formula, 8, 300, 4, 100, seed=1)


@pytest.mark.parametrize("factor", [2, 8, 11.5])
@pytest.mark.parametrize("dims", [4, 10, 64])
def test_task_2_ntk_ends(dims, factor):
    """The first pair as in training, the last one as interpolation has it."""
    found = by_ntk(dims, 300, factor)
    plain = linear64(dims, 300, 1)
    case = f"float32, dims {dims}, base 300, factor {factor}: the first and the last pace"
    expected = np.array([plain[0], plain[-1] / factor])
    compare(found[mx.array([0, dims // 2 - 1])], expected, mx.float32, 1e-5 * expected, case, dims)


@pytest.mark.parametrize(("length", "factor"), [(60, 4.0), (100, 4.0), (150, 2.0), (400, 1.0), (450, 3.0)])
def test_task_2_ntk_transformers(length, factor, pytorch):
    """`rope_type` "dynamic", for 100 positions."""
    found = pytorch(frequencies_of, 8, 300.0, 100, {"rope_type": "dynamic", "factor": factor}, length)
    in_float32(by_ntk, ntk64, 8, 300.0, factor, length, 100, seed=1, expected=found[:-1])


REFUSED_BY_NTK = {
    "odd dims": (7, 300, 2),
    "a single pair": (2, 300, 2),
    "a factor of less than 1": (8, 300, 0.5),
    "a length without an original one": (8, 300, 2, 100),
}


@pytest.mark.parametrize("why", REFUSED_BY_NTK)
def test_task_2_ntk_refuses(why):
    given_ = REFUSED_BY_NTK[why]
    words = ", ".join(f"{name} {v}" for name, v in zip(("dims", "base", "factor", "length"), given_, strict=False))
    with raises_value_error(words):
        mx.eval(ntk.ntk_frequencies(*given_))


def test_task_2_ntk_sweep():
    for n in sizes_of(P=131, L=4200):
        dims, base, factor = 2 * n.P + 2, n.turn(10000, 50, 1e6, 2, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3)
        in_float32(by_ntk, ntk64, dims, base, factor, seed=n)
        in_float32(by_ntk, ntk64, dims, base, factor, n.L, n.turn(7, 64, 1000), seed=n)


# Task 3, YaRN


def of_yarn(*args, **kwargs):
    """The learner's paces and factor, which must be two."""
    found = yarn.yarn_frequencies(*args, **kwargs)
    words = ", ".join([*map(str, args), *(f"{name} {v}" for name, v in kwargs.items())])
    if not isinstance(found, tuple) or len(found) != 2:
        headline = f"returned {type_words(found)}, expected a tuple of paces and a number"
        raise CheckFailed(Finding(Kind.TYPE, headline, (), words))
    if isinstance(found[1], bool) or not isinstance(found[1], int | float):
        headline = f"the attention factor is {type_words(found[1])}, expected a Python float"
        raise CheckFailed(Finding(Kind.TYPE, headline, (), words))
    return found


def yarn_paces(dims, base, factor, original_length, beta_fast=32, beta_slow=1, truncate=True):
    """The learner's paces; what is at its default is left out."""
    options = {"beta_fast": (beta_fast, 32), "beta_slow": (beta_slow, 1), "truncate": (truncate, True)}
    changed = {name: value for name, (value, default) in options.items() if value != default}
    return of_yarn(dims, base, factor, original_length, **changed)[0]


@pytest.mark.parametrize(
    ("dims", "base", "factor", "original_length"),
    [(32, 10000, 4, 2048), (64, 1000000.0, 8, 512), (128, 1000000.0, 4, 32768), (16, 300, 2.5, 700)],
)
def test_task_3_yarn_formula(dims, base, factor, original_length):
    in_float32(yarn_paces, yarn64, dims, base, factor, original_length, seed=1)


@pytest.mark.parametrize(("beta_fast", "beta_slow"), [(32, 4), (8, 1), (16, 0.5), (4, 0.25), (2.5, 2)], ids=str)
def test_task_3_yarn_betas(beta_fast, beta_slow):
    in_float32(yarn_paces, yarn64, 64, 10000, 8, 3000, beta_fast, beta_slow, seed=1)


@pytest.mark.parametrize(("beta_fast", "beta_slow"), [(32, 1), (4, 0.25), (30, 29)], ids=str)
def test_task_3_yarn_not_truncated(beta_fast, beta_slow):
    """Between two pairs, too, an even mixture begins and ends."""
    in_float32(yarn_paces, yarn64, 64, 10000, 8, 3000, beta_fast, beta_slow, False, seed=1)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("original_length", "beta_fast", "beta_slow"),
    [(20, 32, 1), (3, 32, 1), (2000000, 32, 1), (900, 1000, 0.001), (2000000, 10, 9)],
    ids=["low below 0", "both below 0", "behind the last pair", "wider than all pairs", "an empty range"],
)
def test_task_3_yarn_limits(original_length, beta_fast, beta_slow, truncate):
    """Low is at least 0, high at most dims - 1, and they are at least 0.001 apart."""
    in_float32(yarn_paces, yarn64, 16, 300, 4, original_length, beta_fast, beta_slow, truncate, seed=1)


def test_task_3_yarn_factor_1():
    """Nothing is divided, so that nothing changes."""
    in_float32(yarn_paces, yarn64, 64, 300, 1, 512, seed=1)


@pytest.mark.parametrize("factor", [1, 2, 4.5, 8, 40])
def test_task_3_yarn_attention_factor(factor):
    found = of_yarn(64, 10000, factor, 2048)[1]
    expected = np.array([attention_factor64(factor)])
    case = f"dims 64, base 10000, factor {factor}, original_length 2048: the attention factor"
    compare(mx.array([float(found)]), expected, mx.float32, 1e-6, case, 1)


@pytest.mark.parametrize("original_length", [512, 4096])
@pytest.mark.parametrize("truncate", [True, False])
def test_task_3_yarn_transformers(truncate, original_length, pytorch):
    options = {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": truncate}
    table = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": original_length, **options}
    found = pytorch(frequencies_of, 64, 10000.0, 4 * original_length, table, 1)
    args = 64, 10000.0, 4.0, original_length, 16.0, 2.0, truncate
    in_float32(yarn_paces, yarn64, *args, seed=1, expected=found[:-1])
    case = f"factor 4, original_length {original_length}: the attention factor"
    compare(mx.array([float(of_yarn(*args)[1])]), found[-1:], mx.float32, 1e-6, case, 1)


@property_test
@given(pairs=st.integers(4, 40), factor=st.integers(2, 16), original_length=st.integers(200, 9000))
def test_task_3_yarn_between_kept_and_divided(pairs, factor, original_length):
    """No pace is faster than in training, and none is slower than interpolation makes it."""
    dims = 2 * pairs
    found = to_float64(yarn_paces(dims, 10000, factor, original_length))
    plain = linear64(dims, 10000, 1)
    case = f"dims {dims}, base 10000, factor {factor}, original_length {original_length}: paces held to that range"
    expected = np.clip(found, plain / factor, plain)
    compare(mx.array(found), expected, mx.float32, 1e-5 * plain, case, dims)


@pytest.mark.parametrize(("dims", "factor"), [(7, 2), (8, 0.5)], ids=["odd dims", "a factor of less than 1"])
def test_task_3_yarn_refuses(dims, factor):
    with raises_value_error(f"dims {dims}, base 300, factor {factor}, original_length 100"):
        mx.eval(yarn.yarn_frequencies(dims, 300, factor, 100)[0])


def test_task_3_yarn_sweep():
    for n in sizes_of(P=131, T=4200):
        base, factor = n.turn(10000, 50, 1e6, 20, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3)
        betas = n.turn((32, 1), (16.5, 0.7), (3, 2.2), (100, 0.1))
        in_float32(yarn_paces, yarn64, 2 * n.P, base, factor, n.T, *betas, n.turn(True, False), seed=n)


# Task 4, RoPE by given paces


@built
def turned(x, frequencies, attention_factor, traditional, offset=None):
    """The learner's program, called without what is left at its default."""
    layer = rope.ScaledRoPE(x.shape[-1], frequencies, attention_factor, traditional)
    return lambda x: layer(x) if offset is None else layer(x, offset)


class Growing:
    """Paces that depend on how long a text is: a function, with words for a failing case."""

    def __init__(self, dims: int, base: float = 300, original_length: int = 6) -> None:
        self.dims, self.base, self.original_length = dims, base, original_length

    def __call__(self, length: int) -> mx.array:
        return mx.array(self.in_float64(length).astype(np.float32))

    def __str__(self) -> str:
        return f"by length, for dims {self.dims}"

    def in_float64(self, length: int) -> Array64:
        """The same for a formula; dynamic NTK without its code."""
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
    """N, L, H, D and D/2 all different: a mixed-up axis cannot hide."""
    return normals(seed, dtype)(batch, length, heads, dims)


def paces_of(dims=12, base=300, seed=0):
    """Paces that are no powers of any base: they fall from 1, and each is shaken."""
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
    """The paces are those of first + 3 positions: all that there are after this call."""
    agrees(turned, turned64, tokens(5), Growing(12), 1.0, False, slice(first, first + 3), seed=5)


@PAIRINGS
def test_task_4_rope_by_each_rows_length(traditional):
    """A short text beside a long one is turned as if it were alone."""
    x, rows = tokens(6, batch=3), [slice(20, 23), slice(0, 3), slice(7, 10)]
    agrees(turned, turned64, x, Growing(12), 1.3, traditional, rows, seed=6)


def test_task_4_rope_by_length_in_every_call():
    """One object reads a prompt, then token after token: the paces are asked for anew each time."""
    x = tokens(7, length=12)
    layer = rope.ScaledRoPE(12, Growing(12))
    steps = [layer(x[:, :5]), *(layer(x[:, p : p + 1], slice(p, p + 1)) for p in range(5, 12)), layer(x[:, :5])]
    by_step = [(0, 5), *((p, p + 1) for p in range(5, 12)), (0, 5)]
    wide = to_float64(x)
    expected = [turned64(wide[:, a:b], Growing(12), 1.0, False, slice(a, b)) for a, b in by_step]
    case = "float32, x 2 x 12 x 4 x 12: 5 tokens, then 7 one by one, then the 5 again, by one object"
    compare(mx.concatenate(steps, axis=1), np.concatenate(expected, axis=1), mx.float32, 2e-5, case, x.size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offset", [slice(4997, 5001), [slice(4997, 5001), slice(301, 305)]], ids=["slice", "list"])
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
    """MLX's operator wants the inverses of the paces, and the length next to last."""
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
    """`rope_of`, which is given, puts all tasks together: queries as a Llama of this config.json turns them."""
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
    """A turned vector is as long as before, times the factor: scores are multiplied by its square."""
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
def test_task_4_rope_refuses_other_paces(dims, paces):
    with raises_value_error(f"dims {dims}, {paces} paces"):
        rope.ScaledRoPE(dims, mx.ones(paces))


def test_task_4_rope_scores_are_sharper():
    """The scores of YaRN: those of its paces, times the square of the attention factor."""
    x, factor = tokens(14, batch=1, length=6), 0.1 * math.log(8) + 1
    plain, sharper = (turned(x, paces_of(), f, False)[0, :, 0] for f in (1.0, factor))
    expected = factor**2 * to_float64(plain @ plain.T)
    case = f"float32, x 1 x 6 x 4 x 12: scores with an attention factor of {factor:.4f}, against those with 1"
    compare(sharper @ sharper.T, expected, mx.float32, 2e-5 * np.abs(expected).max(), case, x.size)
