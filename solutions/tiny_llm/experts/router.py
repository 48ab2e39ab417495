"""The top-k router: which experts a token goes to, and their weights."""

import mlx.core as mx

from ..basics import linear, softmax


def route(x: mx.array, gate: mx.array, top_k: int, normalize: bool) -> tuple[mx.array, mx.array]:
    """Choose each token's k most probable experts, by a softmax over all experts.

    Letters: E hidden size, X experts, k experts per token. x and gate are converted to float32 first, so that scores,
    softmax and sum are float32 for all dtypes: where two experts are almost equally probable, float16 could choose the
    other one.

    Args:
        x: N.. x E, the tokens, any number of leading dimensions, including none.
        gate: X x E, one row per expert, laid out as `linear` takes it.
        top_k: k.
        normalize: whether the k probabilities are divided by their sum; a checkpoint's `norm_topk_prob`. If not, they
            remain the probabilities among all X.

    Returns:
        Two arrays, N.. x k: the experts' numbers, integers from 0 to X - 1, distinct for each token; and, in the same
        order, their weights, in x's dtype. A token's experts come in any order, and ties may be broken either way. The
        arguments are not changed.

    Raises:
        ValueError: top_k is not in 1 .. X. The message states both numbers.

    Source: Shazeer et al. 2017; Fedus et al. 2021, section 2.4; `mlx_lm.models.qwen3_moe.Qwen3MoeSparseMoeBlock`.
    """
    experts = gate.shape[0]
    if not 1 <= top_k <= experts:
        raise ValueError(f"a token cannot go to top_k = {top_k} of {experts} experts")
    scores = linear(x.astype(mx.float32), gate.astype(mx.float32))  # N.. x X
    probabilities = softmax(scores, axis=-1)  # over all experts, before the top k are chosen
    indices = mx.argpartition(-scores, kth=top_k - 1, axis=-1)[..., :top_k]  # N.. x k, unordered
    weights = mx.take_along_axis(probabilities, indices, axis=-1)  # N.. x k
    if normalize:
        weights = weights / mx.sum(weights, axis=-1, keepdims=True)
    return indices, weights.astype(x.dtype)
