"""Reference variants of task 2.4.5, eight bits for x."""

import mlx.core as mx
import numpy as np
from tests.week2.matrices import by, is_divided, matrix, timed

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.5")


def product(program, seed, outputs, inputs, group_size, dtype=mx.float32):
    """Return the output for an x that is exact in eight bits."""
    generator = np.random.default_rng(seed)
    x = generator.integers(-127, 128, (inputs // group_size, group_size)).astype(np.float32)
    x[:, 5] = 127
    x = mx.array((x * 2.0 ** generator.integers(-3, 3, (len(x), 1))).reshape(-1).astype(np.float32))
    return by(program)(x, *matrix(seed, outputs, inputs, group_size, dtype), group_size)


def sums_alone(program):
    """Every q is 0, and x is not exact in eight bits."""
    packed, scales, biases = matrix(7, 5, 192, 64)
    return by(program)(normals(7)(192), mx.zeros_like(packed), scales, biases, 64)


def between(program):
    """x lies a quarter of a step above or below an integer."""
    generator = np.random.default_rng(8)
    x = generator.integers(-126, 127, 192) + generator.choice([0.25, -0.25], 192)
    x[::64] = 127
    return by(program)(mx.array(x.astype(np.float32)), *matrix(8, 5, 192, 64), 64)


known.probe_table(
    sums_alone=sums_alone,
    between=between,
    several_groups=lambda program: product(program, 1, 5, 192, 64),
    one_chunk=lambda program: product(program, 2, 16, 512, 32),
    and_one=lambda program: product(program, 3, 33, 128, 128),
    narrow_scales=lambda program: product(program, 4, 3, 384, 64, mx.bfloat16),
    part_of_a_block=lambda program: product(program, 6, 5, 160, 32),
    one_number=lambda program: product(program, 5, 1, 32, 32),
    many_rows=lambda program: mx.array([is_divided(program)]),
)

known.change(
    "one-core",
    ("pool().run(outputs, chunk,", "pool().run(outputs, outputs,"),
    fact="one core computes all rows",
    question="How many chunks does `run` split the rows into, and which thread gets the second one?",
)
known.change(
    "no-biases",
    ("sum(total) + added", "sum(total)"),
    fact="the biases are missing",
    question="What does `prepare_scales` return, and where do you use it?",
)
known.change(
    "no-scale-of-x",
    ("rounded.scales.data(),", "std::vector<float>(groups, 1.0f).data(),"),
    fact="the scales of x are missing, so x counts as its integers -127 to 127",
    question="What must a number of `Rounded` be multiplied by to give x again?",
)
known.change(
    "last-block-only",
    ("total += __builtin", "total = __builtin"),
    fact="a row's total holds only its last block",
    question="A row has 512 weights. What remains of the first block when the last one is done?",
)
known.change(
    "x-of-the-first-block",
    ("rounded.values.data() + block * BLOCK", "rounded.values.data()"),
    fact="every block of a row is multiplied by the x values of the first block",
    question="How many x values does a block use?",
)
known.change(
    "sums-of-the-rounded-x",
    (
        "const Rounded rounded(x, inputs, group_size);",
        """
        Rounded rounded(x, inputs, group_size);
        for (int g = 0; g < inputs / group_size; ++g) {
          int sum = 0;
          for (int i = g * group_size; i < (g + 1) * group_size; ++i) {
            const int word = i / PER_WORD, odd = i % 2;
            sum += rounded.values[word / LANES * BLOCK + odd * (BLOCK / 2) + word % LANES * 4 + i % PER_WORD / 2];
          }
          rounded.sums[g] = sum * rounded.scales[g];
        }
        """,
    ),
    fact="the biases are multiplied by the sums of the rounded x",
    question="Do the biases need x in eight bits?",
)
known.change(
    "rounded-toward-zero",
    (
        "const Rounded rounded(x, inputs, group_size);",
        """
        Rounded rounded(x, inputs, group_size);
        for (int i = 0; i < inputs; ++i) {
          const int word = i / PER_WORD, odd = i % 2;
          const float step = rounded.scales[i / group_size];
          rounded.values[word / LANES * BLOCK + odd * (BLOCK / 2) + word % LANES * 4 + i % PER_WORD / 2] =
              step > 0 ? int8_t(x[i] / step) : 0;
        }
        """,
    ),
    fact="x is rounded toward zero instead of to the nearest integer",
    question="A number is 3.75 steps. Which integer does your code store for it, and which one is nearest?",
)
known.change(
    "last-chunk-lost",
    ("pool().run(outputs,", "pool().run(outputs < 16 ? outputs : outputs / 16 * 16,"),
    fact="the rows after the last whole chunk are not computed",
    question="33 rows in chunks of 16: which call computes row 32?",
)
known.change(
    "one-row-of-scales-for-all",
    ("OwnLines scaled(groups + LANES);  // of one row, each with the scale of x; and zeros", ""),
    ("pool().run(", "OwnLines scaled(groups + LANES);\npool().run("),
    fact="all chunks write to a shared variable or buffer, such as one buffer for the scales of a row",
    question="Two threads prepare the scales of different rows. Which scales does the next line of code read?",
)
known.change(
    "last-words-lost",
    ("if (words > whole * LANES) add(whole, words_of_block(row + whole * LANES, words - whole * LANES));", ""),
    fact="a row's last block is left out if it is not full",
    question="A row has one and a half blocks of words. How many blocks does your code add up?",
)
known.accepted_change("chunks of eight rows", ("std::max(16, outputs / (4 * pool().threads()))", "8"))

known.sized("of 4,096 x 2,048 weights")(timed(4096, 2048))
