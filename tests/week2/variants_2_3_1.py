"""Reference variants of task 2.3.1, pack."""

import mlx.core as mx
import numpy as np
from tests.week2.packed import in_bytes

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.1")


def numbers(seed, bits, *shape, dtype=mx.uint32):
    return mx.array(np.random.default_rng(seed).integers(0, 2**bits, shape).astype(np.uint32)).astype(dtype)


def words(program, values, bits):
    found = program(values, bits)
    return in_bytes(found.astype(mx.uint32)) if found.dtype in (mx.uint32, mx.int32) else found


known.probe_table(
    four=lambda program: words(program, numbers(1, 4, 3, 16), 4),
    eight=lambda program: words(program, numbers(2, 8, 3, 16), 8),
    deep=lambda program: words(program, numbers(3, 4, 2, 3, 8), 4),
    bytes=lambda program: words(program, numbers(4, 4, 2, 16, dtype=mx.uint8), 4),
    dtype=lambda program: program(mx.zeros(8, mx.int32), 4),
    refuses=lambda program: refusals(
        lambda case: program(mx.zeros(case[0], mx.uint32), case[1]),
        [(64, 2), (66, 3), (64, 16), (9, 4), (4, 4), (6, 8)],
    ),
    eight_of_nine=lambda program: program(mx.zeros((8, 9), mx.uint32), 4),
    nine=lambda program: program(mx.zeros(9, mx.uint32), 4),
)


@known.sized("4 bits, 1,024 x 1,024")
def sized(program):
    values = numbers(1, 4, 1024, 1024)
    return lambda: program(values, 4)


known.change(
    "first-is-highest",
    ("apart << shifts", "apart << shifts[::-1]"),
    fact="the first number of a word is in its highest bits",
    question="Which bits of the word hold number 0, according to the docstring?",
)
known.change(
    "bytes-as-written",
    ("<< shifts, axis=-1", "<< (shifts if bits == 8 else mx.array([4, 0, 12, 8, 20, 16, 28, 24], mx.uint32)), axis=-1"),
    fact="the two numbers of each byte are swapped",
    question="Which of the numbers 0 and 1 is in the low half of the first byte?",
)
known.change(
    "every-nth-together",
    (".astype(mx.uint32), -1, (-1, len(shifts))", ".astype(mx.uint32), -1, (len(shifts), -1)).swapaxes(-1, -2"),
    fact="a word holds numbers that are far apart in the row instead of adjacent ones",
    question="Which numbers of the row belong in the first word?",
)  # fmt: skip
known.change(
    "always-a-matrix",
    ("mx.unflatten(values.astype(mx.uint32), -1, (-1, ", "values.astype(mx.uint32).reshape((values.shape[0], -1, "),
    fact="values is handled as a matrix with values.shape[0] rows, however many axes it has",
    question="What is the shape of the words for values of shape 2 x 3 x 8?",
)
known.change(
    "matrices-only",
    ("if values.shape[-1] % len(shifts):", "_, _ = values.shape\nif values.shape[-1] % len(shifts):"),
    fact="anything but a matrix raises, although values may have any number of axes",
    question="What does N.. mean in the docstring's shapes?",
)
known.change(
    "shifted-in-their-own-dtype",
    ("values.astype(mx.uint32)", "values"),
    ("mx.sum(apart << shifts, axis=-1)", "mx.sum(apart << shifts.astype(apart.dtype), axis=-1).astype(mx.uint32)"),
    fact="numbers are shifted in their own dtype, where the high bits overflow",
    question="What remains of an 8-bit number after a left shift by 8?",
)
known.change(
    "always-four-bits",
    ("shifts = _shifts(bits)", "_shifts(bits)\nshifts = _shifts(4)"),
    fact="8-bit numbers are shifted by multiples of 4, so they overlap",
    question="By how many bits are two adjacent 8-bit numbers apart?",
)
known.change(
    "through-float32",
    ("mx.sum(apart << shifts, axis=-1)", "mx.sum(apart * 2.0 ** shifts.astype(mx.float32), axis=-1).astype(mx.uint32)"),
    fact="words are assembled in float32, which cannot represent all of their bits",
    question="How many of the 32 bits of an integer does float32 keep?",
)
known.change(
    "one-place-short",
    ("apart << shifts", "apart << (shifts // bits * (bits - 1))"),
    fact="adjacent numbers in a word overlap by one bit",
    question="Which bits belong to number 1? What is its lowest one?",
)
known.change(
    "largest-only",
    ("mx.sum(apart << shifts, axis=-1)", "mx.max(apart << shifts, axis=-1)"),
    fact="only one of the numbers of a word is kept",
    question="How do you combine eight shifted numbers into one word?",
)
known.change(
    "signed-words",
    ("values.astype(mx.uint32)", "values.astype(mx.int32)"),
    ("apart << shifts", "apart << shifts.astype(mx.int32)"),
    fact="the words are int32, so the last number includes the sign bit",
    question="What is the dtype of the words?",
)
CHECK = "if values.shape[-1] % len(shifts):"
known.change(
    "rest-left-out",
    (CHECK, "values = values[..., : values.shape[-1] // len(shifts) * len(shifts)]\nif False:"),
    fact="numbers that do not fill a word are silently dropped",
    question="What happens to the ninth number, if a word holds eight?",
)
known.change(
    "rest-filled-up",
    (
        CHECK,
        "values = mx.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, -values.shape[-1] % len(shifts))])\nif False:",
    ),
    fact="a word that is not full is padded with zeros",
    question="What does the docstring say about numbers that do not fill whole words?",
)
known.change(
    "any-bits",
    ("_shifts(bits)", "mx.arange(0, 32, bits, dtype=mx.uint32)"),
    fact="bits other than 4 and 8 are accepted",
    question="How many 3-bit numbers fit in a word, and how many bits are left over?",
)
known.change(
    "any-divisor-of-32",
    ("if bits not in (4, 8):", "if bits < 1 or 32 % bits:"),
    fact="every number of bits that divides 32 is accepted",
    question="Which numbers of bits does the docstring allow, and what does your program do with 2 or 16?",
)
known.change(
    "all-values-counted",
    (CHECK, "if values.size % len(shifts):"),
    ('f"{values.shape[-1]} numbers of', 'f"{values.size} numbers of'),
    ("mx.unflatten(values.astype(mx.uint32), -1, (-1, ", "values.astype(mx.uint32).reshape((*values.shape[:-1], -1, "),
    fact="the total number of values is checked instead of the size of the last axis",
    question="Eight rows have nine values each. Do the values of one row fill whole words?",
)


@known.accepted("by-slices")
def by_slices(values, bits=4):
    if bits not in (4, 8):
        raise ValueError(f"{bits} bits")
    many = 32 // bits
    if values.shape[-1] % many:
        raise ValueError(f"{values.shape[-1]} numbers")
    word = mx.zeros((*values.shape[:-1], values.shape[-1] // many), mx.uint32)
    for i in range(many):
        word = word | (values[..., i::many].astype(mx.uint32) << (i * bits))
    return word


@known.accepted("bytes-seen-as-words")
def bytes_seen_as_words(values, bits=4):
    if bits not in (4, 8) or values.shape[-1] * bits % 32:
        raise ValueError(f"{values.shape[-1]} numbers of {bits} bits")
    small = values.astype(mx.uint8)
    if bits == 4:
        small = small[..., 0::2] + small[..., 1::2] * 16
    return mx.contiguous(small).view(mx.uint32)
