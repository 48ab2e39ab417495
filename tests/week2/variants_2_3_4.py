"""Reference variants of task 2.3.4, dequantize."""

import mlx.core as mx
import numpy as np
from tiny_llm_solution.quantized.packing import unpack

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.4")

SCALE = mx.array([[0.1]], mx.float16)  # 15 times that is not a float16


def run(program, seed, group_size, bits, *shape, dtype=mx.float32):
    draw = normals(seed, dtype)
    words = np.random.default_rng(seed).integers(
        0, 2**32, (*shape[:-1], shape[-1] * group_size * bits // 32), np.uint32
    )
    return program(mx.array(words), draw(*shape), draw(*shape), group_size, bits)


known.probe_table(
    four=lambda program: run(program, 1, 64, 4, 3, 2),
    eight=lambda program: run(program, 2, 32, 8, 3, 2),
    deep=lambda program: run(program, 3, 32, 4, 2, 3, 2),
    flat=lambda program: run(program, 5, 32, 4, 2),
    refuses=lambda program: refusals(
        lambda bits: program(mx.zeros((2, 8), mx.uint32), mx.ones((2, 1)), mx.ones((2, 1)), 64, bits), (2, 3, 16)
    ),
)
# scale * q and the bias nearly cancel.
known.probe_table(
    cancelled=lambda program: mx.any(program(mx.full((1, 8), 0xFFFFFFFF, mx.uint32), SCALE, -15 * SCALE, 64, 4) != 0),
)
known.probe_table(mx.float16, half=lambda program: run(program, 4, 64, 8, 4, 2, dtype=mx.float16))


@known.sized("4 bits, groups of 64, 1,024 x 1,024")
def sized(program):
    words = mx.array(np.random.default_rng(1).integers(0, 2**32, (1024, 128), np.uint32))
    scales, biases = normals(1)(1024, 16), normals(2)(1024, 16)
    return lambda: program(words, scales, biases, 64, 4)


known.change(
    "biases-left-out",
    ("(scale * q + bias)", "(scale * q)"),
    fact="the biases are not added",
    question="Which weight does q = 0 represent?",
)
known.change(
    "biases-subtracted",
    ("(scale * q + bias)", "(scale * q - bias)"),
    fact="the biases are subtracted",
    question="Which weight does q = 0 represent?",
)
known.change(
    "bias-counted-in-steps",
    ("(scale * q + bias)", "(scale * (q + bias))"),
    fact="a bias is multiplied by its scale, as if it were a number of steps",
    question="Is a bias a weight, or a number of steps?",
)
known.change(
    "bias-as-a-zero-point",
    ("(scale * q + bias)", "(scale * (q - bias))"),
    fact="a bias is subtracted from q before q is multiplied by the scale, as if it were a zero point",
    question="In this format, which weight does q = 0 represent?",
)
known.change(
    "rows-and-columns-only",
    ("q = mx.unflatten(", "rows, columns = packed.shape\nq = mx.unflatten("),
    fact="the arrays may only have two axes, rows and columns",
    question="Which axes does the docstring give `packed`, and what is its shape for one row alone?",
)
known.change(
    "scales-and-biases-exchanged",
    ("for x in (scales, biases)", "for x in (biases, scales)"),
    fact="scales and biases are swapped",
    question="Which of the two arrays is multiplied by q?",
)
known.change(
    "scales-dealt-out",
    ("(packed, bits), -1, (-1, group_size))", "(packed, bits), -1, (group_size, -1)).swapaxes(-1, -2)"),
    ("(scale * q + bias).flatten(-2)", "(scale * q + bias).swapaxes(-1, -2).flatten(-2)"),
    fact="the scales alternate from weight to weight instead of being shared by a group",
    question="Which weights of a row does the second scale apply to?",
)  # fmt: skip
known.change(
    "scale-of-the-neighbor",
    ("return (scale * q", "scale = mx.roll(scale, 1, axis=-2)\nreturn (scale * q"),
    fact="each group uses the scale of the group before it",
    question="Which scale applies to the first group of a row?",
)
known.change(
    "first-scale-for-the-row",
    ("return (scale * q", "scale, bias = scale[..., :1, :], bias[..., :1, :]\nreturn (scale * q"),
    fact="a whole row uses the scale and bias of its first group",
    question="How many scales does a row of two groups have?",
)
known.change(
    "always-four-bits",
    ("unpack(packed, bits)", "unpack(packed, bits) & 15"),
    fact="only the lower four bits of 8-bit numbers are used",
    question="What is the largest q that you unpack when bits is 8?",
)
known.change(
    "quantized-read-as-signed",
    ("(scale * q + bias)", "(scale * (q - mx.where(q < 2 ** (bits - 1), 0.0, 2.0**bits)) + bias)"),
    fact="the quantized values are read as signed, so the upper half of their range is negative",
    question="Which q belongs to a group's largest weight: 15, or -1?",
)
known.change(
    "in-half",
    ("(x.astype(mx.float32)[..., None] for x in", "(x[..., None] for x in"),
    fact="scale * q is rounded to the dtype of scales before the bias is added",
    question="The scales are float16. In which dtype is your product scale * q, and how is it rounded?",
)
known.change(
    "in-float32",
    (".flatten(-2).astype(scales.dtype)", ".flatten(-2)"),
    fact="the weights are float32, whatever the dtype of the scales",
    question="Which dtype does the docstring specify for the weights?",
)


@known.accepted("scales-repeated")
def scales_repeated(packed, scales, biases, group_size=64, bits=4):
    q = unpack(packed, bits).astype(mx.float32)
    wide = [mx.repeat(x.astype(mx.float32), group_size, axis=-1) for x in (scales, biases)]
    return (q * wide[0] + wide[1]).astype(scales.dtype)
