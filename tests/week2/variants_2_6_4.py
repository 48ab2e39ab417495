"""Reference variants of task 2.6.4, products whose inputs are cut into parts."""

from tests.week2.matrices import by, matrix, product

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, moved
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.6.4")


known.probe_table(
    one_part=lambda program: product(program, 1, 3, 8, 256, 64, more=[1]),
    even_parts=lambda program: product(program, 2, 3, 8, 1024, 64, more=[2]),
    last_part_shorter=lambda program: product(program, 3, 2, 8, 768, 64, more=[2]),
    a_part_without_inputs=lambda program: product(program, 4, 2, 8, 512, 64, more=[3]),
    short_block=lambda program: product(program, 5, 2, 8, 352, 32, more=[2]),
    rows_left=lambda program: product(program, 6, 2, 5, 512, 128, more=[2]),
    one_row=lambda program: product(program, 7, 1, 8, 512, 64, more=[2]),
    one_output=lambda program: product(program, 9, 2, 1, 32, 32, more=[1]),
)


@known.probe()
def split_moves(program):
    x, given = normals(8)(8, 512), matrix(8, 8, 512, 64)
    return moved(by(program), x, *given, 64, 2, enough=2 * 8 * 512 // 2 + x.nbytes + 8 * 8 * 2 * LINE)


known.change(
    "parts-rounded-down",
    ("(blocks + parts - 1) / parts", "blocks / parts"),
    fact="the blocks per part are rounded down, so the remaining blocks are never computed",
    question="3 blocks in 2 parts: which part gets the third one?",
)
known.change(
    "rest-in-the-last-part",
    ("(blocks + parts - 1) / parts", "blocks / parts"),
    ("= min((part + 1) * each, words);", "= part + 1 == parts ? words : (part + 1) * each;"),
    fact="the blocks per part are rounded down, and the last part also gets the remaining blocks",
    question="7 blocks in 4 parts: how many blocks does the last part compute, and how many does each other part?",
)
known.change(
    "every-other-block",
    ("first = part * each; first < end; first += 32)", "first = 32 * part; first < words; first += 32 * parts)"),
    fact="the blocks of a part are not consecutive: it computes every block whose index modulo `parts` is the part's",
    question="3 blocks in 2 parts: which blocks does part 0 compute, and which does it compute in the chapter?",
)
known.change(
    "groups-of-the-part",
    ("word * groups / words;", "(word - part * each) * groups / words;"),
    fact="a word's group is computed from its index within the part, so each part starts at group 0",
    question="The groups have 8 words, and part 1 starts at word 64. In which group is that word?",
)
known.change(
    "every-part-does-all",
    ("first = part * each; first < end;", "first = 0; first < words;"),
    fact="every part computes the products of all inputs",
    question="What is the sum of 2 parts if each covers all inputs?",
)
known.change(
    "every-part-from-the-first",
    ("first = part * each;", "first = 0;"),
    fact="every part starts at the first input",
    question="What is the first word of part 1, if part 0 has 2 blocks of 32?",
)
known.change(
    "every-part-to-the-last",
    ("const uint end = min((part + 1) * each, words);", "const uint end = words;"),
    fact="every part continues to the last input",
    question="Which inputs are then in both parts?",
)
known.change(
    "parts-by-rows",
    ("(part * length + n) * outputs + row", "(n * parts + part) * outputs + row"),
    fact="the parts of a row of x are adjacent, instead of the rows of a part",
    question="partial is parts x N x O. What follows the last output of part 0, row 0?",
)
known.change(
    "parts-without-inputs-return",
    ("float totals[8] = {};", "if (part * each >= words) return;\nfloat totals[8] = {};"),
    fact="a part that has no inputs writes nothing",
    question="2 blocks, 3 parts. The second kernel sums all 3: what does it read for the third?",
)
known.change(
    "words-for-numbers",
    ("x[n * 8 * words + 8 * first + t]", "x[n * words + 8 * first + t]"),
    fact="the row stride of x is that of packed",
    question="A row of packed has 64 words. How many numbers does a row of x have?",
)
known.change(
    "unpacked-for-every-row",
    ("totals[n] += numbers[n][digit][lane] * weight;", "totals[n] += numbers[n][digit][lane] * WEIGHT;"),
    (
        "const float weight = scale * float(q >> (4 * digit) & 15) + bias;",
        "#define WEIGHT (scale * float(packed[row * words + word] >> (4 * digit) & 15) + bias)\n",
    ),
    fact="the words of W are read from device memory again for every row of x",
    question="x has 8 rows. How often is a word read, and how often does it need to be?",
)
known.change(
    "simdgroup-barrier",
    ("threadgroup_barrier(mem_flags::mem_threadgroup);\n\n", "simdgroup_barrier(mem_flags::mem_threadgroup);\n\n"),
    fact="the barrier before the x values are used covers only one SIMD-group",
    question="Which SIMD-group has written number 100 of the block, and how do the others know?",
)
known.change(
    "rows-that-are-not-there-return",
    ("float totals[8] = {};", "if (row >= outputs) return;\nfloat totals[8] = {};"),
    fact="SIMD-groups without a row of W return before the barriers",
    question="5 rows of W, 8 SIMD-groups: how many threads does a barrier wait for, and how many reach it?",
)
known.accepted_change(
    "empty turns",
    ("const uint end = min((part + 1) * each, words);", "const uint end = (part + 1) * each;"),
)
known.accepted_change(
    "scale and bias applied later",
    (
        "const float weight = scale * float(q >> (4 * digit) & 15) + bias;",
        "const float weight = float(q >> (4 * digit) & 15);",
    ),
    (
        "totals[n] += numbers[n][digit][lane] * weight;",
        "totals[n] += scale * (numbers[n][digit][lane] * weight) + bias * numbers[n][digit][lane];",
    ),
)
known.not_timed("simulated time says nothing about a GPU")
