"""How the tokens are spread over the experts."""

import dataclasses

import mlx.core as mx


@dataclasses.dataclass(frozen=True)
class Load:
    """What the experts have to do, X of them."""

    tokens: mx.array  # X, integers: how many tokens go to each
    share: mx.array  # X, float32: the same, divided by their sum
    overload: mx.array  # one number, float32: the busiest expert's tokens, divided by what an even spread would give it
    loss: mx.array  # one number, float32: the balance loss, 1 where all is even


def load_statistics(indices: mx.array, probabilities: mx.array, mask: mx.array | None = None) -> Load:
    """Count where tokens go, and say how even that is.

    Letters: X experts, k those that a token goes to.

    Args:
        indices: N.. x k, the experts of each token, integers from 0 to X - 1, as `route` gives them.
        probabilities: N.. x X, the router's softmax over all experts, of any float dtype; each token's sum to one.
        mask: N.., True where a token counts, and False where it is padding; None counts all.

    Returns:
        tokens: X, how many of the tokens that count go to each expert; they sum to k times those tokens.
        share: X, the same as shares, which sum to one.
        overload: the largest share, times X. It is 1 if all experts have as much to do, and at most X / k.
        loss: X times the sum, over the experts, of share times mean probability; the mean is that of the tokens that
            count. It is 1 if all is even.

        share, overload and loss are float32, whatever dtype the probabilities have.

    Raises:
        ValueError: no token counts.

    Source: Fedus et al. 2021, section 2.2; `transformers`' `load_balancing_loss_func` gives k times this loss.
    """
    experts = probabilities.shape[-1]
    counts = mx.ones(indices.shape[:-1], mx.bool_) if mask is None else mask  # N..
    number = mx.sum(counts).item()
    if not number:
        raise ValueError("no token counts: every entry of the mask is False")
    chosen = indices[..., None] == mx.arange(experts)  # N.. x k x X
    tokens = mx.sum((chosen & counts[..., None, None]).reshape(-1, experts), axis=0)  # X
    share = tokens / (number * indices.shape[-1])  # X
    counted = mx.where(counts[..., None], probabilities.astype(mx.float32), 0.0).reshape(-1, experts)
    mean = mx.sum(counted, axis=0) / number  # X
    return Load(tokens, share, experts * mx.max(share), experts * mx.sum(share * mean))
