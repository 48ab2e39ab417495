"""Known programs of task 2.5.4, SwiGLU as a kernel."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.5.4")


known.probe_table(
    rows=lambda program: program(normals(1)(3, 10)),
    one_row=lambda program: program(normals(2)(1, 12)),
    full_threadgroups=lambda program: program(normals(3)(2, 512)),
    large_gates=lambda program: program(mx.array([[-100.0, 100.0, 3.0, -2.0]] * 2)),
)
known.probe_table(mx.float16, narrow=lambda program: program(normals(4, mx.float16)(2, 512)))


known.change(
    "no-look",
    ("if (column < size)", "if (true)"),
    fact="all threads of a row write a number, although a row may not have as many",
    question="With 5 numbers in a row and 256 threads, which place does thread 5 of row 0 write to?",
)
known.change(
    "gate-and-up-exchanged",
    ("float gate = float(x[row * 2 * size + column])", "float gate = float(x[row * 2 * size + size + column])"),
    ("float up = float(x[row * 2 * size + size + column])", "float up = float(x[row * 2 * size + column])"),
    fact="the second half of each row is taken for the gate",
    question="Which half of a row does the docstring call the gate?",
)
known.change(
    "interleaved",
    ("float gate = float(x[row * 2 * size + column])", "float gate = float(x[row * 2 * size + 2 * column])"),
    ("x[row * 2 * size + size + column]", "x[row * 2 * size + 2 * column + 1]"),
    fact="gate and up are taken from each row by turns",
    question="Of a row of 10 numbers, which one belongs to the gate at place 0?",
)
known.change(
    "up-of-the-next-row",
    ("row * 2 * size + size + column", "(row + 1) % x_shape[0] * 2 * size + size + column"),
    fact="each row's gate meets the next row's up",
    question="By how much is the place of up further on than that of the gate?",
)
known.change(
    "sigmoid-alone",
    ("gate / (1 + metal::exp(-gate))", "1 / (1 + metal::exp(-gate))"),
    fact="up is multiplied by the sigmoid of the gate alone",
    question="What is silu(0), and what is sigmoid(0)?",
)
known.change(
    "wrong-sign",
    ("metal::exp(-gate)", "metal::exp(gate)"),
    fact="the exponential is that of gate, and not of -gate",
    question="What is left of a gate of 10, and what of one of -10?",
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
    fact="the gate is cut off below zero",
    question="What is silu(-1)?",
)
known.change(
    "no-up",
    (" * up)", ")"),
    fact="up is left out",
    question="What does the second half of a row change in your output?",
)
known.accepted_change(
    "the product first",
    ("gate / (1 + metal::exp(-gate)) * up", "gate * up / (1 + metal::exp(-gate))"),
)
known.accepted_change("threads that leave", ("if (column < size) {", "if (column >= size) return;\n{"))
known.not_timed("the simulator's time says nothing of a GPU's")
