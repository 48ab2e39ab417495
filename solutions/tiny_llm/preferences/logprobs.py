"""Log-probabilities of given tokens: how likely a model finds what it, or another model, wrote."""

import mlx.core as mx

from ..dataset.packing import IGNORE


def token_logprobs(logits: mx.array, targets: mx.array, temp: float = 1.0, ignore_index: int = IGNORE) -> mx.array:
    """Return the log-probability of each target; their sum over the last axis is a sequence's log-probability.

    Args:
        logits: N.. x L x V, of any float dtype. Position i predicts targets[i].
        targets: N.. x L, the token ids that follow, or ignore_index where nothing counts: the prompt and padding.
        temp: the temperature that the tokens were sampled with. It divides the logits.
        ignore_index: the target that does not count.

    Returns:
        N.. x L, float32 in every dtype: log softmax(logits / temp) at the target, computed in float32, and 0 where
        nothing counts. At those positions the gradient is 0, too, whatever the logits are, even NaN. Logits of any
        size are safe. The arguments are not changed.

    Raises:
        ValueError: the shape of targets is not N.. x L, or temp is not positive. The message states the two shapes, as
            (3,) and (3, 4) for logits of 3 x 4 x 7; or temp.

    Source: `torch.log_softmax` and `gather`; `trl.trainer.utils.selective_log_softmax`.
    """
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets have shape {targets.shape}, but the logits need {logits.shape[:-1]}")
    if not temp > 0:
        raise ValueError(f"temp is {temp}, but a positive number is needed")
    counted = targets != ignore_index
    # Replaced before anything is computed: a gradient of 0 times NaN would be NaN.
    wide = mx.where(counted[..., None], logits.astype(mx.float32), 0.0) / temp  # N.. x L x V
    labels = mx.where(counted, targets, 0)
    chosen = mx.take_along_axis(wide, labels[..., None], axis=-1).squeeze(-1)
    return mx.where(counted, chosen - mx.logsumexp(wide, axis=-1), 0.0)
