"""Reference variants of task 2.5.4, SwiGLU as a kernel."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.5.4")


def rounded_twice(program):
    """Return whether many float16 outputs are not the closest to the result in float32."""
    x = normals(5, mx.float16)(2, 1024)
    gate, up = mx.split(x.astype(mx.float32), 2, axis=-1)
    return mx.mean(program(x) != (gate * mx.sigmoid(gate) * up).astype(mx.float16)) > 0.02


known.probe_table(
    rows=lambda program: program(normals(1)(3, 10)),
    one_row=lambda program: program(normals(2)(1, 12)),
    full_threadgroups=lambda program: program(normals(3)(2, 512)),
    rounded_twice=rounded_twice,
    large_gates=lambda program: program(mx.array([[-100.0, 100.0, 3.0, 2.0]] * 2)),
)
known.probe_table(mx.float16, narrow=lambda program: program(normals(4, mx.float16)(2, 512)))


known.change(
    "no-look",
    ("if (column < size)", "if (true)"),
    fact="every thread of a row writes a number, even past the end of the row",
    question="With 5 numbers in a row and 256 threads, where does thread 5 of row 0 write?",
)
known.change(
    "gate-and-up-exchanged",
    ("float gate = float(x[row * 2 * size + column])", "float gate = float(x[row * 2 * size + size + column])"),
    ("float up = float(x[row * 2 * size + size + column])", "float up = float(x[row * 2 * size + column])"),
    fact="the second half of each row is used as the gate",
    question="Which half of a row does the docstring use as the gate?",
)
known.change(
    "interleaved",
    ("float gate = float(x[row * 2 * size + column])", "float gate = float(x[row * 2 * size + 2 * column])"),
    ("x[row * 2 * size + size + column]", "x[row * 2 * size + 2 * column + 1]"),
    fact="gate and up are read alternately from each row",
    question="In a row of 10 numbers, which one is the gate of column 0?",
)
known.change(
    "as-many-columns-as-threads",
    ("size = x_shape[1] / 2", "size = threads_per_grid.x"),
    fact="the number of threads in a row is used as I, the number of columns",
    question="How many threads does the grid have for a row of 5 columns, and where in x is the first up?",
)
known.change(
    "rows-overlap",
    ("x[row * 2 * size + column]", "x[row * size + column]"),
    ("x[row * 2 * size + size + column]", "x[row * size + size + column]"),
    fact="each row of x starts I numbers after the previous one",
    question="How many numbers of x does a row have?",
)
known.change(
    "all-gates-first",
    ("x[row * 2 * size + column]", "x[row * size + column]"),
    ("x[row * 2 * size + size + column]", "x[(x_shape[0] + row) * size + column]"),
    fact="the first half of all of x is the gate and the second half is up",
    question="What follows the gate of row 0: its up, or the gate of row 1?",
)
known.change(
    "rows-far-apart",
    ("out[row * size + column]", "out[row * 2 * size + column]"),
    fact="each row of out starts 2 I numbers after the previous one",
    question="How many numbers does a row of out have?",
)
known.change(
    "up-of-the-next-row",
    ("row * 2 * size + size + column", "(row + 1) % x_shape[0] * 2 * size + size + column"),
    fact="each row's gate is combined with the next row's up",
    question="How far after the gate is the matching element of up?",
)
known.change(
    "sigmoid-alone",
    ("gate / (1 + metal::exp(-gate))", "1 / (1 + metal::exp(-gate))"),
    fact="up is multiplied by only the sigmoid of the gate",
    question="What is silu(0), and what is sigmoid(0)?",
)
known.change(
    "wrong-sign",
    ("metal::exp(-gate)", "metal::exp(gate)"),
    fact="the exponential is exp(gate) instead of exp(-gate)",
    question="How much should remain of a gate of 10, and how much of one of -10?",
)
known.change(
    "infinity-by-infinity",
    ("gate / (1 + metal::exp(-gate))", "gate * metal::exp(gate) / (1 + metal::exp(gate))"),
    fact="silu is gate * exp(gate) / (1 + exp(gate))",
    question="What is exp(100) in float32, and what is that divided by itself?",
)
known.change(
    "relu",
    ("gate / (1 + metal::exp(-gate))", "metal::max(gate, 0.0f)"),
    fact="the gate is clipped at zero",
    question="What is silu(-1)?",
)
known.change(
    "rounded-twice",
    ("T(gate / (1 + metal::exp(-gate)) * up)", "T(float(T(gate / (1 + metal::exp(-gate)))) * up)"),
    fact="silu(gate) is rounded to x's dtype before it is multiplied by up",
    question="How often is a value rounded to float16 between the gate and the output?",
)
known.change(
    "no-up",
    (" * up)", ")"),
    fact="up is missing",
    question="How does the second half of a row affect your output?",
)
known.accepted_change(
    "the product first",
    ("gate / (1 + metal::exp(-gate)) * up", "gate * up / (1 + metal::exp(-gate))"),
)
known.accepted_change("early return", ("if (column < size) {", "if (column >= size) return;\n{"))
known.not_timed("simulated time says nothing about a GPU")
