"""Known programs of task 5.5.2, a LoRA layer."""

import mlx.core as mx
from tiny_llm_solution.basics import linear
from tiny_llm_solution.lora.layer import LoRALinear

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.5.2")


def inputs(seed, dtype=mx.float32, leading=(3,), sizes=(7, 5, 2)):
    draw, (inner, outputs, rank) = normals(seed, dtype), sizes
    return draw(*leading, inner), draw(outputs, inner), draw(rank, inner), draw(outputs, rank)


def both(program, drawn, alpha, bias=None):
    x, w, a, b = drawn
    layer = program(w, a, b, alpha, bias)
    return layer(x), layer.merged()


def called(program, drawn, alpha, bias=None):
    x, w, a, b = drawn
    return program(w, a, b, alpha, bias)(x)


@known.probe()
def lora_w_afterwards(program):
    x, w, a, b = inputs(8)
    layer = program(w, a, b, 3.0)
    layer.merged()
    return layer(x), w


known.probe_table(
    plain=lambda program: both(program, inputs(1), 3.0),
    bias=lambda program: both(program, inputs(2), 3.0, normals(3)(5)),
    square=lambda program: both(program, inputs(4, sizes=(4, 4, 4)), 3.0),
    rank_as_inputs=lambda program: both(program, inputs(5, sizes=(3, 5, 3)), 3.0),
    called_alone=lambda program: called(program, inputs(6), 8.0),
    merged_alone=lambda program: program(*inputs(7)[1:], 8.0).merged(),
    refused=lambda program: refusals(
        lambda shapes: program(*map(mx.zeros, shapes), 1.0),
        [((5, 7), (2, 6), (5, 2)), ((5, 7), (2, 7), (2, 5)), ((5, 7), (2, 7), (5, 3))],
    ),
)
known.probe_table(
    mx.float16,
    half=lambda program: called(program, inputs(9, mx.float16), 3.0),
    half_with_float32=lambda program: called(program, (*inputs(10, mx.float16)[:2], *inputs(10)[2:]), 3.0),
)
known.probe_table(
    merged_half=lambda program: program(*inputs(11, mx.float16, sizes=(24, 20, 16))[1:], 3.0).merged(),
)


@known.probe()
def lora_memory(program):
    """Whether a call on one row takes as much memory as W."""
    x, w, a, b = inputs(12, leading=(1,), sizes=(512, 512, 2))
    mx.eval(x, w, a, b)
    layer = program(w, a, b, 3.0)
    return mx.array(peak_bytes(lambda: layer(x)) > 512 * 512 * 3), layer(x)


@known.sized("x 64 x 1,024, w 1,024 x 1,024, r 8, float32")
def sized(program):
    x, w, a, b = inputs(1, leading=(64,), sizes=(1024, 1024, 8))
    layer = program(w, a, b, 16.0)
    return lambda: layer(x)


SCALE = "self.scale = alpha / rank"
PRODUCT = "(self.b.astype(mx.float32) @ self.a.astype(mx.float32))"
UPDATE = "(self.scale * update).astype(y.dtype)"
MERGED = "(self.w.astype(mx.float32) + update).astype(self.w.dtype)"
known.change(
    "not-divided-by-the-rank",
    (SCALE, "self.scale = alpha"),
    fact="the update is multiplied by alpha instead of alpha / r",
    question="With r = 4 and alpha = 8, what is the update multiplied by?",
)
known.change(
    "scale-inverted",
    (SCALE, "self.scale = rank / alpha"),
    fact="the update is multiplied by r / alpha instead of alpha / r",
    question="With r = 4 and alpha = 8, what is the update multiplied by?",
)
known.change(
    "root-of-the-rank",
    (SCALE, "self.scale = alpha / rank**0.5"),
    fact="alpha is divided by the root of r, as rsLoRA does, instead of by r",
    question="With r = 4 and alpha = 8, what is the update multiplied by?",
)
known.change(
    "not-scaled-when-called",
    (UPDATE, "update.astype(y.dtype)"),
    fact="the scale is missing in the call, and present in the merged matrix",
    question="Does a model answer the same before and after the merge?",
)
known.change(
    "not-scaled-when-merged",
    ("update = self.scale * (self.b", "update = (self.b"),
    fact="the scale is missing in the merged matrix, and present in the call",
    question="Does a model answer the same before and after the merge?",
)
known.change(
    "merged-without-w",
    (MERGED, "update.astype(self.w.dtype)"),
    fact="the merged matrix is the update alone, without W",
    question="What should the merged layer compute if B is zero?",
)
known.change(
    "wrong-order-when-square",
    (
        PRODUCT,
        f"(self.a.astype(mx.float32) @ self.b.astype(mx.float32) if self.a.shape == self.b.shape else {PRODUCT})",
    ),
    fact="the merged update is A B instead of B A where both products exist",
    question="Which matrix does x meet first? Which one is next to x in B A x?",
)
known.change(
    "bias-lost",
    ("linear(x, self.w, self.bias)", "linear(x, self.w)"),
    fact="the bias is missing",
    question="What does the layer add besides the update?",
)
known.change(
    "merged-in-place",
    (
        f"return {MERGED}",
        f"self.w += ({MERGED}) - self.w\nreturn self.w",
    ),
    fact="merging changes the layer's own W, and the caller's",
    question="What does the layer return when it is called after `merged()`?",
)
known.change(
    "merged-matrix-kept",
    (f"return {MERGED}", f"self.w = {MERGED}\nreturn self.w"),
    fact="merging puts the merged matrix in the place of W, so that the update counts twice afterwards",
    question="What does the layer return when it is called after `merged()`?",
)
known.change(
    "float32-result",
    (UPDATE, "self.scale * update"),
    fact="float32 adapters make the output float32, although x and W are not",
    question="x and W are float16, A and B float32. What should be the dtype of the output?",
)
known.change(
    "product-formed",
    ("linear(linear(x, self.a), self.b)", "linear(x, self.b @ self.a)"),
    fact="B A is formed for every call, which takes as much memory as W",
    question="How many numbers has B A? And x A.T?",
)
known.change(
    "shapes-not-checked",
    ("if a.shape != (rank, inputs) or b.shape != (outputs, rank):", "if False:"),
    fact="matrices that do not fit are not refused",
    question="When should a B of another rank be noticed?",
)


@known.accepted("by einsum, and a merge by outer products")
class ByEinsum(LoRALinear):
    def __call__(self, x):
        y = linear(x, self.w, self.bias)
        inner = mx.einsum("...i,ri->...r", x, self.a)
        return y + (mx.einsum("...r,or->...o", inner, self.b) * self.scale).astype(y.dtype)

    def merged(self):
        update = mx.einsum("or,ri->oi", self.b.astype(mx.float32), self.a.astype(mx.float32))
        return (self.scale * update + self.w.astype(mx.float32)).astype(self.w.dtype)


known.accepted_change(
    "scaled before B",
    ("linear(linear(x, self.a), self.b)", "linear(self.scale * linear(x, self.a), self.b)"),
    ("(self.scale * update).astype(y.dtype)", "update.astype(y.dtype)"),
)
