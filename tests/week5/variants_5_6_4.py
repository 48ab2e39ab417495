"""Known programs of task 5.6.4, the GRPO loss."""

import mlx.core as mx
from tests.week5.preferred import completions
from tiny_llm_solution.preferences.grpo import PolicyLoss

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.6.4")


def run(program, seed, clip=0.2, beta=0.04, spread=0.5, **options):
    return tuple(program(*completions(seed, spread=spread, **options), clip, beta))


def slope(program, seed, beta=0.04):
    arrays = completions(seed, spread=0.5)
    return mx.grad(lambda p, *others: program(p, *others, 0.2, beta).loss)(*arrays)


def masked(program):
    policy, sampler, reference, advantages, mask = completions(3)
    bad = [mx.where(mask, x, value) for x, value in ((policy, mx.nan), (sampler, -mx.inf), (reference, mx.nan))]
    return mx.value_and_grad(lambda p: program(p, *bad[1:], advantages, mask).loss)(bad[0])


def unequal(program):
    policy, sampler, reference, _, _ = completions(7, 2, 6)
    mask = mx.array([[False, True, False, False, False, False], [False, True, True, True, True, True]])
    return tuple(program(policy, sampler, reference, mx.array([3.0, -1.0]), mask))


def square(program):
    policy, sampler, reference, advantages, _ = completions(8, 5, 5)
    return tuple(program(policy, sampler, reference, advantages, mx.ones((5, 5), mx.bool_)))


def empty(program):
    *arrays, mask = completions(9)
    return tuple(program(*arrays, mx.zeros_like(mask)))


def half(program):
    policy, sampler, reference, advantages, mask = completions(12, spread=0.02)
    fields = program(*(x.astype(mx.float16) for x in (policy, sampler, reference)), advantages, mask)
    return tuple(x.astype(mx.float32) for x in fields)


known.probe_table(
    several=lambda program: run(program, 1),
    near=lambda program: run(program, 2, spread=0.01)[::2],  # its KL is a small difference of rounded numbers
    other_clip=lambda program: run(program, 4, 0.5),
    strong_kl=lambda program: run(program, 5, beta=2.0),
    without_kl=lambda program: run(program, 6, beta=0.0),
    masked=masked,
    unequal=unequal,
    square=square,
    empty=empty,
    slope=lambda program: slope(program, 10),
    slope_without_kl=lambda program: slope(program, 11, 0.0),
    refused=lambda program: refusals(
        lambda shapes: program(*map(mx.zeros, shapes[:-1]), mx.ones(shapes[-1], mx.bool_)),
        [
            ((3, 4), (3, 5), (3, 4), (3,), (3, 4)), ((3, 4), (3, 4), (4,), (3,), (3, 4)),
            ((3, 4), (3, 4), (3, 4), (4,), (3, 4)), ((3, 4), (3, 4), (3, 4), (3,), (3, 1)),
            ((4,), (4,), (4,), (4,), (4,)),
        ],
    ),
)  # fmt: skip
known.probe_table(mx.float16, half=half)


@known.sized("64 completions of 1,024 tokens, float32")
def sized(program):
    arrays = completions(1, 64, 1024)
    return lambda: list(program(*arrays))


RATIO = "ratio = mx.exp(policy - sampler)"
GAIN = "gain = mx.minimum(ratio * a, mx.clip(ratio, 1 - clip, 1 + clip) * a)"
KL = "kl = mx.exp(distance) - distance - 1  # at least 0, and 0 where both agree"
SUMS = "mx.sum(mx.where(mask, each, 0.0)) / count for each in"
SUMMED = "mx.sum(mx.where(mask, each, 0.0).astype(mx.float32)) / count for each in"
MASKED = "return mx.where(mask, array.astype(mx.float32), 0.0)"
known.written("the terms converted, too", (SUMS, SUMMED))
known.change(
    "ratio-inverted",
    (RATIO, "ratio = mx.exp(sampler - policy)"),
    fact="the ratio is the sampler's probability over the policy's",
    question="A token was sampled, and the policy now finds it more likely. Is its ratio above or below 1?",
)
known.change(
    "ratio-to-the-reference",
    (RATIO, "ratio = mx.exp(policy - reference)"),
    fact="the ratio is taken to the reference model instead of the sampler",
    question="Which model did the tokens come from?",
)
known.change(
    "not-clipped",
    (GAIN, "gain = ratio * a"),
    fact="the ratio is not clipped",
    question="A good token is ten times as likely as when it was sampled. Should a step push it further?",
)
known.change(
    "clipped-both-ways",
    (GAIN, "gain = mx.clip(ratio, 1 - clip, 1 + clip) * a"),
    fact="the clipped ratio is always used, without the minimum, so that a wrong move has no gradient",
    question="A bad token has become twice as likely. Which of the two products is smaller?",
)
known.change(
    "maximum-of-the-two",
    (GAIN, "gain = mx.maximum(ratio * a, mx.clip(ratio, 1 - clip, 1 + clip) * a)"),
    fact="the larger of the two products is taken, not the smaller",
    question="With A = 1 and a ratio of 3, which of 3 and 1.2 is the cautious estimate?",
)
known.change(
    "kl-the-other-way",
    ("distance = reference - policy", "distance = policy - reference"),
    fact="the KL estimator has policy and reference exchanged",
    question="The samples come from the policy. Of which ratio is the mean over these samples 1?",
)
known.change(
    "k1",
    (KL, "kl = -distance"),
    fact="the KL divergence is estimated by the difference of the log-probabilities (k1), which may be negative",
    question="Can a KL divergence be negative? And your estimate for one token?",
)
known.change(
    "k2",
    (KL, "kl = mx.square(distance) / 2"),
    fact="the KL divergence is estimated by half of the squared difference (k2)",
    question="The policy finds one token twice as likely as the reference, another half as likely. Are both equal?",
)
known.change(
    "mean-per-completion",
    (
        "(mx.sum(mx.where(mask, each, 0.0)) / count for each in",
        "(mx.mean(mx.sum(mx.where(mask, each, 0.0), axis=1) / mx.maximum(mx.sum(mask, axis=1), 1)) for each in",
    ),
    fact="each completion is averaged first, and then the completions, as in the GRPO paper",
    question="One completion has 5 tokens, another 100. How much does a token of each weigh?",
)
known.change(
    "mean-over-all",
    ("count = mx.maximum(mx.sum(mask), 1)", "count = mask.size"),
    fact="the sums are divided by the number of all positions, prompts and padding included",
    question="Two of eight positions count. By how much is their sum divided?",
)
known.change(
    "clipped-whatever-the-sign",
    (
        "clipped = ((ratio > 1 + clip) & (a > 0)) | ((ratio < 1 - clip) & (a < 0))",
        "clipped = (ratio > 1 + clip) | (ratio < 1 - clip)",
    ),
    fact="`clipped` counts every ratio outside of 1 - clip to 1 + clip, whatever the advantage's sign",
    question="A bad token has become twice as likely. Does clipping remove its gradient?",
)
known.change(
    "prompt-counts",
    (SUMS, "mx.mean(each) for each in"),
    (MASKED, "return array.astype(mx.float32)"),
    fact="the mask is not used: prompts and padding count as well",
    question="Which tokens did the model choose, and which were given to it?",
)
known.change(
    "divided-by-none",
    ("count = mx.maximum(mx.sum(mask), 1)", "count = mx.sum(mask)"),
    fact="the sums are divided by the number of tokens that count even if there are none",
    question="No token counts. What is 0 / 0?",
)
known.change(
    "one-row-accepted",
    ("logprobs.ndim != 2 or ", ""),
    fact="arrays without a row axis are accepted, if their shapes agree",
    question="Are four numbers four completions of one token each, or one completion of four?",
)
known.change(
    "half-precision",
    (MASKED, "return mx.where(mask, array, 0.0)"),
    fact="the log-probabilities are not converted to float32",
    question="The KL divergence of a token is exp(d) - d - 1 with d = 0.01. What remains of it in float16?",
)
known.change(
    "masked-too-late",
    (MASKED, "return array.astype(mx.float32)"),
    fact="the loss is right, but its gradient is NaN where masked log-probabilities are",
    question="mx.where passes a gradient of 0 to the branch that it does not take. What is 0 times NaN?",
)


@known.accepted("completion by completion")
def by_completion(logprobs, sampler_logprobs, reference_logprobs, advantages, mask, clip=0.2, beta=0.04):
    arrays = logprobs, sampler_logprobs, reference_logprobs
    shapes = [x.shape for x in (*arrays, mask)]
    if len(logprobs.shape) != 2 or any(shape != shapes[0] for shape in shapes) or advantages.shape != shapes[0][:1]:
        raise ValueError(f"{shapes}, advantages {advantages.shape}")
    keep = mask.astype(mx.float32)
    p, s, q = (mx.where(mask, x, 0).astype(mx.float32) for x in arrays)
    loss = kl = clipped = mx.array(0.0)
    for n in range(len(p)):
        a, ratio, log = advantages[n].astype(mx.float32), mx.exp(p[n] - s[n]), p[n] - q[n]
        bound = mx.where(a > 0, mx.minimum(ratio, 1 + clip), mx.maximum(ratio, 1 - clip))
        k3 = mx.expm1(-log) + log
        loss = loss + mx.sum((beta * k3 - bound * a) * keep[n])
        kl = kl + mx.sum(k3 * keep[n])
        clipped = clipped + mx.sum((bound != ratio) * (a != 0) * keep[n])
    count = mx.maximum(mx.sum(keep), 1)
    return PolicyLoss(loss / count, kl / count, clipped / count)


known.accepted_change(
    "as the larger of two losses",
    (GAIN, "gain = -mx.maximum(-ratio * a, -mx.minimum(mx.maximum(ratio, 1 - clip), 1 + clip) * a)"),
)
