"""Group-relative advantages: a completion is compared with the others of the same prompt."""

import mlx.core as mx


def group_advantages(rewards: mx.array, eps: float = 1e-4) -> mx.array:
    """Return (reward - mean of its group) / (standard deviation of its group + eps).

    Args:
        rewards: P.. x G, the rewards of G completions of each prompt, of any dtype.
        eps: keeps the quotient small if the rewards of a group hardly differ.

    Returns:
        P.. x G, float32. The standard deviation is the sample's: G - 1 divides the sum of the squares. A group whose
        rewards are all equal, and so a group of one, has advantages of exactly 0. The argument is not changed.

    Raises:
        ValueError: rewards have no axis, or no completions, as (3, 0) or (0, 3). The message states the shape.

    Source: Shao et al. 2024 (DeepSeekMath), section 4.1; `trl.GRPOTrainer` with `scale_rewards="group"`.
    """
    if rewards.ndim == 0 or not rewards.size:
        raise ValueError(f"rewards have shape {rewards.shape}, but P.. x G with at least one completion is needed")
    wide = rewards.astype(mx.float32)
    centered = wide - mx.mean(wide, axis=-1, keepdims=True)
    squares = mx.sum(mx.square(centered), axis=-1, keepdims=True)
    deviation = mx.sqrt(squares / max(1, rewards.shape[-1] - 1))
    # Rounding: the mean of equal numbers need not be that number.
    equal = mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)
    return mx.where(equal, 0.0, centered / (deviation + eps))
