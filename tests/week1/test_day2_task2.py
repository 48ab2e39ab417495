"""Week 1, day 2, task 2: RoPE.

Both pairings, at any position of any row, are compared with the float64 formula, `mx.fast.rope` and PyTorch; then come
the properties of RoPE, and attention without positions for contrast.
"""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64, rope64
from tests.week1.rotations import FIVE_TOKENS, sizes

from tiny_llm import positional_encoding
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, Array64, Round, exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

PAIRINGS = pytest.mark.parametrize("traditional", [False, True])


@built
def rope(x, seq_len, base, traditional, offset=None):
    """Call the learner's program, without arguments that have their default."""
    layer = positional_encoding.RoPE(x.shape[-1], seq_len, base, traditional)
    return lambda x: layer(x) if offset is None else layer(x, offset)


def rotated64(
    x: Array64,
    seq_len: int,
    base: float,
    traditional: bool,
    offset: slice | list[slice] | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """`rope64` at the positions given by `offset`."""
    batch, length = x.shape[:2]
    rows = offset if isinstance(offset, list) else [offset or slice(0, length)] * batch
    return rope64(x, [range(row.start, row.stop) for row in rows], base, traditional, r=r)


def tokens(seed, dtype=mx.float32, batch=2, length=3, heads=4, dims=12):
    """N, L, H, D and D/2 all different: a mixed-up axis cannot hide."""
    return normals(seed, dtype)(batch, length, heads, dims)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@PAIRINGS
@pytest.mark.parametrize(("batch", "heads"), [(1, 3), (2, 4)])
def test_task_2_rope_formula(batch, heads, traditional, dtype):
    x = tokens(1, dtype, batch, 5, heads)
    agrees(rope, rotated64, x, 9, 300, traditional, seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@PAIRINGS
@pytest.mark.parametrize("first", [0, 1, 4])
def test_task_2_rope_slice(first, traditional, dtype):
    """`slice(4, 7)` of 7 positions is the last that fits."""
    agrees(rope, rotated64, tokens(2, dtype), 7, 300, traditional, slice(first, first + 3), seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@PAIRINGS
def test_task_2_rope_slice_for_each_row(traditional, dtype):
    """Rows of a batch at different positions, neither in order nor starting at 0."""
    x, rows = tokens(3, dtype, batch=3, length=2), [slice(5, 7), slice(0, 2), slice(9, 11)]
    agrees(rope, rotated64, x, 11, 300, traditional, rows, seed=3)


@PAIRINGS
@pytest.mark.parametrize("rows", [[slice(4, 7)], [slice(4, 7), slice(4, 7)]], ids=["one row", "equal rows"])
def test_task_2_rope_list_of_few(rows, traditional):
    agrees(rope, rotated64, tokens(4, batch=len(rows)), 9, 300, traditional, rows, seed=4)


@PAIRINGS
@pytest.mark.parametrize(("length", "heads", "dims"), [(5, 1, 2), (4, 2, 8), (1, 3, 10), (3, 3, 4)])
def test_task_2_rope_sizes(length, heads, dims, traditional):
    """One pair, many pairs, one token, and as many tokens as heads."""
    agrees(rope, rotated64, tokens(5, mx.float32, 2, length, heads, dims), 5, 50, traditional, seed=5)


@pytest.mark.parametrize("base", [2, 10000, 1000000.0])
def test_task_2_rope_base(base):
    agrees(rope, rotated64, tokens(6, length=5), 5, base, False, seed=6)


def test_task_2_rope_defaults():
    """The defaults: base 10000, and pairs D/2 features apart."""

    @built
    def by_default(x, seq_len, base, traditional):
        layer = positional_encoding.RoPE(x.shape[-1], seq_len)
        return lambda x: layer(x)

    agrees(by_default, rotated64, tokens(7, length=5), 5, 10000, False, seed=7)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("offset", [slice(997, 1001), [slice(997, 1001), slice(301, 305)]], ids=["slice", "list"])
def test_task_2_rope_far_positions(offset, dtype):
    """bfloat16 has no 997, and adjacent float16 numbers are half a radian apart there: the angles must be float32."""
    agrees(rope, rotated64, tokens(8, dtype, length=4), 1100, 300, False, offset, seed=8)


@PAIRINGS
@pytest.mark.parametrize("offset", [slice(0, 3), slice(4, 7), [slice(4, 7), slice(1, 4)]], ids=str)
def test_task_2_rope_mlx(offset, traditional):
    """MLX's operator takes the length as the second-to-last axis, and the first position of each row."""
    x = tokens(9)
    first = mx.array([row.start for row in offset]) if isinstance(offset, list) else offset.start
    rotated = mx.fast.rope(x.swapaxes(1, 2), 12, traditional=traditional, base=300.0, scale=1.0, offset=first)
    expected = to_float64(rotated.swapaxes(1, 2))
    agrees(rope, rotated64, x, 9, 300, traditional, offset, seed=9, expected=expected)


def test_task_2_rope_pytorch_complex(pytorch):
    """As in Llama's first published code: an adjacent pair is a complex number."""

    def rotated(torch, x, first, base):
        positions = torch.arange(first, first + x.shape[1])
        angles = torch.outer(positions.float(), base ** (-torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[:, None, :]).flatten(-2)

    x = tokens(10, length=5)
    agrees(rope, rotated64, x, 9, 300, True, slice(4, 9), seed=10, expected=pytorch(rotated, x, 4, 300.0))


def test_task_2_rope_pytorch_halves(pytorch):
    """As in Hugging Face's Llama and Qwen: cos times x, plus sin times x with its halves swapped and one negated."""

    def rotated(torch, x, first, base):
        positions = torch.arange(first, first + x.shape[1])
        angles = torch.outer(positions.float(), base ** (-torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]))
        angles = torch.cat([angles, angles], dim=-1)[:, None, :]
        low, high = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-high, low], dim=-1) * angles.sin()

    x = tokens(11, length=5)
    agrees(rope, rotated64, x, 9, 300, False, slice(4, 9), seed=11, expected=pytorch(rotated, x, 4, 300.0))


def test_task_2_rope_five_tokens():
    """The vector 1, 0, 1, 0 at five positions, as in chapter 1.2: rotations, and scores that depend on the distance."""
    ones = mx.broadcast_to(mx.array([1.0, 0.0, 1.0, 0.0]), (1, 5, 1, 4))
    rotated = rope(ones, 5, 100, True)[0, :, 0]
    vectors = np.array(
        [
            [1, 0, 1, 0],
            [0.54, 0.84, 1, 0.1],
            [-0.42, 0.91, 0.98, 0.2],
            [-0.99, 0.14, 0.96, 0.3],
            [-0.65, -0.76, 0.92, 0.39],
        ]
    )
    compare(rotated, vectors, mx.float32, 0.006, FIVE_TOKENS, 20)
    by_distance = [2.0, 1.5353, 0.5639, -0.0347, 0.2674]
    expected = np.array([[by_distance[abs(i - j)] for j in range(5)] for i in range(5)])
    compare(rotated @ rotated.T, expected, mx.float32, 0.00006, FIVE_TOKENS, 20)


def test_task_2_rope_two_at_once():
    """An object keeps its tables and its pairing when another one is made."""
    x = tokens(14, length=5)
    made = [
        positional_encoding.RoPE(12, length, base, pairs) for length, base, pairs in [(9, 300, False), (5, 50, True)]
    ]
    case = "float32, x 2 x 5 x 4 x 12, base 300, after another RoPE was made, of base 50 and traditional"
    with noted(case):
        rotated = made[0](x, slice(4, 9))
    expected = rope64(to_float64(x), [range(4, 9)] * 2, 300, False)
    compare(rotated, expected, mx.float32, 8 * EPSILON[mx.float32] * float(np.abs(expected).max()), case, x.size)


@PAIRINGS
def test_task_2_rope_called_with_other_sizes_and_positions(traditional):
    """One object, as in a model: each call has its own rows, tokens, heads and positions."""
    layer = positional_encoding.RoPE(12, 9, 300, traditional)

    def called_before(x, seq_len, base, traditional, offset=None):
        return layer(x) if offset is None else layer(x, offset)

    rows = [slice(4, 6), slice(0, 2)]
    for batch, length, heads, offset in [(1, 3, 4, None), (2, 5, 3, None), (1, 3, 4, slice(6, 9)), (2, 2, 4, rows)]:
        x = tokens(15, mx.float32, batch, length, heads)
        agrees(called_before, rotated64, x, 9, 300, traditional, offset, seed=15)
        agrees(called_before, rotated64, x.astype(mx.float16), 9, 300, traditional, offset, seed=15)


@PAIRINGS
def test_task_2_rope_sweep(traditional):
    for n in sweep(N=131, L=4200, H=131, P=131):
        x = normals(n.seed, n.dtype)(n.N, n.L, n.H, 2 * n.P, spread=n.spread)
        first = n.turn(0, 3, 1000, 0, 4100)
        rows = [slice(first + row % 3, first + row % 3 + n.L) for row in range(n.N)]
        offset = n.turn(None, rows, rows[0], [rows[-1]] * n.N)
        agrees(rope, rotated64, x, first + n.L + 3, n.turn(10000, 50.0, 1000000), traditional, offset, seed=n)


def program_case(what, dims, base, traditional, seed):
    return f"float32, dims {dims}, base {base}, traditional {traditional}, seed {seed}: {what}"


any_rope = {**sizes, "traditional": st.booleans(), "seed": st.integers(0, 99)}


@property_test
@given(first=st.integers(0, 20), length=st.integers(2, 5), **any_rope)
def test_task_2_rope_scores_depend_on_distance(first, length, dims, base, traditional, seed):
    """The score of a query at position i and a key at position j depends only on i - j."""
    draw = normals(seed)
    query, key = draw(dims), draw(dims)
    offset = slice(first, first + length)
    rotated = [rope(mx.broadcast_to(v, (1, length, 1, dims)), 26, base, traditional, offset) for v in (query, key)]
    scores = rotated[0][0, :, 0] @ rotated[1][0, :, 0].T

    distances = range(1 - length, length)
    same_query = np.broadcast_to(to_float64(query), (1, len(distances), 1, dims))
    by_distance = rope64(same_query, [distances], base, traditional)[0, :, 0] @ to_float64(key)
    expected = np.array([[by_distance[i - j + length - 1] for j in range(length)] for i in range(length)])
    scale = float(mx.linalg.norm(query) * mx.linalg.norm(key))
    what = f"scores of one query and one key at positions {first} to {first + length - 1}"
    case = program_case(what, dims, base, traditional, seed)
    compare(scores, expected, mx.float32, 8 * EPSILON[mx.float32] * scale, case, 2 * length * dims)


@property_test
@given(length=st.integers(1, 5), **any_rope)
def test_task_2_rope_keeps_length(length, dims, base, traditional, seed):
    """A rotation keeps the length of a vector."""
    x = tokens(seed, mx.float32, 2, length, 3, dims)
    expected = np.linalg.norm(to_float64(x), axis=-1)
    rotated = rope(x, 30, base, traditional, slice(11, 11 + length))
    case = program_case(f"lengths of the vectors of x 2 x {length} x 3 x {dims}", dims, base, traditional, seed)
    allowed = 4 * EPSILON[mx.float32] * expected.max()
    compare(mx.linalg.norm(rotated, axis=-1), expected, mx.float32, allowed, case, x.size)


@property_test
@given(heads=st.integers(1, 4), **any_rope)
def test_task_2_rope_leaves_position_0(heads, dims, base, traditional, seed):
    x = tokens(seed, mx.float32, 2, 1, heads, dims)
    expected = to_float64(x)
    case = program_case(f"x 2 x 1 x {heads} x {dims} at position 0", dims, base, traditional, seed)
    allowed = EPSILON[mx.float32] * float(np.abs(expected).max())
    compare(rope(x, 9, base, traditional), expected, mx.float32, allowed, case, x.size)


@property_test
@given(length=st.integers(1, 5), first=st.integers(0, 9), **{k: v for k, v in any_rope.items() if k != "traditional"})
def test_task_2_rope_pairings_are_a_permutation_apart(length, first, dims, base, seed):
    """Reordering the features as "evens, then odds" converts one pairing to the other."""
    x = tokens(seed, mx.float32, 2, length, 3, dims)
    order = mx.array([*range(0, dims, 2), *range(1, dims, 2)])
    offset = slice(first, first + length)
    halves, pairs = rope(x[..., order], 14, base, False, offset), rope(x, 14, base, True, offset)
    case = f"float32, x 2 x {length} x 3 x {dims}, base {base}, offset {offset}, seed {seed}: evens, then odds"
    allowed = 4 * EPSILON[mx.float32] * float(mx.max(mx.abs(x)))
    compare(halves, to_float64(pairs[..., order]), mx.float32, allowed, case, x.size)


@property_test
@given(one=st.integers(0, 12), two=st.integers(0, 12), **any_rope)
def test_task_2_rope_rotations_add_up(one, two, dims, base, traditional, seed):
    """Rotating for one position and then for another rotates for their sum."""
    x = tokens(seed, mx.float32, 2, 1, 3, dims)
    expected = rope64(to_float64(x), [range(one + two, one + two + 1)] * 2, base, traditional)
    twice = rope(rope(x, 25, base, traditional, slice(one, one + 1)), 25, base, traditional, slice(two, two + 1))
    what = f"x 2 x 1 x 3 x {dims} rotated for position {one}, and the result for position {two}"
    case = program_case(what, dims, base, traditional, seed)
    compare(twice, expected, mx.float32, 8 * EPSILON[mx.float32] * float(np.abs(expected).max()), case, x.size)


@property_test
@given(batch=st.integers(1, 2), length=st.integers(2, 6), **any_rope)
def test_task_2_rope_one_token_at_a_time(batch, length, dims, base, traditional, seed):
    """One token at a time, as in decoding, gives the same as the whole sequence at once."""
    x = tokens(seed, mx.float32, batch, length, 3, dims)
    steps = [rope(x[:, p : p + 1], length, base, traditional, slice(p, p + 1)) for p in range(length)]
    expected = to_float64(rope(x, length, base, traditional))
    what = f"{length} tokens one at a time, against all at once"
    case = program_case(what, dims, base, traditional, seed)
    allowed = 4 * EPSILON[mx.float32] * float(np.abs(expected).max())
    compare(mx.concatenate(steps, axis=1), expected, mx.float32, allowed, case, x.size)


@property_test
@given(length=st.integers(2, 5), traditional=st.booleans(), seed=st.integers(0, 99))
def test_task_2_rope_makes_order_count(length, traditional, seed):
    """Unmasked attention depends on the order of the tokens only with RoPE.

    Without positions, permuted tokens give permuted outputs. With RoPE, the outputs differ.
    """
    draw, dims, base = normals(seed), 6, 30
    query, key, value = draw(1, length, 1, dims), draw(1, length, 1, dims), draw(1, length, 1, dims)
    backwards = slice(None, None, -1)

    def change(attend):
        """Return the outputs for reversed tokens, reversed again, minus the outputs for the tokens."""
        other = attend(query[:, backwards], key[:, backwards], value[:, backwards])
        return other[:, backwards] - attend(query, key, value)

    def attend(query, key, value):
        heads_first = (x.swapaxes(1, 2) for x in (query, key, value))
        return mx.fast.scaled_dot_product_attention(*heads_first, scale=dims**-0.5).swapaxes(1, 2)

    def attend_with_rope(query, key, value):
        return attend(rope(query, length, base, traditional), rope(key, length, base, traditional), value)

    def attend_with_rope64(query, key, value):
        positions = [range(length)]
        query, key = (rope64(to_float64(x), positions, base, traditional)[0, :, 0] for x in (query, key))
        return attention64(query, key, to_float64(value)[0, :, 0])[None, :, None]

    assert float(mx.max(mx.abs(change(attend)))) < 1e-5, "MLX's attention without positions depends on the order"
    expected = change(attend_with_rope64)
    assert float(np.abs(expected).max()) > 1e-3, "an example in which the order hardly matters"
    what = f"the change in attention over {length} tokens when their order is reversed"
    case = program_case(what, dims, base, traditional, seed)
    compare(change(attend_with_rope), expected, mx.float32, 1e-4, case, 3 * query.size)


REFUSED = {
    "other dims": ((2, 3, 4, 8), None),
    "more dims": ((2, 3, 4, 14), None),
    "a single pair": ((2, 3, 4, 2), None),
    "a slice that is too short": ((2, 3, 4, 12), slice(0, 2)),
    "a slice of one position": ((2, 3, 4, 12), slice(5, 6)),
    "a slice that is too long": ((2, 1, 4, 12), slice(0, 3)),
    "a slice past the end": ((2, 3, 4, 12), slice(7, 10)),
    "one token past the end": ((2, 1, 4, 12), slice(9, 10)),
    "across the start": ((2, 3, 4, 12), slice(-2, 1)),
    "counted from the end": ((2, 3, 4, 12), slice(-4, -1)),
    "more tokens than positions": ((2, 10, 4, 12), None),
    "one slice for two rows": ((2, 3, 4, 12), [slice(0, 3)]),
    "three slices for two rows": ((2, 3, 4, 12), [slice(0, 3)] * 3),
    "no slice for two rows": ((2, 3, 4, 12), []),
    "no slice for one row": ((1, 3, 4, 12), []),
    "two slices for one row": ((1, 3, 4, 12), [slice(0, 3)] * 2),
    "a row whose slice is too short": ((2, 3, 4, 12), [slice(0, 3), slice(0, 1)]),
    "rows with slices of one position": ((2, 3, 4, 12), [slice(0, 1), slice(4, 5)]),
    "rows with slices that are too long": ((2, 1, 4, 12), [slice(0, 3), slice(4, 7)]),
    "a row counted from the end": ((2, 3, 4, 12), [slice(0, 3), slice(-4, -1)]),
    "a row past the end": ((2, 1, 4, 12), [slice(8, 9), slice(9, 10)]),
}


def test_task_2_rope_refuses_what_would_broadcast():
    """A table of one position broadcasts to any number of tokens in MLX."""
    layer = positional_encoding.RoPE(12, 1, 300)
    for offset in (None, slice(0, 3), [slice(0, 3)] * 2):
        with raises_value_error(f"dims 12, seq_len 1, x 2 x 3 x 4 x 12, offset {offset}"):
            mx.eval(layer(normals(13)(2, 3, 4, 12), offset))


@pytest.mark.parametrize("why", REFUSED)
def test_task_2_rope_refuses(why):
    shape, offset = REFUSED[why]
    layer = positional_encoding.RoPE(12, 9, 300)
    x = normals(12)(*shape)
    words = "no offset" if offset is None else f"offset {offset}"
    with raises_value_error(f"dims 12, seq_len 9, x {' x '.join(str(n) for n in shape)}, {words}"):
        mx.eval(layer(x) if offset is None else layer(x, offset))


def test_task_2_rope_refuses_odd_dims():
    with raises_value_error("dims 7, seq_len 9, base 300"):
        positional_encoding.RoPE(7, 9, 300)
