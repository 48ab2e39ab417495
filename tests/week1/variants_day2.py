"""Day 2's known programs: the mistakes that learners make, right programs in other words, and the probes."""

import mlx.core as mx

from tiny_llm_course.checks import normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.positional_encoding import RoPE, rotation_angles  # noqa: E402

day = Variants()

# 1.2.1 rotation angles


@day.probe("1.2.1")
def angles_few(program):
    return program(6, 5, 300)


@day.probe("1.2.1")
def angles_large_base(program):
    return program(8, 4, 1000000.0)


@day.probe("1.2.1")
def angles_far(program):
    return program(4, 2500, 50)


def paces(dims, base):
    """base ** (-2i / dims), of which mistakes are built."""
    return mx.power(base, -mx.arange(0, dims, 2, dtype=mx.float32) / dims)


@day.wrong(
    "1.2.1", "exponent-i-over-D",
    fact="the exponent is -i/D instead of -2i/D",
    question="The pairs are numbered 0 to D/2 - 1. How close to 1/base should the pace of the last one come?",
)  # fmt: skip
def exponent_i_over_d(dims, seq_len, base):
    return rotation_angles(dims, seq_len, base**0.5)


@day.wrong(
    "1.2.1", "positions-from-1",
    fact="positions are counted from 1",
    question="How far should the first token be turned?",
)  # fmt: skip
def positions_from_1(dims, seq_len, base):
    return rotation_angles(dims, seq_len + 1, base)[1:]


@day.wrong(
    "1.2.1", "base-hard-coded",
    fact="the base is always 10000, whatever `base` says",
    question="Qwen3's base is 1000000. Which number does your function use for it?",
)  # fmt: skip
def base_hard_coded(dims, seq_len, base):
    return rotation_angles(dims, seq_len, 10000)


@day.wrong(
    "1.2.1", "positive-exponent",
    fact="the exponent is 2i/D, without its minus sign",
    question="Should a later pair turn faster than pair 0, or slower?",
)  # fmt: skip
def positive_exponent(dims, seq_len, base):
    return rotation_angles(dims, seq_len, 1 / base)


@day.wrong(
    "1.2.1", "pairs-from-1",
    fact="the pairs are counted from 1, so that the exponents are -2/D to -1",
    question="How far should the first pair turn from one position to the next?",
)  # fmt: skip
def pairs_from_1(dims, seq_len, base):
    return mx.arange(seq_len)[:, None] * mx.power(base, -mx.arange(2, dims + 1, 2) / dims)


@day.wrong(
    "1.2.1", "last-pace-is-1-over-base",
    fact="the exponents run from 0 to exactly -1, with D/2 - 1 equal steps between them",
    question="With D = 4 there are two pairs. Which two exponents does -2i/D give?",
)  # fmt: skip
def last_pace_is_1_over_base(dims, seq_len, base):
    return mx.arange(seq_len)[:, None] * mx.power(base, -mx.linspace(0, 1, dims // 2))


@day.wrong(
    "1.2.1", "exponent-4i-over-D",
    fact="the exponent is -4i/D: twice the right one",
    question="Which numbers does your i take: 0, 1, 2 and so on, or 0, 2, 4 and so on? And what is it divided by?",
)  # fmt: skip
def exponent_4i_over_d(dims, seq_len, base):
    return rotation_angles(dims, seq_len, base**2)


@day.wrong(
    "1.2.1", "even-paces",
    fact="the paces fall in equal steps, 1 - 2i/D, instead of by equal factors",
    question="What is base to the power of 0, and to the power of -1/2?",
)  # fmt: skip
def even_paces(dims, seq_len, base):
    return mx.arange(seq_len)[:, None] * (1 - mx.arange(0, dims, 2) / dims)


@day.wrong(
    "1.2.1", "float16-positions",
    fact="the positions are counted in float16",
    question="Which whole number comes after 2048 in float16?",
)  # fmt: skip
def float16_positions(dims, seq_len, base):
    positions = mx.arange(seq_len).astype(mx.float16).astype(mx.float32)
    return positions[:, None] * paces(dims, base)


@day.wrong(
    "1.2.1", "float16-result",
    fact="the angles are kept in float16",
    question="At position 2000, how far apart are the angles that float16 can hold?",
)  # fmt: skip
def float16_result(dims, seq_len, base):
    return rotation_angles(dims, seq_len, base).astype(mx.float16)


@day.wrong(
    "1.2.1", "transposed",
    fact="the result is D/2 x seq_len, one row for each pair",
    question="Which of the two is a row of the result: a position or a pair?",
)  # fmt: skip
def transposed(dims, seq_len, base):
    return rotation_angles(dims, seq_len, base).T


@day.wrong(
    "1.2.1", "angles-twice",
    fact="every angle stands there twice, side by side, once for each feature of its pair",
    question="How many angles does a pair of features need?",
)  # fmt: skip
def angles_twice(dims, seq_len, base):
    return mx.repeat(rotation_angles(dims, seq_len, base), 2, axis=-1)


@day.wrong(
    "1.2.1", "angles-in-two-halves",
    fact="all D/2 angles stand there twice, one set behind the other",
    question="How many angles does a pair of features need?",
)  # fmt: skip
def angles_in_two_halves(dims, seq_len, base):
    return mx.concatenate([rotation_angles(dims, seq_len, base)] * 2, axis=-1)


@day.wrong(
    "1.2.1", "only-paces",
    fact="every position has the paces of position 1, so that nothing grows",
    question="How far has a pair turned at position 4, if it turns by 0.1 a position?",
)  # fmt: skip
def only_paces(dims, seq_len, base):
    return mx.broadcast_to(paces(dims, base), (seq_len, dims // 2))


@day.accepted("1.2.1", "by-logarithms")
def by_logarithms(dims, seq_len, base):
    if dims % 2 == 1:
        raise ValueError("odd")
    slower = mx.log(mx.array(float(base))) * (mx.arange(dims // 2) / (dims / 2))
    return mx.outer(mx.arange(seq_len).astype(mx.float32), mx.exp(-slower))


@day.accepted("1.2.1", "python-loop")
def by_python_loop(dims, seq_len, base):
    if dims % 2 == 1:
        raise ValueError("odd")
    return mx.array([[p / base ** (i / dims) for i in range(0, dims, 2)] for p in range(seq_len)], dtype=mx.float32)


# 1.2.2 RoPE


def tokens(seed, dtype=mx.float32, batch=2, heads=4):
    return normals(seed, dtype)(batch, 3, heads, 10)


# Each call has its own x, as a program may write to it.


@day.probe("1.2.2")
def rope_from_0(program):
    x, same = tokens(21), tokens(21)
    return program(10, 9, 300)(x), x, program(10, 9, 300, True)(same), same


@day.probe("1.2.2")
def rope_from_4(program):
    return tuple(program(10, 9, 300, pairing)(tokens(22), slice(4, 7)) for pairing in (False, True))


@day.probe("1.2.2")
def rope_rows_apart(program):
    rows = [slice(5, 8), slice(2, 5)]
    return tuple(program(10, 9, 300, pairing)(tokens(23), rows) for pairing in (False, True))


@day.probe("1.2.2")
def rope_default_base(program):
    return program(10, 9)(tokens(24))


@day.probe("1.2.2", mx.float16)
def rope_half(program):
    return program(10, 9, 300)(tokens(25, mx.float16), slice(1, 4))


@day.probe("1.2.2", mx.bfloat16)
def rope_far(program):
    return program(10, 900, 300)(tokens(26, mx.bfloat16), slice(700, 703))


class Base(RoPE):
    """RoPE in steps that a mistake can replace one at a time."""

    def __init__(self, dims, seq_len, base=10000, traditional=False):
        super().__init__(dims, seq_len, base, traditional)
        self.angles = self.turns(dims, seq_len, base)

    def turns(self, dims, seq_len, base):
        return rotation_angles(dims, seq_len, base)

    def at(self, x, offset):  # the angles of x's tokens: N or 1 x L x H or 1 x D/2
        rows = offset if isinstance(offset, list) else [offset or slice(0, x.shape[1])]
        return mx.stack([self.angles[row] for row in rows])[:, :, None]

    def split(self, x):
        return (x[..., ::2], x[..., 1::2]) if self.traditional else mx.split(x, 2, axis=-1)

    def join(self, a, b):
        return mx.stack([a, b], axis=-1).flatten(-2) if self.traditional else mx.concatenate([a, b], axis=-1)

    def turn(self, a, b, cos, sin):
        return a * cos - b * sin, a * sin + b * cos

    def __call__(self, x, offset=None):
        angles = self.at(x, offset)
        a, b = self.split(x)
        return self.join(*self.turn(a, b, mx.cos(angles), mx.sin(angles))).astype(x.dtype)


@day.wrong(
    "1.2.2", "offset-ignored",
    fact="every sequence begins at position 0, whatever `offset` says",
    question="A token that is generated later comes alone. How does your code know where it stands?",
)  # fmt: skip
class OffsetIgnored(Base):
    def at(self, x, offset):
        return super().at(x, None)


@day.wrong(
    "1.2.2", "list-ignored",
    fact="a single slice is used, but a list of slices counts as position 0 for every row",
    question="Which branch of your code does a list take?",
)  # fmt: skip
class ListIgnored(Base):
    def at(self, x, offset):
        return super().at(x, None if isinstance(offset, list) else offset)


@day.wrong(
    "1.2.2", "first-row-for-all",
    fact="all rows are turned by the first row's slice",
    question="Two requests share a batch, one at position 5 and one at position 2. What is row 1 turned by?",
)  # fmt: skip
class FirstRowForAll(Base):
    def at(self, x, offset):
        return super().at(x, offset[0] if isinstance(offset, list) else offset)


@day.wrong(
    "1.2.2", "rows-reversed",
    fact="the slices of a list reach the rows in reverse order",
    question="Which row does the first slice of the list belong to?",
)  # fmt: skip
class RowsReversed(Base):
    def at(self, x, offset):
        return super().at(x, offset[::-1] if isinstance(offset, list) else offset)


@day.wrong(
    "1.2.2", "pairings-exchanged",
    fact="traditional means the opposite: True pairs the halves, False the neighbours",
    question="For D = 10 and traditional=False, which feature is the partner of feature 0?",
)  # fmt: skip
class PairingsExchanged(Base):
    def __init__(self, dims, seq_len, base=10000, traditional=False):
        super().__init__(dims, seq_len, base, not traditional)


@day.wrong(
    "1.2.2", "always-halves",
    fact="features i and i + D/2 are paired, also if `traditional` is True",
    question="Where does your code look at `traditional`?",
)  # fmt: skip
class AlwaysHalves(Base):
    def __init__(self, dims, seq_len, base=10000, traditional=False):
        super().__init__(dims, seq_len, base)


@day.wrong(
    "1.2.2", "always-neighbours",
    fact="features 2i and 2i + 1 are paired, also if `traditional` is False",
    question="Where does your code look at `traditional`?",
)  # fmt: skip
class AlwaysNeighbours(Base):
    def __init__(self, dims, seq_len, base=10000, traditional=False):
        super().__init__(dims, seq_len, base, True)


@day.wrong(
    "1.2.2", "not-put-back",
    fact="neighbours are turned, but all first features are put before all second ones",
    question="With traditional=True, feature 1 is the partner of feature 0. Where does it stand in your result?",
)  # fmt: skip
class NotPutBack(Base):
    def join(self, a, b):
        return mx.concatenate([a, b], axis=-1)


@day.wrong(
    "1.2.2", "turned-backwards",
    fact="every pair is turned by minus its angle",
    question="(1, 0) turned by a quarter of a full circle is (0, 1). What does your code make of it?",
)  # fmt: skip
class TurnedBackwards(Base):
    def turn(self, a, b, cos, sin):
        return super().turn(a, b, cos, -sin)


@day.wrong(
    "1.2.2", "both-signs-plus",
    fact="the first feature of a pair becomes a cos + b sin, and the second a sin + b cos",
    question="Turn (1, 1) by 45 degrees. How long was it before, and how long is your result?",
)  # fmt: skip
class BothSignsPlus(Base):
    def turn(self, a, b, cos, sin):
        return a * cos + b * sin, a * sin + b * cos


@day.wrong(
    "1.2.2", "first-overwritten",
    fact="the second feature of a pair is computed from the first one after that has been turned",
    question="When your second formula reads the first feature, has it still its old value?",
)  # fmt: skip
class FirstOverwritten(Base):
    def turn(self, a, b, cos, sin):
        a = a * cos - b * sin
        return a, a * sin + b * cos


@day.wrong(
    "1.2.2", "sin-and-cos-exchanged",
    fact="sine and cosine have changed places",
    question="What should become of a token at position 0, where the sine is 0?",
)  # fmt: skip
class SinAndCosExchanged(Base):
    def turn(self, a, b, cos, sin):
        return super().turn(a, b, sin, cos)


@day.wrong(
    "1.2.2", "heads-turned",
    fact="the angle depends on the number of the head instead of the token's position",
    question="x is N x L x H x D. Along which of its axes do positions run?",
)  # fmt: skip
class HeadsTurned(Base):
    """`offset` counts from the first head: what MLX's operator does to N x L x H x D."""

    def at(self, x, offset):
        rows = offset if isinstance(offset, list) else [offset or slice(0, 0)]
        return mx.stack([self.angles[row.start : row.start + x.shape[2]] for row in rows])[:, None]


@day.wrong(
    "1.2.2", "base-hard-coded",
    fact="the base is always 10000, whatever `base` says",
    question="Where does the `base` of __init__ go?",
)  # fmt: skip
class BaseHardCoded(Base):
    def turns(self, dims, seq_len, base):
        return rotation_angles(dims, seq_len, 10000)


@day.wrong(
    "1.2.2", "exponent-i-over-D",
    fact="the exponent of the angles is -i/D instead of -2i/D",
    question="Does your class use your rotation_angles, or angles of its own?",
)  # fmt: skip
class ExponentIOverD(Base):
    def turns(self, dims, seq_len, base):
        return rotation_angles(dims, seq_len, base**0.5)


@day.wrong(
    "1.2.2", "positions-from-1",
    fact="positions are counted from 1",
    question="What should become of a token at position 0?",
)  # fmt: skip
class PositionsFrom1(Base):
    def turns(self, dims, seq_len, base):
        return rotation_angles(dims, seq_len + 1, base)[1:]


@day.wrong(
    "1.2.2", "float16-tables",
    fact="the sines and cosines are kept in float16",
    question="How many digits does float16 keep, and what does a float32 caller expect?",
)  # fmt: skip
class Float16Tables(Base):
    def turn(self, a, b, cos, sin):
        return super().turn(a, b, *(table.astype(mx.float16).astype(mx.float32) for table in (cos, sin)))


@day.wrong(
    "1.2.2", "angles-in-the-input's-dtype",
    fact="the angles are rounded to x's dtype before their sines and cosines are taken",
    question="Which numbers around 700 can bfloat16 hold?",
)  # fmt: skip
class AnglesInInputsDtype(Base):
    def at(self, x, offset):
        return super().at(x, offset).astype(x.dtype)


@day.wrong(
    "1.2.2", "float32-result",
    fact="the result is left in float32 although x is not",
    question="float16 times float32 is float32. Who brings it back?",
)  # fmt: skip
class Float32Result(Base):
    def __call__(self, x, offset=None):
        return super().__call__(x.astype(mx.float32), offset)


@day.wrong(
    "1.2.2", "in-place",
    fact="x itself is written to, so that the caller's array changes",
    question="After the call, what does the caller find in x?",
)  # fmt: skip
class InPlace(Base):
    def __call__(self, x, offset=None):
        x[...] = super().__call__(x, offset)
        return x


@day.accepted("1.2.2", "complex-numbers")
class ComplexNumbers:
    """A pair is a complex number, a turn is a multiplication; positions are looked up one by one."""

    def __init__(self, dims, seq_len, base=10000, traditional=False):
        if dims % 2:
            raise ValueError("odd")
        angles = mx.arange(seq_len)[:, None] / mx.power(base, mx.arange(0, dims, 2) / dims)
        self.table = mx.exp(1j * angles)
        self.traditional = traditional

    def __call__(self, x, offset=None):
        batch, length, _, dims = x.shape
        if not isinstance(offset, list):
            offset = [offset if offset is not None else slice(0, length)] * batch
        positions = [list(range(row.start, row.stop)) for row in offset]
        limit, pairs = self.table.shape
        if dims != 2 * pairs or len(positions) != batch or {len(row) for row in positions} != {length}:
            raise ValueError("shape")
        if any(p < 0 or p >= limit for row in positions for p in row):
            raise ValueError("position")
        both = mx.unflatten(x.astype(mx.float32), -1, (pairs, 2) if self.traditional else (2, pairs))
        a, b = (both[..., 0], both[..., 1]) if self.traditional else (both[..., 0, :], both[..., 1, :])
        turned = (a + 1j * b) * self.table[mx.array(positions)][:, :, None]
        y = mx.stack([mx.real(turned), mx.imag(turned)], axis=-1 if self.traditional else -2)
        return y.reshape(x.shape).astype(x.dtype)


@day.accepted("1.2.2", "swapped-halves")
class SwappedHalves:
    """cos * x + sin * (x with its pairs swapped and one sign changed), row by row, tables as wide as D."""

    def __init__(self, dims, seq_len, base=10000, traditional=False):
        half = rotation_angles(dims, seq_len, base)
        self.table = mx.repeat(half, 2, axis=1) if traditional else mx.tile(half, (1, 2))
        self.order = [i ^ 1 for i in range(dims)] if traditional else [(i + dims // 2) % dims for i in range(dims)]
        self.sign = mx.array([-1.0 if self.order[i] > i else 1.0 for i in range(dims)])

    def one_row(self, x, row):
        if not 0 <= row.start <= row.stop <= len(self.table) or row.stop - row.start != len(x):
            raise ValueError("positions")
        angles = self.table[row][:, None]
        return mx.cos(angles) * x + mx.sin(angles) * self.sign * x[..., mx.array(self.order)]

    def __call__(self, x, offset=None):
        if x.shape[-1] != len(self.order):
            raise ValueError("dims")
        one = slice(0, x.shape[1]) if offset is None else offset
        rows = one if isinstance(one, list) else [one] * len(x)
        if len(rows) != len(x):
            raise ValueError("rows")
        return mx.stack([self.one_row(x[n], row) for n, row in enumerate(rows)]).astype(x.dtype)


@day.accepted("1.2.2", "rotation-matrices")
class RotationMatrices:
    """A D x D matrix for each position, on the solution's refusals."""

    def __init__(self, dims, seq_len, base=10000, traditional=False):
        self.solution = RoPE(dims, seq_len, base, traditional)
        angles = rotation_angles(dims, seq_len, base)
        i = mx.arange(dims // 2)
        first, second = (2 * i, 2 * i + 1) if traditional else (i, i + dims // 2)
        self.matrices = mx.zeros((seq_len, dims, dims))
        self.matrices[:, first, first] = self.matrices[:, second, second] = mx.cos(angles)
        self.matrices[:, first, second], self.matrices[:, second, first] = -mx.sin(angles), mx.sin(angles)

    def __call__(self, x, offset=None):
        self.solution(x, offset)
        rows = offset if isinstance(offset, list) else [offset or slice(0, x.shape[1])] * len(x)
        matrices = mx.stack([self.matrices[row] for row in rows])
        return mx.einsum("nlde,nlhe->nlhd", matrices, x.astype(mx.float32)).astype(x.dtype)
