"""Reference variants of task 2.3.2, unpack."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.2")


def words(seed, *shape):
    return mx.array(np.random.default_rng(seed).integers(0, 2**32, shape, np.uint32))


known.probe_table(
    four=lambda program: program(words(1, 3, 2), 4),
    eight=lambda program: program(words(2, 3, 2), 8),
    deep=lambda program: program(words(3, 2, 3, 1), 4),
    refuses=lambda program: refusals(lambda bits: program(words(4, 4), bits), (2, 3, 16)),
)


@known.sized("4 bits, 1,024 x 128")
def sized(program):
    packed = words(1, 1024, 128)
    return lambda: program(packed, 4)


known.change(
    "first-is-highest",
    (">> _shifts(bits)", ">> _shifts(bits)[::-1]"),
    fact="the numbers of each word are in reverse order, from its highest bits down",
    question="Which bits of a word hold its first number?",
)
known.change(
    "not-masked",
    ("apart & (2**bits - 1)", "apart"),
    fact="the bits above a number are not masked off",
    question="After a word is shifted right, which of its bits belong to the number?",
)
known.change(
    "always-four-bits-kept",
    ("(2**bits - 1)", "15"),
    fact="only the lower four bits of an 8-bit number are kept",
    question="Which mask keeps 8 bits?",
)
known.change(
    "mask-a-bit-short",
    ("(2**bits - 1)", "(2 ** (bits - 1) - 1)"),
    fact="the highest bit of each number is masked off",
    question="What is the largest number with `bits` bits, and what remains of it under your mask?",
)
known.change(
    "always-four-bits",
    (">> _shifts(bits)", ">> (_shifts(bits) // bits * 4)"),
    fact="8-bit numbers are read every 4 bits",
    question="By how many bits are two adjacent 8-bit numbers apart?",
)
known.change(
    "bytes-as-written",
    (">> _shifts(bits)", ">> (_shifts(bits) ^ (4 if bits == 4 else 0))"),
    fact="the two numbers of each byte are swapped",
    question="Which half of its byte holds the first number of a word?",
)
known.change(
    "through-float32",
    ("packed[..., None] >> _shifts(bits)", "mx.floor(packed[..., None] / 2.0 ** _shifts(bits).astype(mx.float32))"),
    ("apart & (2**bits - 1)", "(apart % 2**bits).astype(mx.uint32)"),
    fact="words are divided in float32, which cannot represent all of their bits",
    question="How many of the 32 bits of a word does float32 keep?",
)
known.change(
    "every-nth-together",
    ("mx.flatten(apart & (2**bits - 1), -2)", "mx.flatten((apart & (2**bits - 1)).swapaxes(-1, -2), -2)"),
    fact="the first numbers of all words come first, then the second ones",
    question="A row has two words. Which number follows the first one of word 0?",
)
known.change(
    "words-kept-apart",
    ("mx.flatten(apart & (2**bits - 1), -2)", "apart & (2**bits - 1)"),
    fact="the words keep a separate axis",
    question="What is the shape of a row of two words after unpacking?",
)
known.change(
    "always-a-matrix",
    ("mx.flatten(apart & (2**bits - 1), -2)", "(apart & (2**bits - 1)).reshape(packed.shape[0], -1)"),
    fact="the result is a matrix with packed.shape[0] rows, however many axes packed has",
    question="What is the shape of the result for words of shape 2 x 3 x 1?",
)
known.change(
    "matrices-only",
    ("apart: ", "_, _ = packed.shape\napart: "),
    fact="anything but a matrix raises, although packed may have any number of axes",
    question="What does N.. mean in the docstring's shapes?",
)
known.change(
    "in-bytes",
    ("mx.flatten(apart & (2**bits - 1), -2)", "mx.flatten(apart & (2**bits - 1), -2).astype(mx.uint8)"),
    fact="the result is uint8",
    question="Which dtype does the docstring specify?",
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


@known.accepted("by-division")
def by_division(packed, bits=4):
    if bits != 4 and bits != 8:
        raise ValueError(f"{bits} bits")
    found = [(packed // (1 << shift)) % (1 << bits) for shift in range(0, 32, bits)]
    return mx.stack(found, axis=-1).reshape(*packed.shape[:-1], -1).astype(mx.uint32)


@known.accepted("words-seen-as-bytes")
def words_seen_as_bytes(packed, bits=4):
    if bits not in (4, 8):
        raise ValueError(f"{bits} bits")
    small = mx.contiguous(packed).view(mx.uint8)
    if bits == 4:
        small = mx.stack([small & 15, small >> 4], axis=-1).flatten(-2)
    return small.astype(mx.uint32)
