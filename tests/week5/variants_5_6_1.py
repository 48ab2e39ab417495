"""Known programs of task 5.6.1, log-probabilities of given tokens."""

import mlx.core as mx
from tests.week5.logits import far, logits_and_targets, padded

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.6.1")


def with_nan(program):
    logits, targets = logits_and_targets(5, leading=(4,))
    logits[1], targets[1] = mx.nan, -100
    return (*mx.value_and_grad(lambda x: mx.sum(program(x, targets)))(logits),)


known.probe_table(
    all_count=lambda program: program(*logits_and_targets(1)),
    some_count=lambda program: program(*logits_and_targets(2, ignored=0.5)),
    warm=lambda program: program(*logits_and_targets(3, ignored=0.3), 2.0),
    cool=lambda program: program(*logits_and_targets(4), 0.5),
    square=lambda program: program(*logits_and_targets(6, leading=(5, 5), size=5)),
    high=lambda program: program(*far(mx.float32, 1e4)),
    low=lambda program: program(*far(mx.float32, -1e4)),
    unlikely=lambda program: program(mx.array([[200.0, 0.0, 0.0]]), mx.array([1])),
    other_index=lambda program: program(padded(7, 6)[0], padded(7, 6)[1], 1.0, 6),
    last_index=lambda program: program(padded(7, -1)[0], padded(7, -1)[1], 1.0, -1),
    slope=lambda program: mx.grad(lambda x, t: mx.sum(program(x, t, 0.5)))(*logits_and_targets(8, ignored=0.3)),
    with_nan=with_nan,
    refuses=lambda program: refusals(
        lambda given: program(mx.zeros((3, 4, 7)), mx.zeros(given[0], mx.int32), given[1]),
        [((4, 3), 1.0), ((3,), 1.0), ((3, 4), 0.0), ((3, 4), -1.0)],
    ),
    # float32 results, though the logits are float16
    half=lambda program: program(*logits_and_targets(10, mx.float16, (40, 60), 50)),
    half_warm=lambda program: program(*logits_and_targets(11, mx.float16, (40, 60), 50), 0.7),
    half_far=lambda program: program(*far(mx.float16, 1e4)),
)


@known.sized("512 positions, V 4,096, float32")
def sized(program):
    logits, targets = logits_and_targets(1, leading=(512,), size=4096, ignored=0.2)
    return lambda: program(logits, targets)


WIDE = "mx.where(counted[..., None], logits.astype(mx.float32), 0.0)"
RESULT = "return mx.where(counted, chosen - mx.logsumexp(wide, axis=-1), 0.0)"
known.change(
    "not-normalized",
    (RESULT, "return mx.where(counted, chosen, 0.0)"),
    fact="the logits of the targets are returned, not their log-probabilities",
    question="Add 10 to all logits. Does a probability change? And your result?",
)
known.change(
    "temperature-left-out",
    (f"{WIDE} / temp", WIDE),
    fact="the logits are not divided by the temperature",
    question="The sampler divided its logits by 0.7. Whose log-probabilities do you compute?",
)
known.change(
    "times-the-temperature",
    (f"{WIDE} / temp", f"{WIDE} * temp"),
    fact="the logits are multiplied by the temperature",
    question="Does a temperature of 0.5 make the likely tokens more or less likely?",
)
known.change(
    "divided-afterwards",
    (f"{WIDE} / temp", WIDE),
    (RESULT, "return mx.where(counted, (chosen - mx.logsumexp(wide, axis=-1)) / temp, 0.0)"),
    fact="the log-probabilities are divided by the temperature, not the logits",
    question="Sum the probabilities of all tokens at a temperature of 0.5. What do you get?",
)
known.change(
    "shifted-once-more",
    (
        "counted = targets != ignore_index",
        "targets = mx.concatenate([targets[..., 1:], mx.full((*targets.shape[:-1], 1), ignore_index)], axis=-1)\n"
        "counted = targets != ignore_index",
    ),
    fact="the targets are shifted once more: position i is scored on target i + 1",
    question="Which token follows token i: the one at index i of targets, or at i + 1?",
)
known.change(
    "first-target-dropped",
    (
        "counted = targets != ignore_index",
        "logits, targets = logits[..., :-1, :], targets[..., 1:]\ncounted = targets != ignore_index",
    ),
    fact="the first target and the last logits are dropped, as if position i predicted target i + 1",
    question="There are L targets. How many log-probabilities does the docstring promise?",
)
known.change(
    "ignored-count",
    (WIDE, "logits.astype(mx.float32)"),
    (RESULT, "return chosen - mx.logsumexp(wide, axis=-1)"),
    fact="ignored positions have the log-probability of token 0 instead of 0",
    question="What does the sum over a row contain besides the completion?",
)
known.change(
    "ignore-index-fixed",
    ("counted = targets != ignore_index", "counted = targets >= 0"),
    fact="the argument ignore_index is not used: negative targets are ignored",
    question="A caller marks padding with 6. What does your code ignore?",
)
known.change(
    "only-minus-100-ignored",
    ("counted = targets != ignore_index", "counted = targets != -100"),
    fact="the argument ignore_index is not used: -100 is ignored",
    question="A caller marks padding with 6. What does your code ignore?",
)
known.change(
    "ignored-times-zero",
    (WIDE, "logits.astype(mx.float32)"),
    (RESULT, "return (chosen - mx.logsumexp(wide, axis=-1)) * counted"),
    fact="ignored positions are multiplied by zero instead of being replaced",
    question="What is 0 times NaN?",
)
known.change(
    "exponentials-overflow",
    (RESULT, "return mx.where(counted, chosen - mx.log(mx.sum(mx.exp(wide), axis=-1)), 0.0)"),
    fact="the logarithm of the sum of exponentials is computed as it stands, which is infinite for large logits",
    question="What is exp(100) in float32?",
)
known.change(
    "log-of-a-softmax",
    (
        RESULT,
        "likely = mx.take_along_axis(mx.softmax(wide, axis=-1), labels[..., None], axis=-1).squeeze(-1)\n"
        "return mx.where(counted, mx.log(likely), 0.0)",
    ),
    fact="the logarithm of the softmax is taken, which is -inf for an unlikely target",
    question="A target's logit is 200 below the largest. What is its probability in float32?",
)
known.change(
    "nan-in-the-gradient",
    (WIDE, "logits.astype(mx.float32)"),
    fact="the result is right, but its gradient is NaN where ignored logits are",
    question="mx.where passes a gradient of 0 to the branch that it does not take. What is 0 times NaN?",
)
known.change(
    "in-the-input-dtype",
    (f"{WIDE} / temp", "mx.where(counted[..., None], logits, mx.array(0, logits.dtype)) / temp"),
    (RESULT, "return mx.where(counted, chosen - mx.logsumexp(wide, axis=-1), 0.0).astype(mx.float32)"),
    fact="the log-probabilities are computed in the dtype of the logits",
    question="A ratio of two probabilities is exp of a difference. How exact is a float16 near -8?",
)
known.change(
    "divided-in-the-input-dtype",
    (f"{WIDE} / temp", "mx.where(counted[..., None], (logits / temp).astype(mx.float32), 0.0)"),
    fact="the logits are divided by the temperature before they are converted to float32",
    question="In which dtype is the quotient of a float16 array and a temperature of 0.7?",
)
known.change(
    "negated",
    (RESULT, "return mx.where(counted, mx.logsumexp(wide, axis=-1) - chosen, 0.0)"),
    fact="the sign is that of a loss: -log p instead of log p",
    question="Is the logarithm of a probability above or below 0?",
)
known.change(
    "temp-not-checked",
    ("if not temp > 0:", "if False:"),
    fact="a temperature of 0 is not refused",
    question="What are logits / 0? And which samples have a temperature of 0?",
)


@known.accepted("as a sum with the one-hot targets")
def one_hot_targets(logits, targets, temp=1.0, ignore_index=-100):
    if targets.shape != logits.shape[:-1] or temp <= 0:
        raise ValueError(f"targets {targets.shape} do not fit logits {logits.shape[:-1]}, or temp is {temp}")
    counted = targets != ignore_index
    clean = mx.where(counted[..., None], logits, 0).astype(mx.float32) * (1 / temp)
    chosen = (targets[..., None] == mx.arange(logits.shape[-1])) & counted[..., None]
    return mx.sum(mx.where(chosen, clean - mx.logsumexp(clean, axis=-1, keepdims=True), 0.0), axis=-1)


@known.accepted("with the maximum subtracted by hand")
def by_hand(logits, targets, temp=1.0, ignore_index=-100):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets has shape {targets.shape}, needed is {logits.shape[:-1]}")
    if temp <= 0:
        raise ValueError(f"temp {temp}")
    counted = targets != ignore_index
    wide = mx.where(counted[..., None], logits.astype(mx.float32), 0.0) / temp
    shifted = wide - mx.stop_gradient(mx.max(wide, axis=-1, keepdims=True))
    logs = shifted - mx.log(mx.sum(mx.exp(shifted), axis=-1, keepdims=True))
    picked = mx.take_along_axis(logs, mx.maximum(targets, 0)[..., None] % logits.shape[-1], axis=-1)[..., 0]
    return mx.where(counted, picked, 0.0)
