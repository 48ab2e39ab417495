"""Reference variants of task 2.6.2, a quantized matrix times several vectors, tile by tile."""

import mlx.core as mx
from tests.week2.matrices import beyond_float16, by, matrix, product

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, costs
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.6.2")


known.probe_table(
    one=lambda program: product(program, 1, 32, 32, 64, 32),
    one_step=lambda program: product(program, 2, 32, 32, 32, 32),
    two_by_two=lambda program: product(program, 3, 64, 64, 64, 64),
    rows_left=lambda program: product(program, 4, 37, 32, 64, 64),
    columns_left=lambda program: product(program, 5, 32, 43, 64, 64),
    # Zero rows, so nothing runs: the other probes tell missing barriers apart.
    none=lambda program: product(program, 7, 0, 32, 64, 64),
)
known.probe_table(
    mx.float16,
    narrow=lambda program: beyond_float16(program, 1),
    # A weight is about 1,024, where float16 has no fractions, and these almost cancel.
    large_biases=lambda program: by(program)(
        mx.array([[1, -1] * 32], mx.float16),
        matrix(8, 8, 64, 64)[0],
        mx.full((8, 1), 0.1, mx.float16),
        mx.full((8, 1), 1024, mx.float16),
        64,
    ),
)


@known.probe()
def tiles_cost(program):
    """Return whether the lines touched or the bytes read are above the limit, and whether there are bank conflicts."""
    found = costs(by(program), normals(6)(32, 64), *matrix(6, 32, 64, 64), 64)
    read, written = 2 * 32 * 5 * LINE, 32 * 32 * 4
    return mx.array(
        [
            found["moved"] > read + written,
            found["read"] > read,
            found["bank_conflicts"] > 0,
        ]
    )


known.change(
    "32-for-33",
    ("threadgroup float weights[32][33];", "threadgroup float weights[32][32];"),
    fact="rows of the tile of W are 32 numbers long, so a whole column is in one bank",
    question="Lane l reads weights[l][i]. How many of 32 lanes can one bank serve at a time?",
)
known.change(
    "weights-from-device-memory",
    (
        "const float weight = weights[lane][i];",
        "const uint o = min(first_output + lane, outputs - 1), w = first + i / 8, g = o * groups + w * groups / words;"
        "\nconst float weight = float(scales[g]) * float(packed[o * words + w] >> (4 * (i % 8)) & 15) "
        "+ float(biases[g]);",
    ),
    fact="weights are unpacked from device memory every time they are used",
    question="A tile has 32 rows. How often is a weight used, and how often does it need to be unpacked?",
)
for name, across in (("successive-inputs-per-lane", 33), ("successive-inputs-per-lane-in-one-bank", 32)):
    known.change(
        name,
        ("threadgroup float rows[32][32];", f"threadgroup float rows[32][{across}];"),
        ("for (uint r = simdgroup; r < 32; r += 4) {", "for (uint i = t % 4 * 8; i < t % 4 * 8 + 8; ++i) {"),
        ("rows[r][lane] = float(x[min(first_row + r, length - 1) * 8 * words + 8 * first + lane]);",
         "rows[t / 4][i] = float(x[min(first_row + t / 4, length - 1) * 8 * words + 8 * first + i]);"),
        fact="a lane loads successive inputs of x, so adjacent lanes read elements that are not adjacent",
        question="In one load of a SIMD-group, which 32 elements of x are read, and how many lines do they occupy?",
    )  # fmt: skip
known.change(
    "weights-in-T",
    ("threadgroup float weights[32][33];", "threadgroup T weights[32][33];"),
    ("= scale * float(q >> (4 * digit) & 15) + bias;", "= T(scale * float(q >> (4 * digit) & 15) + bias);"),
    ("const float weight = weights[lane][i];", "const float weight = float(weights[lane][i]);"),
    fact="the unpacked weights are rounded to the dtype of x",
    question="A weight is 1024.3, and x is float16. Which number is in your tile?",
)
known.change(
    "groups-of-64",
    ("group = mine * groups + word * groups / words", "group = mine * groups + word / 8"),
    fact="every group is taken to have 64 weights",
    question="With 96 inputs and 3 groups, how many words have the same scale?",
)
known.change(
    "no-look-at-the-rows-of-x",
    ("min(first_row + r, length - 1)", "(first_row + r)"),
    fact="32 rows of x are read for every tile, even past the last row",
    question="x has 37 rows. Which row does the second tile's last SIMD-group read?",
)
known.change(
    "columns-that-y-has-not",
    ("row < length && output < outputs", "row < length"),
    fact="all 32 columns of a tile are written, even past the last column of y",
    question="y has 43 columns. Which element of y is at column 43 of row 0?",
)
known.change(
    "simdgroup-barrier",
    ("threadgroup_barrier(mem_flags::mem_threadgroup);\n\n", "simdgroup_barrier(mem_flags::mem_threadgroup);\n\n"),
    fact="the barrier before the tiles are used covers only one SIMD-group",
    question="Which SIMD-group has unpacked row 31 of the tile of W, and which ones use it?",
)
known.change(
    "tiles-replaced-too-soon",
    ("  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous tiles are in use\n", ""),
    fact="the next tiles overwrite the previous ones while other SIMD-groups may still read them",
    question="SIMD-group 0 has finished its products. May it write its part of the next tiles now?",
)
known.change(
    "columns-that-are-not-there-return",
    ("float sums[8] = {};", "if (first_output + lane >= outputs) return;\nfloat sums[8] = {};"),
    fact="threads past the last column of y return before the barriers",
    question="y has 43 columns. How many threads of the second tile does a barrier wait for, and how many reach it?",
)
known.change(
    "scales-of-row-0",
    ("group = mine * groups + word * groups / words", "group = word * groups / words"),
    fact="every row uses the scales and biases of row 0",
    question="How many scales does a row have, and where do those of row 3 start?",
)
known.change(
    "y-transposed",
    ("y[row * outputs + output]", "y[output * length + row]"),
    fact="y is written column by column",
    question="Which element of y follows the first in memory: that of the next row, or that of the next column?",
)
known.change(
    "sums-in-T",
    ("float sums[8] = {};", "T sums[8] = {};"),
    ("sums[r] += rows[simdgroup + 4 * r][i] * weight;", "sums[r] = T(sums[r] + rows[simdgroup + 4 * r][i] * weight);"),
    fact="the sums are accumulated in the dtype of x",
    question="20,000 times 64 is more than a million. Can float16 represent that?",
)
known.accepted_change(
    "the tile of W transposed",
    ("weights[t / 4][t % 4 * 8 + digit] =", "weights[t % 4 * 8 + digit][t / 4] ="),
    ("weights[lane][i]", "weights[i][lane]"),
)
known.accepted_change(
    "zeros around x",
    (
        "float(x[min(first_row + r, length - 1) * 8 * words + 8 * first + lane])",
        "first_row + r < length ? float(x[(first_row + r) * 8 * words + 8 * first + lane]) : 0.0f",
    ),
)
known.not_timed("simulated time says nothing about a GPU")
