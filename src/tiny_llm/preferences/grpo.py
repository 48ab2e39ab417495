"""Group relative policy optimization: a clipped policy-gradient loss, and the distance to a reference model."""

from typing import NamedTuple

import mlx.core as mx


class PolicyLoss(NamedTuple):
    """What `grpo_loss` returns: three float32 scalars. Given."""

    loss: mx.array  # to be differentiated
    kl: mx.array  # the estimated KL divergence from the reference, the mean over the tokens that count
    clipped: mx.array  # the share of these tokens that clipping leaves without a policy gradient


def grpo_loss(
    logprobs: mx.array,
    sampler_logprobs: mx.array,
    reference_logprobs: mx.array,
    advantages: mx.array,
    mask: mx.array,
    clip: float = 0.2,
    beta: float = 0.04,
) -> PolicyLoss:
    """Return the GRPO loss of N completions, averaged over all tokens that count.

    For each token, with p its log-probability under the policy and A its completion's advantage:
    ratio = exp(p - sampler's), kl = exp(reference's - p) - (reference's - p) - 1, and
    the token's loss = -min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A) + beta * kl.
    The loss is the sum over all tokens that count, divided by their number: each token has the same weight, in a short
    completion and in a long one.

    Args:
        logprobs: N x L, the tokens' log-probabilities under the policy that is trained.
        sampler_logprobs: N x L, those when the tokens were sampled.
        reference_logprobs: N x L, those under the reference model.
        advantages: N, one for each completion.
        mask: N x L, True for the tokens that count: those of the completions.
        clip: how far a ratio may be from 1 and still be rewarded for moving further.
        beta: the weight of the KL divergence.

    Returns:
        A `PolicyLoss`. A token is clipped if its ratio is above 1 + clip and A is positive, or below 1 - clip and A is
        negative. What the arrays hold where the mask is False changes neither the results nor a gradient, even NaN. If
        no token counts, the three are 0. Everything is computed in float32.

    Raises:
        ValueError: logprobs does not have two axes, or the other shapes do not fit. The message states them.

    Source: Shao et al. 2024 (DeepSeekMath), equation 3, with the KL estimator k3 of Schulman 2020; the average over
        tokens is that of Yu et al. 2025 (DAPO), `trl.GRPOTrainer` with `loss_type="dapo"`.
    """
    raise NotImplementedError("5.6.4 The GRPO loss")
