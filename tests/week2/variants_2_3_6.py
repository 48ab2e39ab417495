"""Reference variants of task 2.3.6, quantized linear layer."""

import mlx.core as mx
from tests.week2.packed import beyond_float16
from tiny_llm_solution.quantized.affine import dequantize

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.6")


def triple(seed, outputs, inputs, group_size=64, bits=4, dtype=mx.float32):
    w = normals(seed, dtype)(outputs, inputs, spread=inputs**-0.5)
    return mx.quantize(w, group_size=group_size, bits=bits)


def run(program, seed, leading, inputs, group_size=64, bits=4, dtype=mx.float32, scales=None, bias=True):
    own = normals(seed + 1, scales or dtype)(5) if bias else None
    layer = program(*triple(seed, 5, inputs, group_size, bits, scales or dtype), group_size, bits, own)
    return layer(normals(seed + 2, dtype)(*leading, inputs))


known.probe_table(
    with_bias=lambda program: run(program, 1, (2, 3), 128),
    without=lambda program: run(program, 2, (3,), 128, bias=False),
    eight=lambda program: run(program, 3, (2,), 256, 128, 8),
    one_vector=lambda program: run(program, 4, (), 64, 32),
    refuses=lambda program: refusals(lambda kind: program(*triple(9, 3, 256), *kind), [(32, 4), (128, 4), (64, 8)]),
)
known.probe_table(
    mx.float16,
    half=lambda program: run(program, 5, (2,), 128, dtype=mx.float16),
    other_scales=lambda program: run(program, 7, (2,), 128, dtype=mx.float16, scales=mx.float32, bias=False),
    other_bias=lambda program: run(program, 8, (2,), 128, dtype=mx.float16, scales=mx.float32),
    long_rows=beyond_float16,
)


@known.probe()
def linear_memory(program):
    layer, x = program(*triple(8, 1024, 512)), normals(8)(1, 512)
    mx.eval(layer(x))
    return mx.array(peak_bytes(lambda: layer(x)) > 1024 * 512 * 2)


@known.probe()
def linear_memory_of_both(program):
    """Return whether the constructor and the first call together dequantize the matrix."""
    parts, x = triple(8, 1024, 512), normals(8)(1, 512)
    mx.eval(x, *parts)
    return mx.array(peak_bytes(lambda: program(*parts)(x)) > 1024 * 512 * 2)


@known.sized("8 vectors, 4 bits, groups of 64, 1,024 x 1,024")
def sized(program):
    layer, x = program(*triple(1, 1024, 1024)), normals(1)(8, 1024)
    return lambda: layer(x)


known.change(
    "bias-left-out",
    ("return y if self.bias is None else y + self.bias.astype(x.dtype)", "return y"),
    fact="the layer's own bias is not added",
    question="Which of your arrays has O numbers, and where is it added?",
)
known.change(
    "bias-not-converted",
    ("self.bias.astype(x.dtype)", "self.bias"),
    fact="the bias is added in its own dtype, which the result takes over",
    question="What is the dtype of float16 + float32?",
)
known.change(
    "biases-left-out",
    ("self.scales, self.biases, self.group_size", "self.scales, 0 * self.biases, self.group_size"),
    fact="the biases of the groups do not contribute to the product",
    question="A packed weight represents scale * q + ... what?",
)
known.change(
    "scales-as-biases",
    ("self.scales, self.biases, self.group_size", "self.biases, self.scales, self.group_size"),
    fact="scales and biases are swapped",
    question="In what order does mx.quantized_matmul take scales and biases?",
)
known.change(
    "in-x-s-dtype",
    ("y = _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
     "y = mx.quantized_matmul(x, self.packed, self.scales.astype(x.dtype), self.biases.astype(x.dtype), transpose=True,"
     " group_size=self.group_size, bits=self.bits)"),
    fact="the products are computed and summed in x's own dtype",
    question="A sum of 4,096 numbers in float16: how many digits are still correct?",
)  # fmt: skip
known.change(
    "in-float32",
    ("y = _multiply(x,", "y = _multiply(x.astype(mx.float32),"),
    fact="the result is float32, whatever x is",
    question="Which dtype does the docstring specify for the result?",
)
known.change(
    "dequantized-whole",
    ("y = _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
     "wide = (v.astype(mx.float32) for v in (self.scales, self.biases))\n"
     "w = mx.dequantize(self.packed, *wide, group_size=self.group_size, bits=self.bits)\n"
     "y = (x.astype(mx.float32) @ w.T).astype(x.dtype)"),
    fact="every call dequantizes the whole matrix before multiplying",
    question="How many bytes does your call write to memory, and how many do the packed weights save?",
)  # fmt: skip
known.change(
    "dequantized-in-the-constructor",
    ("self.group_size, self.bits = group_size, bits",
     "wide = (v.astype(mx.float32) for v in (scales, biases))\n"
     "self.w = mx.dequantize(packed, *wide, group_size=group_size, bits=bits)"),
    ("y = _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
     "y = (x.astype(mx.float32) @ self.w.T).astype(x.dtype)"),
    fact="the whole matrix is dequantized once, and the layer keeps the floats",
    question="How many bytes does your layer hold, and how many do the packed weights take?",
)  # fmt: skip
known.change(
    "shapes-not-compared",
    ("if inputs != described:", "if False:"),
    fact="packed weights and scales for different row lengths are accepted",
    question="What happens with packed weights for 256 inputs and scales for 512?",
)
known.change(
    "eight-in-every-word",
    ("packed.shape[-1] * 32 // bits", "packed.shape[-1] * 8"),
    fact="eight weights are counted per word, even with 8 bits",
    question="How many 8-bit weights does a uint32 hold?",
)
known.change(
    "always-groups-of-64",
    ("self.group_size, self.bits = group_size, bits", "self.group_size, self.bits = 64, bits"),
    fact="the group size is always 64, and group_size is ignored",
    question="Where does your call use group_size?",
)
known.change(
    "always-four-bits",
    ("self.group_size, self.bits = group_size, bits", "self.group_size, self.bits = group_size, 4"),
    fact="the weights are always read as 4-bit, and bits is ignored",
    question="Where does your call use bits?",
)


@known.accepted("in-strips")
class InStrips:
    """Multiply a few rows of the matrix at a time."""

    def __init__(self, packed, scales, biases, group_size=64, bits=4, bias=None):
        if packed.shape[-1] * 32 != scales.shape[-1] * group_size * bits:
            raise ValueError(f"{packed.shape[-1] * 32 // bits} and {scales.shape[-1] * group_size} weights a row")
        self.parts, self.settings, self.bias = (packed, scales, biases), (group_size, bits), bias

    def __call__(self, x):
        rows, wide, found = len(self.parts[0]), x.astype(mx.float32), []
        for at in range(0, rows, 128):
            packed, scales, biases = (part[at : at + 128] for part in self.parts)
            floats = (v.astype(mx.float32) for v in (scales, biases))
            found.append(wide @ dequantize(packed, *floats, *self.settings).T)
            mx.eval(found[-1])
        y = mx.concatenate(found, axis=-1).astype(x.dtype)
        return y if self.bias is None else self.bias.astype(x.dtype) + y
