"""Known programs of task 2.4.4, a matrix times a few vectors."""

import mlx.core as mx
from tests.week2.matrices import by, is_divided, matrix

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.4")


def product(program, seed, tokens, outputs, inputs, group_size, dtype=mx.float32):
    x = normals(seed)(tokens, inputs)
    return by(program)(x, *matrix(seed, outputs, inputs, group_size, dtype), group_size)


@known.probe()
def matmul_one_panel(program):
    return product(program, 1, 12, 8, 64, 32)


@known.probe()
def matmul_whole_panels(program):
    return product(program, 2, 12, 64, 64, 64)


@known.probe()
def matmul_part_of_a_panel(program):
    return product(program, 3, 12, 37, 64, 64)


@known.probe()
def matmul_tokens_left(program):
    return product(program, 4, 13, 8, 64, 64)


@known.probe()
def matmul_few_tokens(program):
    return product(program, 5, 3, 32, 128, 64, mx.bfloat16)


@known.probe()
def matmul_one_token(program):
    return product(program, 6, 1, 8, 64, 64)


REST = """
      rest(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns,
           tokens - t);
"""
ONE_BY_ONE = """
      for (; t < tokens; ++t)
        tile<1>(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns);
"""


@known.probe()
def matmul_many_rows(program):
    return mx.array([is_divided(program, 2)])


known.change(
    "one-core",
    ("pool().run(panels, 1,", "pool().run(panels, panels,"),
    fact="one core computes all rows",
    question="Into how many chunks does `run` cut the rows, and who takes the second one?",
)
known.change(
    "tokens-left-over-lost",
    (REST, "\n\n"),
    fact="tokens that do not fill a tile are left out",
    question="13 tokens in tiles of 6: who computes the last one?",
)
known.change(
    "whole-panels-written",
    ("const int columns = std::min(WIDTH, outputs - first);", "const int columns = WIDTH;"),
    fact="a panel's whole width is written, also by the last one",
    question="Of the last panel, how many columns does y have?",
)
known.change(
    "panels-at-the-first-column",
    (
        "tile<TILE>(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first,",
        "tile<TILE>(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs,",
    ),
    fact="every panel of a tile goes to the first columns of y",
    question="Which column of y does the second panel begin at?",
)
known.change(
    "rest-reads-token-0",
    (REST, ONE_BY_ONE.replace("x + int64_t(t) * inputs", "x")),
    fact="tokens that do not fill a tile are all computed of the first one",
    question="Where does token t begin in x?",
)
known.change(
    "rest-reads-the-first-tokens",
    (REST, REST.replace("x + int64_t(t) * inputs", "x")),
    fact="tokens that do not fill a tile are computed of the first ones",
    question="13 tokens in tiles of 12: where in x does the one begin that is left?",
)
known.change(
    "one-panel-for-all",
    ("std::vector<float> panel(int64_t(inputs) * WIDTH);", ""),
    ("const int panels =", "std::vector<float> panel(int64_t(inputs) * WIDTH);\nconst int panels ="),
    fact="all chunks write to a variable or buffer that they share, such as one panel for all",
    question="Two threads unpack different rows into a panel. Which of them does it hold?",
)
known.change(
    "last-panel-lost",
    ("(outputs + WIDTH - 1) / WIDTH", "outputs / WIDTH"),
    fact="rows that do not fill a panel are left out",
    question="How many panels do 37 rows take?",
)
known.change(
    "first-panel-for-all",
    ("unpack(packed, scales, biases, first, outputs,", "unpack(packed, scales, biases, 0, outputs,"),
    fact="every panel holds the first rows of W",
    question="Which rows does the second panel hold?",
)
known.accepted_change("those that are left one by one", (REST, ONE_BY_ONE))
known.accepted_change("token by token", ("int t = 0;", "int t = 0;\nif (tokens < 0)"), (REST, ONE_BY_ONE))


@known.sized("64 tokens, of 1,024 x 1,024 weights")
def timed(program):
    given = matrix(1, 1024, 1024, 64)
    return lambda: by(program)(normals(1)(64, 1024), *given, 64)
