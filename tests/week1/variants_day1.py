"""Day 1's known programs: the mistakes that learners make, right programs in other words, and the probes."""

import math

import mlx.core as mx

from tiny_llm_course.checks import causal, normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.attention import SimpleMultiHeadAttention  # noqa: E402
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend  # noqa: E402
from tiny_llm_solution.basics import linear, softmax  # noqa: E402

day = Variants()

# 1.1.1 softmax


@day.probe("1.1.1")
def softmax_three_axes(program):
    x = normals(11)(3, 4, 5, spread=2.0)
    return program(x, 1), program(x, -1), x


@day.probe("1.1.1")
def softmax_rows_far_apart(program):
    x = normals(12)(3, 4) + mx.array([[200.0], [0.0], [-200.0]])
    return program(x, -1), program(mx.contiguous(x.T), 0)


@day.probe("1.1.1", mx.float16)
def softmax_half(program):
    return program(normals(13, mx.float16)(3, 4), -1)


@day.wrong(
    "1.1.1", "no-maximum",
    fact="the exponentials are taken without subtracting the largest score first",
    question="What is exp(200) in float32, and in float16?",
)  # fmt: skip
def no_maximum(x, axis):
    e = mx.exp(x)
    return e / mx.sum(e, axis=axis, keepdims=True)


@day.wrong(
    "1.1.1", "global-maximum",
    fact="the largest score of the whole array is subtracted from every row",
    question="What becomes of a row whose own largest score lies 200 below that of another row?",
)  # fmt: skip
def global_maximum(x, axis):
    e = mx.exp(x - mx.max(x))
    return e / mx.sum(e, axis=axis, keepdims=True)


@day.wrong(
    "1.1.1", "axis-ignored",
    fact="the softmax always runs along the last axis, whatever `axis` says",
    question="For x of 3 x 4 and axis 0, which numbers should sum to one?",
)  # fmt: skip
def axis_ignored(x, axis):
    return softmax(x, -1)


@day.wrong(
    "1.1.1", "sum-of-everything",
    fact="the exponentials are divided by the sum over the whole array",
    question="How many sums does an array of 3 x 4 need along its last axis?",
)  # fmt: skip
def sum_of_everything(x, axis):
    e = mx.exp(x - mx.max(x, axis=axis, keepdims=True))
    return e / mx.sum(e)


@day.wrong(
    "1.1.1", "log-softmax",
    fact="the result is the logarithm of the weights",
    question="Can a weight be negative?",
)  # fmt: skip
def log_softmax(x, axis):
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


@day.wrong(
    "1.1.1", "float32-result",
    fact="the result stays in float32 although the scores came in another dtype",
    question="Which dtype should float16 scores give, and where was it left?",
)  # fmt: skip
def softmax_float32(x, axis):
    return softmax(x.astype(mx.float32), axis)


@day.wrong(
    "1.1.1", "in-place",
    fact="the largest score is subtracted in place, so that the caller's array changes",
    question="After softmax(x, -1), what does the caller find in x?",
)  # fmt: skip
def in_place(x, axis):
    x -= mx.max(x, axis=axis, keepdims=True)
    return softmax(x, axis)


@day.accepted("1.1.1", "reciprocal")
def by_reciprocal(x, axis):
    e = mx.exp(x - x.max(axis, keepdims=True))
    return e * mx.reciprocal(e.sum(axis, keepdims=True))


@day.accepted("1.1.1", "float32-inside")
def float32_inside(x, axis):
    return softmax(x.astype(mx.float32), axis).astype(x.dtype)


# 1.1.2 scaled dot-product attention


def attention_inputs(seed, dtype=mx.float32):
    draw = normals(seed, dtype)
    return draw(2, 3, 6), draw(2, 5, 6), draw(2, 5, 6)


@day.probe("1.1.2")
def attention_plain(program):
    return program(*attention_inputs(21))


@day.probe("1.1.2")
def attention_given_scale(program):
    return program(*attention_inputs(22), scale=0.7), program(*attention_inputs(22), scale=0.0)


@day.probe("1.1.2")
def attention_finite_mask(program):
    return program(*attention_inputs(23), mask=normals(230)(3, 5, spread=2.0))


@day.probe("1.1.2")
def attention_causal_mask(program):
    return program(*attention_inputs(24), mask=causal(3, 5, mx.float32))


@day.probe("1.1.2", mx.float16)
def attention_half(program):
    return program(*attention_inputs(25, mx.float16)), program(*attention_inputs(25, mx.float16), mask=mx.zeros((3, 5)))


def weights(query, key, scale=None, mask=None, axis=-1):
    """The solution's weights, to build mistakes from."""
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return softmax(scores if mask is None else scores + mask.astype(scores.dtype), axis)


@day.wrong(
    "1.1.2", "no-scale",
    fact="the default scale 1/sqrt(D) is missing",
    question="How far do dot products of random vectors spread when D grows from 1 to 128?",
)  # fmt: skip
def no_scale(query, key, value, scale=None, mask=None):
    return attend(query, key, value, 1.0 if scale is None else scale, mask)


@day.wrong(
    "1.1.2", "scale-1-over-D",
    fact="the default scale is 1/D",
    question="The dot product of two random vectors of D numbers has variance D. What is its standard deviation?",
)  # fmt: skip
def scale_1_over_d(query, key, value, scale=None, mask=None):
    return attend(query, key, value, 1 / query.shape[-1] if scale is None else scale, mask)


@day.wrong(
    "1.1.2", "scale-ignored",
    fact="the scale is always 1/sqrt(D), also when the caller gives another one",
    question="What should scale=0.7 change?",
)  # fmt: skip
def scale_ignored(query, key, value, scale=None, mask=None):
    return attend(query, key, value, None, mask)


@day.wrong(
    "1.1.2", "scale-0-is-default",
    fact="a given scale of 0 counts as none given",
    question="What does `scale or default` give for 0.0?",
)  # fmt: skip
def scale_0_is_default(query, key, value, scale=None, mask=None):
    return attend(query, key, value, scale or None, mask)


@day.wrong(
    "1.1.2", "scale-divides",
    fact="the scores are divided by a scale that the caller gives",
    question="The default multiplies by 1/sqrt(D). What should a given scale do?",
)  # fmt: skip
def scale_divides(query, key, value, scale=None, mask=None):
    return attend(query, key, value, None if scale is None else 1 / scale if scale else 0.0, mask)


@day.wrong(
    "1.1.2", "mask-ignored",
    fact="the mask is not used",
    question="Which entries of the result should change when a mask forbids the last key?",
)  # fmt: skip
def mask_ignored(query, key, value, scale=None, mask=None):
    return attend(query, key, value, scale)


@day.wrong(
    "1.1.2", "mask-before-scale",
    fact="the mask is added before the scores are scaled",
    question="With D = 64, what is left of a mask entry of -2 after the scaling?",
)  # fmt: skip
def mask_before_scale(query, key, value, scale=None, mask=None):
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return attend(query, key, value, scale, None if mask is None else mask * factor)


@day.wrong(
    "1.1.2", "mask-after-softmax",
    fact="the mask is applied to the weights, after the softmax",
    question="What do the weights of a query sum to, once some of them are struck out?",
)  # fmt: skip
def mask_after_softmax(query, key, value, scale=None, mask=None):
    w = weights(query, key, scale)
    return (w if mask is None else w * mx.exp(mask.astype(w.dtype))) @ value


@day.wrong(
    "1.1.2", "softmax-over-queries",
    fact="the softmax runs over the queries instead of the keys",
    question="Whose weights should sum to one: those of a query over all keys, or those of a key over all queries?",
)  # fmt: skip
def softmax_over_queries(query, key, value, scale=None, mask=None):
    return weights(query, key, scale, mask, axis=-2) @ value


@day.wrong(
    "1.1.2", "no-softmax",
    fact="the scores multiply the values without a softmax",
    question="What should the five numbers that weigh the values of one query sum to?",
)  # fmt: skip
def no_softmax(query, key, value, scale=None, mask=None):
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (scores if mask is None else scores + mask.astype(scores.dtype)) @ value


@day.wrong(
    "1.1.2", "float32-result",
    fact="the result is float32 although the query is not",
    question="Which of your factors is an array of float32: the scale, perhaps, or a cast?",
)  # fmt: skip
def attention_float32(query, key, value, scale=None, mask=None):
    return attend(query, key, value, scale, mask).astype(mx.float32)


@day.wrong(
    "1.1.2", "mask-dtype",
    fact="a float32 mask turns a float16 result into float32",
    question="What is float16 + float32, and when did that addition happen?",
)  # fmt: skip
def mask_dtype(query, key, value, scale=None, mask=None):
    output = attend(query, key, value, scale, mask)
    return output if mask is None else output.astype(mx.result_type(output.dtype, mask.dtype))


@day.accepted("1.1.2", "scaled-query")
def scaled_query(query, key, value, scale=None, mask=None):
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attend(query * factor, key, value, 1.0, mask)


@day.accepted("1.1.2", "einsum-in-float32")
def attention_einsum(query, key, value, scale=None, mask=None):
    q, k, v = (x.astype(mx.float32) for x in (query, key, value))
    scores = mx.einsum("...ld,...sd->...ls", q, k) * (query.shape[-1] ** -0.5 if scale is None else scale)
    w = softmax(scores if mask is None else scores + mask, axis=-1)
    return mx.einsum("...ls,...sd->...ld", w, v).astype(query.dtype)


# 1.1.3 linear


@day.probe("1.1.3")
def linear_with_bias(program):
    draw = normals(31)
    return program(draw(2, 3, 4), draw(5, 4), draw(5))


@day.probe("1.1.3")
def linear_square(program):
    draw = normals(32)
    return program(draw(2, 4), draw(4, 4))


@day.probe("1.1.3", mx.float16)
def linear_half(program):
    draw = normals(33, mx.float16)
    return program(draw(3, 4), draw(5, 4), draw(5))


@day.wrong(
    "1.1.3", "reshaped-weight",
    fact="w is reshaped to I x O instead of transposed",
    question="Write out [[1, 2, 3], [4, 5, 6]] reshaped to 3 x 2, and transposed. Are they the same?",
)  # fmt: skip
def reshaped_weight(x, w, bias=None):
    return linear(x, w.reshape(w.shape[1], w.shape[0]).T, bias)


@day.wrong(
    "1.1.3", "not-transposed-when-square",
    fact="w is transposed only if the shapes would not fit otherwise",
    question="With O = I both products have the same shape. Which of the two is asked for?",
)  # fmt: skip
def not_transposed_when_square(x, w, bias=None):
    return linear(x, w.T if w.shape[0] == w.shape[1] else w, bias)


@day.wrong(
    "1.1.3", "no-bias",
    fact="the bias is left out",
    question="What should linear give for x = 0?",
)  # fmt: skip
def no_bias(x, w, bias=None):
    return linear(x, w)


@day.wrong(
    "1.1.3", "bias-subtracted",
    fact="the bias is subtracted",
    question="What should linear give for x = 0: the bias, or its negative?",
)  # fmt: skip
def bias_subtracted(x, w, bias=None):
    return linear(x, w, None if bias is None else -bias)


@day.wrong(
    "1.1.3", "flattened",
    fact="the leading dimensions are flattened into one and not restored",
    question="For x of 2 x 3 x 4 and w of 5 x 4, which shape should come out?",
)  # fmt: skip
def flattened(x, w, bias=None):
    return linear(x, w, bias).reshape(-1, w.shape[0])


@day.wrong(
    "1.1.3", "scaled",
    fact="the result is divided by sqrt(I)",
    question="Attention scales its scores. Does a linear layer?",
)  # fmt: skip
def scaled(x, w, bias=None):
    y = linear(x, w) * x.shape[-1] ** -0.5
    return y if bias is None else y + bias


@day.wrong(
    "1.1.3", "float32-result",
    fact="the result is float32 although the arrays are not",
    question="Which dtype do three float16 arrays share?",
)  # fmt: skip
def linear_float32(x, w, bias=None):
    return linear(x, w, bias).astype(mx.float32)


@day.accepted("1.1.3", "einsum")
def linear_einsum(x, w, bias=None):
    y = mx.einsum("...i,oi->...o", x, w)
    return y if bias is None else y + bias


@day.accepted("1.1.3", "weights-first")
def weights_first(x, w, bias=None):
    y = (w @ x[..., None]).squeeze(-1)
    return y if bias is None else y + bias


# 1.1.4 multi-head attention


class Base(SimpleMultiHeadAttention):
    """The solution in steps that a mistake can replace one at a time."""

    def project(self, query, key, value):
        return linear(query, self.wq), linear(key, self.wk), linear(value, self.wv)

    def split(self, x):  # N x L x (H * D) -> N x H x L x D
        return x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2)

    def attend(self, q, k, v, mask):
        return attend(q, k, v, mask=mask)

    def join(self, x):  # N x H x L x D -> N x L x (H * D)
        return x.swapaxes(1, 2).flatten(2)

    def __call__(self, query, key, value, mask=None):
        q, k, v = map(self.split, self.project(query, key, value))
        return linear(self.join(self.attend(q, k, v, mask)), self.wo)


def layer_inputs(seed, dtype=mx.float32, length=4, keys=5):
    draw = normals(seed, dtype)
    tokens = draw(2, length, 11), draw(2, keys, 11), draw(2, keys, 11)
    return tokens, (11, 3, draw(6, 11), draw(6, 11), draw(6, 11), draw(11, 6))


def run_layer(program, seed, mask=None, dtype=mx.float32, length=4, keys=5):
    tokens, arguments = layer_inputs(seed, dtype, length, keys)
    return program(*arguments)(*tokens, mask=mask)


@day.probe("1.1.4")
def layer_plain(program):
    return run_layer(program, 41)


@day.probe("1.1.4")
def layer_mask(program):
    return run_layer(program, 42, normals(420)(4, 5))


@day.probe("1.1.4", mx.float16)
def layer_half(program):
    return run_layer(program, 44, dtype=mx.float16)


@day.probe("1.1.4")
def layer_equal_lengths(program):
    return run_layer(program, 45, length=4, keys=4)


@day.wrong(
    "1.1.4", "split-without-swap",
    fact="the projected features are reshaped straight to N x H x L x D, without swapping axes",
    question="After that reshape, which token do the numbers of head 1, position 0 come from?",
)  # fmt: skip
class SplitWithoutSwap(Base):
    def split(self, x):
        return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)


@day.wrong(
    "1.1.4", "join-without-swap",
    fact="the heads are reshaped straight from N x H x L x D to N x L x (H * D), without swapping axes back",
    question="Which numbers lie side by side in memory, and whose should lie side by side in the joined result?",
)  # fmt: skip
class JoinWithoutSwap(Base):
    def join(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


@day.wrong(
    "1.1.4", "heads-interleaved",
    fact="the features are split as D x H instead of H x D, so that head h gets every H-th feature",
    question="Which features belong to head 0: the first D, or one of every H?",
)  # fmt: skip
class HeadsInterleaved(Base):
    def split(self, x):
        return x.reshape(*x.shape[:2], -1, self.num_heads).transpose(0, 3, 1, 2)

    def join(self, x):
        return x.transpose(0, 2, 3, 1).flatten(2)


@day.wrong(
    "1.1.4", "no-heads",
    fact="one attention runs over all H * D features, as if there were a single head",
    question="How many rows of weights should each query have with three heads?",
)  # fmt: skip
class NoHeads(Base):
    def split(self, x):
        return x[:, None]


@day.wrong(
    "1.1.4", "scale-by-width",
    fact="the scores are scaled by 1/sqrt(H * D) instead of 1/sqrt(D)",
    question="Over how many numbers does the dot product of one head run?",
)  # fmt: skip
class ScaleByWidth(Base):
    def attend(self, q, k, v, mask):
        return attend(q, k, v, (q.shape[-1] * self.num_heads) ** -0.5, mask)


@day.wrong(
    "1.1.4", "scale-by-hidden-size",
    fact="the scores are scaled as if D were hidden_size // num_heads",
    question="Which of the arguments says how many rows the projections have?",
)  # fmt: skip
class ScaleByHiddenSize(Base):
    def __init__(self, hidden_size, *arguments):
        super().__init__(hidden_size, *arguments)
        self.scale = (hidden_size // self.num_heads) ** -0.5

    def attend(self, q, k, v, mask):
        return attend(q, k, v, self.scale, mask)


@day.wrong(
    "1.1.4", "no-scale",
    fact="the scale 1/sqrt(D) is missing",
    question="Does your attention scale by itself, or did the layer pass it a scale?",
)  # fmt: skip
class NoScale(Base):
    def attend(self, q, k, v, mask):
        return attend(q, k, v, 1.0, mask)


@day.wrong(
    "1.1.4", "mask-ignored",
    fact="the mask does not reach the attention",
    question="Where does `mask` go after __call__ has received it?",
)  # fmt: skip
class MaskIgnored(Base):
    def attend(self, q, k, v, mask):
        return attend(q, k, v)


@day.wrong(
    "1.1.4", "value-from-key",
    fact="the values are projected from `key`",
    question="In self-attention query, key and value are one array. What if they are three?",
)  # fmt: skip
class ValueFromKey(Base):
    def project(self, query, key, value):
        return super().project(query, key, key)


@day.wrong(
    "1.1.4", "wk-and-wv-swapped",
    fact="wk and wv have changed places",
    question="Which weight projects the keys?",
)  # fmt: skip
class WeightsSwapped(Base):
    def project(self, query, key, value):
        return linear(query, self.wq), linear(key, self.wv), linear(value, self.wk)


@day.wrong(
    "1.1.4", "no-output-projection",
    fact="the joined heads are returned without the output projection wo",
    question="Which weight is still unused?",
)  # fmt: skip
class NoOutputProjection(Base):
    def __call__(self, query, key, value, mask=None):
        q, k, v = map(self.split, self.project(query, key, value))
        return self.join(self.attend(q, k, v, mask))


@day.wrong(
    "1.1.4", "float32-result",
    fact="the result is float32 although the inputs are not",
    question="Where do your float16 inputs meet a float32 number?",
)  # fmt: skip
class LayerFloat32(Base):
    def __call__(self, query, key, value, mask=None):
        return super().__call__(query, key, value, mask).astype(mx.float32)


@day.accepted("1.1.4", "step-by-step")
class StepByStep(Base):
    """Base itself, which reshapes where the solution unflattens."""


@day.accepted("1.1.4", "loop-over-heads")
class LoopOverHeads(Base):
    def __call__(self, query, key, value, mask=None):
        q, k, v = self.project(query, key, value)
        shape = (len(query), self.num_heads, query.shape[1], key.shape[1])
        mask = mx.zeros(shape) if mask is None else mx.broadcast_to(mask, shape)
        q, k, v = (mx.split(x, self.num_heads, axis=-1) for x in (q, k, v))
        parts = [attend(q[h], k[h], v[h], mask=mask[:, h]) for h in range(self.num_heads)]
        return linear(mx.concatenate(parts, axis=-1), self.wo)


@day.accepted("1.1.4", "einsum")
class Einsum(Base):
    def __call__(self, query, key, value, mask=None):
        q, k, v = (
            mx.einsum("nle,hde->nhld", x, w.reshape(self.num_heads, -1, w.shape[1]))
            for x, w in ((query, self.wq), (key, self.wk), (value, self.wv))
        )
        wo = self.wo.reshape(self.wo.shape[0], self.num_heads, -1)
        return mx.einsum("nhld,ehd->nle", attend(q, k, v, mask=mask), wo)
