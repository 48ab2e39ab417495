"""Known programs of task 4.7.4, RoPE with given frequencies."""

import mlx.core as mx
import numpy as np
from tiny_llm_solution.long_context.rope import ScaledRoPE

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.7.4")

PACES = (1.0, 0.45, 0.17, 0.06, 0.011)


def by_length(length):
    """Slower with every position after the sixth."""
    return mx.array(PACES) * (6 / max(6, length))


def by_length_again(program):
    layer = program(10, by_length)
    return layer(tokens(30), slice(6, 9)), layer(tokens(30), slice(30, 33)), layer(tokens(30))


def tokens(seed, dtype=mx.float32, batch=2, heads=4):
    return normals(seed, dtype)(batch, 3, heads, 10)


# each call has its own x, because a program may write to it

known.probe_table(
    from_0=lambda program: tuple(program(10, mx.array(PACES), 1.0, pairing)(tokens(21)) for pairing in (False, True)),
    from_4=lambda program: tuple(
        program(10, mx.array(PACES), 1.0, pairing)(tokens(22), slice(4, 7)) for pairing in (False, True)
    ),
    a_number=lambda program: program(10, mx.array(PACES))(tokens(29), 5),
    rows_apart=lambda program: program(10, mx.array(PACES))(
        tokens(23, batch=3), [slice(5, 8), slice(2, 5), slice(6, 9)]
    ),
    sharper=lambda program: program(10, mx.array(PACES), 1.4)(tokens(24), slice(4, 7)),
    by_length=lambda program: program(10, by_length)(tokens(25), slice(9, 12)),
    by_each_rows_length=lambda program: program(10, by_length)(tokens(26), [slice(17, 20), slice(7, 10)]),
    as_many_heads_as_tokens=lambda program: program(10, mx.array(PACES))(tokens(31, heads=3)),
    by_length_again=by_length_again,
    refuses_offsets=lambda program: refusals(
        lambda offset: program(10, mx.array(PACES))(tokens(33), offset),
        ([], [slice(0, 3)], [slice(0, 3)] * 2, slice(-3, 0), -1, 0),
    ),
    refuses_frequencies=lambda program: refusals(
        lambda shape: program(10, mx.ones(shape)), ((5,), (4,), (1, 5), (5, 1), (5, 5))
    ),
)
known.probe_table(mx.float16, half=lambda program: program(10, mx.array(PACES))(tokens(27, mx.float16), slice(1, 4)))
known.probe_table(
    mx.bfloat16, far=lambda program: program(10, mx.array(PACES))(tokens(28, mx.bfloat16), slice(700, 703))
)


@known.probe()
def half_rounded_once(program):
    """Return whether a result is further from the exact one than a single rounding."""
    x = tokens(32, mx.float16, batch=8, heads=16)
    exact = ScaledRoPE(10, mx.array(PACES))(x.astype(mx.float32), slice(1, 4))
    last_digit = 2.0 ** (mx.floor(mx.log2(mx.abs(exact))) - 10)
    y = program(10, mx.array(PACES))(x, slice(1, 4)).astype(mx.float32)
    return mx.max(mx.abs(y - exact) / last_digit) > 0.75


@known.sized("512 tokens, 16 heads, D 128, float32")
def sized(program):
    x, rope = normals(1)(1, 512, 16, 128), program(128, mx.array(0.9 ** np.arange(64, dtype=np.float32)))
    return lambda: rope(x, 1000)


COS = "mx.cos(angles) * self.attention_factor"
SIN = "mx.sin(angles) * self.attention_factor"
FREQUENCIES = "frequencies = self.frequencies if isinstance(self.frequencies, mx.array) else self.frequencies(row.stop)"
ANGLES = "mx.arange(row.start, row.stop, dtype=mx.float32)[:, None] * frequencies"

known.change(
    "attention-factor-ignored",
    (COS, "mx.cos(angles)"),
    (SIN, "mx.sin(angles)"),
    fact="the attention factor is ignored",
    question="Where do you use `attention_factor`?",
)
known.change(
    "attention-factor-on-cosines",
    (SIN, "mx.sin(angles)"),
    fact="only the cosines are multiplied by the attention factor, not the sines",
    question="How long should a rotated vector be, compared with x?",
)
known.change(
    "attention-factor-twice",
    (COS, "mx.cos(angles) * self.attention_factor**2"),
    (SIN, "mx.sin(angles) * self.attention_factor**2"),
    fact="the attention factor is applied twice",
    question="A query and a key are each multiplied once. How often does the factor enter their score?",
)
known.change(
    "attention-factor-divides",
    (COS, "mx.cos(angles) / self.attention_factor"),
    (SIN, "mx.sin(angles) / self.attention_factor"),
    fact="the vectors are divided by the attention factor",
    question="With a factor of 1.4, should a rotated vector be longer or shorter than x?",
)
known.change(
    "attention-factor-on-angles",
    (COS, "mx.cos(angles * self.attention_factor)"),
    (SIN, "mx.sin(angles * self.attention_factor)"),
    fact="the attention factor multiplies the angles, so the vectors rotate further",
    question="Does the factor change how far a vector rotates, or how long it is?",
)
known.change(
    "frequencies-taken-for-inverses",
    (ANGLES, "mx.arange(row.start, row.stop, dtype=mx.float32)[:, None] / frequencies"),
    fact="positions are divided by the frequencies, as if these were inverted",
    question="By how much does a pair with a frequency of 0.06 rotate per position?",
)
known.change(
    "length-of-the-call",
    (FREQUENCIES, FREQUENCIES.replace("row.stop)", "row.stop - row.start)")),
    fact="the length passed on is that of this call, not of all positions so far",
    question="One token comes after 4,000 others. How long is the sequence?",
)
known.change(
    "length-at-the-start",
    (FREQUENCIES, FREQUENCIES.replace("row.stop)", "row.start)")),
    fact="the length passed on is the number of positions before this call",
    question="The first call has a prompt of 4,000 tokens. How long is the sequence after it?",
)
known.change(
    "last-position-for-length",
    (FREQUENCIES, FREQUENCIES.replace("row.stop)", "row.stop - 1)")),
    fact="the length passed on is the last position, one less than the number of positions",
    question="The last token is at position 11. How many positions are there?",
)
known.change(
    "longest-row-for-all",
    ("self._angles(row) for row in rows", "self._angles(row, max(r.stop for r in rows)) for row in rows"),
    ("def _angles(self, row: slice)", "def _angles(self, row: slice, longest: int)"),
    (FREQUENCIES, FREQUENCIES.replace("row.stop)", "longest)")),
    fact="all rows use the frequencies of the longest one",
    question="A short sequence shares a batch with a long one. Do its outputs change when the long one ends?",
)
known.change(
    "asked-once",
    (
        FREQUENCIES,
        "if not isinstance(self.frequencies, mx.array):\n"
        "    self.frequencies = self.frequencies(row.stop)\n"
        "frequencies = self.frequencies",
    ),
    fact="the frequencies of the first length are cached for all later ones",
    question="The sequence has grown since the first call. Where do you compute its new frequencies?",
)
known.change(
    "offset-ignored",
    ("first = 0 if offset is None else offset", "first = 0"),
    fact="every sequence starts at position 0, whatever `offset` is",
    question="A later token comes alone. How does your code know its position?",
)
known.change(
    "no-slices-taken-for-none",
    ("first = 0 if offset is None else offset", "first = offset or 0"),
    fact="an empty list of slices is taken for no offset",
    question="`offset` is [] and x has two rows. Is `not offset` true, and what should happen?",
)
known.change(
    "one-axis-compared",
    ("frequencies.shape != (dims // 2,)", "frequencies.shape[-1] != dims // 2"),
    fact="only the last axis of the frequencies is compared with D/2",
    question="D is 12. Does an array of 2 x 6 frequencies have the shape that the docstring requires?",
)
known.change(
    "first-row-for-all",
    ("rows = one if isinstance(one, list) else [one]", "rows = one[:1] * batch if isinstance(one, list) else [one]"),
    fact="all rows are rotated by the first row's slice",
    question="Two requests share a batch, one at position 17 and one at position 7. By what is row 1 rotated?",
)
known.change(
    "pairings-exchanged",
    ("= attention_factor, traditional", "= attention_factor, not traditional"),
    fact="traditional is inverted: True pairs the halves, False adjacent features",
    question="For D = 10 and traditional=False, which feature is the partner of feature 0?",
)
known.change(
    "halves-for-both-pairings",
    ("mx.stack(rotated, axis=-1).flatten(-2) if self.traditional else mx.concatenate", "mx.concatenate"),
    fact="the rotated pairs are returned as two halves, although traditional=True asks for their places in x",
    question="Features 0 and 1 are a pair. At which places of the result are they after the rotation?",
)
ROTATED = "y = mx.stack(rotated, axis=-1).flatten(-2) if self.traditional else mx.concatenate(rotated, axis=-1)"
HALVES = """y = mx.concatenate(rotated, axis=-1)
if self.traditional:
    partners = {}
    y = x * mx.concatenate([cos, cos], axis=-1) + partners * mx.concatenate([sin, sin], axis=-1)"""
known.change(
    "angles-in-halves",
    (ROTATED, HALVES.format("mx.stack([-second, first_of_pair], axis=-1).flatten(-2)")),
    fact="features i and i + D/2 are rotated by one angle, although traditional=True pairs adjacent features",
    question="D is 4, and the pairs' angles are a and b. Which features does traditional=True rotate by a?",
)
known.change(
    "partners-and-angles-in-halves",
    (ROTATED, HALVES.format("mx.concatenate([-second, first_of_pair], axis=-1)")),
    fact="the features have angles and partners in two halves, although traditional=True pairs adjacent ones",
    question="D is 6 and traditional is True. What is feature 1 multiplied by, and what is added to the product?",
)
known.change(
    "rotated-backwards",
    (SIN, "-mx.sin(angles) * self.attention_factor"),
    fact="every pair is rotated by minus its angle",
    question="(1, 0) rotated by a quarter turn is (0, 1). What does your code return?",
)
known.change(
    "angle-by-head",
    (
        "self._angles(row) for row in rows])[:, :, None, :]",
        "self._angles(slice(row.start, row.start + x.shape[2])) for row in rows])[:, None]",
    ),
    fact="the angle depends on the head's index instead of the token's position",
    question="x is N x L x H x D. Along which of its axes do positions run?",
)
known.change(
    "angles-in-the-input's-dtype",
    ("for row in rows])[:, :, None, :]", "for row in rows])[:, :, None, :].astype(x.dtype)"),
    fact="the angles are rounded to x's dtype before their sines and cosines are taken",
    question="Which numbers around 700 can bfloat16 represent?",
)
known.change(
    "rotation-in-the-input's-dtype",
    (COS, f"({COS}).astype(x.dtype)"),
    (SIN, f"({SIN}).astype(x.dtype)"),
    fact="the cosines and sines are rounded to x's dtype, in which the rotation is then computed",
    question="Which of the numbers that multiply x have the dtype float32?",
)
known.change(
    "float32-result",
    ("y.astype(x.dtype)", "y"),
    fact="the result is float32 although x is not",
    question="float16 times float32 is float32. Where do you convert it back?",
)


@known.accepted("complex numbers")
class ByComplexNumbers:
    def __init__(self, dims, frequencies, attention_factor=1.0, traditional=False):
        if dims % 2 or (not callable(frequencies) and frequencies.shape != (dims // 2,)):
            raise ValueError("dims or frequencies")
        self.dims, self.traditional, self.factor = dims, traditional, attention_factor
        self.at_length = frequencies if callable(frequencies) else lambda length: frequencies

    def __call__(self, x, offset=None):
        batch, length, _, dims = x.shape
        if offset is None:
            offset = 0
        if isinstance(offset, int):
            offset = slice(offset, offset + length)
        rows = offset if isinstance(offset, list) else [offset] * batch
        if dims != self.dims or len(rows) != batch:
            raise ValueError("shape")
        if any(row.start < 0 or row.stop - row.start != length for row in rows):
            raise ValueError("positions")
        angles = mx.stack([mx.outer(mx.arange(row.start, row.stop), self.at_length(row.stop)) for row in rows])
        both = mx.unflatten(x.astype(mx.float32), -1, (dims // 2, 2) if self.traditional else (2, dims // 2))
        a, b = (both[..., 0], both[..., 1]) if self.traditional else (both[..., 0, :], both[..., 1, :])
        turned = (a + 1j * b) * (self.factor * (mx.cos(angles) + 1j * mx.sin(angles)))[:, :, None]
        y = mx.stack([mx.real(turned), mx.imag(turned)], axis=-1 if self.traditional else -2)
        return y.reshape(x.shape).astype(x.dtype)


@known.accepted("row by row, with the solution's errors")
class RowByRow:
    def __init__(self, dims, frequencies, attention_factor=1.0, traditional=False):
        self.solution = ScaledRoPE(dims, frequencies, 1.0, traditional)
        self.factor = attention_factor

    def __call__(self, x, offset=None):
        wide = x.astype(mx.float32) * self.factor
        if not isinstance(offset, list) or len(offset) != len(x):
            return self.solution(wide, offset).astype(x.dtype)
        rows = [self.solution(wide[n : n + 1], row) for n, row in enumerate(offset)]
        return mx.concatenate(rows).astype(x.dtype)
