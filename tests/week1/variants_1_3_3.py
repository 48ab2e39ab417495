"""Reference variants of task 1.3.3, Qwen3 attention."""

import mlx.core as mx
from tiny_llm_solution.attention import causal_mask
from tiny_llm_solution.attention import scaled_dot_product_attention_grouped as grouped
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend
from tiny_llm_solution.basics import linear
from tiny_llm_solution.qwen3 import Qwen3MultiHeadAttention

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.3.3")

NORMS, BIASES = ("q_norm", "k_norm"), ("bq", "bk", "bv")


def layer_inputs(seed, dtype=mx.float32, dims=8, hidden=24):
    """Return x, the arguments of a layer with H = 6, H_kv = 3, and the five optional weights.

    The scores have about unit variance.
    """
    draw = normals(seed, dtype)
    x, wo = draw(2, 5, hidden), draw(hidden, 6 * dims, spread=0.15)
    weights = [draw(heads * dims, hidden, spread=0.2) for heads in (6, 3, 3)]
    biases = {"bq": draw(6 * dims), "bk": draw(3 * dims), "bv": draw(3 * dims)}
    return x, (hidden, 6, 3, dims, *weights, wo), {name: 1 + draw(dims, spread=0.5) for name in NORMS} | biases


def run(program, seed, mask="causal", names=NORMS, dtype=mx.float32, dims=8, hidden=24, rows=2, **options):
    x, arguments, extra = layer_inputs(seed, dtype, dims, hidden)
    given = {name: extra[name] for name in names} | {"max_seq_len": 8, "theta": 500} | options
    return program(*arguments, **given)(x[:rows], mask=mask)


known.probe_table(
    qwen3_causal=lambda program: run(program, 31),
    qwen3_plain=lambda program: run(program, 32, None, theta=20),
    qwen3_eps=lambda program: run(program, 33, rms_norm_eps=0.5),
    qwen3_mask=lambda program: run(program, 34, normals(340)(6, 5, 5)),
    qwen25=lambda program: run(program, 35, names=BIASES),
    one_norm=lambda program: tuple(run(program, 37, names=[name]) for name in NORMS),
    one_bias=lambda program: tuple(run(program, 39, names=[name]) for name in BIASES),
    norms_and_biases=lambda program: run(program, 42, names=NORMS + BIASES),
    # H * D = E.
    heads_as_wide_as_hidden=lambda program: run(program, 43, None, names=(), dims=4),
    # E // H = D, but H * D is not E.
    nearly_as_wide_as_hidden=lambda program: run(program, 47, None, names=(), dims=4, hidden=25),
    shared_mask=lambda program: run(program, 45, normals(450)(5, 5)),
    one_row=lambda program: tuple(run(program, 46, mask, rows=1) for mask in (normals(460)(1, 6, 5, 5), "causal")),
)
known.probe_table(mx.float16, half=lambda program: run(program, 36, dtype=mx.float16))


@known.probe()
def qwen3_defaults(program):
    """Return inputs so small that eps matters in their norms."""
    x, arguments, extra = layer_inputs(44)
    return program(*arguments, q_norm=extra["q_norm"], k_norm=extra["k_norm"])(x * 0.001)


@known.sized("64 tokens, E 256, H 6, H_kv 2, D 64, float32")
def sized(program):
    draw = normals(1)
    x, wo = draw(1, 64, 256), draw(256, 384, spread=0.05)
    wq, wk, wv = (draw(rows, 256, spread=0.06) for rows in (384, 128, 128))
    layer = program(256, 6, 2, 64, wq, wk, wv, wo, q_norm=1 + draw(64), k_norm=1 + draw(64), max_seq_len=256)
    return lambda: layer(x, "causal")


known.change(
    "no-norms",
    ("= q_norm, k_norm,", "= None, None,"),
    fact="queries and keys are not normalized",
    question="Which two weights of D numbers does your layer never use?",
)
known.change(
    "norm-after-rope",
    ("if self.q_norm is not None:", "query, key = self.rope(query), self.rope(key)\nif self.q_norm is not None:"),
    ("self.rope(query).", "query."),
    ("self.rope(key).", "key."),
    fact="the norms are applied after RoPE",
    question="RoPE mixes features i and i + D/2. Which feature should q_norm's weight i multiply?",
)
known.change(
    "norms-exchanged",
    ("= q_norm, k_norm,", "= k_norm, q_norm,"),
    fact="q_norm and k_norm are swapped",
    question="Both weights have D numbers. Which one belongs to the keys?",
)
known.change(
    "norm-over-all-heads",
    ("query, self.q_norm, self.eps)", "query.flatten(2), None, self.eps).reshape(query.shape) * self.q_norm"),
    ("key, self.k_norm, self.eps)", "key.flatten(2), None, self.eps).reshape(key.shape) * self.k_norm"),
    fact="the norm runs over the features of all heads together",
    question="q_norm has D weights. How many numbers should the mean of squares cover?",
)
known.change(
    "norm-weights-ignored",
    ("query, self.q_norm, self.eps", "query, None, self.eps"),
    ("key, self.k_norm, self.eps", "key, None, self.eps"),
    fact="queries and keys are normalized, but not multiplied by q_norm and k_norm",
    question="What does a norm do with its weights after the division?",
)
known.change(
    "norms-without-weights",
    ("if self.q_norm is not None:", "if True:"),
    ("if self.k_norm is not None:", "if True:"),
    fact="queries and keys are normalized even when q_norm and k_norm are None",
    question="Qwen2.5 has no such weights. Does it apply the norms?",
)
known.change(
    "values-normalized",
    ("key = mx.fast", "value = mx.fast.rms_norm(value, self.k_norm, self.eps)\nkey = mx.fast"),
    fact="the values are also normalized, with k_norm",
    question="Which operation combines queries with keys, and are values part of it?",
)
for name, eps in (("eps-fixed", "1e-6"), ("eps-fixed-at-1e-5", "1e-5")):
    known.change(
        name,
        ("k_norm, rms_norm_eps", f"k_norm, {eps}"),
        fact=f"eps is always {eps}, and rms_norm_eps is ignored",
        question="What does the constructor do with rms_norm_eps?",
    )
known.change(
    "no-positions",
    ("self.rope(query).", "query."),
    ("self.rope(key).", "key."),
    fact="RoPE is missing",
    question="Without RoPE, how could the layer distinguish `dog is blue` from `blue is dog`?",
)
known.change(
    "keys-without-rope",
    ("self.rope(key).", "key."),
    fact="RoPE is applied to the queries, but not to the keys",
    question="A score should depend on the distance i - j. How does it depend on j?",
)
known.change(
    "values-with-rope",
    ("value.swapaxes(1, 2)", "self.rope(value).swapaxes(1, 2)"),
    fact="RoPE is also applied to the values",
    question="Which two of the three vectors are multiplied to give a score?",
)
known.change(
    "positions-from-heads",
    ("self.rope(query).swapaxes(1, 2)", "self.rope(query.swapaxes(1, 2))"),
    ("self.rope(key).swapaxes(1, 2)", "self.rope(key.swapaxes(1, 2))"),
    fact="RoPE runs after the swap of length and heads, so it takes heads for positions",
    question="On which axis does your RoPE expect the length, and where is it when you call it?",
)
known.change(
    "traditional-pairs",
    ("max_seq_len, theta)", "max_seq_len, theta, traditional=True)"),
    fact="RoPE pairs adjacent features, 2i and 2i + 1",
    question="Which pairing does the docstring of the constructor specify?",
)
for theta in ("10000", "1000000"):
    known.change(
        f"theta-{theta}",
        ("max_seq_len, theta)", f"max_seq_len, {theta})"),
        fact=f"theta is always {theta} in RoPE, and the caller's value is ignored",
        question="Which arguments do you pass to RoPE, and what does the constructor do with theta?",
    )
known.change(
    "no-biases",
    ("= bq, bk, bv", "= None, None, None"),
    fact="the biases are not added",
    question="Which weights does Qwen2.5 have that Qwen3 does not?",
)
known.change(
    "no-value-bias",
    ("= bq, bk, bv", "= bq, bk, None"),
    fact="the values have no bias",
    question="How many projections have a bias in Qwen2.5?",
)
known.change(
    "norms-only-as-a-pair",
    ("if self.q_norm is not None:", "if self.q_norm is not None and self.k_norm is not None:"),
    ("if self.k_norm is not None:", "if self.q_norm is not None and self.k_norm is not None:"),
    fact="queries and keys are normalized only when both q_norm and k_norm are given",
    question="With q_norm given and k_norm None, which of the two norms does the constructor's docstring specify?",
)
known.change(
    "biases-only-together",
    ("= bq, bk, bv", "= (None,) * 3 if bq is None or bk is None or bv is None else (bq, bk, bv)"),
    fact="the biases are added only when all three are given",
    question="With bq given and bv None, which projections have a bias?",
)
known.change(
    "biases-or-norms",
    ("= bq, bk, bv", "= (bq, bk, bv) if q_norm is None and k_norm is None else (None, None, None)"),
    fact="the biases are not added when there are norms",
    question="Qwen3 has norms and Qwen2.5 has biases. Does the constructor forbid having both?",
)
known.change(
    "mask-ignored",
    ("mask=mask", "mask=None"),
    fact="the mask is not passed to the attention",
    question="What does __call__ do with `mask`?",
)
known.change(
    "always-causal",
    ("mask=mask", 'mask="causal"'),
    fact="the mask is always causal, and the caller's mask is ignored",
    question="What does mask=None mean, and what does an array mean?",
)
known.change(
    "scale-from-hidden-size",
    ("mask=mask", "scale=(self.wq.shape[1] // self.num_heads) ** -0.5, mask=mask"),
    fact="the scores are scaled by 1/sqrt(E / H) instead of 1/sqrt(D)",
    question="Is the head size here always E divided by the number of heads?",
)
known.change(
    "wk-and-wv-exchanged",
    ("= wq, wk, wv, wo", "= wq, wv, wk, wo"),
    fact="wk and wv are swapped",
    question="Both have H_kv * D rows. Which weight projects the keys?",
)
known.change(
    "join-without-swap",
    ("attended.swapaxes(1, 2).flatten(2)", "attended.reshape(*x.shape[:2], -1)"),
    fact="the heads are reshaped straight from N x H x L x D to N x L x (H * D), without swapping the axes back",
    question="Which numbers are adjacent in memory, and which should be adjacent in the concatenated result?",
)
known.change(
    "float32-result",
    ("flatten(2)", "flatten(2).astype(mx.float32)"),
    fact="the result is float32 although x is not",
    question="Where does a float32 array enter your float16 computation?",
)
known.change(
    "split-without-swap",
    ("self.rope(query).swapaxes(1, 2)", "self.rope(query).reshape(len(x), self.num_heads, x.shape[1], -1)"),
    ("self.rope(key).swapaxes(1, 2)", "self.rope(key).reshape(len(x), self.num_kv_heads, x.shape[1], -1)"),
    ("value.swapaxes(1, 2)", "value.reshape(len(x), self.num_kv_heads, x.shape[1], -1)"),
    fact="queries, keys and values are reshaped from N x L x H x D to N x H x L x D instead of swapping axes",
    question="After that reshape, which token do the features of head 1, position 0 come from?",
)
known.change(
    "split-and-join-without-swap",
    ("self.rope(query).swapaxes(1, 2)", "self.rope(query).reshape(len(x), self.num_heads, x.shape[1], -1)"),
    ("self.rope(key).swapaxes(1, 2)", "self.rope(key).reshape(len(x), self.num_kv_heads, x.shape[1], -1)"),
    ("value.swapaxes(1, 2)", "value.reshape(len(x), self.num_kv_heads, x.shape[1], -1)"),
    ("attended.swapaxes(1, 2).flatten(2)", "attended.reshape(*x.shape[:2], -1)"),
    fact="the features are reshaped to N x H x L x D and back without swapping axes either time",
    question="After your first reshape, how many different tokens do the features of head 0 come from?",
)
known.change(
    "D-from-hidden-size",
    ("-1, (self.num_heads, -1))", "-1, (self.num_heads, x.shape[-1] // self.num_heads))"),
    fact="D is computed as E // H",
    question="The constructor receives head_dim. Does it have to equal E divided by the number of heads?",
)
known.change(
    "joined-as-hidden-size",
    ("attended.swapaxes(1, 2).flatten(2)", "attended.swapaxes(1, 2).reshape(x.shape)"),
    fact="the heads are joined to E features instead of H * D",
    question="wo is E x (H * D). How many features does it take for each token?",
)
known.change(
    "mask-reshaped",
    ("=mask,", "=mask.reshape(len(x), self.num_heads, *mask.shape[-2:]) if isinstance(mask, mx.array) else mask,"),
    fact="the mask is reshaped to N x H x L x L instead of being broadcast",
    question="How many elements does an L x L mask have, and how many an N x H x L x L one?",
)
known.change(
    "mask-only-alone",
    ("mask=mask", "mask=mask if isinstance(mask, str) or len(x) == 1 else None"),
    fact="an array mask is used only when N = 1",
    question="Where does your code check N before it uses the mask?",
)
for one, other, x in (("queries", "keys", "q"), ("keys", "queries", "k")):
    known.change(
        f"{one}-not-normalized",
        (f"if self.{x}_norm is not None:", "if False:"),
        fact=f"the {other} are normalized, but not the {one}",
        question="Which weight of D numbers does your layer never use?",
    )
known.change(
    "wo-transposed",
    ("self.wo)", "self.wo.T)"),
    fact="wo is transposed before linear, which transposes it again",
    question="wo is E x (H * D). Which layout does linear expect?",
)
known.change(
    "causal-without-a-mask",
    ("mask=mask", 'mask="causal" if mask is None else mask'),
    fact="mask=None is treated as a causal mask",
    question="What does mask=None mean?",
)
known.change(
    "keys-with-the-queries'-weight",
    ("key, self.k_norm, self.eps", "key, self.q_norm, self.eps"),
    fact="the keys are normalized with q_norm's weight",
    question="How many norm weights does the layer receive, and how many does it use?",
)
known.change(
    "truth-of-the-norms",
    ("if self.q_norm is not None:", "if self.q_norm:"),
    ("if self.k_norm is not None:", "if self.k_norm:"),
    fact="`if q_norm` takes the truth value of an array with more than one element",
    question="How can you tell an argument that was not given from an array?",
)
known.together("split-without-swap", "join-without-swap", makes="split-and-join-without-swap")
known.together("queries-not-normalized", "keys-not-normalized", makes="no-norms")


@known.accepted("step-by-step")
class StepByStep(Qwen3MultiHeadAttention):
    """Split into steps that a variant can replace."""

    def rms(self, x, weight):
        return x if weight is None else mx.fast.rms_norm(x, weight, self.eps)

    def apply_rope(self, q, k):
        return self.rope(q), self.rope(k)

    def attend(self, q, k, v, mask):  # N x H x L x D
        return grouped(q, k, v, mask=mask)

    def __call__(self, x, mask=None):
        weights = (self.wq, self.bq), (self.wk, self.bk), (self.wv, self.bv)
        q, k, v = (linear(x, w, b).reshape(*x.shape[:2], -1, len(self.wq) // self.num_heads) for w, b in weights)
        q, k = self.apply_rope(self.rms(q, self.q_norm), self.rms(k, self.k_norm))
        attended = self.attend(q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2), mask)
        return linear(attended.swapaxes(1, 2).reshape(*x.shape[:2], -1), self.wo)


@known.accepted("norm-by-hand")
class NormByHand(StepByStep):
    def rms(self, x, weight):
        if weight is None:
            return x
        wide = x.astype(mx.float32)
        return (wide / mx.sqrt((wide * wide).mean(-1, keepdims=True) + self.eps) * weight).astype(x.dtype)


@known.accepted("positions-from-three")
class PositionsFromThree(StepByStep):
    """Right, since only the distance of two positions matters."""

    def __init__(self, *arguments, max_seq_len=32768, theta=1000000, **weights):
        super().__init__(*arguments, max_seq_len=max_seq_len + 3, theta=theta, **weights)

    def apply_rope(self, q, k):
        own = slice(3, 3 + q.shape[1])
        return self.rope(q, own), self.rope(k, own)


@known.accepted("loop-over-heads")
class LoopOverHeads(StepByStep):
    """Day 1's attention, one head at a time."""

    def attend(self, q, k, v, mask):
        group, length = self.num_heads // self.num_kv_heads, q.shape[2]
        if isinstance(mask, str):
            mask = causal_mask(length, length, q.dtype)
        mask = None if mask is None else mx.broadcast_to(mask, (*q.shape[:3], length))
        heads = []
        for h in range(self.num_heads):
            own = None if mask is None else mask[:, h]
            heads.append(attend(q[:, h], k[:, h // group], v[:, h // group], mask=own))
        return mx.stack(heads, axis=1)
