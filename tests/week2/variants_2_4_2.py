"""Reference variants of task 2.4.2, SIMD matvec."""

import mlx.core as mx
from tests.week2.matrices import packed_loads, product, timed

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.2")


known.probe_table(
    several_groups=lambda program: product(program, 1, 5, 192, 64),
    one_row=lambda program: product(program, 2, 1, 512, 32),
    one_group=lambda program: product(program, 3, 4, 128, 128),
    narrow_scales=lambda program: product(program, 4, 3, 384, 64, dtype=mx.bfloat16),
    one_number=lambda program: product(program, 5, 1, 32, 32),
    words_at_a_time=lambda program: mx.array(packed_loads(program)[1] < 8 * packed_loads(program)[0]),
)


known.change(
    "highest-digit-first",
    ("(4 * digit)", "(28 - 4 * digit)"),
    fact="the first weight of a word is taken from its highest four bits",
    question="In the word 0x21, which weight is 1: the first or the second?",
)
known.change(
    "from-the-first-row",
    ("y[o] =", "y[o - first] ="),
    fact="the first row of each chunk is written to y[0]",
    question="The call computes rows 16 to 31. Where in y does row 16 go?",
)
known.change(
    "no-scales",
    ("dot * scales_of_block(scaled.data(), block, group_size)", "dot"),
    fact="the scales are missing",
    question="Which variable of `rows` does your code never read?",
)
known.change(
    "one-scale-for-a-block",
    ("scales_of_block(scaled.data(), block, group_size)", "all(scaled[block * (BLOCK / group_size)])"),
    fact="all lanes of a block are multiplied by one scale",
    question="Do the lanes of a block all hold weights of the same group?",
)
known.change(
    "a-scale-per-block",
    ("scales_of_block(scaled.data(), block, group_size)", "all(scaled[block])"),
    fact="block b of a row is multiplied by the scale of group b",
    question="How many weights does a block have, and how many a group?",
)
known.change(
    "no-biases",
    ("sum(total) + added", "sum(total)"),
    fact="the biases are missing",
    question="What does `prepare_scales` return, and where do you use it?",
)
known.change(
    "biases-in-each-lane",
    ("sum(total) + added", "sum(total + added)"),
    fact="each lane adds the biases of the whole row",
    question="How many lanes does sum() add up?",
)
known.change(
    "last-block-only",
    ("total += dot", "total = dot"),
    fact="a row's total holds only its last block",
    question="A row has 256 weights. What remains of the first block's dot when the last one is done?",
)
known.change(
    "shorter-block-left-out",
    ("block * LANES < words", "(block + 1) * LANES <= words"),
    fact="a row's last block is left out if it has fewer words than a register",
    question="A row of 32 weights has four words. How many blocks does your loop process?",
)
known.change(
    "last-block-read-whole",
    ("words_of_block(row + block * LANES, words - block * LANES)", "load<Words>(row + block * LANES)"),
    fact="a whole register is loaded even for a last block that has fewer words",
    question="A row of 32 weights has four words. How many words does your last load read?",
)
known.change(
    "x-of-the-first-digit",
    ("load(values + digit * LANES)", "load(values)"),
    fact="all eight weights of a word are multiplied by the x values of its first weight",
    question="For digit 1, at which index of `values` do its x values start?",
)
known.change(
    "x-of-the-first-block",
    ("x.values.data() + block * BLOCK", "x.values.data()"),
    fact="every block of a row is multiplied by the x values of the first block",
    question="How many x values does a block use?",
)
known.change(
    "x-as-far-as-the-words",
    ("x.values.data() + block * BLOCK", "x.values.data() + block * LANES"),
    fact="the x values of block b start at b * LANES, as its words do",
    question="How many words does a block have, and how many x values?",
)
known.change(
    "x-from-the-digit",
    ("load(values + digit * LANES)", "load(values + digit)"),
    fact="the x values of digit d start at index d of their block",
    question="Digit 0 uses the first LANES x values of a block. Where do those of digit 1 start?",
)
known.change(
    "higher-bits-kept",
    (" & 15", ""),
    fact="the bits above a weight's own four are kept",
    question="After a right shift by 4, how many bits of the word remain?",
)
known.change(
    "shifted-by-a-bit-per-digit",
    (">> (4 * digit)", ">> digit"),
    fact="each digit is shifted by one bit more than the previous one",
    question="How many bits does a digit take?",
)
known.change(
    "dot-goes-on",
    ("Floats total{};", "Floats total{}, dot{};"),
    ("Floats dot{};", ""),
    fact="a block's dot starts with those of the blocks before it",
    question="When the second block is done, which scales is the first block's dot multiplied by?",
)
known.change(
    "one-word-at-a-time",
    (
        "const Words word = words_of_block(row + block * LANES, words - block * LANES);",
        "Words word{};\nfor (int w = 0; w < LANES && block * LANES + w < words; ++w) word[w] = row[block * LANES + w];",
    ),
    fact="the packed words of a row are read one at a time instead of a register at a time",
    question="How many words does one register hold, and how many does one load of yours read?",
)
known.accepted_change(
    "scaled one at a time",
    (
        "dot += to_floats(word >> (4 * digit) & 15) * load(values + digit * LANES);",
        "dot += to_floats(word >> (4 * digit) & 15) * (load(values + digit * LANES) * scales_of_block(scaled.data(), "
        "block, group_size));",
    ),
    ("total += dot * scales_of_block(scaled.data(), block, group_size);", "total += dot;"),
)


known.sized("of 2,048 x 2,048 weights")(timed(2048, 2048))
