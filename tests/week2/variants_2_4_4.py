"""Reference variants of task 2.4.4, quantized matmul."""

import mlx.core as mx
from tests.week2.matrices import is_divided, product, rows_read, timed

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
    many_tokens=lambda program: mx.array(rows_read(program, 26) > 1.5),
    many_tokens_divided=lambda program: mx.array([is_divided(program, 26)]),
    several_tiles=lambda program: product(program, 7, 25, 8, 64, 64),
)


REST = """
      rest(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns,
           tokens - t);
"""
TILE_OF_Y = "y + int64_t(t) * outputs + first, outputs, columns);"
ONE_BY_ONE = """
      for (; t < tokens; ++t)
        tile<1>(x + int64_t(t) * inputs, panel.data(), inputs, y + int64_t(t) * outputs + first, outputs, columns);
"""


known.change(
    "one-core",
    ("pool().run(panels, 1, [&](int begin, int end) {", "{\n  const int begin = 0, end = panels;"),
    ("});", "}"),
    fact="one core computes all rows",
    question="Which rows does a second core compute?",
)
known.change(
    "tokens-divided",
    ("pool().run(panels, 1,", "pool().run(tokens, TILE,"),
    ("first = begin * WIDTH; first < std::min(end * WIDTH, outputs);", "first = 0; first < panels * WIDTH;"),
    ("int t = 0;", "int t = begin;"),
    ("t + TILE <= tokens", "t + TILE <= end"),
    ("tokens - t);", "end - t);"),
    fact="the tokens are divided among the cores, and each core unpacks all rows of W",
    question="How many cores work on 2 tokens, and how often is row 0 of W unpacked for 26?",
)
known.change(
    "tile-number-as-token",
    ("tile<TILE>(x + int64_t(t) * inputs", "tile<TILE>(x + int64_t(t / TILE) * inputs"),
    (TILE_OF_Y, TILE_OF_Y.replace("int64_t(t)", "int64_t(t / TILE)")),
    fact="tile i starts at token i, so tiles overlap",
    question="25 tokens in tiles of 12: which tokens does the second tile hold?",
)
known.change(
    "every-tile-reads-the-first-tokens",
    ("tile<TILE>(x + int64_t(t) * inputs", "tile<TILE>(x"),
    fact="every whole tile is computed from the first tokens of x",
    question="25 tokens in tiles of 12: where in x does the second tile start?",
)
known.change(
    "tokens-left-over-lost",
    (REST, "\n\n"),
    fact="tokens that do not fill a tile are not computed",
    question="13 tokens in tiles of 6: which call computes the last one?",
)
known.change(
    "whole-panels-written",
    ("const int columns = std::min(WIDTH, outputs - first);", "const int columns = WIDTH;"),
    fact="a panel's full width is written, even for the last one",
    question="How many of the last panel's columns does y have?",
)
known.change(
    "panels-at-the-first-column",
    (", y + int64_t(t) * outputs + first, outputs, columns);", ", y + int64_t(t) * outputs, outputs, columns);"),
    fact="every panel of a tile is written to the first columns of y",
    question="At which column of y does the second panel start?",
)
known.change(
    "rest-reads-token-0",
    (REST, ONE_BY_ONE.replace("x + int64_t(t) * inputs", "x")),
    fact="tokens that do not fill a tile are all computed from the first one",
    question="Where does token t start in x?",
)
known.change(
    "rest-reads-the-first-tokens",
    (REST, REST.replace("x + int64_t(t) * inputs", "x")),
    fact="tokens that do not fill a tile are computed from the first tokens of x",
    question="13 tokens in tiles of 12: where in x does the remaining one start?",
)
known.change(
    "rest-written-to-the-first-tokens",
    (REST, REST.replace("y + int64_t(t) * outputs + first", "y + first")),
    fact="tokens that do not fill a tile are written to the rows of the first tokens",
    question="13 tokens in tiles of 12: in which row of y does the result of the remaining one belong?",
)
known.change(
    "last-whole-tile-lost",
    ("t + TILE <= tokens", "t + TILE < tokens"),
    fact="the last tile is not computed if the tokens fill it",
    question="12 tokens in tiles of 12: how often does your loop run, and how many tokens does `rest` accept?",
)
known.change(
    "one-panel-for-all",
    ("std::vector<float> panel(int64_t(inputs) * WIDTH);", ""),
    ("const int panels =", "std::vector<float> panel(int64_t(inputs) * WIDTH);\nconst int panels ="),
    fact="all chunks write to a shared variable or buffer, such as one panel for all",
    question="Two threads unpack different rows into a panel. Which rows does it hold?",
)
known.change(
    "last-tile-starts-earlier",
    ("int t = 0;", ""),
    (
        "for (; t + TILE <= tokens; t += TILE)",
        "for (int u = 0, t = std::min(0, tokens - TILE); u < tokens; u += TILE, t = std::min(u, tokens - TILE))",
    ),
    (REST, "\n\n"),
    fact="the last tile starts early enough to be full, even if there are fewer tokens than a tile holds",
    question="Three tokens in tiles of 12: at which token does your last tile start?",
)
known.change(
    "last-tile-always-whole",
    ("t + TILE <= tokens", "t < tokens"),
    (REST, "\n\n"),
    fact="the last tile has TILE tokens, although fewer may be left",
    question="13 tokens in tiles of 12: which tokens does the second tile hold?",
)
known.change(
    "last-panel-lost",
    ("(outputs + WIDTH - 1) / WIDTH", "outputs / WIDTH"),
    fact="rows that do not fill a panel are not computed",
    question="How many panels do 37 rows take?",
)
known.change(
    "first-panel-for-all",
    ("unpack(packed, scales, biases, first, outputs,", "unpack(packed, scales, biases, 0, outputs,"),
    fact="every panel holds the first rows of W",
    question="Which rows should the second panel hold?",
)
known.change(
    "unpacked-for-each-token",
    (
        "unpack(packed, scales, biases, first, outputs, inputs, group_size, scale_type, panel.data());",
        "for (int again = 0; again < tokens; ++again)\n"
        "  unpack(packed, scales, biases, first, outputs, inputs, group_size, scale_type, panel.data());",
    ),
    fact="the rows of W are unpacked again for several tokens or tiles",
    question="How often does your kernel unpack row 0 of W for 26 tokens?",
)
known.accepted_change("remaining tokens one at a time", (REST, ONE_BY_ONE))
known.accepted_change("one token at a time", ("int t = 0;", "int t = 0;\nif (tokens < 0)"), (REST, ONE_BY_ONE))


known.sized("64 tokens, of 1,024 x 1,024 weights")(timed(64, 1024, 1024))
