"""Reference variants of task 2.5.2, RMSNorm as a kernel."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import costs
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.5.2")
WRITTEN = "out[row + i] = weight[i] * T(float(x[row + i]) * scale);"
NUMBER = "const float number = float(x[row + i]);"
READS = f"for (uint i = first; i < size; i += threads) {{\n  {NUMBER}"
ADDS_UP = "float total = 0;\nfor (uint g = 0; g < simdgroups_per_threadgroup; ++g) {\n  total += sums[g];\n}"
SCALE = "const float scale = metal::rsqrt(total / size + eps[0]);"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
WRITES = f"for (uint i = first; i < size; i += threads) {{\n  {WRITTEN}"


def norm(program, seed, rows, size, eps=1e-5, dtype=mx.float32, spread=1.0):
    draw = normals(seed, dtype)
    return program(draw(rows, size, spread=spread), draw(size), eps)


known.probe_table(
    one_row=lambda program: norm(program, 1, 1, 32),
    a_whole_simdgroup=lambda program: norm(program, 2, 2, 32, eps=0.5),
    short_rows=lambda program: norm(program, 3, 3, 20, eps=0.5),
    several_numbers_a_thread=lambda program: norm(program, 4, 2, 100),
    several_simdgroups=lambda program: norm(program, 5, 2, 320),
    one_long_row=lambda program: norm(program, 6, 1, 320),
)
known.probe_table(mx.float16, narrow=lambda program: norm(program, 7, 2, 32, dtype=mx.float16, spread=400.0))


@known.probe()
def norm_costs(program):
    """Return whether traffic is above the limit, or far above, and whether banks conflict or barriers are too many."""
    draw = normals(8)
    x, weight = draw(1, 2560), draw(2560)
    found = costs(program, x, weight, 1e-5)
    moved, enough = found["moved"], 4 * x.nbytes
    return mx.array([moved > enough, moved > 12 * enough, found["bank_conflicts"] > 0, found["barriers"] > 9])


known.change(
    "simdgroup-barrier",
    ("threadgroup_barrier(mem_flags::mem_threadgroup);", "simdgroup_barrier(mem_flags::mem_threadgroup);"),
    fact="the barrier covers one SIMD-group, although the sums come from several",
    question="Thread 0 is about to read sums[1]. How does it know that thread 32 has written it?",
)
known.change(
    "short-rows-return",
    ("float sum = 0;\n", "if (first >= size) return;\nfloat sum = 0;\n"),
    fact="threads without an element of the row return before the barrier",
    question="20 numbers in a row, 32 threads: how many threads does the barrier wait for, and how many reach it?",
)
known.change(
    "all-places-added-up",
    ("g < simdgroups_per_threadgroup", "g < 8"),
    fact="all 8 entries of sums are added, however many SIMD-groups there are",
    question="With 3 SIMD-groups, which one writes sums[5]?",
)
known.change(
    "first-simdgroup's-sum",
    ("sum = simd_sum(sum);", "sum = simd_sum(sum); if (simdgroup_index_in_threadgroup) sum = 0;"),
    fact="only the squares of the first SIMD-group are summed",
    question="Which threads' numbers does the result of simd_sum include?",
)
known.change(
    "no-simd-sum",
    ("sum = simd_sum(sum);\n", "\n"),
    fact="only the first thread's sum of each SIMD-group is used",
    question="What happens to the sums of the other 31 threads?",
)
known.change(
    "weight-goes-on",
    ("weight[i]", "weight[row + i]"),
    fact="the index into weight continues from row to row",
    question="How many numbers does weight have, and which one applies to the first number of row 1?",
)
known.change(
    "first-row-of-x",
    (NUMBER, "const float number = float(x[i]);"),
    ("T(float(x[row + i]) * scale)", "T(float(x[i]) * scale)"),
    fact="every row of the output is computed from the first row of x",
    question="Which number of x does the first thread of the second threadgroup read?",
)
known.change(
    "no-weight",
    ("weight[i] * ", ""),
    fact="the weight is missing",
    question="How does weight[3] affect your output?",
)
known.change(
    "sum-for-mean",
    ("total / size", "total"),
    fact="the root is that of the sum of squares instead of their mean",
    question="What should the result be for a row of ones, and what is it?",
)
known.change(
    "mean-over-the-threads",
    ("total / size", "total / threads"),
    fact="the sum of squares is divided by the number of threads instead of E",
    question="A row has 100 numbers and its threadgroup 32 threads. How many squares does the sum include?",
)
known.change(
    "no-eps",
    (" + eps[0]", ""),
    fact="eps is missing",
    question="What is your result for a row of zeros?",
)
known.change(
    "eps-outside",
    ("metal::rsqrt(total / size + eps[0])", "1 / (metal::sqrt(total / size) + eps[0])"),
    fact="eps is added to the root instead of under it",
    question="Is eps added to a mean of squares, or to a length?",
)
known.change(
    "squares-in-T",
    ("const float number = float(x[row + i]);", "const T number = x[row + i];"),
    ("sum += number * number;", "sum += float(T(number * number));"),
    fact="the squares are rounded to the dtype of x",
    question="400 squared is 160,000. Can float16 represent that?",
)
known.change(
    "one-number-a-thread",
    (WRITES, f"const uint i = first;\nif (i < size) {{\n  {WRITTEN}"),
    fact="each thread writes only one number of its row",
    question="A row has 100 numbers and its threadgroup 32 threads. Which thread writes number 40?",
)
known.change(
    "one-square-a-thread",
    (READS, f"const uint i = first;\nif (i < size) {{\n  {NUMBER}"),
    fact="each thread adds only one square to the sum",
    question="A row has 100 numbers and its threadgroup 32 threads. Which thread squares number 40?",
)
known.change(
    "numbers-in-blocks",
    (
        WRITES,
        "const uint each = (size + threads - 1) / threads;\n"
        f"for (uint i = first * each; i < min(size, (first + 1) * each); ++i) {{\n  {WRITTEN}",
    ),
    fact="each thread writes adjacent numbers",
    question="Which numbers do 32 threads write in their first iteration, and how many 64-byte lines is that?",
)
known.change(
    "all-numbers-for-every-thread",
    (READS, f"for (uint i = 0; i < size; ++i) {{\n  {NUMBER}"),
    ("sum = simd_sum(sum);\n", "\n"),
    ("total += sums[g];", "total = sums[g];"),
    fact="each thread sums the squares of the whole row",
    question="64 threads share a row of 256 numbers. How often is each number read?",
)
known.change(
    "reads-past-the-row",
    (READS, f"for (uint i = first; i < (size + threads - 1) / threads * threads; i += threads) {{\n  {NUMBER}"),
    ("sum += number * number;", "sum += float(i < size) * number * number;"),
    fact="numbers past the end of the row are read and multiplied by 0",
    question="Zero times a number is zero. Which numbers come after the last row?",
)
known.change(
    "half-between",
    ("T(float(x[row + i]) * scale)", "T(half(float(x[row + i]) * scale))"),
    fact="the numbers are rounded to half before the weight is applied, whatever T is",
    question="How many digits does half have, and how many float?",
)
known.change(
    "scale-in-the-place-of-a-sum",
    (
        ADDS_UP,
        "const uint lane = thread_index_in_simdgroup;\n"
        "const float total = simd_sum(lane < simdgroups_per_threadgroup ? sums[lane] : 0.0f);",
    ),
    (SCALE, f"if (first == 0) sums[0] = metal::rsqrt(total / size + eps[0]);\n{BARRIER}\nconst float scale = sums[0];"),
    fact="the scale overwrites a sum that other threads may still read",
    question="Thread 0 has its total, and writes to sums[0]. Which threads may still have to read sums[0]?",
)
known.change(
    "barrier-in-every-turn",
    (
        READS,
        "for (uint turn = 0; turn < size; turn += threads) {\n"
        "  const uint i = turn + first;\n"
        "  const float number = i < size ? float(x[row + i]) : 0.0f;",
    ),
    ("sum += number * number;", f"sum += number * number;\n{BARRIER}"),
    fact="there is a barrier in every iteration of the first loop",
    question="What does one iteration need to know about the iterations of other threads?",
)
known.change(
    "tree-with-gaps",
    ("threadgroup float sums[8];", "threadgroup float sums[256];"),
    ("sum = simd_sum(sum);\n", "\n"),
    ("if (thread_index_in_simdgroup == 0) {\n  sums[simdgroup_index_in_threadgroup] = sum;\n}", "sums[first] = sum;"),
    (
        ADDS_UP,
        "for (uint step = 1; step < threads; step *= 2) {\n"
        "  const uint at = 2 * step * first;\n"
        "  if (at + step < threads) sums[at] += sums[at + step];\n"
        f"  {BARRIER}\n"
        "}\n"
        "const float total = sums[0];",
    ),
    fact="the reduction uses strided threadgroup memory, which causes bank conflicts",
    question="In its second step thread t adds to sums[4 * t]. In how many of the 32 banks are 32 such elements?",
)
known.accepted_change(
    "a tree in threadgroup memory",
    ("threadgroup float sums[8];", "threadgroup float sums[256];"),
    ("sum = simd_sum(sum);\n", ""),
    ("if (thread_index_in_simdgroup == 0) {\n  sums[simdgroup_index_in_threadgroup] = sum;\n}", "sums[first] = sum;"),
    (
        ADDS_UP,
        "for (uint left = threads; left > 1;) {\n"
        "  const uint half_of_it = (left + 1) / 2;\n"
        "  if (first + half_of_it < left) sums[first] += sums[first + half_of_it];\n"
        "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "  left = half_of_it;\n"
        "}\n"
        "const float total = sums[0];",
    ),
)
known.accepted_change(
    "simd_sum twice",
    (
        ADDS_UP,
        "const uint lane = thread_index_in_simdgroup;\n"
        "const float total = simd_sum(lane < simdgroups_per_threadgroup ? sums[lane] : 0.0f);",
    ),
)
known.accepted_change(
    "the first SIMD-group broadcasts the scale",
    ("threadgroup float sums[8];", "threadgroup float sums[8], found[1];"),
    (
        ADDS_UP,
        "if (simdgroup_index_in_threadgroup == 0) {\n"
        "  const float total = simd_sum(first < simdgroups_per_threadgroup ? sums[first] : 0.0f);\n"
        "  if (first == 0) found[0] = metal::rsqrt(total / size + eps[0]);\n"
        "}\n"
        f"{BARRIER}",
    ),
    (SCALE, "const float scale = found[0];"),
)
known.accepted_change(
    "rounded once",
    ("weight[i] * T(float(x[row + i]) * scale)", "T(float(weight[i]) * float(x[row + i]) * scale)"),
)
known.not_timed("simulated time says nothing about a GPU")
