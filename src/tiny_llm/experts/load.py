"""Expert load: how evenly a router spreads tokens over the experts."""

import dataclasses

import mlx.core as mx


@dataclasses.dataclass(frozen=True)
class Load:
    """The load of X experts."""

    tokens: mx.array  # X, integers: how many tokens go to each
    share: mx.array  # X, float32: the same, divided by their sum
    imbalance: mx.array  # a scalar, float32: the busiest expert's tokens, divided by the mean
    auxiliary_loss: mx.array  # a scalar, float32: the load-balancing loss, 1 where all is even


def load_statistics(indices: mx.array, probabilities: mx.array, mask: mx.array | None = None) -> Load:
    """Count the tokens of each expert, and measure how even the load is.

    Letters: X experts, k experts per token.

    Args:
        indices: N.. x k, the experts of each token, integers from 0 to X - 1, as returned by `route`.
        probabilities: N.. x X, the router's softmax over all experts, of any float dtype; each token's sum to one.
        mask: N.., True where a token counts, False where it is padding; None counts all.

    Returns:
        tokens: X, the number of counted tokens that go to each expert; the sum is k times the counted tokens.
        share: X, tokens divided by their sum.
        imbalance: the largest share, times X (max / mean). It is 1 if the load is even, and at most X / k.
        auxiliary_loss: the load-balancing loss, X times the sum over the experts of share times mean probability, where
            the mean is over the counted tokens. It is 1 if the load is even.

        share, imbalance and auxiliary_loss are float32 for all dtypes of probabilities.

    Raises:
        ValueError: no token counts, or there is none.

    Source: Fedus et al. 2021, section 2.2; `transformers`' `load_balancing_loss_func` gives k times this loss.
    """
    raise NotImplementedError("4.5.4 The experts' load")
