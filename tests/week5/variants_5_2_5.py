"""Known programs of task 5.2.5, the gradient of cross-entropy."""

import mlx.core as mx
from tests.week5.logits import far, logits_and_targets, padded

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.2.5")


def with_nan(program):
    logits, targets = logits_and_targets(5, leading=(4,))
    logits[1], targets[1] = mx.nan, -100
    return program(logits, targets)


known.probe_table(
    all_count=lambda program: program(*logits_and_targets(1)),
    some_count=lambda program: program(*logits_and_targets(2, ignored=0.5)),
    one_position=lambda program: program(*logits_and_targets(3, leading=())),
    square=lambda program: program(*logits_and_targets(6, leading=(5, 5), size=5)),
    high=lambda program: program(*far(mx.float32, 1e4)),
    other_index=lambda program: program(*padded(7, 6)),
    last_index=lambda program: program(*padded(7, -1)),
    with_nan=with_nan,
    none_counts=lambda program: program(mx.ones((2, 3)), mx.full(2, -100)),
    refuses=lambda program: refusals(
        lambda shape: program(mx.zeros((3, 4, 7)), mx.zeros(shape, mx.int32)), [(4, 3), (3,)]
    ),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*logits_and_targets(10, mx.float16, (4, 6), 50)),
    half_far=lambda program: program(*far(mx.float16, 1e4)),
    almost_sure=lambda program: program(mx.array([[9.5, 0.0, 1.0]], mx.float16), mx.array([0])),
    # all but the target's: float16 ends at 65,504
    large_vocabulary=lambda program: program(mx.zeros((1, 70_000), mx.float16), mx.array([0]))[:, 1:],
)


@known.sized("512 positions, V 4,096, float32")
def sized(program):
    logits, targets = logits_and_targets(1, leading=(512,), size=4096, ignored=0.2)
    return lambda: program(logits, targets)


GRADIENT = "(probabilities - one_hot)"
COUNT = "mx.maximum(mx.sum(counted), 1)"
KEPT = "mx.where(counted[..., None], gradient, 0.0)"
known.change(
    "one-hot-missing",
    (GRADIENT, "probabilities"),
    fact="the gradient is the softmax, without minus 1 at the target",
    question="What is the derivative of logsumexp(z) - z_t with respect to z_t?",
)
known.change(
    "sign-reversed",
    (GRADIENT, "(one_hot - probabilities)"),
    fact="the sign is reversed: a step along it lowers the loss",
    question="If the target's logit rises, does the loss rise or fall?",
)
known.change(
    "not-averaged",
    (f" / {COUNT}", ""),
    fact="the gradient is that of the sum of the losses, not of their mean",
    question="cross_entropy divides by the count. What does its gradient do?",
)
known.change(
    "averaged-over-all",
    (COUNT, "counted.size"),
    fact="the gradient is divided by the number of all positions, ignored ones included",
    question="By which number did the loss divide?",
)
known.change(
    "ignored-have-a-gradient",
    (KEPT, "gradient"),
    fact="ignored positions get a gradient, their softmax",
    question="How does the loss change with the logits of a position that it ignores?",
)
known.change(
    "ignored-times-zero",
    (KEPT, "(gradient * counted[..., None])"),
    fact="the gradient of ignored positions is multiplied by zero instead of being replaced",
    question="What is 0 times NaN?",
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
    fact="the argument ignore_index is not used: negative targets are ignored",
    question="A caller marks padding with 0. What does your code ignore?",
)
known.change(
    "one-hot-divided-alone",
    (f"{GRADIENT} / {COUNT}", f"(probabilities - one_hot / {COUNT})"),
    fact="the one-hot is divided by the number of counted targets, but the softmax is not",
    question="What is the sum of a position's gradient over the vocabulary?",
)
known.change(
    "softmax-divided-alone",
    (f"{GRADIENT} / {COUNT}", f"(probabilities / {COUNT} - one_hot)"),
    fact="the softmax is divided by the number of counted targets, but the one-hot is not",
    question="What is the sum of a position's gradient over the vocabulary?",
)
known.change(
    "averaged-over-the-first-axis",
    (COUNT, "(counted.shape[0] if counted.ndim else 1)"),
    fact="the gradient is divided by the length of the first axis",
    question="targets is 2 x 3. Over how many positions at most is the mean loss?",
)
known.change(
    "averaged-per-row",
    (COUNT, "mx.maximum(mx.sum(counted, axis=-1, keepdims=True) if counted.ndim else counted, 1)[..., None]"),
    fact="the gradient of each row is divided by the row's own number of counted targets",
    question="Two rows count 3 targets and 1. How many summands does the mean of cross_entropy have?",
)
known.change(
    "zero-by-zero",
    (f" / {COUNT}", ""),
    (KEPT, f"({KEPT} / mx.sum(counted))"),
    fact="the gradient is 0 / 0 if no target counts",
    question="A row has nothing but padding. By what do you divide?",
)
known.change(
    "nan-without-targets",
    (COUNT, "mx.sum(counted)"),
    (KEPT, "gradient * counted[..., None]"),
    fact="the gradient is 0 / 0 if no target counts, and ignored positions are multiplied by zero",
    question="A row has nothing but padding. By what do you divide?",
)
known.change(
    "softmax-over-positions",
    ("axis=-1)  # N.. x V", "axis=0)  # N.. x V"),
    fact="the softmax runs over positions instead of the vocabulary",
    question="Which probabilities sum to one: those of the next token, or those of all positions for one token?",
)
known.change(
    "through-the-softmax-again",
    (
        f"gradient = {GRADIENT} / {COUNT}",
        f"inner = {GRADIENT} / {COUNT}\n"
        "gradient = probabilities * (inner - mx.sum(inner * probabilities, axis=-1, keepdims=True))",
    ),
    fact="softmax minus one-hot goes through the softmax's derivative once more",
    question="Is softmax minus one-hot the derivative with respect to the probabilities, or already to the logits?",
)
known.change(
    "in-the-input-dtype",
    ("logits.astype(mx.float32)", "logits"),
    fact="the softmax is computed in the dtype of the logits",
    question="A vocabulary has 70,000 tokens. What is the sum of as many float16 exponentials of 1?",
)
known.change(
    "mx-softmax-in-the-input-dtype",  # which adds up less accurately than ours, but does not overflow
    ("softmax(logits.astype(mx.float32), axis=-1)", "mx.softmax(logits, axis=-1)"),
    fact="mx.softmax computes in the dtype of the logits",
    question="The target has the probability 0.9997. What is it in float16, and what is left of 1 - 0.9997?",
)
known.change(
    "probabilities-rounded",
    (GRADIENT, "(probabilities.astype(logits.dtype) - one_hot)"),
    fact="the softmax is rounded to the dtype of the logits before 1 is subtracted at the target",
    question="The target has the probability 0.9997. What is it in float16, and what is left of 1 - 0.9997?",
)
known.change(
    "float32-result",
    (f"{KEPT}.astype(logits.dtype)", KEPT),
    fact="the gradient is float32 although the logits are not",
    question="What should be the dtype of the gradient of float16 logits?",
)


@known.accepted("from the log of the probabilities, with weights per position")
def from_logs(logits, targets, ignore_index=-100):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets {targets.shape} do not fit logits {logits.shape[:-1]}")
    counted = mx.array(targets != ignore_index)
    wide = mx.where(counted[..., None], logits, 0).astype(mx.float32)
    share = counted / mx.maximum(mx.sum(counted), 1)
    probabilities = mx.exp(wide - mx.logsumexp(wide, axis=-1, keepdims=True))
    one_hot = mx.arange(logits.shape[-1]) == targets[..., None]
    return ((probabilities - one_hot) * share[..., None]).astype(logits.dtype)


@known.accepted("row by row")
def row_by_row(logits, targets, ignore_index=-100):
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets has shape {targets.shape}, needed is {logits.shape[:-1]}")
    size = logits.shape[-1]
    labels = targets.flatten().tolist()
    count, rows = sum(label != ignore_index for label in labels), []
    for row, label in zip(logits.reshape(-1, size).astype(mx.float32), labels, strict=True):
        if label == ignore_index:
            rows.append(mx.zeros(size))
            continue
        exps = mx.exp(row - mx.max(row))
        rows.append((exps / mx.sum(exps) - (mx.arange(size) == label)) / count)
    return mx.stack(rows).reshape(logits.shape).astype(logits.dtype)
