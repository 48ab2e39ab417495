"""Known programs of task 4.7.2, NTK-aware scaling."""

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.7.2")

known.probe_table(
    fixed=lambda program: program(8, 300, 4),
    fixed_one_more=lambda program: program(6, 50, 2.75),
    longer=lambda program: program(8, 300, 3, 250, 100),
    longer_factor_1=lambda program: program(10, 10000, 1, 470, 100),
    shorter=lambda program: program(8, 300, 4, 90, 100),
    much_shorter=lambda program: program(8, 300, 4, 20, 100),
    empty=lambda program: program(8, 300, 4, 0, 100),
    refuses=lambda program: refusals(
        lambda given: program(*given), [(7, 300, 2), (2, 300, 2), (8, 300, 0.5), (8, 300, 2, 100)]
    ),
)

known.not_timed("D/2 numbers, computed once")

EXPONENT = "stretch ** (dims / (dims - 2))"
STRETCH = "max(1.0, factor * length / original_length - (factor - 1))"

known.change(
    "base-times-factor",
    (EXPONENT, "stretch"),
    fact="the base is multiplied by s, without the exponent D / (D - 2)",
    question="The slowest pair's exponent is -(D - 2)/D. By what has its frequency been divided?",
)
known.change(
    "exponent-inverted",
    (EXPONENT, "stretch ** ((dims - 2) / dims)"),
    fact="the exponent is (D - 2) / D: less than 1 instead of more",
    question="The lowest frequency is base ** (-(D - 2)/D). Which power of s divides it by s?",
)
known.change(
    "interpolated-as-well",
    (f"base * {EXPONENT}, 1)", f"base * {EXPONENT}, stretch)"),
    fact="the frequencies of the larger base are divided by s once more",
    question="Which frequency should the first pair have, compared with training?",
)
known.change(
    "interpolated-instead",
    (f"base * {EXPONENT}, 1)", "base, stretch)"),
    fact="all frequencies are divided by s, and the base is unchanged",
    question="How much slower has the first pair become?",
)
known.change(
    "base-divided",
    (f"base * {EXPONENT}", f"base / {EXPONENT}"),
    fact="the base is divided, so the slow pairs become faster",
    question="With a larger base, is base ** (-i/D) larger or smaller?",
)
known.change(
    "never-dynamic",
    (STRETCH, "factor"),
    fact="the factor is used as given, whatever the length",
    question="A sequence fits into the training length. By what should its frequencies be divided?",
)
known.change(
    "factor-forgotten",
    (STRETCH, "max(1.0, length / original_length)"),
    fact="s is length / original_length, without the factor",
    question="With a factor of 3 and a length of 2.5 times the original one, what is 3 * 2.5 - 2?",
)
known.change(
    "nothing-taken-off",
    (STRETCH, "max(1.0, factor * length / original_length)"),
    fact="s is factor * length / original_length, and factor - 1 is not subtracted",
    question="What is s at exactly the training length, and what should it be?",
)
known.change(
    "taken-off-without-brackets",
    (STRETCH, "max(1.0, factor * length / original_length - factor - 1)"),
    fact="factor and 1 are both subtracted: factor - 1 has lost its parentheses",
    question="What is s at exactly the training length, and what should it be?",
)
known.change(
    "factor-within-training",
    ("if length is not None:", "if length is not None and (original_length is None or length > original_length):"),
    fact="s is the factor for sequences within the training length, as if no length were given",
    question="A sequence fits into the training length. By what should its slowest frequency be divided?",
)
known.change(
    "less-than-1",
    (STRETCH, "factor * length / original_length - (factor - 1)"),
    fact="s is below 1, or even negative, for sequences shorter than the training length",
    question="A sequence of 20 tokens with a training length of 100: must its pairs rotate faster than in training?",
)
known.change(
    "whole-numbers",
    (STRETCH, "max(1.0, factor * (length // original_length) - (factor - 1))"),
    fact="length / original_length is rounded down to an integer",
    question="When does scaling start: with the first token too many, or at twice the length?",
)
known.change(
    "at-most-the-factor",
    (STRETCH, "min(factor, max(1.0, factor * length / original_length - (factor - 1)))"),
    fact="s is limited to the factor",
    question="A sequence is seven times the training length, and the factor is 1. What should s be?",
)
known.change(
    "length-0-is-none",
    ("if length is not None:", "if length:"),
    fact="a length of 0 is treated as no length, so the factor is fixed",
    question="What is `if length:` for 0, and what should s be before the first token?",
)
known.change(
    "a-single-pair",
    ("if dims < 4", "if dims < 2"),
    fact="a single pair is accepted, and D - 2 = 0 is divided by",
    question="With D = 2, which pair is the fastest, and which the slowest?",
)
known.together("factor-within-training", "at-most-the-factor", makes="never-dynamic")


@known.accepted("each frequency by itself")
def pace_by_pace(dims, base, factor, length=None, original_length=None):
    if dims % 2 or dims < 4 or factor < 1 or (length is not None and original_length is None):
        raise ValueError("dims, factor or original_length")
    if length is None:
        s = factor
    elif length <= original_length:
        s = 1
    else:
        s = 1 + factor * (length - original_length) / original_length
    pairs = range(dims // 2)
    return mx.array([base ** (-2 * i / dims) * s ** (-2 * i / (dims - 2)) for i in pairs], dtype=mx.float32)


@known.accepted("a base by logarithms")
def by_logarithms(dims, base, factor, length=None, original_length=None):
    if dims % 2 or dims <= 2 or factor < 1:
        raise ValueError("dims or factor")
    s = mx.array(float(factor))
    if length is not None:
        if original_length is None:
            raise ValueError("original_length")
        s = mx.maximum(1.0, mx.array(factor * length / original_length - (factor - 1)))
    ln = mx.log(mx.array(float(base))) + dims / (dims - 2) * mx.log(s)
    return mx.exp(-2 * mx.arange(dims // 2) / dims * ln)
