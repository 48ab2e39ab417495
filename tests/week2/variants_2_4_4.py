"""Known programs of task 2.4.4, a matrix times a few vectors."""

import mlx.core as mx
from tests.week2.matrices import is_divided, product, timed

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.4")


known.probe_table(
    one_panel=lambda program: product(program, 1, 12, 8, 64, 32),
    whole_panels=lambda program: product(program, 2, 12, 64, 64, 64),
    part_of_a_panel=lambda program: product(program, 3, 12, 37, 64, 64),
    tokens_left=lambda program: product(program, 4, 13, 8, 64, 64),
    few_tokens=lambda program: product(program, 5, 3, 32, 128, 64, dtype=mx.bfloat16),
    one_token=lambda program: product(program, 6, 1, 8, 64, 64),
    many_rows=lambda program: mx.array([is_divided(program, 2)]),
)


REST = """
      rest(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns,
           tokens - t);
"""
ONE_BY_ONE = """
      for (; t < tokens; ++t)
        tile<1>(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns);
"""


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
    (", y + int64_t(t) * outputs + first, outputs, columns);", ", y + int64_t(t) * outputs, outputs, columns);"),
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


known.sized("64 tokens, of 1,024 x 1,024 weights")(timed(64, 1024, 1024))
