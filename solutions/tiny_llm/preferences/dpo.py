"""Direct preference optimization: a loss on pairs of answers, of which one is preferred."""

from typing import NamedTuple

import mlx.core as mx


class PreferenceLoss(NamedTuple):
    """What `dpo_loss` returns. Given."""

    loss: mx.array  # a scalar, to be differentiated
    chosen_rewards: mx.array  # B, the implicit rewards of the chosen answers
    rejected_rewards: mx.array  # B
    accuracy: mx.array  # a scalar, the share of pairs whose chosen answer has the higher reward


def dpo_loss(
    chosen: mx.array,
    rejected: mx.array,
    reference_chosen: mx.array,
    reference_rejected: mx.array,
    beta: float = 0.1,
) -> PreferenceLoss:
    """Return the DPO loss of B pairs, and the implicit rewards that it compares.

    An answer's implicit reward is beta * (its log-probability under the policy - that under the reference). A pair's
    loss is -log(sigmoid(chosen reward - rejected reward)); the loss is the mean over the pairs.

    Args:
        chosen, rejected: B each, the log-probabilities of whole answers under the policy, summed over their tokens; of
            any float dtype.
        reference_chosen, reference_rejected: B each, those under the reference model.
        beta: how strongly the policy is held to the reference.

    Returns:
        A `PreferenceLoss`, float32 in every dtype. A pair of equal rewards counts as wrong in the accuracy. The loss
        and its gradients are finite for differences of any size: the loss of a pair that is wrong by 1,000 is 1,000.

    Raises:
        ValueError: the four do not have one shape, (B,), with at least one pair; or beta is not positive. The message
            states the shapes, or beta.

    Source: Rafailov et al. 2023, equation 7; `trl.DPOTrainer` with `loss_type="sigmoid"`.
    """
    given = [chosen, rejected, reference_chosen, reference_rejected]
    shapes = [each.shape for each in given]
    if chosen.ndim != 1 or not chosen.size or any(shape != chosen.shape for shape in shapes):
        raise ValueError(f"the four log-probabilities have shapes {shapes}, but one shape (B,) is needed, B at least 1")
    if not beta > 0:
        raise ValueError(f"beta is {beta}, but a positive number is needed")
    wide = [each.astype(mx.float32) for each in given]
    chosen_rewards = beta * (wide[0] - wide[2])
    rejected_rewards = beta * (wide[1] - wide[3])
    margin = chosen_rewards - rejected_rewards
    losses = mx.logaddexp(0.0, -margin)  # -log(sigmoid(margin)), without exp of a large number
    return PreferenceLoss(mx.mean(losses), chosen_rewards, rejected_rewards, mx.mean((margin > 0).astype(mx.float32)))
