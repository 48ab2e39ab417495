"""Reference variants of task 2.3.3, min-max quantization."""

import mlx.core as mx
from tests.week2.packed import taken_apart
from tiny_llm_solution.quantized.packing import pack

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.3")


def run(program, w, group_size, bits):
    return taken_apart(program(w, group_size, bits))


known.probe_table(
    four=lambda program: run(program, normals(1)(6, 128), 64, 4),
    eight=lambda program: run(program, normals(2)(6, 128), 32, 8),
    many=lambda program: run(program, normals(7)(40, 256), 32, 8),
    half=lambda program: run(program, normals(3, mx.bfloat16)(4, 128), 64, 8),
    zeros=lambda program: run(program, mx.zeros((1, 64)), 64, 4),
    next_to_nothing=lambda program: run(program, 1e-9 * normals(5)(2, 64), 64, 4),
    ends_equally_far=lambda program: run(program, mx.sign(normals(6)(2, 64)), 64, 4),
    one_sided=lambda program: (
        *run(program, mx.abs(normals(4)(2, 128)) + 0.5, 64, 4),
        *run(program, -mx.abs(normals(4)(2, 128)) - 0.5, 64, 4),
    ),
    # Weights halfway between two integers.
    halves=lambda program: run(program, mx.array([[0, 15.0, *(0.5 + i % 15 for i in range(62))]]), 64, 4),
    refuses=lambda program: refusals(
        lambda case: program(mx.ones((2, case[0])), *case[1:]),
        [(65, 64, 4), (32, 64, 4), (96, 64, 4), (64, 64, 2), (64, 64, 3)],
    ),
)


@known.sized("4 bits, groups of 64, 1,024 x 512")
def sized(program):
    w = normals(1)(1024, 512)
    return lambda: program(w, 64, 4)


known.change(
    "always-from-min",
    ("from_low = mx.abs(low) > mx.abs(high)", "from_low = mx.ones(low.shape, mx.bool_)"),
    fact="every group starts at its min, even when max is further from 0",
    question="A group spans -0.3 to 0.5. Which of its weights should be exact?",
)
known.change(
    "always-from-max",
    ("from_low = mx.abs(low) > mx.abs(high)", "from_low = mx.zeros(low.shape, mx.bool_)"),
    fact="every group starts at its max, even when min is further from 0",
    question="A group spans -0.5 to 0.3. Which of its weights should be exact?",
)
known.change(
    "nearer-end-first",
    ("mx.abs(low) > mx.abs(high)", "mx.abs(low) < mx.abs(high)"),
    fact="a group starts at the end nearer to 0",
    question="Which end is the edge, according to the docstring?",
)
known.change(
    "equally-far-from-min",
    ("mx.abs(low) > mx.abs(high)", "mx.abs(low) >= mx.abs(high)"),
    fact="a group whose ends are equally far from 0 starts at its min",
    question="Which end is the edge when both are equally far from 0?",
)
known.change(
    "zero-is-no-step",
    ("scale = mx.where(steps == 0, scale, edge / mx.where(steps == 0, 1, steps))", "pass"),
    fact="the scale is not adjusted so that 0 lies a whole number of steps from the edge",
    question="Weights of exactly 0 are common. What are they after quantization?",
)
known.change(
    "scale-always-above-zero",
    ("scale = mx.where(from_low, scale, -scale)", "pass"),
    fact="the initial scale is positive even when the group starts at its max",
    question="In which direction are the other weights from the largest one?",
)
known.change(
    "sixteen-steps",
    ("most = 2**bits - 1", "most = 2**bits - 1\ncount = 2**bits"),
    ("(high - low) / most", "(high - low) / count"),
    fact="the scale divides max - min by 16 instead of 15 (with 4 bits)",
    question="Sixteen equally spaced values: how many steps lead from the first to the last?",
)
known.change(
    "not-clipped",
    (".clip(mx.round((groups - bias) / scale), 0, most)", ".round((groups - bias) / scale).astype(mx.int32) & most"),
    fact="q wraps around instead of being clipped",
    question="The scale was adjusted slightly. How many steps may it now take to reach the other end?",
)
known.change(
    "not-clipped-at-the-top",
    ("mx.clip(mx.round((groups - bias) / scale), 0, most)", "mx.maximum(mx.round((groups - bias) / scale), 0)"),
    fact="q may exceed 15 (with 4 bits), so a bit of it lands in the next weight",
    question="Which is the largest q that fits into 4 bits?",
)
known.change(
    "rounded-down",
    ("mx.round((groups - bias) / scale)", "mx.floor((groups - bias) / scale)"),
    fact="q is rounded down",
    question="A weight is 6.9 steps from the edge. Which integer is nearest?",
)
known.change(
    "halves-up",
    ("mx.round((groups - bias) / scale)", "mx.floor((groups - bias) / scale + 0.5)"),
    fact="halves are rounded up instead of to even",
    question="What is mx.round(2.5)?",
)
known.change(
    "scale-rounded-first",
    ("q = mx.clip", "scale = scale.astype(w.dtype).astype(mx.float32)\nq = mx.clip"),
    fact="q is computed with a scale already rounded to w's dtype",
    question="A bfloat16 scale has three digits. Is q computed before or after the scale is rounded?",
)  # fmt: skip
known.change(
    "in-its-own-dtype",
    ("w.astype(mx.float32)", "w"),
    fact="everything is computed in w's own dtype",
    question="In which dtype does the docstring compute scale, bias and q?",
)
known.change(
    "no-least-step",
    ("mx.maximum((high - low) / most, 1e-7)", "(high - low) / most"),
    fact="the scale has no minimum",
    question="All weights of a group are equal. What is its scale, and what happens when you divide by it?",
)
known.change(
    "bias-always-the-edge",
    ("bias = mx.where(steps == 0, 0, edge)", "bias = edge"),
    fact="the bias is the edge even when round(edge / scale) is 0",
    question="What is the bias of a group whose weights are all close to 0?",
)
known.change(
    "one-group-a-row",
    ("low, high = mx.min(groups, axis=-1, keepdims=True), mx.max(groups, axis=-1, keepdims=True)",
     "like = groups[..., :1]\n"
     "low, high = (0 * like + f(groups, axis=(-2, -1), keepdims=True) for f in (mx.min, mx.max))"),
    fact="min and max are computed over the whole row",
    question="How many scales does a row of two groups have, and which weights is each computed from?",
)  # fmt: skip
known.change(
    "scales-in-float32",
    ("(x.squeeze(-1).astype(w.dtype) for x in (scale, bias))", "(x.squeeze(-1) for x in (scale, bias))"),
    fact="scales and biases stay float32",
    question="What is the dtype of the scales when the weights are bfloat16?",
)
known.change(
    "q-from-the-min",
    ("(groups - bias) / scale", "(groups - low) / scale"),
    fact="q counts the steps from min, although the bias may be max",
    question="A group's bias is its max. What should q be for that weight?",
)
known.change(
    "plain-min-max",
    ("from_low = mx.abs(low) > mx.abs(high)", "from_low = mx.ones(low.shape, mx.bool_)"),
    ("scale = mx.where(steps == 0, scale, edge / mx.where(steps == 0, 1, steps))", "pass"),
    ("bias = mx.where(steps == 0, 0, edge)", "bias = edge"),
    fact="each group's bias is its min, and its scale is not adjusted so that 0 is a whole number of steps away",
    question="A group spans -0.3 to 0.5. Which of its weights is exact in MLX's rule, and which level is exactly 0?",
)
known.change(
    "times-the-reciprocal",
    ("(groups - bias) / scale", "(groups - bias) * (1 / scale)"),
    fact="the distances from the bias are multiplied by 1 / scale, which is itself rounded",
    question="Bit for bit as in MLX: how often is a quotient rounded, and how often yours?",
)
known.change(
    "rest-left-out",
    ("if w.shape[-1] % group_size:", "w = w[:, : w.shape[-1] // group_size * group_size]\nif False:"),
    fact="weights that do not fill a group are silently dropped",
    question="What happens to the last weight of a row of 65?",
)
known.change(
    "q-from-the-min-upwards",
    ("(groups - bias) / scale", "(groups - low) / mx.abs(scale)"),
    fact="q counts the steps from min upwards, although the bias may be max and the scale negative",
    question="A group's bias is its max. What does scale * q + bias give for that weight?",
)


@known.accepted("group-by-group")
def group_by_group(w, group_size=64, bits=4):
    if w.shape[-1] % group_size:
        raise ValueError(f"{w.shape[-1]} is not a multiple of {group_size}")
    rows, most = w.shape[0], float(2**bits - 1)
    x = w.astype(mx.float32).reshape(rows * (w.shape[-1] // group_size), group_size)
    smallest, largest = x.min(axis=1), x.max(axis=1)
    negative = abs(smallest) > abs(largest)
    edge = mx.where(negative, smallest, largest)
    step = mx.maximum((largest - smallest) / most, 1e-7) * mx.where(negative, 1.0, -1.0)
    n = mx.round(edge / step)
    near = n == 0
    step = mx.where(near, step, edge / mx.where(near, mx.ones_like(n), n))
    start = mx.where(near, mx.zeros_like(edge), edge)
    q = mx.minimum(mx.maximum(mx.round((x - start[:, None]) / step[:, None]), 0.0), most)
    packed = pack(q.astype(mx.int32).reshape(w.shape), bits)
    return packed, step.reshape(rows, -1).astype(w.dtype), start.reshape(rows, -1).astype(w.dtype)
