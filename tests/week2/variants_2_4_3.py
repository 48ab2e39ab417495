"""Reference variants of task 2.4.3, multithreaded matvec."""

import mlx.core as mx
from tests.week2.matrices import by, is_divided, matrix, product, timed

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.3")


known.probe_table(
    one_row=lambda program: product(program, 7, 1, 64, 64),
    few_rows=lambda program: product(program, 1, 5, 192, 64),
    one_chunk=lambda program: product(program, 2, 16, 64, 32),
    whole_chunks=lambda program: product(program, 3, 64, 64, 64),
    and_one=lambda program: product(program, 4, 33, 64, 64),
    narrow_scales=lambda program: product(program, 5, 16, 128, 64, dtype=mx.float16),
    many_rows=lambda program: mx.array([is_divided(program)]),
)


@known.probe()
def threads_no_scales(program):
    x, (q, scales, biases) = normals(6)(64), matrix(6, 16, 64, 64)
    return by(program)(x, q, mx.zeros_like(scales), biases, 64)


known.change(
    "one-core",
    ("pool().run(outputs, chunk,", "pool().run(outputs, outputs,"),
    fact="one core computes all rows",
    question="How many chunks does `run` split the rows into, and which thread gets the second one?",
)
known.change(
    "last-chunk-lost",
    ("pool().run(outputs, chunk,", "pool().run(outputs / chunk * chunk, chunk,"),
    fact="the rows after the last whole chunk are not computed",
    question="33 rows in chunks of 16: which call computes row 32?",
)
known.change(
    "no-least-chunk",
    ("std::max(16, outputs / (4 * pool().threads()))", "outputs / 32"),
    fact="a chunk of a small matrix has 0 rows",
    question="What is 17 / 32 in integer division?",
)
known.change(
    "a-share-for-each-thread",
    ("std::max(16, outputs / (4 * pool().threads()))", "outputs / pool().threads()"),
    fact="a chunk has 0 rows if there are more threads than rows",
    question="What is 1 / 2 in integer division?",
)
known.change(
    "from-the-first-row",
    ("y, first, last,", "y, 0, last,"),
    fact="every chunk writes row 0 of y, not only the first one",
    question="Which row of y does the second chunk write first, and which chunk has written it already?",
)
known.change(
    "to-the-last-row",
    ("y, first, last,", "y, first, outputs,"),
    fact="a chunk writes past its end, into rows of the next one",
    question="Which row of y does the first chunk write last, and which other chunk writes it?",
)
known.change(
    "last-as-a-count",
    ("y, first, last,", "y, first, first + last,"),
    fact="the body's second argument is taken for a number of rows",
    question="`run` calls body(16, 17). How many rows are that, and which is the last one?",
)
known.change(
    "scales-not-moved",
    (
        "rows(arranged, packed, scales, biases, y, first, last,",
        "rows(arranged, packed + int64_t(first) * (inputs / PER_WORD), scales, biases, y + first, 0, last - first,",
    ),
    fact="each chunk gets its own part of packed and y, but the scales and biases of the first rows",
    question="`rows` begins at row 0 of what it is given. Whose scales are in row 0 for the second chunk?",
)
known.change(
    "one-buffer-for-all",
    ("const int chunk", "std::vector<float> some(outputs);\nconst int chunk"),
    (
        "rows(arranged, packed, scales, biases, y, first, last, inputs, group_size, scale_type);",
        "rows(arranged, packed, scales, biases, some.data() - first, first, last, inputs, group_size, scale_type);\n"
        "for (int o = first; o < last; ++o) y[o] = some[o - first];",
    ),
    fact="all chunks write to a shared variable or buffer other than y",
    question="Two threads write its first element. Which value does the next line of code read?",
)
known.change(
    "scales-taken-for-float32",
    ("inputs, group_size, scale_type);", "inputs, group_size, 0);"),
    fact="scales and biases are read as float32, whatever their type",
    question="What does `scale_type` mean, and which function needs it?",
)
known.change(
    "no-biases",
    ("pool().run", "Arranged without = arranged;\nfor (float& sum : without.sums) sum = 0;\npool().run"),
    ("rows(arranged,", "rows(without,"),
    fact="the biases are multiplied by sums of x that are 0",
    question="What are the sums in `Arranged` used for?",
)
known.written("in chunks of 16", ("std::max(16, outputs / (4 * pool().threads()))", "16"))
known.accepted_change(
    "x arranged by each chunk",
    ("const Arranged arranged(x, inputs, group_size);", ""),
    ("rows(arranged,", "rows(Arranged(x, inputs, group_size),"),
)
known.accepted_change("chunks of one row", ("std::max(16, outputs / (4 * pool().threads()))", "1"))


known.sized("of 4,096 x 2,048 weights")(timed(4096, 2048))
