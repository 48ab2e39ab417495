"""Known programs of task 4.1.2, masked attention."""

import mlx.core as mx
from tests.week4.masks import blind, seeing, small_heads

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.1.2")


def each(program, inputs, *masks):
    """Return a program's results for several masks."""
    return tuple(program(*inputs, mask) for mask in masks)


known.probe_table(
    plain=lambda program: program(*small_heads(1)),
    given_scale=lambda program: (program(*small_heads(2), scale=0.7), program(*small_heads(2), scale=0.0)),
    boolean=lambda program: program(*small_heads(3), seeing(30, 4, 5)),
    bias=lambda program: program(*small_heads(4), normals(40)(4, 5, spread=2.0)),
    bias_with_zeros=lambda program: program(*small_heads(5), mx.array([[0.0, -1.0, 0.0, 2.0, 0.0]])),
    infinite=lambda program: program(*small_heads(6), mx.where(seeing(60, 4, 5), 0.0, -mx.inf)),
    blind_boolean=lambda program: program(*small_heads(7), blind(70, 4, 5)),
    blind_infinite=lambda program: program(*small_heads(8), mx.where(blind(80, 4, 5), 0.0, -mx.inf)),
    all_blind=lambda program: each(program, small_heads(9), mx.zeros((4, 5)) == 1, mx.full((4, 5), -mx.inf)),
    rows_far_below_zero=lambda program: program(*small_heads(10), mx.zeros((4, 5)) - 20000),
    as_many_queries_as_keys=lambda program: each(
        program, small_heads(14, keys=4), seeing(140, 4, 4), normals(141)(4, 4)
    ),
    as_many_heads_as_queries=lambda program: each(
        program, small_heads(15, heads=4), seeing(150, 4, 5), normals(151)(4, 5)
    ),
    by_head=lambda program: each(program, small_heads(16), seeing(160, 3, 4, 5), normals(161)(3, 4, 5)),
    by_text=lambda program: each(program, small_heads(17), seeing(170, 2, 1, 1, 5), normals(171)(2, 1, 1, 5)),
    more_queries_than_keys=lambda program: program(*small_heads(18, length=6, keys=2)),
    whole_numbers=lambda program: program(*small_heads(22), seeing(220, 4, 5).astype(mx.int32)),
    as_many_keys_as_features=lambda program: program(*small_heads(23, keys=6)),
    without_leading_axes=lambda program: each(program, [x[0, 0] for x in small_heads(19)], None, seeing(190, 4, 5)),
    too_many_axes=lambda program: program(*(x[0, 0] for x in small_heads(20)), seeing(200, 1, 4, 5)),
    too_many_texts=lambda program: program(*(x[:1] for x in small_heads(21)), seeing(210, 2, 1, 4, 5)),
)
known.probe_table(
    mx.float16,
    half=lambda program: each(program, small_heads(11, mx.float16), None, seeing(110, 4, 5)),
    half_blind=lambda program: program(*small_heads(24, mx.float16), blind(240, 4, 5)),
    half_with_float32=lambda program: program(*small_heads(12, mx.float16), normals(120)(4, 5)),
    half_far_below_zero=lambda program: program(*small_heads(13, mx.float16), mx.zeros((4, 5)) - 1e5),
)


@known.sized("4 heads of 256 tokens, D 64, float32, a boolean mask")
def sized(program):
    draw = normals(1)
    query, key, value = (draw(4, 256, 64) for _ in range(3))
    mask = blind(2, 256, 256)
    mx.eval(mask)
    return lambda: program(query, key, value, mask)


known.change(
    "masked-rows-nan",
    ("mx.where(masked, 0.0, scores)", "scores"),
    ("mx.where(masked, 0.0, weights)", "weights"),
    fact="a fully masked row gives NaN",
    question="Every score of a row is -inf. What is -inf - -inf?",
)
known.change(
    "masked-rows-nan-by-float-masks",
    ("== -mx.inf", "== (-mx.inf if mask is not None and mask.dtype == mx.bool_ else mx.inf)"),
    fact="a row that a float mask hides fully gives NaN",
    question="A mask of either kind can hide a whole row. For which of the two does your code find such rows?",
)
known.change(
    "masked-rows-mean",
    ("mx.where(masked, 0.0, weights)", "weights"),
    fact="a fully masked row gives the mean of all values",
    question="What weights do equal scores give, and what should a query get that sees no key?",
)
known.change(
    "large-in-place-of-infinite",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, scores, -1e9)"),
    fact="hidden scores are set to -1e9 instead of -inf",
    question="All scores of a row are -1e9. What are the weights, and what is -1e9 in float16?",
)
known.change(
    "lowest-in-place-of-infinite",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, scores, mx.finfo(scores.dtype).min)"),
    fact="hidden scores are set to the lowest finite number of their dtype instead of -inf",
    question="All scores of a row are -65,504. What are the weights?",
)
known.change(
    "zeros-if-any-hidden",
    ("mx.max(scores, axis=-1, keepdims=True)", "mx.min(scores, axis=-1, keepdims=True)"),
    fact="a query with any hidden key gets zeros",
    question="One of five keys is hidden. Which weights remain?",
)
known.change(
    "zeros-only-if-all-masked",
    ("mx.max(scores, axis=-1, keepdims=True)", "mx.max(scores)"),
    fact="zeros come only if every row is fully masked, and a single such row gives NaN",
    question="Over which axis does your test for a fully masked row run?",
)
known.change(
    "far-below-is-hidden",
    ("== -mx.inf", "< -1e4"),
    fact="a query whose scores are all below -10,000 gets zeros, although no key is hidden",
    question="Which mask values hide a key, and which only lower its weight?",
)
known.change(
    "true-hides",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, -mx.inf, scores)"),
    fact="True in a boolean mask hides a key",
    question="In this course's boolean masks, does True allow or hide?",
)
known.change(
    "added-as-ones",
    ("return mx.where(mask, scores, -mx.inf)", "return scores + mask.astype(scores.dtype)"),
    fact="a boolean mask is added as ones and zeros",
    question="What does adding 0 to a score do, and what does adding 1?",
)
known.change(
    "scores-multiplied",
    ("return mx.where(mask, scores, -mx.inf)", "return scores * mask.astype(scores.dtype)"),
    fact="the scores are multiplied by a boolean mask",
    question="A score becomes 0. What weight does it still get next to a score of -1?",
)
known.change(
    "numbers-taken-for-booleans",
    ("if mask.dtype == mx.bool_:", "if True:"),
    fact="a float mask is treated as boolean: 0 hides, and every other number allows",
    question="Which number in a float mask leaves a score unchanged?",
)
known.change(
    "float-mask-only-hides",
    ("return scores + mask", "return mx.where(mask == -mx.inf, -mx.inf, scores)"),
    fact="only -inf in a float mask has an effect, and every other number counts as 0",
    question="What should a mask entry of -0.5 do to a score of 2?",
)
known.change(
    "mask-ignored",
    ("if mask is not None:", "if False:"),
    fact="mask is ignored",
    question="Which entries of the result should change if a mask hides the last key?",
)
known.change(
    "mask-after-softmax",
    ("return mx.where(mask, scores, -mx.inf)", "return scores"),
    ("masked = ", "hides = mask is not None and mask.dtype == mx.bool_\nmasked = "),
    ("mx.where(masked, 0.0, weights)", "mx.where(mask if hides else True, weights, 0.0)"),
    fact="a boolean mask zeroes weights after the softmax",
    question="What do a query's weights sum to after some are zeroed?",
)
known.change(
    "mask-before-scale",
    ("return scores + mask", "return scores + mask * query_scale"),
    ("_masked(scores, mask)", "_masked(scores, mask, scale)"),
    ("(scores: mx.array, mask: mx.array)", "(scores: mx.array, mask: mx.array, query_scale: float)"),
    fact="a float mask is multiplied by the scale along with the scores",
    question="With D = 64, what is left of a mask entry of -2 after the scaling?",
)
known.change(
    "mask-in-query's-dtype",
    ("return scores + mask", "return scores + mask.astype(scores.dtype)"),
    fact="the sum of scores and float mask is in the query's dtype, even if the mask's is wider",
    question="What is -100,000 in float16?",
)
known.change(
    "mask-dtype",
    (".astype(value.dtype) @ value", " @ value"),
    fact="a float32 mask makes a float16 result float32",
    question="What is the dtype of float16 + float32, and where does that addition happen?",
)
known.change(
    "float32-result",
    (".astype(value.dtype) @ value", ".astype(mx.float32) @ value"),
    fact="the result is float32 although the query is not",
    question="What is the dtype of your weights when they are multiplied by the values?",
)
known.change(
    "mask-transposed",
    ("_masked(scores, mask)", "_masked(scores, mask.swapaxes(-1, -2) if mask.shape[-1] == mask.shape[-2] else mask)"),
    fact="a square mask is transposed",
    question="Are the rows of a mask queries or keys?",
)
known.change(
    "rows-by-head",
    (
        "scores = _masked(scores, mask)",
        "by_head = mask.ndim == 2 and scores.ndim > 2 and len(mask) == scores.shape[-3]\n"
        "scores = _masked(scores, mask[:, None] if by_head else mask)",
    ),
    fact="row i of an L x S mask is used for head i if there are as many heads as queries",
    question="As many heads as queries: is row 1 of your mask for the second query or for the second head?",
)
known.change(
    "same-mask-for-all-texts",
    ("scores = _masked(scores, mask)", "scores = _masked(scores, mask[:1] if mask.ndim == 4 else mask)"),
    fact="every sequence uses the first one's mask",
    question="One of two sequences is padded. Which positions of the other does your mask hide?",
)
known.change(
    "always-causal",
    (
        "masked = ",
        "length, keys = scores.shape[-2:]\n"
        "scores = mx.where(mx.tri(length, keys, keys - length) == 1, scores, -mx.inf)\nmasked = ",
    ),
    fact="future keys are always hidden",
    question="Which argument asks for a causal mask?",
)
known.change(
    "larger-masks-taken",
    ("if len(ends) != mask.ndim or any(", "if False and any("),
    fact="a mask with more axes or a larger batch than the scores enlarges the result",
    question="Which shape has your result if the mask is 1 x L x S and the query is L x D?",
)
known.change(
    "whole-numbers-taken",
    ("if mask.dtype != mx.bool_ and not mx.issubdtype(mask.dtype, mx.floating):", "if False:"),
    fact="an integer mask is added as it is",
    question="A mask holds ones and zeros that are not booleans. Would you bet on what its caller meant?",
)
known.change(
    "no-scale",
    ("query.shape[-1] ** -0.5 if scale is None else scale", "1.0 if scale is None else scale"),
    fact="the default scale 1/sqrt(D) is missing",
    question="How does the spread of dot products of random vectors grow with D?",
)
known.change(
    "scale-0-is-default",
    ("query.shape[-1] ** -0.5 if scale is None else scale", "scale or query.shape[-1] ** -0.5"),
    fact="a scale of 0 is replaced by the default",
    question="What is `scale or default` for 0.0?",
)
known.change(
    "scale-by-number-of-keys",
    ("query.shape[-1] ** -0.5 if", "key.shape[-2] ** -0.5 if"),
    fact="the default scale is 1/sqrt(S)",
    question="How many products does one score sum: one per feature, or one per key?",
)
known.change(
    "softmax-over-queries",
    ("mx.where(masked, 0.0, scores), axis=-1", "mx.where(masked, 0.0, scores), axis=-2"),
    fact="the softmax runs over the queries instead of the keys",
    question="Which weights should sum to one: a query's over all keys, or a key's over all queries?",
)


def checked(query, key, mask):
    """The errors of the docstring."""
    if mask is None:
        return
    if mask.dtype not in (mx.bool_, mx.float32, mx.float16, mx.bfloat16):
        raise ValueError(f"a mask of {mask.dtype}")
    if mx.broadcast_shapes(mask.shape, (*query.shape[:-1], key.shape[-2])) != (*query.shape[:-1], key.shape[-2]):
        raise ValueError(f"a mask of {mask.shape}")


@known.accepted("exponentials-by-hand")
def by_hand(query, key, value, mask=None, scale=None):
    checked(query, key, mask)
    q, k, v = (x.astype(mx.float32) for x in (query, key, value))
    scores = mx.einsum("...ld,...sd->...ls", q, k) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask.astype(mx.float32)
    largest = mx.maximum(mx.max(scores, axis=-1, keepdims=True), mx.finfo(mx.float32).min)
    exps = mx.exp(scores - largest)
    sums = mx.sum(exps, axis=-1, keepdims=True)
    return (exps @ v / mx.where(sums == 0, 1, sums)).astype(query.dtype)


@known.accepted("zeros-from-the-mask")
def zeros_from_the_mask(query, key, value, mask=None, scale=None):
    """Fully masked rows are found in the mask; MLX's softmax instead of the learner's, and zeros for its NaN."""
    checked(query, key, mask)
    scores = (query @ key.swapaxes(-1, -2)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is None:
        return mx.softmax(scores, axis=-1, precise=True) @ value
    bias = mx.where(mask, 0.0, -mx.inf) if mask.dtype == mx.bool_ else mask.astype(mx.float32)
    bias = mx.broadcast_to(bias, scores.shape)
    weights = mx.softmax(scores + bias, axis=-1)
    seen = mx.max(bias, axis=-1, keepdims=True) > -mx.inf
    return (mx.where(seen, weights, 0.0).astype(value.dtype)) @ value


@known.accepted("one-key-more")
def one_key_more(query, key, value, mask=None, scale=None):
    """An extra key for fully masked rows, with a value of zeros: far below all others, but never -inf."""
    checked(query, key, mask)
    scores = (query @ key.swapaxes(-1, -2)).astype(mx.float32) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    scores = mx.concatenate([scores, mx.full((*scores.shape[:-1], 1), -3e38)], axis=-1)
    values = mx.concatenate([value, mx.zeros((*value.shape[:-2], 1, value.shape[-1]), value.dtype)], axis=-2)
    return (mx.softmax(scores, axis=-1) @ values.astype(mx.float32)).astype(value.dtype)
