"""Known programs of task 5.4.5, fused cross-entropy."""

import mlx.core as mx
from tests.week5.logits import far, logits_and_targets

from tiny_llm_course.testkit.kernels import watched
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.4.5")


def with_nan(program):
    logits, targets = logits_and_targets(5, leading=(4,))
    logits[1], targets[1] = mx.nan, -100
    return program(logits, targets)


def far_from_zero(program):
    logits, targets = far(mx.float32, 1e4)
    return program(logits.reshape(-1, logits.shape[-1]), targets.flatten())


known.probe_table(
    all_count=lambda program: program(*logits_and_targets(1, leading=(6,), size=20)),
    some_count=lambda program: program(*logits_and_targets(2, leading=(6,), ignored=0.5), 0.5),
    one_row=lambda program: program(*logits_and_targets(3, leading=(1,)), 2.0),
    padding_token=lambda program: program(mx.array([[0.5, 2.0, 1.0], [1.0, 0.0, 3.0]]), mx.array([0, 2]), 1.0, 0),
    far_from_zero=far_from_zero,
    with_nan=with_nan,
    is_divided=lambda program: mx.array([watched(program, *logits_and_targets(4, leading=(64,), size=9)).chunks > 1]),
)


known.change(
    "largest-not-subtracted",
    ("const float highest = highest_of(z, vocab);", "const float highest = 0;"),
    fact="the largest logit is not subtracted before exp",
    question="What is exp(10,000) in float32?",
)
known.change(
    "loss-without-largest",
    ("std::log(total) + highest - z[target]", "std::log(total) - z[target]"),
    fact="the largest logit, subtracted before exp, is not added to the log again",
    question="What is log(sum of exp(z - c)) in terms of log(sum of exp(z))?",
)
IGNORED = """
if (target == ignored) {
  losses[row] = 0;
  std::fill(gradient, gradient + vocab, 0.0f);
  continue;
}
"""
known.change(
    "log-of-the-probability",
    ("std::log(total) + highest - z[target]", "-std::log(gradient[target] / total)"),
    fact="the loss is -log of the computed probability, which `weigh` never lets fall below exp(-87) / total",
    question="The target's logit is 1,000 below the largest. Which loss does your kernel compute?",
)
known.change(
    "log-of-zero",
    ("std::log(total) + highest - z[target]", "-std::log(std::exp(z[target] - highest) / total)"),
    fact="the loss is -log of a probability that has underflowed to 0",
    question="What is exp(-1,000) in float32, and what is its logarithm?",
)
known.change(
    "ignored-counts",
    (IGNORED, "\nconst bool counts = target != ignored;\n"),
    ("losses[row] = std::log(total)", "losses[row] = !counts ? 0 : std::log(total)"),
    ("gradient[target] -= scale;", "if (counts) gradient[target] -= scale;"),
    fact="rows that do not count get a gradient, their softmax",
    question="How does the loss change with the logits of a row that it ignores?",
)
known.change(
    "ignored-not-written",
    (IGNORED, "\nif (target == ignored) continue;\n"),
    fact="nothing is written for rows that do not count",
    question="What does a result hold before the kernel has written to it?",
)
known.change(
    "ignored-multiplied-by-0",
    (IGNORED, "\nconst bool counts = target != ignored;\nconst int chosen = counts ? target : 0;\n"),
    (
        "losses[row] = std::log(total) + highest - z[target]",
        "losses[row] = counts * (std::log(total) + highest - z[chosen])",
    ),
    ("scale / total", "counts * scale / total"),
    ("gradient[target] -= scale;", "gradient[chosen] -= counts * scale;"),
    fact="the results of rows that do not count are computed and multiplied by 0",
    question="A row of padding has a logit of NaN. What is 0 times NaN?",
)
known.change(
    "ignored-fixed",
    ("target == ignored", "target < 0"),
    fact="the argument `ignored` is not used: negative targets are ignored",
    question="A caller marks padding with token 0. What does your kernel ignore?",
)
known.change(
    "not-scaled",
    ("scale / total", "1 / total"),
    ("gradient[target] -= scale;", "gradient[target] -= 1;"),
    fact="the gradients are not multiplied by the scale",
    question="The mean of 1,000 losses is differentiated. What is the gradient of each loss?",
)
known.change(
    "one-hot-not-scaled",
    ("gradient[target] -= scale;", "gradient[target] -= 1;"),
    fact="1 is subtracted at the target after the scale has been applied, instead of the scale",
    question="Which of the two terms of p - one_hot does the scale multiply?",
)
known.change(
    "loss-scaled",
    ("losses[row] = std::log", "losses[row] = scale * std::log"),
    ("+ highest - z[target];", "+ scale * (highest - z[target]);"),
    fact="the losses are multiplied by the scale, too",
    question="The scale is the gradient of each loss. Does it change the loss?",
)
known.change(
    "one-hot-missing",
    ("gradient[target] -= scale;", ""),
    fact="the gradient is the softmax, without minus 1 at the target",
    question="What is the derivative of logsumexp(z) - z_t with respect to z_t?",
)
known.change(
    "one-row-for-all",
    (
        "pool().run(rows, 1, [&](int begin, int end) {",
        "std::vector<float> shared(vocab);\npool().run(rows, 1, [&](int begin, int end) {",
    ),
    ("std::copy(z, z + vocab, gradient);", "std::copy(z, z + vocab, shared.data());"),
    ("weigh(gradient, vocab, highest);", "weigh(shared.data(), vocab, highest);"),
    ("gradient[i] *= share;", "gradient[i] = shared[i] * share;"),
    fact="all rows share one buffer of exponentials, which two threads write at the same time",
    question="What is declared outside the body of `run` is shared by whom?",
)
known.change(
    "one-core",
    ("pool().run(rows, 1,", "pool().run(rows, rows,"),
    fact="one core computes all rows",
    question="How many chunks does `run` split the rows into?",
)
known.accepted_change("chunks of several rows", ("pool().run(rows, 1,", "pool().run(rows, std::max(1, rows / 16),"))
known.accepted_change(
    "the target's logit first",
    ("std::copy(z, z + vocab, gradient);", "const float chosen = z[target];\n      std::copy(z, z + vocab, gradient);"),
    ("highest - z[target]", "highest - chosen"),
)


@known.sized("512 rows, V 4,096")
def sized(program):
    logits, targets = logits_and_targets(1, leading=(512,), size=4096, ignored=0.2)
    return lambda: program(logits, targets, 1 / 512)
