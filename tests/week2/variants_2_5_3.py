"""Reference variants of task 2.5.3, RoPE as a kernel."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import moved
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.5.3")
NUMBER = "const uint number = thread_position_in_grid.x, vector = number / pairs, pair = number % pairs;"


known.probe_table(
    several_of_all=lambda program: program(normals(1)(2, 3, 5, 8), 7, 1000.0),
    from_the_beginning=lambda program: program(normals(2)(2, 4, 3, 6), 0, 100.0),
    one_row=lambda program: program(normals(3)(1, 4, 2, 6), 2, 100.0),
    full_threadgroups=lambda program: program(normals(4)(2, 16, 4, 4), 1, 100.0),
)
known.probe_table(mx.float16, narrow=lambda program: program(normals(5, mx.float16)(2, 3, 2, 8), 1, 1000.0))


def nearly_cancelled(program):
    """Return first features that are 0 but for the rounding of x: what float16 steps add is as large."""
    angles = mx.arange(1, 17)
    x = 1.3 * mx.stack([mx.sin(angles), mx.cos(angles)], axis=-1)
    x = x.astype(mx.float16).reshape(1, 16, 1, 2)
    return program(x, 1, 100.0)[..., 0]


known.probe_table(mx.float16, nearly_cancelled=nearly_cancelled)


@known.probe()
def rope_moves(program):
    x = normals(6)(2, 16, 4, 32)
    return moved(program, x, 0, 10000.0, enough=2 * x.nbytes)


known.change(
    "no-look",
    ("if (number < x_shape[0] * length * heads * pairs)", "if (true)"),
    fact="a thread past the last pair rotates a pair, too",
    question="With 90 pairs and 256 threads, what do threads 89, 90 and 100 do?",
)
known.change(
    "unsigned-negated",
    ("-metal::log2(base[0]) * pair / pairs", "metal::log2(base[0]) * -pair / pairs"),
    fact="the unsigned `pair` is negated, so it wraps around to about four billion",
    question="What is -pair for a uint pair = 1?",
)
known.change(
    "first-feature-overwritten",
    ("T(first * s + second * c)", "T(float(out[at]) * s + second * c)"),
    fact="the second feature is computed from the already rotated first one",
    question="What does out[at] hold when the second feature is computed?",
)
known.change(
    "neighbors-paired",
    ("const uint at = vector * 2 * pairs + pair;", "const uint at = vector * 2 * pairs + 2 * pair;"),
    ("float(x[at + pairs])", "float(x[at + 1])"),
    ("out[at + pairs]", "out[at + 1]"),
    fact="features 2i and 2i + 1 are paired",
    question="With D = 12, which feature is rotated together with feature 0?",
)
known.change(
    "no-offset",
    ("offset[0] + vector", "vector"),
    fact="the first token is at position 0, and offset is ignored",
    question="After 20 cached tokens, what is the position of the next one?",
)
known.change(
    "rotated-backwards",
    ("first * c - second * s", "first * c + second * s"),
    ("first * s + second * c", "second * c - first * s"),
    fact="every pair is rotated in the opposite direction",
    question="Where is the pair (1, 0) after a rotation by 90 degrees: at (0, 1), or at (0, -1)?",
)
known.change(
    "mirrored",
    ("first * c - second * s", "first * c + second * s"),
    fact="the first feature of a pair becomes a * cos + b * sin",
    question="What is the sign of the second feature in the new first feature?",
)
known.change(
    "rows-go-on",
    (" % length;", ";"),
    fact="positions continue from row to row",
    question="With 6 tokens in each row, what is the position of the first token of row 1?",
)
known.change(
    "heads-for-tokens",
    ("vector / heads % length", "vector % length"),
    fact="positions count vectors as if a token had only one head",
    question="Tokens have 4 heads. How many vectors apart are the same heads of token 0 and token 1?",
)
known.change(
    "half-the-pace",
    ("* pair / pairs)", "* pair / (2 * pairs))"),
    fact="the exponent of pair i is -i / D",
    question="How close to 1 should the exponent of the last pair be?",
)
known.change(
    "whole-numbers-divided",
    ("-metal::log2(base[0]) * pair / pairs", "-metal::log2(base[0]) * (pair / pairs)"),
    fact="all pairs rotate with the same frequency",
    question="What is 3 / 4 in Metal if both are integers?",
)
known.change(
    "pairs-far-apart",
    (
        NUMBER,
        "const uint vectors = x_shape[0] * length * heads, number = thread_position_in_grid.x;\n"
        "const uint vector = number % vectors, pair = number / vectors;",
    ),
    fact="adjacent threads have the same pair of different heads",
    question="Which numbers do 32 threads read together, and how many 64-byte lines is that?",
)
known.change(
    "cosines-in-T",
    (
        "const float c = metal::cos(angle), s = metal::sin(angle);",
        "const T c = T(metal::cos(angle)), s = T(metal::sin(angle));",
    ),
    ("T(first * c - second * s)", "T(first * float(c) - second * float(s))"),
    ("T(first * s + second * c)", "T(first * float(s) + second * float(c))"),
    fact="cos and sin are rounded to T before x is multiplied by them",
    question="What is the dtype of your cos and sin for a float16 x?",
)
known.change(
    "rotated-in-T",
    (
        "const float c = metal::cos(angle), s = metal::sin(angle);",
        "const T c = T(metal::cos(angle)), s = T(metal::sin(angle));",
    ),
    (
        "const float first = float(x[at]), second = float(x[at + pairs]);",
        "const T first = x[at], second = x[at + pairs];",
    ),
    ("T(first * c - second * s)", "T(T(first * c) - T(second * s))"),
    ("T(first * s + second * c)", "T(T(first * s) + T(second * c))"),
    fact="the products are rounded to T before they are added",
    question="For a float16 x, what is the dtype of each product in your code?",
)
known.accepted_change(
    "early return",
    ("(number < x_shape[0] * length * heads * pairs) {", "(number >= x_shape[0] * length * heads * pairs) return;\n{"),
)
known.accepted_change(
    "a logarithm to e",
    ("metal::exp2(-metal::log2(base[0]) * pair / pairs)", "metal::exp(-metal::log(base[0]) * float(pair) / pairs)"),
)
known.not_timed("simulated time says nothing about a GPU")
