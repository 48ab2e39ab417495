"""Reference variants of task 2.6.3, the same product by SIMD-group matrices."""

import mlx.core as mx
from tests.week2.matrices import beyond_float16, by, matrix, product

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, costs
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.6.3")


known.probe_table(
    one=lambda program: product(program, 1, 32, 32, 64, 32),
    one_step=lambda program: product(program, 2, 32, 32, 32, 32),
    two_by_two=lambda program: product(program, 3, 64, 64, 64, 64),
    rows_left=lambda program: product(program, 4, 37, 32, 64, 64),
    columns_left=lambda program: product(program, 5, 32, 43, 64, 64),
    one_row=lambda program: product(program, 8, 1, 43, 64, 64),
    wide_groups=lambda program: product(program, 9, 32, 32, 256, 128),
    # Zero rows, so nothing runs: the other probes tell missing barriers apart.
    none=lambda program: product(program, 7, 0, 32, 64, 64),
)
known.probe_table(mx.float16, narrow=lambda program: beyond_float16(program, 1))


@known.probe()
def matrices_cost(program):
    """Return whether traffic is above the limit, whether there are bank conflicts, and too few products of matrices."""
    found = costs(by(program), normals(6)(32, 64), *matrix(6, 32, 64, 64), 64)
    enough = 2 * 32 * 5 * LINE + 32 * 32 * 4
    return mx.array(
        [found["moved"] > enough, found["bank_conflicts"] > 2 * 4 * 64, found["matrix_products"] < 4 * 4 * 8]
    )


LOADED = "simdgroup_load(of_weights[h], &weights[left + 8 * h][i], ACROSS, ulong2(0), true);"
ACCUMULATED = "simdgroup_multiply_accumulate(sums[down][right], of_x[down], of_weights[right], sums[down][right]);"
STORED = "simdgroup_store(sums[down][right], &rows[top + 8 * down][left + 8 * right], ACROSS);"
SUMS = "simdgroup_float8x8 sums[2][2];"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
LAST = "for (uint r = simdgroup; r < 32; r += 4) {"
PLACE = "  const uint row = first_row + r, output = first_output + lane;"

known.change(
    "weights-not-transposed",
    (LOADED, LOADED.replace(", ulong2(0), true", "")),
    fact="the matrices of W are multiplied as stored, output by input, without a transpose",
    question="A product sums over the rows of its right operand. Is a row of the tile of W an input, or an output?",
)
known.change(
    "operands-swapped",
    (ACCUMULATED, ACCUMULATED.replace("of_x[down], of_weights[right]", "of_weights[right], of_x[down]")),
    fact="the matrix of W is the left operand of the products, and that of x the right one",
    question="If W^T is the left operand, does its row stand for an input, or for a row of x?",
)
known.change(
    "last-inputs-alone",
    (ACCUMULATED, "simdgroup_multiply(sums[down][right], of_x[down], of_weights[right]);"),
    fact="each product of matrices overwrites the sum so far",
    question="Of 32 inputs, which 8 are in the sum when the loop ends?",
)
known.change(
    "every-second-matrix",
    ("i < 32; i += 8", "i < 32; i += 16"),
    fact="every second group of 8 inputs is skipped",
    question="How many inputs does one product of matrices sum over?",
)
known.change(
    "one-matrix-of-W-for-both",
    ("of_x[down], of_weights[right], sums", "of_x[down], of_weights[0], sums"),
    fact="both columns of sums use the same matrix of W",
    question="Which outputs does sums[0][1] hold, and which rows of W does it need?",
)
known.change(
    "stored-without-a-look",
    (
        STORED,
        "const uint row = first_row + top + 8 * down, output = first_output + left + 8 * right;\n"
        "simdgroup_store(sums[down][right], y + row * outputs + output, outputs);",
    ),
    (f"{LAST}\n{PLACE}", f"{LAST.replace('simdgroup', '32')}\n{PLACE}"),
    fact="whole matrices are stored to y, even where a tile extends past its edge",
    question="y has 37 rows. How many rows of y does the matrix that starts at row 32 cover?",
)
for name, within in (
    ("columns-that-y-has-not", "row < length"),
    ("place-of-y-instead-of-column", "row * outputs + output < length * outputs"),
):
    known.change(
        name,
        ("row < length && output < outputs", within),
        fact="the columns of the last tile that extend past y are written, too",
        question="y has 43 columns. Which element of y is at column 43 of row 0?",
    )
known.change(
    "groups-of-64",
    ("word * groups / words", "word / 8"),
    fact="every group is taken to have 64 weights",
    question="With 96 inputs and 3 groups, how many words have the same scale?",
)
known.change(
    "stored-too-soon",
    (f"{BARRIER}\nfor (uint down = 0; down < 2; ++down) {{", "for (uint down = 0; down < 2; ++down) {\n"),
    fact="the sums are stored into a tile that other SIMD-groups may still read",
    question="SIMD-group 0 has its sums. Which SIMD-groups may still load matrices from the tile of x?",
)
known.change(
    "read-too-soon",
    (f"{BARRIER}\n{LAST}", f"simdgroup_barrier(mem_flags::mem_threadgroup);\n{LAST}"),
    fact="sums are read for y before the other SIMD-groups have stored theirs",
    question="Row 5 of the tile has 32 sums. Which SIMD-groups have stored them?",
)
known.change(
    "32-for-36",
    ("constexpr uint ACROSS = 36;", "constexpr uint ACROSS = 32;"),
    fact="the rows of a tile are spaced so that the 8 rows of a matrix share banks",
    question="With your distance between rows, in which banks are the 8 numbers of each of a matrix's 8 rows?",
)
known.change(
    "tiles-used-too-soon",
    (
        f"{BARRIER}\n\nfor (uint i = 0; i < 32; i += 8) {{",
        "simdgroup_barrier(mem_flags::mem_threadgroup);\n\nfor (uint i = 0; i < 32; i += 8) {",
    ),
    fact="the barrier before the tiles are used covers only one SIMD-group",
    question="Which SIMD-group has unpacked row 31 of the tile of W, and which ones use it?",
)
known.change(
    "quarters-outside-y-return",
    (SUMS, f"if (first_row + top >= length || first_output + left >= outputs) return;\n{SUMS}"),
    fact="SIMD-groups whose quarter is outside y skip the loop: they fill no tile and miss its barriers",
    question="y has 5 rows. Which SIMD-groups fill the tiles of x and W that SIMD-group 0 multiplies?",
)
known.accepted_change(
    "matrix origins instead of pointers",
    (
        "simdgroup_load(of_x[h], &rows[top + 8 * h][i], ACROSS);",
        "simdgroup_load(of_x[h], &rows[0][0], ACROSS, ulong2(i, top + 8 * h));",
    ),
)
known.accepted_change(
    "the tile of W transposed",
    ("weights[t / 4][t % 4 * 8 + digit] =", "weights[t % 4 * 8 + digit][t / 4] ="),
    (LOADED, "simdgroup_load(of_weights[h], &weights[i][left + 8 * h], ACROSS);"),
)
known.not_timed("simulated time says nothing about a GPU")
