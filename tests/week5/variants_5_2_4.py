"""Known programs of task 5.2.4, cross-entropy."""

import mlx.core as mx
from tests.week5.logits import far, logits_and_targets, padded

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.2.4")


def with_nan(program):
    logits, targets = logits_and_targets(5, leading=(4,))
    logits[1], targets[1] = mx.nan, -100
    return (*mx.value_and_grad(program)(logits, targets),)


known.probe_table(
    all_count=lambda program: program(*logits_and_targets(1)),
    some_count=lambda program: program(*logits_and_targets(2, ignored=0.5)),
    one_position=lambda program: program(*logits_and_targets(3, leading=())),
    square=lambda program: program(*logits_and_targets(6, leading=(5, 5), size=5)),
    unequal_rows=lambda program: program(
        logits_and_targets(9, leading=(2, 4))[0], mx.array([[1, 6, 0, 2], [-100] * 3 + [3]])
    ),
    high=lambda program: program(*far(mx.float32, 1e4)),
    low=lambda program: program(*far(mx.float32, -1e4)),
    other_index=lambda program: program(*padded(7, 6)),
    last_index=lambda program: program(*padded(7, -1)),
    slope=lambda program: mx.grad(program)(*logits_and_targets(8, ignored=0.3)),
    with_nan=with_nan,
    compiled=lambda program: mx.compile(program)(*logits_and_targets(11, ignored=0.3)),
    none_counts=lambda program: program(mx.ones((2, 3)), mx.full(2, -100)),
    refuses=lambda program: refusals(
        lambda shape: program(mx.zeros((3, 4, 7)), mx.zeros(shape, mx.int32)), [(4, 3), (3,)]
    ),
    # float32 results, though the logits are float16
    half=lambda program: program(*logits_and_targets(10, mx.float16, (40, 60), 50)),
    half_far=lambda program: program(*far(mx.float16, 1e4)),
)


@known.sized("512 positions, V 4,096, float32")
def sized(program):
    logits, targets = logits_and_targets(1, leading=(512,), size=4096, ignored=0.2)
    return lambda: program(logits, targets)


LOSSES = "losses = mx.logsumexp(wide, axis=-1) - chosen"
MEAN = "mx.maximum(mx.sum(counted), 1)"
known.change(
    "mean-over-all",
    (MEAN, "counted.size"),
    fact="the sum is divided by the number of all positions, ignored ones included",
    question="Two of eight targets count, with a loss of 3 each. What is their mean?",
)
known.change(
    "mean-of-rows",
    (
        f"return mx.sum(mx.where(counted, losses, 0.0)) / {MEAN}",
        "per_row = mx.sum(mx.where(counted, losses, 0.0), axis=-1) / mx.maximum(mx.sum(counted, axis=-1), 1)\n"
        "return mx.mean(per_row)",
    ),
    fact="each row is averaged first, and then the rows",
    question="One row has 1,000 counted targets, the other one 10. How much does each target weigh?",
)
known.change(
    "ignored-count",
    ("mx.where(counted, losses, 0.0)", "losses"),
    (MEAN, "counted.size"),
    fact="ignored positions count, with token 0 as their target",
    question="What happens to the loss at a position whose target is -100?",
)
known.change(
    "ignore-index-fixed",
    ("counted = targets != ignore_index", "counted = targets != -100"),
    fact="the argument ignore_index is not used: -100 is ignored",
    question="A caller marks padding with 0. What does your code ignore?",
)
known.change(
    "negative-targets-ignored",
    ("counted = targets != ignore_index", "counted = targets >= 0"),
    fact="negative targets are ignored, whatever ignore_index is",
    question="A caller marks padding with 0. Which positions does your code leave out?",
)
known.change(
    "not-stable",
    (LOSSES, "losses = mx.log(mx.sum(mx.exp(wide), axis=-1)) - chosen"),
    fact="exp of the logits is computed without subtracting their maximum",
    question="What is exp(100) in float32?",
)
known.change(
    "log-of-a-softmax",
    (
        LOSSES,
        "losses = -mx.log(mx.take_along_axis(mx.softmax(wide, axis=-1), labels[..., None], axis=-1).squeeze(-1))",
    ),
    fact="the logarithm of the softmax is taken, which is -inf for a target of small probability",
    question="A target's logit is 200 below the largest. What is its probability in float32?",
)
known.change(
    "log-of-a-softmax-plus-a-little",
    (
        LOSSES,
        "chances = mx.take_along_axis(mx.softmax(wide, axis=-1), labels[..., None], axis=-1).squeeze(-1)\n"
        "losses = -mx.log(chances + 1e-9)",
    ),
    fact="1e-9 is added to the probability before the logarithm, so no loss exceeds 20.7",
    question="A target's logit is 100 below the largest. What is its loss, and what is -ln(1e-9)?",
)
known.change(
    "in-the-input-dtype",
    ("logits.astype(mx.float32), 0.0)", "logits, mx.array(0, logits.dtype))"),
    (f"/ {MEAN}", f"/ {MEAN}).astype(mx.float32)"),
    ("return mx.sum(mx.where(counted", "return (mx.sum(mx.where(counted"),
    fact="the loss is computed in the dtype of the logits",
    question="float16 counts to 2,048. How exact is a sum of 2,400 losses?",
)
known.change(
    "sign-missing",
    (LOSSES, "losses = chosen - mx.logsumexp(wide, axis=-1)"),
    fact="the loss is the mean of ln p instead of -ln p",
    question="Is the logarithm of a probability above or below 0? And a loss?",
)
known.change(
    "nan-without-targets",
    (MEAN, "mx.sum(counted)"),
    fact="the loss is 0 / 0 if no target counts",
    question="A row has nothing but padding. What is the mean of no numbers?",
)
known.change(
    "count-is-read",
    (MEAN, "max(mx.sum(counted).item(), 1)"),
    fact="the number of counted targets is read while the function is traced, so that it cannot be compiled",
    question="mx.compile calls your function without any numbers. What does .item() return then?",
)
known.change(
    "ignored-times-zero",
    ("mx.where(counted[..., None], logits.astype(mx.float32), 0.0)", "logits.astype(mx.float32)"),
    ("mx.where(counted, losses, 0.0)", "losses * counted"),
    fact="ignored losses are multiplied by zero instead of being replaced",
    question="What is 0 times NaN?",
)
known.change(
    "replaced-after-the-logsumexp",
    ("mx.where(counted[..., None], logits.astype(mx.float32), 0.0)", "logits.astype(mx.float32)"),
    fact="the loss is right, but its gradient is NaN where ignored logits are",
    question="mx.where passes a gradient of 0 to the branch that it does not take. What is 0 times NaN?",
)
known.change(
    "shifted-here",
    ("_check(logits, targets)", "_check(logits, targets)\nlogits, targets = logits[..., :-1, :], targets[..., 1:]"),
    fact="the targets are shifted once more: position i is compared with target i + 1",
    question="pack_documents has put the next token at index i of targets. Which token is at i + 1?",
)


@known.accepted("as a sum with the one-hot targets")
def one_hot_targets(logits, targets, ignore_index=-100):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets {targets.shape} do not fit logits {logits.shape[:-1]}")
    counted = targets != ignore_index
    clean = mx.where(counted[..., None], logits, 0).astype(mx.float32)
    chosen = (targets[..., None] == mx.arange(logits.shape[-1])) & counted[..., None]
    each = mx.where(chosen, mx.logsumexp(clean, axis=-1, keepdims=True) - clean, 0.0)
    return mx.sum(each) / mx.maximum(mx.sum(chosen), 1)


@known.accepted("with the maximum subtracted by hand")
def by_hand(logits, targets, ignore_index=-100):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets has shape {targets.shape}, needed is {logits.shape[:-1]}")
    counted = (targets != ignore_index).astype(mx.float32)
    wide = mx.where(counted[..., None] > 0, logits.astype(mx.float32), 0.0)
    shifted = wide - mx.stop_gradient(mx.max(wide, axis=-1, keepdims=True))
    one_hot = targets[..., None] == mx.arange(logits.shape[-1])
    chosen = mx.sum(mx.where(one_hot, shifted, 0.0), axis=-1)
    losses = mx.log(mx.sum(mx.exp(shifted), axis=-1)) - chosen
    return mx.sum(losses * counted) / mx.maximum(mx.sum(counted), 1.0)
