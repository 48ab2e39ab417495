"""Known programs of task 2.4.1, a quantized matrix times a vector."""

import mlx.core as mx
from tests.week2.matrices import product, timed

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.1")


known.probe_table(
    several_groups=lambda program: product(program, 1, 5, 192, 64),
    one_row=lambda program: product(program, 2, 1, 256, 32),
    one_group=lambda program: product(program, 3, 4, 128, 128),
    narrow_scales=lambda program: product(program, 4, 3, 192, 64, dtype=mx.bfloat16),
    one_number=lambda program: product(program, 5, 1, 32, 32),
)


known.change(
    "highest-digit-first",
    ("(4 * (i % PER_WORD))", "(28 - 4 * (i % PER_WORD))"),
    fact="the first weight of a word is taken from its highest four bits",
    question="Of the word 0x21, which weight is 1, the first or the second?",
)
known.change(
    "next-group's-scale",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, o * groups + (g + 1) % groups, scale_type)"),
    fact="each group has the scale of the next one",
    question="Weight 0 of a row and weight 64, in groups of 64: which scale is whose?",
)
known.change(
    "first-group's-bias",
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, o * groups, scale_type)"),
    fact="all groups of a row have the bias of its first one",
    question="A row has three groups. How many biases are that, and where do they lie?",
)
known.change(
    "sums-run-on",
    ("float total = 0;", "float total = 0, dot = 0, sum = 0;"),
    ("float dot = 0, sum = 0;", ""),
    fact="a group's sums begin with those of the groups before it",
    question="Two sums belong to a group. What do they hold when the next one begins?",
)
known.change(
    "no-bias",
    (" + number_at(biases, o * groups + g, scale_type) * sum", ""),
    fact="the biases are left out",
    question="What does a weight stand for whose four bits are 0?",
)
known.change(
    "bias-once-a-group",
    ("number_at(biases, o * groups + g, scale_type) * sum", "number_at(biases, o * groups + g, scale_type)"),
    fact="a bias is added once for its group, and not for each of its weights times x",
    question="If x were all ones, how often would a group's bias come into its row's sum?",
)
known.change(
    "row-0's-scales",
    ("number_at(scales, o * groups + g, scale_type)", "number_at(scales, g, scale_type)"),
    ("number_at(biases, o * groups + g, scale_type)", "number_at(biases, g, scale_type)"),
    fact="all rows have the scales and biases of row 0",
    question="At which place of `scales` does row 1 begin?",
)
known.change(
    "all-rows-are-row-0",
    ("packed[o * words + i / PER_WORD]", "packed[i / PER_WORD]"),
    fact="all rows have the four-bit numbers of row 0",
    question="At which word does row 1 begin?",
)
known.change(
    "last-group-lost",
    ("g < groups", "g < groups - (groups > 1)"),
    fact="the last group of a row is left out",
    question="Which g is the last one that your loop takes, and which is the row's last?",
)
known.change(
    "eight-bits-kept",
    ("& 15", "& 255"),
    fact="eight bits are kept of each weight, its neighbour's among them",
    question="How many bits has a weight, and which number keeps as many?",
)
known.accepted_change(
    "weight by weight",
    ("dot += float(q) * x[i];", "dot += (number_at(scales, o * groups + g, scale_type) * float(q) +"),
    ("sum += x[i];", "number_at(biases, o * groups + g, scale_type)) * x[i];"),
    ("number_at(scales, o * groups + g, scale_type) * dot + number_at(biases, o * groups + g, scale_type) *", "dot +"),
)


known.sized("of 1,024 x 1,024 weights")(timed(1024, 1024))
