"""Known programs of task 5.3.4, the gradients of SwiGLU."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.4")


def inputs(seed, *shape, dtype=mx.float32):
    return drawn(seed, shape, shape, shape, dtype=dtype)


known.probe_table(
    three_axes=lambda program: program(*inputs(1, 2, 3, 4)),
    one_number=lambda program: program(*inputs(2)),
    # silu(0) / 0 is NaN
    zero_gate=lambda program: program(mx.zeros(3), *drawn(5, (3,), (3,))),
    # exp(100) overflows
    extremes=lambda program: program(mx.array([-1000.0, -100.0, -9.0, 9.0, 100.0]), mx.full(5, 2.0), mx.full(5, 0.5)),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(3, 2, 3, dtype=mx.float16)),
    # silu is smallest near -1.278: its slope is a difference of almost equal numbers
    half_at_the_bottom=lambda program: program(*(mx.array([x]).astype(mx.float16) for x in (-1.285, 1.0, 1.0))),
    # silu has three bits left, the product eleven
    half_of_a_tiny_silu=lambda program: program(*(mx.array([x]).astype(mx.float16) for x in (-17.5, 1.0, 1000.0))),
    # a slope of 1.7 steps of float16
    half_of_a_tiny_slope=lambda program: program(*(mx.array([x]).astype(mx.float16) for x in (-19.0, 1.0, 1000.0))),
)


@known.probe()
def swiglu_refused(program):
    gate, up, dy = inputs(4, 2, 3, 4)
    shapes = [(3, 4), (2, 3, 1), (4,), (2, 3, 5)]
    of_up = refusals(lambda shape: program(gate, mx.ones(shape), dy), shapes)
    return of_up, refusals(lambda shape: program(gate, up, mx.ones(shape)), shapes)


@known.sized("2,048 x 256, float32")
def sized(program):
    given = inputs(1, 2048, 256)
    mx.eval(given)
    return lambda: list(program(*given))


DGATE = "dgate = d * u * sigmoid * (1 + g * (1 - sigmoid))"
DUP = "dup = d * g * sigmoid"
known.change(
    "slope-is-the-sigmoid",
    (DGATE, "dgate = d * u * sigmoid"),
    fact="silu's slope is the sigmoid alone, as if it were a constant factor",
    question="silu(g) = g * sigmoid(g). Which of the two factors depends on g?",
)
known.change(
    "slope-of-the-sigmoid",
    (DGATE, "dgate = d * u * g * sigmoid * (1 - sigmoid)"),
    fact="silu's slope is g times the slope of the sigmoid, and the other part of the product rule is missing",
    question="Far to the right silu(g) is almost g. What is its slope there?",
)
known.change(
    "sigmoid-for-silu",
    (DGATE, "dgate = d * u * sigmoid * (1 - sigmoid)"),
    fact="silu's slope is that of the sigmoid, as if silu were the sigmoid",
    question="Far to the right, what are silu(g) and its slope? And the sigmoid and its slope?",
)
known.change(
    "silu-for-its-slope",
    (DGATE, "dgate = d * u * g * sigmoid"),
    fact="dgate contains silu instead of its slope",
    question="Far to the right, silu(g) is almost g. By how much does it rise if g rises by 1?",
)
known.change(
    "sigmoid-in-dup",
    (DUP, "dup = d * sigmoid"),
    fact="dup contains the sigmoid instead of silu",
    question="By which number is up multiplied in the forward pass?",
)
known.change(
    "formula-without-a-sigmoid",
    (DGATE, "dgate = d * u * (sigmoid + g * (1 - sigmoid))"),
    fact="a sigmoid is missing in the second part of silu's slope: it is g * (1 - sigmoid)",
    question="Far to the left the sigmoid is 0. What does your slope become there?",
)
known.change(
    "minus-for-plus",
    (DGATE, DGATE.replace("1 + g", "1 - g")),
    fact="the second part of silu's slope has the wrong sign",
    question="Slightly right of 0, is silu's slope more than a half, or less?",
)
known.change(
    "up-missing",
    (DGATE, DGATE.replace("d * u *", "d *")),
    fact="dgate does not contain up",
    question="Where up is 0, does the gate change the output?",
)
known.change(
    "dy-missing-in-dgate",
    (DGATE, DGATE.replace("d * u *", "u *")),
    fact="dgate does not contain dy",
    question="If the loss does not depend on the output, what is its gradient by the gate?",
)
known.change(
    "up-gets-the-slope",
    (DUP, "dup = d * sigmoid * (1 + g * (1 - sigmoid))"),
    fact="dup contains silu's slope instead of silu",
    question="For a fixed gate, how does the output depend on up?",
)
known.change(
    "gate-and-up-swapped",
    (DGATE, "dgate = d * u * mx.sigmoid(u)"),
    (DUP, "dup = d * g * mx.sigmoid(u) * (1 + u * (1 - mx.sigmoid(u)))"),
    fact="the gradients are those of gate * silu(up)",
    question="Which of the two goes through silu?",
)
known.change(
    "returned-in-the-wrong-order",
    (
        "return dgate.astype(gate.dtype), dup.astype(gate.dtype)",
        "return dup.astype(gate.dtype), dgate.astype(gate.dtype)",
    ),
    fact="the two gradients are returned in the wrong order",
    question="Which of the two does the docstring list first?",
)
known.change(
    "exp-overflows",
    ("mx.sigmoid(g)", "mx.exp(g) / (1 + mx.exp(g))"),
    fact="the sigmoid is exp(g) / (1 + exp(g)), which is NaN for large g",
    question="What is exp(100) in float32, and what is infinity divided by infinity?",
)
known.change(
    "sigmoid-as-a-quotient",
    (DGATE, "quotient = g * sigmoid / g\ndgate = d * u * quotient * (1 + g * (1 - quotient))"),
    fact="the sigmoid in dgate is silu(gate) / gate, which is NaN at a gate of 0",
    question="What is silu(0) / 0, and what should the sigmoid of 0 be?",
)
known.change(
    "slope-rounded",
    (DGATE, "dgate = d * u * (sigmoid * (1 + g * (1 - sigmoid))).astype(gate.dtype).astype(mx.float32)"),
    fact="silu's slope is rounded to gate's dtype before it is multiplied by up and dy",
    question="How often is dgate rounded on the way to its dtype?",
)
known.change(
    "silu-and-slope-rounded",
    (DGATE, "dgate = dy * up * (sigmoid * (1 + g * (1 - sigmoid))).astype(gate.dtype)"),
    (DUP, "dup = dy * (g * sigmoid).astype(gate.dtype)"),
    fact="silu and its slope are rounded to gate's dtype, and then multiplied by up and dy",
    question="How often is each result rounded on the way to its dtype?",
)
known.together("slope-rounded", "silu-rounded", makes="silu-and-slope-rounded")
known.change(
    "in-the-input-dtype",
    ("(a.astype(mx.float32) for a in (gate, up, dy))", "(gate, up, dy)"),
    fact="all is computed in gate's dtype, where 1 - sigmoid loses most digits",
    question="In float16, what is 1 - 0.9999?",
)
known.change(
    "silu-rounded",
    (DUP, "dup = d * (g * sigmoid).astype(gate.dtype).astype(mx.float32)"),
    fact="silu is rounded to gate's dtype before it is multiplied by dy",
    question="Far to the left silu is tiny, and dy is large. How many bits does silu have in float16?",
)
known.change(
    "float32-results",
    ("return dgate.astype(gate.dtype), dup.astype(gate.dtype)", "return dgate, dup"),
    fact="the gradients are float32 although the arrays are not",
    question="What should be the dtype for arrays of float16?",
)
known.change(
    "shapes-not-checked",
    ('_check_dy(up, gate.shape, "up")', ""),
    ("_check_dy(dy, gate.shape)", ""),
    fact="the shapes are not checked, and one that broadcasts is accepted",
    question="gate is 2 x 3 x 4 and up is 3 x 4. Does MLX raise an error?",
)


@known.accepted("by the value of silu")
def by_value(gate, up, dy):
    if not gate.shape == up.shape == dy.shape:
        raise ValueError(f"gate has shape {gate.shape}, up {up.shape}, dy {dy.shape}")
    g, u, d = gate.astype(mx.float32), up.astype(mx.float32), dy.astype(mx.float32)
    e = mx.exp(-mx.abs(g))
    small, large = e / (1 + e), 1 / (1 + e)
    s, other = mx.where(g < 0, small, large), mx.where(g < 0, large, small)
    return (d * u * (s + g * s * other)).astype(gate.dtype), (d * (g * s)).astype(gate.dtype)
