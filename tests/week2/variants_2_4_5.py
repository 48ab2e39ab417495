"""Known programs of task 2.4.5, eight bits for x."""

import mlx.core as mx
import numpy as np
from tests.week2.matrices import by, is_divided, matrix, timed

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.5")


def product(program, seed, outputs, inputs, group_size, dtype=mx.float32):
    """Of an x that eight bits hold exactly."""
    generator = np.random.default_rng(seed)
    x = generator.integers(-127, 128, (inputs // group_size, group_size)).astype(np.float32)
    x[:, 5] = 127
    x = mx.array((x * 2.0 ** generator.integers(-3, 3, (len(x), 1))).reshape(-1).astype(np.float32))
    return by(program)(x, *matrix(seed, outputs, inputs, group_size, dtype), group_size)


known.probe_table(
    several_groups=lambda program: product(program, 1, 5, 192, 64),
    one_chunk=lambda program: product(program, 2, 16, 512, 32),
    and_one=lambda program: product(program, 3, 33, 128, 128),
    narrow_scales=lambda program: product(program, 4, 3, 384, 64, mx.bfloat16),
    one_number=lambda program: product(program, 5, 1, 32, 32),
    many_rows=lambda program: mx.array([is_divided(program)]),
)


known.change(
    "one-core",
    ("pool().run(outputs, chunk,", "pool().run(outputs, outputs,"),
    fact="one core computes all rows",
    question="Into how many chunks does `run` cut the rows, and who takes the second one?",
)
known.change(
    "no-biases",
    ("sum(total) + added", "sum(total)"),
    fact="the biases are left out",
    question="What does `prepare_scales` return, and who needs it?",
)
known.change(
    "no-scale-of-x",
    ("rounded.scales.data(),", "std::vector<float>(groups, 1.0f).data(),"),
    fact="the scales of x are left out: its numbers count as -127 to 127",
    question="What is a number of `Rounded` times, to be x again?",
)
known.change(
    "last-block-only",
    ("total += __builtin", "total = __builtin"),
    fact="a row's total is that of its last block",
    question="A row of 512 weights: what is left of the first block when the last one is done?",
)
known.change(
    "x-of-the-first-block",
    ("rounded.values.data() + block * BLOCK", "rounded.values.data()"),
    fact="every block of a row meets the numbers of x that belong to the first one",
    question="How many numbers of x does a block take?",
)
known.change(
    "sums-in-eight-bits",
    ("(word, rounded.values.data() + block * BLOCK);", "(word, rounded.values.data() + block * BLOCK) << 24 >> 24;"),
    fact="the sum of a word's products is kept in eight bits",
    question="How large can 15 * 127 get, eight times, and how large is an int8_t?",
)
known.change(
    "last-chunk-lost",
    ("pool().run(outputs,", "pool().run(outputs < 16 ? outputs : outputs / 16 * 16,"),
    fact="the rows behind the last whole chunk are left out",
    question="33 rows in chunks of 16: who computes row 32?",
)
known.change(
    "one-row-of-scales-for-all",
    ("OwnLines scaled(groups + LANES);  // of one row, each with the scale of x; and zeros", ""),
    ("pool().run(", "OwnLines scaled(groups + LANES);\npool().run("),
    fact="all chunks write to a variable or buffer that they share, such as one place for the scales of a row",
    question="Two threads prepare the scales of different rows. Whose does a third line of code read?",
)
known.accepted_change("chunks of eight rows", ("std::max(16, outputs / (4 * pool().threads()))", "8"))


known.sized("of 4,096 x 2,048 weights")(timed(4096, 2048))
