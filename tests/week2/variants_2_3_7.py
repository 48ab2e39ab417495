"""Reference variants of task 2.3.7, quantized embedding."""

import mlx.core as mx
from tests.week2.packed import beyond_float16
from tiny_llm_solution.quantized.affine import dequantize
from tiny_llm_solution.quantized.layers import QuantizedLinear

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.7")


def table(program, seed, vocab, size, group_size=64, bits=4, dtype=mx.float32, wanted=None):
    parts = mx.quantize(normals(seed, dtype)(vocab, size), group_size=group_size, bits=bits)
    return program(*parts, group_size, bits, wanted)


known.probe_table(
    rows=lambda program: table(program, 1, 11, 128)(mx.array([[3, 10, 0], [7, 7, 1]])),
    eight=lambda program: table(program, 2, 11, 128, 32, 8)(mx.array([2, 9])),
    one_token=lambda program: table(program, 3, 11, 64)(mx.array(5)),
    wanted=lambda program: table(program, 5, 11, 128, dtype=mx.float16, wanted=mx.float32)(mx.array([3, 10])),
    scores=lambda program: table(program, 6, 11, 128).as_linear(normals(6)(2, 3, 128)),
    scores_eight=lambda program: table(program, 7, 11, 128, 32, 8).as_linear(normals(7)(2, 128)),
)
known.probe_table(mx.bfloat16, half=lambda program: table(program, 4, 11, 128, dtype=mx.bfloat16)(mx.array([3, 10, 0])))
known.probe_table(mx.float16, scores_half=lambda program: beyond_float16(lambda *packed: program(*packed).as_linear))


@known.probe()
def embedding_memory(program):
    built, tokens = table(program, 9, 2048, 512), mx.array([[3, 2000]])
    mx.eval(built(tokens))
    return mx.array(peak_bytes(lambda: built(tokens)) > 2048 * 512 * 4 // 50)


@known.probe()
def head_memory(program):
    head, x = table(program, 9, 2048, 512).as_linear, normals(9)(1, 512)
    mx.eval(head(x))
    return mx.array(peak_bytes(lambda: head(x)) > 2048 * 512 * 4 // 2)


@known.probe()
def construction_memory(program):
    """Return whether the constructor and the first lookup together dequantize the table."""
    parts = mx.quantize(normals(9)(2048, 512), group_size=64, bits=4)
    mx.eval(*parts)
    return mx.array(peak_bytes(lambda: program(*parts)(mx.array([[3, 2000]]))) > 2048 * 512 * 4 // 2)


@known.sized("1,024 tokens of 2,048, 4 bits, groups of 64, E 256")
def sized(program):
    built, tokens = table(program, 1, 2048, 256), mx.arange(1024)
    return lambda: built(tokens)


known.change(
    "whole-table",
    (" = (x[tokens] for x in (self.packed, self.scales, self.biases))", " = self.packed, self.scales, self.biases"),
    ("self.bits).astype(self.dtype)", "self.bits).astype(self.dtype)[tokens]"),
    fact="every lookup dequantizes the whole table",
    question="A step looks up one token. How many rows of the table does your call read?",
)
known.change(
    "whole-head",
    (
        "return _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
        "w = dequantize(self.packed, self.scales.astype(mx.float32), self.biases, self.group_size, self.bits); "
        "return (x.astype(mx.float32) @ w.T).astype(x.dtype)",
    ),
    fact="`as_linear` dequantizes the whole table before it multiplies",
    question="How many bytes does your table take in float32, and how many stay packed?",
)
known.change(
    "dequantized-in-the-constructor",
    (
        "= group_size, bits, dtype or scales.dtype",
        "= group_size, bits, dtype or scales.dtype\n"
        "self.w = dequantize(packed, scales.astype(mx.float32), biases, group_size, bits)",
    ),
    ("packed, scales, biases = (x[tokens] for x in (self.packed, self.scales, self.biases))", ""),
    ("wide = scales.astype(mx.float32)", ""),
    (
        "dequantize(packed, wide, biases, self.group_size, self.bits).astype(self.dtype)",
        "self.w[tokens].astype(self.dtype)",
    ),
    (
        "return _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
        "return (x.astype(mx.float32) @ self.w.T).astype(x.dtype)",
    ),
    fact="the constructor dequantizes the whole table, and lookups index the floats",
    question="How many bytes does your table hold, and how many do the packed weights take?",
)
known.change(
    "scales-of-the-first-rows",
    (
        "packed, scales, biases = (x[tokens] for x in (self.packed, self.scales, self.biases))",
        "packed, scales, biases = self.packed[tokens], self.scales[0 * tokens], self.biases[0 * tokens]",
    ),
    fact="all tokens use the scales and biases of token 0",
    question="Which row of scales does token 7 use?",
)
known.change(
    "biases-left-out",
    ("dequantize(packed, wide, biases,", "dequantize(packed, wide, 0 * biases,"),
    fact="the embedding vectors lack the biases of their groups",
    question="A packed weight represents scale * q + ... what?",
)
known.change(
    "rounded-twice",
    ("dequantize(packed, wide,", "dequantize(packed, scales,"),
    fact="the vectors are rounded to the dtype of the scales before they are converted to the requested dtype",
    question="The scales are float16 and float32 is requested. How many digits survive the intermediate step?",
)
known.change(
    "dtype-of-scales",
    ("dtype or scales.dtype", "scales.dtype"),
    fact="the vectors have the dtype of the scales, and `dtype` is ignored",
    question="The scales are float16 and float32 is requested. What is the dtype of the vectors?",
)
known.change(
    "always-float32",
    ("dtype or scales.dtype", "dtype or mx.float32"),
    fact="the vectors are float32 when dtype is None",
    question="What is the dtype of the vectors when dtype is None?",
)
known.change(
    "scores-in-float32",
    ("return _multiply(x, self", "return _multiply(x.astype(mx.float32), self"),
    fact="the logits are float32, whatever x is",
    question="Which dtype does the docstring specify for the logits?",
)
known.change(
    "scores-in-x-s-dtype",
    ("return _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)",
     "return mx.quantized_matmul(x, self.packed, self.scales.astype(x.dtype), self.biases.astype(x.dtype),"
     " transpose=True, group_size=self.group_size, bits=self.bits)"),
    fact="the products of as_linear are computed and summed in x's own dtype",
    question="A sum of 4,096 numbers in float16: how many digits are still correct?",
)  # fmt: skip
known.change(
    "scores-without-biases",
    ("_multiply(x, self.packed, self.scales, self.biases,", "_multiply(x, self.packed, self.scales, 0 * self.biases,"),
    fact="the biases of the groups do not contribute to the logits",
    question="Does as_linear use the same vectors as the lookup?",
)
known.change(
    "always-four-bits",
    ("self.bits, self.dtype = group_size, bits,", "self.bits, self.dtype = group_size, 4,"),
    fact="the weights are always read as 4-bit, and bits is ignored",
    question="Where do your methods use bits?",
)  # fmt: skip
known.change(
    "lookup-at-the-defaults",
    ("dequantize(packed, wide, biases, self.group_size, self.bits)", "dequantize(packed, wide, biases)"),
    fact="the lookup uses the default group size and bits, not the constructor's",
    question="Which group size and bits does `dequantize` use if your call does not state them?",
)
known.change(
    "head-at-the-defaults",
    ("self.biases, self.group_size, self.bits)", "self.biases, 64, 4)"),
    fact="`as_linear` uses the default group size and bits, not the constructor's",
    question="Which group size and bits does `mx.quantized_matmul` use if your call does not state them?",
)


@known.accepted("of-a-layer")
class OfALayer:
    def __init__(self, packed, scales, biases, group_size=64, bits=4, dtype=None):
        self.layer = QuantizedLinear(packed, scales, biases, group_size, bits)
        self.dtype = scales.dtype if dtype is None else dtype

    def __call__(self, tokens):
        layer = self.layer
        parts = [mx.take(x, tokens, axis=0) for x in (layer.packed, layer.scales, layer.biases)]
        floats = (x.astype(mx.float32) for x in parts[1:])
        return dequantize(parts[0], *floats, layer.group_size, layer.bits).astype(self.dtype)

    def as_linear(self, x):
        return self.layer(x)
