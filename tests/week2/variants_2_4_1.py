"""Reference variants of task 2.4.1, scalar quantized matvec."""

import mlx.core as mx
from tests.week2.matrices import product, timed

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.1")


known.probe_table(
    several_groups=lambda program: product(program, 1, 5, 192, 64),
    one_row=lambda program: product(program, 2, 1, 256, 32),
    one_group=lambda program: product(program, 3, 4, 128, 128),
    # More groups than a word has weights.
    many_groups=lambda program: product(program, 6, 2, 384, 32),
    narrow_scales=lambda program: product(program, 4, 3, 192, 64, dtype=mx.bfloat16),
    one_number=lambda program: product(program, 5, 1, 32, 32),
)


known.change(
    "highest-digit-first",
    ("(4 * (i % PER_WORD))", "(28 - 4 * (i % PER_WORD))"),
    fact="the first weight of a word is taken from its highest four bits",
    question="In the word 0x21, which weight is 1: the first or the second?",
)
known.change(
    "scales-taken-for-float32",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, o * groups + g, 0)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, o * groups + g, 0)"),
    fact="scales and biases are read as float32, whatever their type",
    question="How many bytes does a float16 scale take, and how many does your code read?",
)
known.change(
    "next-group's-scale",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, o * groups + (g + 1) % groups, scale_type)"),
    fact="each group uses the scale of the next one",
    question="Weights 0 and 64 of a row, in groups of 64: which scale belongs to each?",
)
known.change(
    "first-group's-bias",
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, o * groups, scale_type)"),
    fact="all groups of a row use the bias of its first one",
    question="A row has three groups. How many biases is that, and where are they stored?",
)
known.change(
    "sums-run-on",
    ("float total = 0;", "float total = 0, dot = 0, sum = 0;"),
    ("float dot = 0, sum = 0;", ""),
    fact="a group's sums start with those of the groups before it",
    question="Each group needs two sums. What do they hold when the next group starts?",
)
known.change(
    "no-bias",
    (" + number_at(biases, o * groups + g, scale_type) * sum", ""),
    fact="the biases are missing",
    question="Which weight do four zero bits represent?",
)
known.change(
    "bias-once-a-group",
    ("number_at(biases, o * groups + g, scale_type) * sum", "number_at(biases, o * groups + g, scale_type)"),
    fact="the bias is added once per group instead of being multiplied by the group's sum of x",
    question="If x were all ones, how many times should a group's bias be added to the sum of its row?",
)
known.change(
    "row-0's-scales",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, g, scale_type)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, g, scale_type)"),
    fact="all rows use the scales and biases of row 0",
    question="At which index of `scales` does row 1 start?",
)
known.change(
    "scales-by-column",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, g * int64_t(outputs) + o, scale_type)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, g * int64_t(outputs) + o, scale_type)"),
    fact="scales and biases are read column by column, as if they were stored groups x outputs",
    question="Which is stored after the scale of row 0, group 0: that of row 1, or that of group 1?",
)
known.change(
    "all-rows-are-row-0",
    ("packed[o * words + i / PER_WORD]", "packed[i / PER_WORD]"),
    fact="all rows use the packed weights of row 0",
    question="At which word does row 1 start?",
)
known.change(
    "x-starts-again",
    ("dot += float(q) * x[i];", "dot += float(q) * x[i % group_size];"),
    ("sum += x[i];", "sum += x[i % group_size];"),
    fact="every group of a row is multiplied by the first group's elements of x",
    question="A row has three groups of 64 weights. Which element of x does the first weight of group 1 multiply?",
)
known.change(
    "words-start-again",
    ("packed[o * words + i / PER_WORD]", "packed[o * words + i % group_size / PER_WORD]"),
    fact="every group of a row uses the packed weights of the first one",
    question="A row has three groups of 64 weights. Which word of the row holds the first weight of group 1?",
)
known.change(
    "first-group's-scale",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, o * groups, scale_type)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, o * groups, scale_type)"),
    fact="all groups of a row use the scale and bias of its first one",
    question="How many scales does a row of three groups have, and how many of them does your code read?",
)
known.change(
    "sum-of-the-row",
    (
        "float dot = 0, sum = 0;",
        "float dot = 0, sum = 0;\nfor (int i = 0; i < g * group_size; ++i) sum += x[i];\n"
        "for (int i = (g + 1) * group_size; i < inputs; ++i) sum += x[i];",
    ),
    fact="every group's bias is multiplied by the sum of all of x instead of its group's",
    question="A row has three groups. To which elements of x does each of its biases belong?",
)
known.change(
    "groups-of-64",
    ("const int words", "group_size = 64;\nconst int words"),
    fact="a group has 64 weights, whatever group_size is",
    question="With a group_size of 128, how many scales does a row of 384 weights have?",
)
known.change(
    "group-of-a-word",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, o * groups + g / PER_WORD, scale_type)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, o * groups + g / PER_WORD, scale_type)"),
    fact="a word's group is computed as the word's index divided by group_size",
    question="Groups of 64 weights, eight weights per word: how many words does a group have?",
)
known.change(
    "last-group-lost",
    ("g < groups", "g < groups - (groups > 1)"),
    fact="the last group of a row is not processed",
    question="What is the last g of your loop, and what is the last group of the row?",
)
known.change(
    "eight-bits-kept",
    ("& 15", "& 255"),
    fact="eight bits are kept for each weight, including its neighbor's",
    question="How many bits does a weight have, and which mask keeps that many?",
)
known.accepted_change(
    "one weight at a time",
    ("dot += float(q) * x[i];", "dot += (number_at(scales, o * groups + g, scale_type) * float(q) +"),
    ("sum += x[i];", "number_at(biases, o * groups + g, scale_type)) * x[i];"),
    ("number_at(scales, o * groups + g, scale_type) * dot + number_at(biases, o * groups + g, scale_type) *", "dot +"),
)


known.sized("of 1,024 x 1,024 weights")(timed(1024, 1024))
