"""Reference variants of task 1.1.4, multi-head attention."""

import mlx.core as mx
from tiny_llm_solution.attention import SimpleMultiHeadAttention
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend
from tiny_llm_solution.basics import linear

from tiny_llm_course.testkit.inputs import drawn, normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.4")


def run_layer(program, seed, mask=None, dtype=mx.float32, rows=2, keys=5, hidden=11):
    shapes = (rows, 4, hidden), (rows, keys, hidden), (rows, keys, hidden), *[(6, hidden)] * 3, (hidden, 6)
    query, key, value, *weights = drawn(seed, *shapes, dtype=dtype)
    return program(hidden, 3, *weights)(query, key, value, mask=mask)


known.probe_table(
    plain=lambda program: run_layer(program, 41),
    mask=lambda program: run_layer(program, 42, normals(420)(4, 5)),
    equal_lengths=lambda program: run_layer(program, 45, keys=4),
    full_mask=lambda program: run_layer(program, 48, normals(480)(2, 3, 4, 5)),
    mask_of_each_head=lambda program: run_layer(program, 50, normals(500)(3, 4, 5), rows=3),
    one_row=lambda program: run_layer(program, 46, normals(460)(4, 5), rows=1),
    nothing_to_mistake=lambda program: run_layer(program, 49, keys=4, hidden=6),
    as_wide_as_its_heads=lambda program: run_layer(program, 47, hidden=6),
    nearly_as_wide_as_its_heads=lambda program: run_layer(program, 51, keys=4, hidden=7),  # E // H = D
)
known.probe_table(mx.float16, half=lambda program: run_layer(program, 44, dtype=mx.float16))


@known.probe()
def layer_refused(program):
    """Return whether weights are refused if one of them lacks a row."""
    weights = drawn(51, *[(6, 11)] * 3, (11, 6))
    shorter = [[w[:-1] if i == n else w for i, w in enumerate(weights)] for n in (1, 2, 3)]
    return refusals(lambda each: program(11, 3, *each), shorter)


@known.sized("64 tokens, E 256, 6 heads, D 64, float32")
def sized(program):
    draw = normals(1)
    x, wo = draw(1, 64, 256), draw(256, 384, spread=0.05)
    layer = program(256, 6, *(draw(384, 256, spread=0.06) for _ in range(3)), wo)
    return lambda: layer(x, x, x)


known.change(
    "split-without-swap",
    ("x, -1, (self.num_heads, -1)).swapaxes(-3, -2)", "x.flatten(1), -1, (self.num_heads, x.shape[1], -1))"),
    fact="the projected features are reshaped straight to N x H x L x D, without swapping axes",
    question="After that reshape, which token do the features of head 1, position 0 come from?",
)
known.change(
    "join-without-swap",
    ("heads.swapaxes(-3, -2).flatten(-2)", "heads.reshape(*query.shape[:2], -1)"),
    fact="the heads are reshaped straight from N x H x L x D to N x L x (H * D), without swapping the axes back",
    question="Which numbers are adjacent in memory, and which should be adjacent in the concatenated result?",
)
known.change(
    "heads-interleaved",
    ("(self.num_heads, -1)).swapaxes(-3, -2)", "(-1, self.num_heads)).transpose(0, 3, 1, 2)"),
    ("heads.swapaxes(-3, -2)", "heads.transpose(0, 2, 3, 1)"),
    fact="the features are split as D x H instead of H x D, so head h gets every H-th feature",
    question="Which features belong to head 0: the first D, or every H-th one?",
)
known.change(
    "no-heads",
    ("(self.num_heads, -1)", "(1, -1)"),
    fact="one attention runs over all H * D features, as if there were a single head",
    question="How many rows of attention weights should each query have with three heads?",
)
for name, axis, size in (("scale-by-width", 0, "H * D"), ("scale-by-all-of-hidden-size", 1, "E")):
    known.change(
        name,
        ("mask=mask", f"scale=self.wq.shape[{axis}] ** -0.5, mask=mask"),
        fact=f"the scores are scaled by 1/sqrt({size}) instead of 1/sqrt(D)",
        question="How many features does the dot product of one head sum over?",
    )
known.change(
    "scale-by-hidden-size",
    ("mask=mask", "scale=(self.wq.shape[1] // self.num_heads) ** -0.5, mask=mask"),
    fact="the scores are scaled as if D were hidden_size // num_heads",
    question="Which argument determines how many rows the projections have?",
)
known.change(
    "no-scale",
    ("mask=mask", "scale=1.0, mask=mask"),
    fact="the scale 1/sqrt(D) is missing",
    question="Does your attention apply the default scale, or did the layer pass it a scale?",
)
known.change(
    "mask-ignored",
    ("mask=mask", "mask=None"),
    fact="the mask is not passed to the attention",
    question="What does __call__ do with `mask`?",
)
known.change(
    "value-from-key",
    ("linear(value, self.wv)", "linear(key, self.wv)"),
    fact="the values are projected from `key`",
    question="In self-attention query, key and value are the same array. What if they are three different ones?",
)
known.change(
    "wk-and-wv-swapped",
    ("= wq, wk, wv, wo", "= wq, wv, wk, wo"),
    fact="wk and wv are swapped",
    question="Which weight projects the keys?",
)
known.change(
    "no-output-projection",
    ("linear(joined, self.wo)", "joined"),
    fact="the concatenated heads are returned without the output projection wo",
    question="Which weight does your layer never use?",
)
known.change(
    "float32-result",
    ("linear(joined, self.wo)", "linear(joined.astype(mx.float32), self.wo)"),
    fact="the result is float32 although the inputs are not",
    question="Where does a float32 array enter your float16 computation?",
)
known.change(
    "split-and-join-without-swap",
    ("x, -1, (self.num_heads, -1)).swapaxes(-3, -2)", "x.flatten(1), -1, (self.num_heads, x.shape[1], -1))"),
    ("heads.swapaxes(-3, -2).flatten(-2)", "heads.reshape(*query.shape[:2], -1)"),
    fact="the features are reshaped to N x H x L x D and back without swapping axes either time",
    question="After your first reshape, how many different tokens do the features of head 0 come from?",
)
known.change(
    "D-from-hidden-size",
    ("(self.num_heads, -1)", "(self.num_heads, self.wq.shape[1] // self.num_heads)"),
    fact="D is computed as hidden_size // num_heads",
    question="wq has H * D rows. Does anything guarantee that this equals hidden_size?",
)
known.change(
    "joined-as-hidden-size",
    ("heads.swapaxes(-3, -2).flatten(-2)", "heads.swapaxes(-3, -2).reshape(query.shape)"),
    fact="the heads are joined to E features instead of H * D",
    question="wo is E x (H * D). How many features does it take for each token?",
)
known.change(
    "mask-reshaped",
    ("mask=mask", "mask=None if mask is None else mask.reshape(len(query), -1, query.shape[1], key.shape[1])"),
    fact="the mask is reshaped to N x H x L x S instead of being broadcast",
    question="How many elements does an L x S mask have, and how many an N x H x L x S one?",
)
known.change(
    "keys-as-long-as-queries",
    ("linear(key, self.wk)", "linear(key, self.wk).reshape(*query.shape[:2], len(self.wk))"),
    ("linear(value, self.wv)", "linear(value, self.wv).reshape(*query.shape[:2], len(self.wv))"),
    fact="keys and values are reshaped with the query's length L instead of their own length S",
    question="The query has four tokens, the key has five. Which length does your reshape use for the key?",
)
known.change(
    "wo-transposed",
    ("linear(joined, self.wo)", "linear(joined, self.wo.T)"),
    fact="wo is transposed before linear, which transposes it again",
    question="wo is E x (H * D). Which layout does linear expect?",
)
known.change(
    "wo-checked-transposed",
    ('("wo", wo, (hidden_size, width))', '("wo", wo, (width, hidden_size))'),
    fact="wo is required to have the shape of wq, (H * D) x E",
    question="Which shape does the docstring give for wo, and which one does your check require?",
)
known.change(
    "wo-not-checked",
    ('("wo", wo, (hidden_size, width)),\n', ""),
    fact="the shape of wo is not checked",
    question="Which of the four weights does your check leave out?",
)
known.change(
    "all-from-query",
    ("linear(key, self.wk)", "linear(query, self.wk)"),
    ("linear(value, self.wv)", "linear(query, self.wv)"),
    fact="keys and values are also projected from `query`",
    question="In self-attention query, key and value are the same array. What if they are three different ones?",
)
known.change(
    "attention-among-heads",
    ("(self.num_heads, -1)).swapaxes(-3, -2)", "(self.num_heads, -1))"),
    ("heads.swapaxes(-3, -2)", "heads"),
    fact="the length and head axes are not swapped, so the heads of one token attend to each other",
    question="Which axis does your softmax run over: the tokens of the keys, or their heads?",
)
known.change(
    "split-as-D-x-H",
    ("(self.num_heads, -1)).swapaxes(-3, -2)", "(-1, self.num_heads)).transpose(0, 3, 1, 2)"),
    fact="the features are split as D x H, and joined as H x D",
    question="Which features belong to head 0: the first D, or every H-th one?",
)
known.change(
    "mask-of-head-0",
    (
        "mask=mask",
        "mask=None if mask is None "
        "else mx.broadcast_to(mask, (len(query), self.num_heads, query.shape[1], key.shape[1]))[:, :1]",
    ),
    fact="every head gets the mask of head 0",
    question="A mask of N x H x L x S has an L x S mask for each head. Which of them does head 1 get?",
)
known.change(
    "mask-indexed",
    ("mask=mask", "mask=None if mask is None else mask[:, None]"),
    fact="the mask gets an axis for the heads in second place, whatever its number of dimensions",
    question="What is the shape of `mask[:, None]` for a mask of L x S?",
)
known.change(
    "mask-for-each-sequence",
    ("mask=mask", "mask=mask if mask is None or mask.ndim != 3 else mask[:, None]"),
    fact="a mask of three dimensions is taken as N x L x S instead of H x L x S",
    question="Align a mask of three dimensions with N x H x L x S from the right. Which axis does its first one meet?",
)
known.together("split-without-swap", "join-without-swap", makes="split-and-join-without-swap")


@known.accepted("step-by-step")
class StepByStep(SimpleMultiHeadAttention):
    def __call__(self, query, key, value, mask=None):
        q, k, v = linear(query, self.wq), linear(key, self.wk), linear(value, self.wv)
        q, k, v = (x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2) for x in (q, k, v))
        joined = attend(q, k, v, mask=mask).swapaxes(1, 2).reshape(*query.shape[:2], -1)
        return linear(joined, self.wo)


@known.accepted("loop-over-heads")
class LoopOverHeads(SimpleMultiHeadAttention):
    def __call__(self, query, key, value, mask=None):
        q, k, v = linear(query, self.wq), linear(key, self.wk), linear(value, self.wv)
        shape = (len(query), self.num_heads, query.shape[1], key.shape[1])
        mask = mx.zeros(shape) if mask is None else mx.broadcast_to(mask, shape)
        q, k, v = (mx.split(x, self.num_heads, axis=-1) for x in (q, k, v))
        parts = [attend(q[h], k[h], v[h], mask=mask[:, h]) for h in range(self.num_heads)]
        return linear(mx.concatenate(parts, axis=-1), self.wo)


@known.accepted("einsum")
class Einsum(SimpleMultiHeadAttention):
    def __call__(self, query, key, value, mask=None):
        q, k, v = (
            mx.einsum("nle,hde->nhld", x, w.reshape(self.num_heads, -1, w.shape[1]))
            for x, w in ((query, self.wq), (key, self.wk), (value, self.wv))
        )
        wo = self.wo.reshape(self.wo.shape[0], self.num_heads, -1)
        return mx.einsum("nhld,ehd->nle", attend(q, k, v, mask=mask), wo)
