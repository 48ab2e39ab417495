"""Known programs of task 4.2.5, the whole block with one projection."""

import mlx.core as mx
from tiny_llm_solution.fused_qkv.attention import attention_with_weights
from tiny_llm_solution.fused_qkv.layouts import qkv_permutation

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.5")


def run_block(
    program, seed, mask=None, dtype=mx.float32, bias=True, layout="interleaved", rate=0.0, training=False, **more
):
    """H = 6, H_kv = 2, D = 4, E = 7. MLX's global seed is also set, for programs that use it instead of the key."""
    mx.random.seed(seed)
    draw = normals(seed, dtype)
    x, wqkv, wo, bqkv = draw(3, 5, 7), draw(40, 7), draw(7, 24), draw(40)
    layer = program(6, 2, wqkv, wo, bqkv if bias else None, layout, rate, **more)
    return layer(x, mask, training, mx.random.key(seed))


def of_width(program, seed, heads, kv_heads, hidden, batch=3, length=5):
    draw = normals(seed)
    layer = program(heads, kv_heads, draw((heads + 2 * kv_heads) * 4, hidden), draw(hidden, heads * 4))
    return layer(draw(batch, length, hidden))


known.probe_table(
    plain=lambda program: run_block(program, 41, bias=False, layout="blocks"),
    interleaved=lambda program: run_block(program, 42, bias=False),
    bias=lambda program: run_block(program, 43, layout="blocks"),
    bias_interleaved=lambda program: run_block(program, 44),
    output_bias=lambda program: run_block(program, 53, bias=False, bo=normals(530)(7)),
    causal=lambda program: run_block(program, 45, "causal", bias=False),
    mask=lambda program: run_block(program, 46, normals(460)(3, 6, 5, 5), bias=False),
    trains=lambda program: run_block(program, 47, bias=False, rate=0.4, training=True),
    evaluates=lambda program: run_block(program, 48, bias=False, rate=0.4),
    one_head=lambda program: of_width(program, 49, 1, 1, 7),
    as_wide_as_its_heads=lambda program: of_width(program, 50, 3, 3, 12, batch=2),
    other_rows=lambda program: refusals(
        lambda rows: program(6, 2, mx.zeros((rows, 7)), mx.zeros((7, 24))), [39, 50, 72]
    ),
    one_token=lambda program: of_width(program, 51, 6, 2, 7, length=1),
)
known.probe_table(mx.float16, half=lambda program: run_block(program, 52, dtype=mx.float16))


@known.sized("128 tokens, E 256, H 6, H_kv 2, D 64, float32")
def sized(program):
    draw = normals(1)
    x, wqkv, wo = draw(1, 128, 256), draw(640, 256, spread=0.06), draw(256, 384, spread=0.05)
    layer = program(6, 2, wqkv, wo)
    return lambda: layer(x, "causal")


JOINED = "linear(attended.swapaxes(1, 2).flatten(2), self.wo, self.bo)"

known.change(
    "always-blocks",
    ("self.num_kv_heads, self.layout)", 'self.num_kv_heads, "blocks")'),
    fact="the fused features are always split as blocks, whatever layout is given",
    question="Where is `layout` used after __init__?",
)
known.change(
    "always-interleaved",
    ("self.num_kv_heads, self.layout)", 'self.num_kv_heads, "interleaved")'),
    fact="the fused features are always split as interleaved, whatever layout is given",
    question="Where is `layout` used after __init__?",
)
known.change(
    "no-bias",
    ("linear(x, self.wqkv, self.bqkv)", "linear(x, self.wqkv)"),
    fact="the bias of the fused projection is missing",
    question="Which argument of __init__ is still unused?",
)
known.change(
    "bias-always-in-blocks",
    (
        "fused = linear(x, self.wqkv, self.bqkv)",
        "fused = linear(x, self.wqkv)\n"
        "if self.bqkv is not None:\n"
        "    from tiny_llm_solution.fused_qkv.layouts import qkv_permutation\n"
        "    dims = self.wo.shape[1] // self.num_heads\n"
        '    rows = qkv_permutation(self.num_heads, self.num_kv_heads, dims, "blocks", self.layout)\n'
        "    fused = fused + self.bqkv[rows]",
    ),
    fact="the bias is read as blocks while the weight is interleaved",
    question="In which order are the numbers of a fused bias?",
)
known.change(
    "head-dim-from-e",
    ("(wo.shape[1] // num_heads)", "(wqkv.shape[1] // num_heads)"),
    fact="D is computed as E / H, from wqkv's columns instead of wo's",
    question="With E = 7 and six heads of 4 features, how many columns have wqkv and wo?",
)
known.change(
    "rows-compared-with-themselves",
    (" * (wo.shape[1] // num_heads)", ""),
    ("if wqkv.shape[0] != rows:", "if wqkv.shape[0] % rows:"),
    fact="wqkv's rows need only be a multiple of H + 2 H_kv, whatever wo's columns are",
    question="wqkv has 50 rows for ten heads, and wo has 24 columns for six. How many features has a head?",
)
known.change(
    "keys-and-values-exchanged",
    ("query, key, value = split_qkv", "query, value, key = split_qkv"),
    fact="keys and values are swapped",
    question="In which order does split_qkv return its three parts?",
)
known.change(
    "join-without-swap",
    (JOINED, "linear(attended.reshape(*x.shape[:2], -1), self.wo)"),
    fact="the heads are reshaped straight from N x H x L x D to N x L x (H * D), without swapping the axes back",
    question="Which numbers are contiguous in memory, and which should be contiguous in the joined result?",
)
known.change(
    "no-output-projection",
    (JOINED, "attended.swapaxes(1, 2).flatten(2)"),
    fact="the output projection wo is missing",
    question="Which weight is still unused?",
)
known.change(
    "no-output-bias",
    ("self.wo, self.bo)", "self.wo)"),
    fact="the bias of the output projection is missing",
    question="Which argument of __init__ is still unused?",
)
known.change(
    "mask-ignored",
    ("mask=mask", "mask=None"),
    fact="mask is ignored",
    question="Where does __call__ use `mask`?",
)
known.change(
    "never-dropped",
    ("rate=self.rate", "rate=0.0"),
    fact="dropout is missing",
    question="Where is `rate` used after __init__?",
)
known.change(
    "dropped-at-test-time",
    ("training=training", "training=True"),
    fact="dropout is also applied when training is False",
    question="What is `training` at inference, and what does your attention get?",
)
known.change(
    "key-unused",
    ("random_key=random_key", "random_key=None"),
    fact="random_key is ignored and MLX's global random state is used",
    question="Where does __call__ use `random_key`?",
)
known.change(
    "mean-of-the-heads",
    (f"{JOINED}, weights", f"{JOINED}, mx.mean(weights, axis=1)"),
    fact="the weights are averaged over the heads",
    question="How many weight matrices does a layer with six heads return?",
)
known.change(
    "output-alone",
    (f"{JOINED}, weights", JOINED),
    fact="only the output is returned, without the weights",
    question="What does the docstring say is returned?",
)


class _Block:
    """The part that both accepted programs share."""

    def __init__(self, num_heads, num_kv_heads, wqkv, wo, bqkv=None, layout="blocks", rate=0.0, bo=None):
        dims = wo.shape[1] // num_heads
        if len(wqkv) != (num_heads + 2 * num_kv_heads) * dims:
            raise ValueError(f"{len(wqkv)} rows in place of {(num_heads + 2 * num_kv_heads) * dims}")
        self.counts, self.dims, self.layout, self.rate = (num_heads, num_kv_heads), dims, layout, rate
        rows = qkv_permutation(num_heads, num_kv_heads, dims, layout, "blocks")
        cuts = [num_heads * dims, (num_heads + num_kv_heads) * dims]
        self.weights = mx.split(wqkv[rows], cuts)
        self.biases = [None] * 3 if bqkv is None else mx.split(bqkv[rows], cuts)
        self.wo, self.bo = wo, mx.zeros(len(wo), wo.dtype) if bo is None else bo


@known.accepted("three-projections")
class ThreeProjections(_Block):
    def __call__(self, x, mask=None, training=False, random_key=None):
        parts = []
        for w, bias in zip(self.weights, self.biases, strict=True):
            y = x @ w.T if bias is None else x @ w.T + bias
            parts.append(mx.unflatten(y, -1, (-1, self.dims)).transpose(0, 2, 1, 3))
        output, weights = attention_with_weights(*parts, None, mask, self.rate, training, random_key)
        return output.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ self.wo.T + self.bo, weights


@known.accepted("head-by-head-through-wo")
class HeadByHead(_Block):
    def __call__(self, x, mask=None, training=False, random_key=None):
        query, key, value = (
            mx.stack([y[..., i : i + self.dims] for i in range(0, y.shape[-1], self.dims)], axis=1)
            for y in (
                x @ w.T if bias is None else mx.addmm(bias, x, w.T)
                for w, bias in zip(self.weights, self.biases, strict=True)
            )
        )
        output, weights = attention_with_weights(query, key, value, None, mask, self.rate, training, random_key)
        columns = self.wo.reshape(-1, self.counts[0], self.dims)
        return mx.einsum("nhld,ehd->nle", output, columns) + self.bo, weights
