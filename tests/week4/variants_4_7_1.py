"""Known programs of task 4.7.1, position interpolation."""

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.7.1")

known.probe_table(
    few=lambda program: program(6, 300, 4),
    no_whole_number=lambda program: program(8, 50, 2.75),
    factor_1=lambda program: program(10, 1000000.0, 1),
    refuses=lambda program: refusals(lambda sizes: program(sizes[0], 300, sizes[1]), [(7, 2), (8, 0.5)]),
)

known.not_timed("D/2 numbers, computed once")

POWER = "mx.power(base, -2.0 * pair / dims) / factor"

known.change(
    "faster-instead-of-slower",
    (POWER, "mx.power(base, -2.0 * pair / dims) * factor"),
    fact="the frequencies are multiplied by the factor instead of divided",
    question="Position 1,000 should look like position 500 in training. Should the pairs rotate more slowly?",
)
known.change(
    "factor-ignored",
    (POWER, "mx.power(base, -2.0 * pair / dims)"),
    fact="`factor` is ignored",
    question="Where do you use `factor`?",
)
known.change(
    "base-times-factor",
    (POWER, "mx.power(base * factor, -2.0 * pair / dims)"),
    fact="the base is multiplied by the factor, so pair 0 keeps its frequency",
    question="All positions are divided by the factor. Which pair does not change?",
)
known.change(
    "factor-in-the-exponent",
    (POWER, "mx.power(base, -2.0 * pair / (dims * factor))"),
    fact="the exponent is divided by the factor",
    question="Is base to the power of x/4 a quarter of base to the power of x?",
)
known.change(
    "square-root",
    (POWER, "mx.power(base, -2.0 * pair / dims) * factor**-0.5"),
    fact="the frequencies are divided by the square root of the factor",
    question="By how much must positions shrink so that a sequence of four times the length fits?",
)
known.change(
    "whole-factor",
    (POWER, "mx.power(base, -2.0 * pair / dims) / int(factor)"),
    fact="the factor is truncated to an integer",
    question="1,408 tokens must fit into 512 positions. What is the factor?",
)
known.change(
    "wavelengths",
    (POWER, "factor * mx.power(base, 2.0 * pair / dims)"),
    fact="the result holds the inverses of the frequencies",
    question="By how many radians does the second pair rotate per position, and is it more than the first?",
)
known.change(
    "exponent-i-over-D",
    ("-2.0 * pair", "-pair"),
    fact="the exponent is -i/D instead of -2i/D",
    question="Pairs are numbered 0 to D/2 - 1. How close to 1/base should the last one's frequency be?",
)
known.change(
    "last-exponent-1",
    (POWER, "mx.power(base, -mx.linspace(0, 1, dims // 2)) / factor"),
    fact="the exponents run from 0 to -1 in D/2 even steps, so the last pair's exponent is -1 instead of -(D - 2)/D",
    question="With D = 8, which four exponents does the formula give?",
)
known.change(
    "pairs-from-1",
    ("mx.arange(dims // 2, dtype=mx.float32)", "mx.arange(1, dims // 2 + 1, dtype=mx.float32)"),
    fact="pairs are numbered from 1 instead of 0",
    question="With a factor of 1, what is the frequency of the first pair?",
)
known.change(
    "first-pair-kept",
    (POWER, "mx.where(pair == 0, 1.0, mx.power(base, -2.0 * pair / dims) / factor)"),
    fact="the first pair keeps its frequency, and all others are divided",
    question="All positions are divided by the factor. Which pair does not change?",
)
known.change(
    "slower-pair-by-pair",
    (POWER, "mx.power(base, -2.0 * pair / dims) * mx.power(factor, -2.0 * pair / (dims - 2 + (dims == 2)))"),
    fact="the divisor grows from 1 at the first pair to the factor at the last",
    question="That is task 4.7.2. What does dividing the position do to the first pair?",
)
known.change(
    "twice-as-many",
    (POWER, "mx.tile(mx.power(base, -2.0 * pair / dims) / factor, 2)"),
    fact="every frequency is listed twice, once per feature",
    question="How many frequencies does a pair of features need?",
)
known.change(
    "half-a-dtype",
    (POWER, "(mx.power(base, -2.0 * pair / dims) / factor).astype(mx.float16)"),
    fact="the frequencies are stored in float16",
    question="At position 4,000, how far off is an angle if its frequency has three digits?",
)
known.change(
    "any-factor",
    ("factor < 1", "False"),
    fact="a factor below 1 is accepted",
    question="What would a factor of 0.5 do to the frequencies?",
)


@known.accepted("positions are divided")
def by_positions(dims, base, factor):
    if dims % 2 or factor < 1:
        raise ValueError("dims or factor")
    position = mx.array(1.0) / factor
    return position * mx.exp(-mx.arange(0, dims, 2) / dims * mx.log(mx.array(float(base))))


@known.accepted("in Python")
def in_python(dims, base, factor):
    if dims % 2 != 0 or not factor >= 1:
        raise ValueError("dims or factor")
    return mx.array([1 / (factor * base ** (i / dims)) for i in range(0, dims, 2)], dtype=mx.float32)
