"""The formulas of day 6 in NumPy float64: log-probabilities, DPO pair by pair, advantages, GRPO token by token."""

import numpy as np

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32

IGNORE = -100
PREFERENCE_FIELDS = ("loss", "chosen_rewards", "rejected_rewards", "accuracy")
POLICY_FIELDS = ("loss", "kl", "clipped")


def logprobs64(
    logits: Array64, targets: Array64, temp: float = 1.0, ignore_index: int = IGNORE, *, r: Round = exact
) -> Array64:
    """Log softmax of logits / temp at the target, position by position that counts. All steps are float32."""
    f = in_float32(r)
    found, counted = np.zeros(targets.shape), targets != ignore_index
    rows, labels = f(logits[counted] / temp), targets[counted].astype(int)
    if len(rows):
        largest = rows.max(axis=-1)
        sums = f(np.exp(f(rows - largest[:, None])).sum(axis=-1))
        found[counted] = f(f(rows[np.arange(len(rows)), labels] - largest) - f(np.log(sums)))
    return found


def slopes64(logits: Array64, targets: Array64, weights: Array64, temp: float = 1.0, *, r: Round = exact) -> Array64:
    """Return the gradient of sum(weights * log-probabilities): weight * (one-hot - softmax) / temp."""
    f = in_float32(r)
    counted = targets != IGNORE
    rows, gradient = f(logits[counted] / temp), np.zeros(logits.shape)
    exponentials = np.exp(rows - rows.max(axis=-1, keepdims=True))
    probabilities = f(exponentials / exponentials.sum(axis=-1, keepdims=True))
    one_hot = np.eye(logits.shape[-1])[targets[counted].astype(int)]
    gradient[counted] = weights[counted][:, None] * (one_hot - probabilities) / temp
    return r(gradient)


def dpo64(
    chosen: Array64,
    rejected: Array64,
    reference_chosen: Array64,
    reference_rejected: Array64,
    beta: float = 0.1,
    field: str = "loss",
    *,
    r: Round = exact,
) -> Array64:
    """Compute one field of the DPO loss. All steps are float32."""
    f = in_float32(r)
    chosen_rewards = f(beta * f(chosen - reference_chosen))
    rejected_rewards = f(beta * f(rejected - reference_rejected))
    margins = f(chosen_rewards - rejected_rewards)
    if field == "accuracy":
        return np.asarray(np.mean(exactly(chosen, rejected, reference_chosen, reference_rejected) > 0))
    if field == "loss":
        losses = f(f(np.log(f(1 + np.exp(-np.abs(margins))))) + np.maximum(-margins, 0.0))
        return np.asarray(f(np.asarray(np.mean(losses))))
    return chosen_rewards if field == "chosen_rewards" else rejected_rewards


def exactly(chosen: Array64, rejected: Array64, reference_chosen: Array64, reference_rejected: Array64) -> Array64:
    """The margins, up to beta."""
    return (chosen - reference_chosen) - (rejected - reference_rejected)


def dpo_slopes64(
    chosen: Array64,
    rejected: Array64,
    reference_chosen: Array64,
    reference_rejected: Array64,
    beta: float = 0.1,
    *,
    r: Round = exact,
) -> Array64:
    """Return the gradients with respect to the chosen and the rejected: beta times the probability of being wrong."""
    f = in_float32(r)
    margins = f(beta * f(exactly(chosen, rejected, reference_chosen, reference_rejected)))
    with np.errstate(over="ignore"):
        wrong = f(1 / (1 + np.exp(margins)))
    slopes = beta * wrong / len(chosen)
    return r(np.stack([-slopes, slopes]))


def advantages64(rewards: Array64, eps: float = 1e-4, *, r: Round = exact) -> Array64:
    """Group by group: subtract the mean, divide by the sample's standard deviation plus eps."""
    f = in_float32(r)
    found = np.zeros(rewards.shape)
    for place in np.ndindex(rewards.shape[:-1]):
        group = rewards[place]
        if group.max() > group.min():
            centered = f(group - f(np.mean(group, keepdims=True)))
            squares = f(np.asarray(np.sum(centered**2) / (len(group) - 1)))
            found[place] = f(centered / (f(np.sqrt(squares)) + eps))
    return found


def grpo64(
    logprobs: Array64,
    sampler_logprobs: Array64,
    reference_logprobs: Array64,
    advantages: Array64,
    mask: Array64,
    clip: float = 0.2,
    beta: float = 0.04,
    field: str = "loss",
    *,
    r: Round = exact,
) -> Array64:
    """Compute one field of the GRPO loss, token by token that counts. All steps are float32."""
    f = in_float32(r)
    total, count = 0.0, 0
    for n, i in zip(*np.nonzero(mask), strict=True):
        ratio = f(np.exp(f(logprobs[n, i] - sampler_logprobs[n, i])))
        distance = f(reference_logprobs[n, i] - logprobs[n, i])
        kl, a = f(f(np.exp(distance)) - distance - 1), advantages[n]
        gain = min(ratio * a, min(max(ratio, 1 - clip), 1 + clip) * a)
        clipped = (ratio > 1 + clip and a > 0) or (ratio < 1 - clip and a < 0)
        total += {"loss": beta * kl - gain, "kl": kl, "clipped": float(clipped)}[field]
        count += 1
    return np.asarray(f(np.asarray(total / max(count, 1))))


def grpo_slopes64(
    logprobs: Array64,
    sampler_logprobs: Array64,
    reference_logprobs: Array64,
    advantages: Array64,
    mask: Array64,
    clip: float = 0.2,
    beta: float = 0.04,
    *,
    r: Round = exact,
) -> Array64:
    """Return the gradient of the loss with respect to the policy's log-probabilities."""
    f = in_float32(r)
    gradient = np.zeros(logprobs.shape)
    for n, i in zip(*np.nonzero(mask), strict=True):
        ratio, a = f(np.exp(f(logprobs[n, i] - sampler_logprobs[n, i]))), advantages[n]
        clipped = (ratio > 1 + clip and a > 0) or (ratio < 1 - clip and a < 0)
        slope = 0.0 if clipped else -ratio * a
        gradient[n, i] = slope + beta * (1 - f(np.exp(f(reference_logprobs[n, i] - logprobs[n, i]))))
    return r(gradient / max(1, int(np.sum(mask))))
