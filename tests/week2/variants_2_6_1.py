"""Reference variants of task 2.6.1, quantized matvec."""

import mlx.core as mx
from tests.week2.matrices import beyond_float16, by, matrix, product

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, costs
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.6.1")


known.probe_table(
    whole_block=lambda program: product(program, 1, 8, 256, 64),
    two_blocks=lambda program: product(program, 2, 16, 512, 128),
    short_block=lambda program: product(program, 3, 8, 96, 32),
    rows_left=lambda program: product(program, 4, 5, 256, 64),
    one_group=lambda program: product(program, 5, 8, 128, 128),
    one_row=lambda program: product(program, 8, 1, 32, 32),
)


def word_beyond_float16(program):
    """Return float16 output where a word's sum overflows float16, but its product with the scale does not."""
    q, scales = mx.ones((8, 128), mx.uint8), mx.full((8, 2), 1e-4, mx.float16)
    return by(program)(mx.full((128,), 20000, mx.float16), q, scales, 0 * scales, 64)


known.probe_table(mx.float16, narrow=beyond_float16, narrow_word=word_beyond_float16)


@known.probe()
def matvec_moves(program):
    """Return whether traffic is above the limit, and whether it is far above."""
    x, given = normals(6)(512), matrix(6, 8, 512, 64)
    enough = 2 * 8 * 512 // 2 + x.nbytes + 8 * LINE
    found = costs(by(program), x, *given, 64)["moved"]
    return mx.array([found > enough, found > 12 * enough])


@known.probe()
def matvec_banks(program):
    x, given = normals(7)(512), matrix(7, 8, 512, 64)
    return mx.array(costs(by(program), x, *given, 64)["bank_conflicts"] > 0)


TAKEN = """    const uint q = packed[row * words + word], group = row * groups + word * groups / words;"""
AT_ONCE = """    float dot = 0, sum = 0;  // a word lies in one group: the scale and the bias can wait
    for (uint digit = 0; digit < 8; ++digit) {
      dot += float(q >> (4 * digit) & 15) * numbers[digit][lane];
      sum += numbers[digit][lane];
    }
    total += float(scales[group]) * dot + float(biases[group]) * sum;
"""

known.change(
    "digits-from-the-top",
    ("q >> (4 * digit) & 15", "q >> (28 - 4 * digit) & 15"),
    fact="the first weight of a word is taken from its highest 4 bits",
    question="Which weight of its word is `q & 15`?",
)
known.change(
    "one-group-for-all-lanes",
    ("row * groups + word * groups / words", "row * groups + first * groups / words"),
    fact="all lanes use the scale and bias of the block's first word",
    question="32 words are 256 weights. How many groups of 64 is that, and which one does lane 20's word belong to?",
)
known.change(
    "groups-of-64",
    ("word * groups / words", "word / 8"),
    fact="every group is taken to have 64 weights",
    question="How many words does a group of 32 weights have, and how many has one of 128?",
)
known.change(
    "lane-0-alone",
    ("total = simd_sum(total);\n", ""),
    ("y[row] = T(total);", "y[row] = T(simd_sum(total));"),
    fact="the sums of lanes 1 to 31 are not added to that of lane 0",
    question="`simd_sum` adds the values of the lanes that call it. Which lanes are those in your kernel?",
)
known.change(
    "bias-once-a-word",
    (" + float(biases[group]) * sum", " + float(biases[group])"),
    fact="the bias is added once per word, without being multiplied by x",
    question="A word has 8 weights scale * q + bias. If all q are 0, what is the sum of their products with x?",
)
known.change(
    "simdgroup-barrier",
    ("threadgroup_barrier(mem_flags::mem_threadgroup);\n\n", "simdgroup_barrier(mem_flags::mem_threadgroup);\n\n"),
    fact="the barrier before the x values are used covers only one SIMD-group",
    question="Which SIMD-group has written number 100 of the block, and how do the others know?",
)
known.change(
    "numbers-replaced-too-soon",
    ("  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous numbers are in use\n", ""),
    fact="new x values overwrite the old ones while other SIMD-groups still read them",
    question="SIMD-group 0 has finished block 0. May it write its part of block 1 now?",
)
known.change(
    "rows-that-are-not-there-return",
    ("float total = 0;\n", "if (row >= outputs) return;\nfloat total = 0;\n"),
    fact="SIMD-groups without a row return before the barriers",
    question="5 rows of W, 8 SIMD-groups: how many threads does a barrier wait for, and how many reach it?",
)
known.change(
    "no-look-at-the-words",
    ("row < outputs && word < words", "row < outputs"),
    fact="every lane takes a word of each block, even past the end of the row",
    question="A row has 12 words. Which word does lane 20 read, and to which row does it belong?",
)
known.change(
    "total-in-T",
    ("float total = 0;", "T total = 0;"),
    ("total += float(scales[group]) * dot", "total += T(float(scales[group]) * dot"),
    ("* sum;", "* sum);"),
    fact="the sum of a row is accumulated in the dtype of x",
    question="20,000 times 64 is more than a million. Can float16 represent that?",
)
known.change(
    "word-in-T",
    ("float dot = 0, sum = 0;", "T dot = 0, sum = 0;"),
    (
        "dot += float(q >> (4 * digit) & 15) * numbers[digit][lane];",
        "dot += T(float(q >> (4 * digit) & 15) * numbers[digit][lane]);",
    ),
    ("sum += numbers[digit][lane];", "sum += T(numbers[digit][lane]);"),
    fact="the sums of a word are accumulated in the dtype of x",
    question="Which of your sums are float32: those of a word, that of a row, or both?",
)
known.change(
    "a-word-in-four-banks",
    ("numbers[8][36]", "numbers[8][33]"),
    fact="lanes of a SIMD-group access the same bank of threadgroup memory",
    question="Which banks hold the eight numbers of word 0, and which those of word 1?",
)
known.change(
    "x-from-device-memory",
    ("* numbers[digit][lane];", "* float(x[8 * word + digit]);"),
    ("sum += numbers[digit][lane];", "sum += float(x[8 * word + digit]);"),
    fact="every SIMD-group reads x from device memory, 8 numbers per lane",
    question="32 lanes read x with a stride of 8. How many 64-byte lines is that, and for how many rows?",
)
known.change(
    "a-weight-a-lane",
    (
        TAKEN,
        "    for (uint turn = 0; turn < 8 && first * 8 + turn * 32 < 8 * words; ++turn) {\n"
        "    const uint i = turn * 32 + lane;\n"
        "    const uint q = packed[row * words + first + i / 8], "
        "group = row * groups + (first + i / 8) * groups / words;\n",
    ),
    (
        AT_ONCE,
        "    total += (float(scales[group]) * float(q >> 4 * (i % 8) & 15) + float(biases[group])) "
        "* numbers[i % 8][i / 8];\n    }\n",
    ),
    ("row < outputs && word < words", "row < outputs"),
    fact="a lane takes one weight at a time, so 8 lanes read the same word",
    question="How many words do 32 lanes read at a time, and how often is their line read?",
)
known.accepted_change(
    "one weight at a time",
    (
        "float dot = 0, sum = 0;  // a word lies in one group: the scale and the bias can wait",
        "const float scale = float(scales[group]), bias = float(biases[group]);",
    ),
    (
        "dot += float(q >> (4 * digit) & 15) * numbers[digit][lane];",
        "total += (scale * float(q >> (4 * digit) & 15) + bias) * numbers[digit][lane];",
    ),
    ("      sum += numbers[digit][lane];\n", ""),
    ("    total += float(scales[group]) * dot + float(biases[group]) * sum;\n", ""),
)
known.accepted_change(
    "clamped to the last row",
    ("if (row < outputs && word < words)", "const uint mine = min(row, outputs - 1);\nif (word < words)"),
    ("packed[row * words + word], group = row *", "packed[mine * words + word], group = mine *"),
)
known.not_timed("simulated time says nothing about a GPU")
