"""Known programs of task 4.2.4, attention that returns its weights."""

import mlx.core as mx
from tests.week4.fused import looks
from tiny_llm_solution.attention import causal_mask
from tiny_llm_solution.fused_qkv.dropout import dropout

from tiny_llm_course.testkit.inputs import forbidding, normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.4")


def inputs(seed, dtype=mx.float32, heads=6, kv_heads=2, length=3, keys=5):
    """A group of 3. MLX's global seed is also set, for programs that use it instead of the key."""
    mx.random.seed(seed)
    draw = normals(seed, dtype)
    return draw(4, heads, length, 8), draw(4, kv_heads, keys, 8), draw(4, kv_heads, keys, 8)


known.probe_table(
    plain=lambda program: program(*inputs(21)),
    scale=lambda program: program(*inputs(22), scale=0.7),
    scale_of_nothing=lambda program: program(*inputs(38), scale=0.0),
    causal=lambda program: program(*inputs(23), mask="causal"),
    causal_square=lambda program: program(*inputs(24, keys=3), mask="causal"),
    bias=lambda program: program(*inputs(25), mask=normals(250)(6, 3, 5)),
    booleans=lambda program: program(*inputs(26), mask=looks(260, 4, 6, 3, 5)),
    infinities=lambda program: program(*inputs(27), mask=forbidding(270, mx.zeros((3, 5)))),
    nothing_in_sight=lambda program: program(*inputs(28), mask=mx.broadcast_to(mx.arange(3)[:, None] != 1, (3, 5))),
    no_finite_score=lambda program: program(
        *inputs(29), mask=mx.where(mx.arange(3)[:, None] != 1, mx.zeros((3, 5)), -mx.inf)
    ),
    train=lambda program: program(*inputs(30), rate=0.4, training=True, random_key=mx.random.key(1)),
    train_masked=lambda program: program(
        *inputs(31), mask="causal", rate=0.4, training=True, random_key=mx.random.key(2)
    ),
    evaluate=lambda program: program(*inputs(32), rate=0.4, training=False, random_key=mx.random.key(3)),
    rates=lambda program: refusals(
        lambda given: program(*inputs(40), rate=given[0], training=given[1], random_key=mx.random.key(4)),
        [(1.5, False), (-0.1, False), (-0.1, True), (1.5, True)],
    ),
    one_head=lambda program: program(*inputs(33, heads=1, kv_heads=1)),
    no_groups=lambda program: program(*inputs(34, heads=4, kv_heads=4)),
    scaled_booleans=lambda program: program(*inputs(41), scale=-0.7, mask=looks(410, 3, 5)),
    narrower_mask=lambda program: program(*inputs(42), mask=normals(420, mx.float16)(3, 5)),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(35, mx.float16)),
    half_nothing_in_sight=lambda program: program(
        *inputs(39, mx.float16), mask=mx.broadcast_to(mx.arange(3)[:, None] != 1, (3, 5))
    ),
    half_float32_mask=lambda program: program(*inputs(36, mx.float16), mask=normals(360)(3, 5)),
    half_far_below_zero=lambda program: program(*inputs(37, mx.float16), mask=mx.zeros((3, 5)) - 1e5),
)


@known.sized("256 tokens, H 6, H_kv 2, D 64, float32")
def sized(program):
    draw = normals(1)
    query, key, value = draw(1, 6, 256, 64), draw(1, 2, 256, 64), draw(1, 2, 256, 64)
    return lambda: program(query, key, value, mask="causal")


MASK = "mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask"
SAFE = "softmax(mx.where(sees, scores, 0.0), axis=-1)"
WEIGHTS = f"mx.where(sees, {SAFE}, 0.0).astype(value.dtype)"

known.change(
    "weights-after-dropout",
    ("return output.flatten(-4, -3), weights", "return output.flatten(-4, -3), kept"),
    fact="the returned weights are those after dropout, so rows contain zeros and do not sum to 1",
    question="Heads are plotted during training. Should the plot show attention, or the dropout mask too?",
)
known.change(
    "scores-dropped",
    ("sees = mx.max(", "scores = dropout(scores, rate, training, random_key)\nsees = mx.max("),
    ("kept = dropout(weights, rate, training, random_key)", "kept = weights"),
    fact="dropout is applied to the scores instead of the weights",
    question="What weight does a key get whose score is 0?",
)
known.change(
    "output-dropped",
    ("mx.unflatten(kept, -3", "mx.unflatten(weights, -3"),
    ("output.flatten(-4, -3)", "dropout(output.flatten(-4, -3), rate, training, random_key)"),
    fact="dropout is applied to the output's features instead of the weights",
    question="How many samples do you need for one query with five keys?",
)
known.change(
    "key-not-passed-on",
    ("dropout(weights, rate, training, random_key)", "dropout(weights, rate, training)"),
    fact="random_key is ignored and MLX's global random state is used",
    question="Where does your code use `random_key`?",
)
known.change(
    "never-dropped",
    ("kept = dropout(weights, rate, training, random_key)", "kept = weights"),
    fact="dropout is missing",
    question="Where does your code use `rate` and `training`?",
)
known.change(
    "dropped-at-test-time",
    ("dropout(weights, rate, training, random_key)", "dropout(weights, rate, True, random_key)"),
    fact="dropout is applied whenever rate > 0, even if training is False",
    question="Should the same call return the same result twice at inference?",
)
KEPT = "kept = dropout(weights, rate, training, random_key)"
known.change(
    "dropout-in-training-alone",
    (KEPT, f"{KEPT} if training else weights"),
    fact="dropout is called in training alone, so a bad rate is not refused outside it",
    question="A rate of 1.5 comes from a config file. Should that wait for the first training step?",
)
known.change(
    "dropout-at-positive-rates-alone",
    (KEPT, f"{KEPT} if training and rate > 0 else weights"),
    fact="dropout is called only in training and at a positive rate, so other bad rates are not refused",
    question="Which of your lines sees a rate of -0.1, and which a rate of 1.5 outside training?",
)
known.change(
    "booleans-added",
    (MASK, "scores + mask"),
    fact="a boolean mask is added to the scores: 1 where a key is allowed, 0 where it is not",
    question="What is a score of 2 plus False?",
)
known.change(
    "booleans-inverted",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, -mx.inf, scores)"),
    fact="True hides a key, as in PyTorch's MultiheadAttention",
    question="What does True mean, according to the docstring?",
)
known.change(
    "hidden-is-zero",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, scores, 0.0)"),
    fact="a score hidden by a boolean mask is 0",
    question="What is exp(0), and what weight does that give a hidden key?",
)
known.change(
    "a-large-number",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, scores, -1e9)"),
    fact="a score hidden by a boolean mask is -1e9, so a fully masked row gives the mean of all values",
    question="How large is each weight of a row whose scores are all -1e9?",
)
known.change(
    "lowest-finite-number",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, scores, mx.finfo(scores.dtype).min)"),
    fact="a score hidden by a boolean mask is its dtype's lowest finite number, so a fully masked row gives a mean",
    question="How large is each weight of a row whose scores are all -65,504?",
)
known.change(
    "not-a-number",
    (WEIGHTS, "softmax(scores, axis=-1).astype(value.dtype)"),
    fact="a fully masked row gives NaN",
    question="What is -inf - -inf, and which row contains nothing else?",
)
known.change(
    "not-a-number-for-float-masks",
    ("keepdims=True) > -mx.inf", "keepdims=True) > -mx.inf\nsees |= mask is not None and mask.dtype != mx.bool_"),
    fact="a row that a float mask hides fully gives NaN",
    question="Two kinds of mask can hide a whole row. Which of them does your code look for?",
)
known.change(
    "mean-of-all",
    (WEIGHTS, f"{SAFE}.astype(value.dtype)"),
    fact="a fully masked row attends to all keys equally",
    question="How many keys may that query attend to?",
)
known.change(
    "hidden-after-the-softmax",
    ("if mask is not None:", "open = scores\nif mask is not None:"),
    (
        "sees = mx.max(",
        "if mask is not None and mask.dtype != mx.bool_:\n"
        "    open = open + mx.where(mask == -mx.inf, 0.0, mask)\n"
        "sees = mx.max(",
    ),
    (WEIGHTS, "mx.where(scores == -mx.inf, 0.0, softmax(open, axis=-1)).astype(value.dtype)"),
    fact="hidden weights are zeroed after a softmax over all keys, so rows sum to less than 1",
    question="What is the sum of your weights in the first row of a causal mask?",
)
known.change(
    "scores-given",
    ("return output.flatten(-4, -3), weights", "return output.flatten(-4, -3), scores.astype(weights.dtype)"),
    fact="the returned weights are the scores before the softmax",
    question="Can a weight be negative?",
)
known.change(
    "mean-of-the-heads",
    ("return output.flatten(-4, -3), weights", "return output.flatten(-4, -3), mx.mean(weights, axis=-3)"),
    fact="the weights are averaged over the heads, N.. x L x S, as in PyTorch's default",
    question="Two heads attend to different tokens. What does their mean show?",
)
known.change(
    "weights-in-groups",
    ("(-4, -3), weights", "(-4, -3), mx.unflatten(weights, -3, (kv_heads, -1))"),
    fact="the weights still have the axes H_kv x H/H_kv instead of H",
    question="Which shape does the docstring promise?",
)
known.change(
    "weights-transposed",
    ("return output.flatten(-4, -3), weights", "return output.flatten(-4, -3), weights.swapaxes(-1, -2)"),
    fact="the weights are transposed: S x L",
    question="Along which axis of your weights is the sum 1?",
)
known.change(
    "tile",
    ("query, -3, (kv_heads, -1))", "query, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("scores = scores.flatten(-4, -3)", "scores = scores.swapaxes(-4, -3).flatten(-4, -3)"),
    ("mx.unflatten(kept, -3, (kv_heads, -1))", "mx.unflatten(kept, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("return output.flatten(-4, -3)", "return output.swapaxes(-4, -3).flatten(-4, -3)"),
    fact="query head h uses KV head h % H_kv",
    question="With six query heads and two KV heads, which one should query head 1 use?",
)
known.change(
    "mask-in-other-groups",
    (
        "if mask is not None:",
        """
        if mask is not None and mask.ndim > 2 and mask.shape[-3] == heads:
            mask = mx.unflatten(mask, -3, (-1, kv_heads)).swapaxes(-4, -3).flatten(-4, -3)
        if mask is not None:""",
    ),
    fact="the mask's heads are split as H/H_kv x H_kv instead of H_kv x H/H_kv",
    question="Query heads 0 to 2 share a key. Which of the mask's heads are theirs?",
)
known.change(
    "no-scale",
    ("dims**-0.5 if scale is None", "1.0 if scale is None"),
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean?",
)
known.change(
    "scale-or-default",
    ("dims**-0.5 if scale is None else scale", "scale or dims**-0.5"),
    fact="a scale of 0 is replaced by the default",
    question="What is `0.0 or 0.25` in Python?",
)
known.change(
    "causal-upper-left",
    ("causal_mask(length, keys, query.dtype)", "mx.triu(mx.full((length, keys), -mx.inf), k=1)"),
    fact='mask="causal" is aligned to the upper left corner, so query i sees keys 0 to i',
    question="With three queries and five keys, which is the last key that the last query may see?",
)
known.change(
    "float32-results",
    ("0.0).astype(value.dtype)", "0.0)"),
    fact="a float32 mask makes float16 results float32",
    question="What is the dtype of float16 + float32, and where does that addition happen?",
)

known.change(
    "mask-in-query's-dtype",
    (MASK, "mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask.astype(scores.dtype)"),
    fact="the sum of scores and float mask is in the query's dtype, even if the mask's is wider",
    question="What is -100,000 in float16?",
)
known.change(
    "sum-in-mask's-dtype",
    (MASK, "mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores.astype(mask.dtype) + mask"),
    fact="the scores are rounded to the float mask's dtype, even if it is narrower",
    question="float32 scores and a float16 mask: in which dtype do you add them?",
)
known.change(
    "hidden-before-scaling",
    (
        "(query @ key[..., None, :, :].swapaxes(-1, -2)) * scale",
        "query @ key[..., None, :, :].swapaxes(-1, -2)",
    ),
    (MASK, "mx.where(mask, scores, -mx.inf) * scale if mask.dtype == mx.bool_ else scores * scale + mask"),
    ("sees = mx.max(", "scores = scores * scale if mask is None else scores\nsees = mx.max("),
    fact="a boolean mask sets scores to -inf before the scaling",
    question="What is -inf times 0, and what times -0.7?",
)


def asked(query, key, mask, rate):
    """Raise the docstring's errors; return the additive mask, N.. x H x L x S or smaller, or None."""
    if query.shape[-3] % key.shape[-3] or not 0 <= rate <= 1 or (isinstance(mask, str) and mask != "causal"):
        raise ValueError(f"uneven groups, an unknown mask, or a rate of {rate}")
    if isinstance(mask, str):
        return causal_mask(query.shape[-2], key.shape[-2], query.dtype)
    return mx.where(mask, 0.0, -mx.inf) if mask is not None and mask.dtype == mx.bool_ else mask


@known.accepted("written-out-in-float32")
def written_out(query, key, value, scale=None, mask=None, rate=0.0, training=False, random_key=None):
    mask, dtype = asked(query, key, mask, rate), query.dtype
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    group = query.shape[-3] // key.shape[-3]
    key, value = mx.repeat(key, group, axis=-3), mx.repeat(value, group, axis=-3)
    scores = mx.einsum("...ld,...sd->...ls", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if mask is None else scores + mask
    weights = mx.nan_to_num(mx.softmax(scores, axis=-1), nan=0.0)
    kept = dropout(weights, rate, training, random_key)
    return (kept @ value).astype(dtype), weights.astype(dtype)


@known.accepted("exponentials-over-their-sum")
def exponentials(query, key, value, scale=None, mask=None, rate=0.0, training=False, random_key=None):
    mask = asked(query, key, mask, rate)
    kv_heads = key.shape[-3]
    grouped = mx.unflatten(query, -3, (kv_heads, -1))
    scores = (grouped @ key[..., None, :, :].swapaxes(-1, -2)).flatten(-4, -3)
    scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + mask
    largest = mx.max(scores, axis=-1, keepdims=True)
    e = mx.exp(scores - mx.where(largest == -mx.inf, mx.zeros_like(largest), largest))
    total = mx.sum(e, axis=-1, keepdims=True)
    weights = (e / mx.where(total == 0, mx.ones_like(total), total)).astype(query.dtype)
    kept = dropout(weights, rate, training, random_key)
    output = mx.unflatten(kept, -3, (kv_heads, -1)) @ value[..., None, :, :]
    return output.flatten(-4, -3), weights
