"""The router: which experts a token goes to, and how much each of them counts."""

import mlx.core as mx

from ..basics import linear, softmax


def route(x: mx.array, gate: mx.array, top_k: int, normalize: bool) -> tuple[mx.array, mx.array]:
    """Choose for each token the experts that are likeliest, by a softmax over all of them.

    Letters: E hidden size, X experts, k those that a token goes to. All is computed in float32, whatever the dtypes:
    where two experts are nearly as likely, float16 could choose the other one.

    Args:
        x: N.. x E, the tokens, any number of leading dimensions, also none.
        gate: X x E, one row for each expert, laid out as `linear` takes it.
        top_k: k.
        normalize: whether the k probabilities are divided by their sum, so that they sum to one; a checkpoint's
            `norm_topk_prob`. If not, they stay what they are among all X.

    Returns:
        Two arrays, N.. x k: the experts' numbers, integers from 0 to X - 1, all different for a token; and, at the same
        places, their weights, in x's dtype. A token's experts come in any order; which of equally likely ones are
        chosen is open. The arguments are not changed.

    Raises:
        ValueError: top_k is not one of 1 to X. The message says both numbers.

    Source: Shazeer et al. 2017; Fedus et al. 2021, section 2.4; `mlx_lm.models.qwen3_moe.Qwen3MoeSparseMoeBlock`.
    """
    experts = gate.shape[0]
    if not 1 <= top_k <= experts:
        raise ValueError(f"a token cannot go to top_k = {top_k} of {experts} experts")
    scores = linear(x.astype(mx.float32), gate.astype(mx.float32))  # N.. x X
    probabilities = softmax(scores, axis=-1)  # of all experts, also of those that are not chosen
    indices = mx.argpartition(-scores, kth=top_k - 1, axis=-1)[..., :top_k]  # N.. x k: places, in no order
    weights = mx.take_along_axis(probabilities, indices, axis=-1)  # N.. x k
    if normalize:
        weights = weights / mx.sum(weights, axis=-1, keepdims=True)
    return indices, weights.astype(x.dtype)
