"""Reference variants of task 1.2.2, RoPE."""

import mlx.core as mx
from tiny_llm_solution.positional_encoding import RoPE, rotation_angles

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.2.2")


def tokens(seed, dtype=mx.float32, batch=2, heads=4):
    return normals(seed, dtype)(batch, 3, heads, 10)


# Each call gets a new x, since a program may write to it.


@known.probe()
def rope_from_0(program):
    x, same = tokens(21), tokens(21)
    return program(10, 9, 300)(x), x, program(10, 9, 300, True)(same), same


known.probe_table(
    from_4=lambda program: tuple(program(10, 9, 300, pairing)(tokens(22), slice(4, 7)) for pairing in (False, True)),
    default_base=lambda program: program(10, 9)(tokens(24)),
    as_many_heads_as_tokens=lambda program: program(10, 9, 300)(tokens(27, heads=3)),
    refuses=lambda program: refusals(
        lambda offset: program(10, 9)(tokens(30), offset), [slice(8, 11), slice(7, 10), slice(6, 9)]
    ),
    rows_alike=lambda program: program(10, 9, 300)(tokens(28), [slice(2, 5), slice(2, 5)]),
)


@known.probe()
def rope_rounded_once(program):
    """Return whether many float16 results differ from the float32 ones after rounding."""
    x = tokens(29, mx.float16)
    wide, half = program(10, 9, 300)(x.astype(mx.float32)), program(10, 9, 300)(x)
    return mx.array(mx.mean(half != wide.astype(mx.float16)).item() > 0.1)


known.probe_table(mx.float16, half=lambda program: program(10, 9, 300)(tokens(25, mx.float16), slice(1, 4)))
known.probe_table(mx.bfloat16, far=lambda program: program(10, 900, 300)(tokens(26, mx.bfloat16), slice(700, 703)))


@known.probe()
def rope_rows_apart(program):
    rows = [slice(5, 8), slice(2, 5), slice(6, 9)]  # unsorted in both directions
    return tuple(program(10, 9, 300, pairing)(tokens(23, batch=3), rows) for pairing in (False, True))


@known.sized("512 tokens, 16 heads, D 128, float32")
def sized(program):
    x, rope = normals(1)(1, 512, 16, 128), program(128, 512)
    return lambda: rope(x)


known.change(
    "offset-ignored",
    ("rows = offset", "offset = None\nrows = offset"),
    fact="every sequence starts at position 0, and `offset` is ignored",
    question="During decoding a single token arrives. How does your code know its position?",
)
known.change(
    "list-ignored",
    ("rows = offset", "offset = None if isinstance(offset, list) else offset\nrows = offset"),
    fact="a single slice is used, but a list of slices is treated as position 0 for every row",
    question="Which branch of your code handles a list?",
)
known.change(
    "first-row-for-all",
    ("[self.cos[row] for row in rows]", "[self.cos[row] for row in rows[:1]]"),
    ("[self.sin[row] for row in rows]", "[self.sin[row] for row in rows[:1]]"),
    fact="all rows are rotated by the first row's slice",
    question="Two requests share a batch, one at position 5 and one at position 2. By which position is row 1 rotated?",
)
known.change(
    "pairings-exchanged",
    ("= dims, seq_len, traditional", "= dims, seq_len, not traditional"),
    fact="`traditional` is inverted: True pairs the halves, False the adjacent features",
    question="For D = 10 and traditional=False, which feature is paired with feature 0?",
)
for name, value, pairs in (("always-halves", False, "i and i + D/2"), ("always-neighbors", True, "2i and 2i + 1")):
    known.change(
        name,
        ("= dims, seq_len, traditional", f"= dims, seq_len, {value}"),
        fact=f"features {pairs} are paired even when `traditional` is {not value}",
        question="Where does your code read `traditional`?",
    )
known.change(
    "not-put-back",
    ("mx.stack(rotated, axis=-1).flatten(-2)", "mx.concatenate(rotated, axis=-1)"),
    fact="adjacent features are rotated, but the result is joined as halves",
    question="With traditional=True, feature 1 is paired with feature 0. Where is it in your result?",
)
known.change(
    "rotated-backwards",
    ("mx.sin(angles)", "-mx.sin(angles)"),
    fact="every pair is rotated by minus its angle",
    question="(1, 0) rotated by 90 degrees is (0, 1). What does your code return for it?",
)
known.change(
    "both-signs-plus",
    ("first * cos - second", "first * cos + second"),
    fact="the first feature of a pair becomes a cos + b sin, and the second a sin + b cos",
    question="Rotate (1, 1) by 45 degrees. What is its length before, and what is the length of your result?",
)
known.change(
    "first-overwritten",
    ("[first * cos - second", "[first := first * cos - second"),
    fact="the second feature of a pair is computed from the already rotated first one",
    question="When your second formula reads the first feature, does it still have its old value?",
)
known.change(
    "sin-and-cos-exchanged",
    ("mx.cos(angles), mx.sin(angles)", "mx.sin(angles), mx.cos(angles)"),
    fact="sine and cosine are swapped",
    question="What should the result be for a token at position 0, where the sine is 0?",
)
known.change(
    "angle-by-head",
    ("self.cos[row] for row in rows])[:, :, None, :]", "self.cos[row.start:][:x.shape[2]] for row in rows])[:, None]"),
    ("self.sin[row] for row in rows])[:, :, None, :]", "self.sin[row.start:][:x.shape[2]] for row in rows])[:, None]"),
    fact="the angle depends on the head index instead of the token's position",
    question="x is N x L x H x D. Which of its axes are the positions on?",
)
known.change(
    "base-hard-coded",
    ("_tables(dims, seq_len, base)", "_tables(dims, seq_len, 10000)"),
    fact="the base is always 10000, and `base` is ignored",
    question="What does __init__ do with `base`?",
)
known.change(
    "exponent-i-over-D",
    ("rotation_angles(dims, seq_len, base)", "rotation_angles(dims, seq_len, base**0.5)"),
    fact="the exponent of the angles is -i/D instead of -2i/D",
    question="Does your class use your rotation_angles, or angles of its own?",
)
known.change(
    "positions-from-1",
    ("rotation_angles(dims, seq_len, base)", "rotation_angles(dims, seq_len + 1, base)[1:]"),
    fact="positions are counted from 1",
    question="What should the result be for a token at position 0?",
)
known.change(
    "rotated-in-the-input's-dtype",
    ("rotated =", "cos, sin = cos.astype(x.dtype), sin.astype(x.dtype)\nrotated ="),
    fact="x is rotated in its own dtype, with sines and cosines of that dtype, and not in float32",
    question="Which dtype do your products x * cos have for a float16 x?",
)
known.change(
    "float16-tables",
    ("_tables(dims, seq_len, base)", "(t.astype(mx.float16).astype(mx.float32) for t in _tables(dims, seq_len, base))"),
    fact="the sines and cosines are stored in float16",
    question="How many digits does float16 have, and what does a float32 caller expect?",
)
known.change(
    "angles-in-the-input's-dtype",
    ("mx.cos(angles), mx.sin(angles)", "angles, angles"),
    ("rotated =", "cos, sin = mx.cos(cos.astype(x.dtype)), mx.sin(sin.astype(x.dtype))\nrotated ="),
    fact="the angles are rounded to x's dtype before the sine and cosine are computed",
    question="Which numbers around 700 can bfloat16 represent?",
)
known.change(
    "float32-result",
    ("y.astype(x.dtype)", "y"),
    fact="the result stays float32 although x is not",
    question="float16 times float32 is float32. Where does your code convert it back?",
)
known.change(
    "in-place",
    ("return y.astype(x.dtype)", "x[...] = y.astype(x.dtype)\nreturn x"),
    fact="x is modified in place, which changes the caller's array",
    question="After the call, what does the caller find in x?",
)
known.change(
    "list-taken-for-a-slice",
    ("rows = offset if isinstance(offset, list) else ", "rows = "),
    ("if isinstance(offset, list) and len(rows) != batch:", "if False:"),
    fact="a list of slices is handled as if it were one slice",
    question="Which attributes does a slice have that a list does not, and which of the two was passed?",
)
known.change(
    "list-taken-for-an-index",
    ("rows = offset if isinstance(offset, list) else ", "rows = "),
    ("if isinstance(offset, list) and len(rows) != batch:", "if False:"),
    ("for row in rows:", "for row in [] if isinstance(offset, list) else rows:"),
    fact="a list of slices is passed straight to the indexing of the tables",
    question="Which rows of a table does one slice select, and what should a list of two slices select?",
)
known.change(
    "offset-never-none",
    ("slice(0, length) if offset is None else offset", "offset"),
    fact="an offset of None is handled as if it were a slice",
    question="What is `offset` when the caller does not pass one, and which positions does that mean?",
)
known.change(
    "no-axis-for-heads",
    ("mx.stack([self.cos[row] for row in rows])[:, :, None, :]", "mx.stack([self.cos[row] for row in rows])"),
    ("mx.stack([self.sin[row] for row in rows])[:, :, None, :]", "mx.stack([self.sin[row] for row in rows])"),
    fact="sines and cosines have no head axis, so the positions broadcast along the heads",
    question="x is N x L x H x D. Counted from the end, which axis do the positions of your table broadcast along?",
)
ROTATED = "rotated = [first * cos - second * sin, first * sin + second * cos]"
for name, wide, places, wrong in (
    ("doubled-as-for-halves", "mx.concatenate([t, t], axis=-1)", "w[..., 0::2], w[..., 1::2]", True),
    ("doubled-as-for-neighbors", "mx.repeat(t, 2, axis=-1)", "mx.split(w, 2, axis=-1)", False),
):
    known.change(
        name,
        (
            ROTATED,
            f"""
            if self.traditional is {wrong}:
                (cos, cos2), (sin, sin2) = [({places}) for w in [{wide} for t in (cos, sin)]]
                rotated = [first * cos - second * sin, first * sin2 + second * cos2]
            else:
                {ROTATED}
            """,
        ),
        fact=f"`traditional` is {wrong}, but the tables are widened as for {not wrong}: the angles of a pair differ",
        question="For D = 6, which of your table's columns multiply the two features of pair 0?",
    )
known.change(
    "cosines-alone",
    ("first * cos - second * sin, first * sin + second * cos", "first * cos, second * cos"),
    fact="both features of a pair are multiplied by the cosine, and the sine terms are missing",
    question="Rotate (1, 0) by 90 degrees. What is the length of your result?",
)
known.change(
    "end-not-checked",
    (" or row.stop > self.seq_len", ""),
    fact="a slice may end beyond seq_len, and the one position left in the table broadcasts over all tokens",
    question="A table has 9 rows. How many does table[8:11] have, and does that fit three tokens?",
)


@known.accepted("complex-numbers")
class ComplexNumbers:
    """A pair is a complex number, a rotation is a multiplication; positions are looked up one by one."""

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
        rotated = (a + 1j * b) * self.table[mx.array(positions)][:, :, None]
        y = mx.stack([mx.real(rotated), mx.imag(rotated)], axis=-1 if self.traditional else -2)
        return y.reshape(x.shape).astype(x.dtype)


@known.accepted("swapped-halves")
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


@known.accepted("rotation-matrices")
class RotationMatrices:
    """A D x D matrix per position, with the solution's argument checks."""

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
