"""Known programs of task 5.6.3, group-relative advantages."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.6.3")

known.probe_table(
    several=lambda program: program(normals(1)(3, 5)),
    square=lambda program: program(normals(2)(4, 4)),
    a_single_group=lambda program: program(normals(3)(6)),
    more_axes=lambda program: program(normals(4)(2, 3, 4)),
    eps=lambda program: program(normals(5)(3, 4), 0.5),
    far=lambda program: program(mx.array([[1000.0, 1001.0, 1003.0], [0.0, 1.0, 0.0]])),
    equal=lambda program: program(mx.array([[0.1, 0.1, 0.1], [0.1, 0.3, 0.2]])),
    equal_without_eps=lambda program: program(mx.array([[0.1, 0.1, 0.1], [0.1, 0.3, 0.2]]), 0.0),
    none_right=lambda program: program(mx.zeros((2, 3))),
    one=lambda program: program(mx.array([[2.0], [3.0]])),
    small=lambda program: program(mx.array([[0.0, 0.1, 0.2, 0.1], [0.0, 5.0, 0.0, 1.0]]), 1.0),
    integers=lambda program: program(mx.array([[1, 0, 3, 0], [2, 1, 2, 2]])),
    refused=lambda program: refusals(lambda shape: program(mx.zeros(shape)), [(), (0,), (3, 0)]),
)
known.probe_table(half=lambda program: program((normals(6)(4, 500) + 10).astype(mx.float16)))


@known.sized("1,024 x 64 rewards, float32")
def sized(program):
    rewards = normals(1)(1024, 64)
    return lambda: program(rewards)


MEAN = "mx.mean(wide, axis=-1, keepdims=True)"
SQUARES = "mx.sum(mx.square(centered), axis=-1, keepdims=True)"
DIVIDED = "centered / (deviation + eps)"
known.change(
    "not-centered",
    (DIVIDED, "wide / (deviation + eps)"),
    fact="the mean of the group is not subtracted",
    question="Every completion of a group is right, but for one. What should the advantage of the wrong one be?",
)
known.change(
    "not-scaled",
    (DIVIDED, "centered"),
    fact="the difference from the mean is not divided by the standard deviation, as in Dr. GRPO",
    question="A reward counts points, from 0 to 100. How large is your advantage?",
)
known.change(
    "divided-by-the-variance",
    (
        "deviation = mx.sqrt(squares / max(1, rewards.shape[-1] - 1))",
        "deviation = squares / max(1, rewards.shape[-1] - 1)",
    ),
    fact="the difference from the mean is divided by the variance",
    question="In which unit is an advantage if rewards are in points?",
)
known.change(
    "of-the-population",
    ("max(1, rewards.shape[-1] - 1)", "rewards.shape[-1]"),
    fact="the standard deviation is the population's: G divides the sum of the squares",
    question="By which number does the docstring divide the sum of the squares?",
)
known.change(
    "one-group",
    (MEAN, "mx.mean(wide)"),
    (SQUARES, "(mx.sum(mx.square(centered)) * max(1, rewards.shape[-1] - 1) / max(1, rewards.size - 1))"),
    fact="mean and deviation are those of all rewards, not of each group",
    question="One prompt is easy and one is hard. With which completions should a completion be compared?",
)
known.change(
    "wrong-axis",
    (MEAN, "mx.mean(wide, axis=0, keepdims=True)"),
    (SQUARES, "mx.sum(mx.square(centered), axis=0, keepdims=True)"),
    ("max(1, rewards.shape[-1] - 1)", "max(1, rewards.shape[0] - 1)"),
    (
        "mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)",
        "mx.max(wide, axis=0, keepdims=True) == mx.min(wide, axis=0, keepdims=True)",
    ),
    fact="the first axis is taken as the group, not the last one",
    question="Rewards are P x G. Along which axis are the completions of one prompt?",
)
known.change(
    "best-so-far",
    (f"centered = wide - {MEAN}", "centered = wide - mx.max(wide, axis=-1, keepdims=True)"),
    fact="the largest reward of the group is subtracted, not the mean",
    question="Which completions should become more likely? How many of yours have a positive advantage?",
)
known.change(
    "eps-in-the-root",
    (
        "deviation = mx.sqrt(squares / max(1, rewards.shape[-1] - 1))",
        "deviation = mx.sqrt(squares / max(1, rewards.shape[-1] - 1) + eps) - eps",
    ),
    fact="eps is added to the variance, inside the root",
    question="With eps = 0.01 and a deviation of 0, by what do you divide?",
)
known.change(
    "eps-forgotten",
    ("(deviation + eps)", "mx.maximum(deviation, 1e-30)"),
    fact="eps is not added",
    question="The rewards of a group differ by one rounding error. How large are their advantages?",
)
known.change(
    "equal-rewards-divided",
    ("return mx.where(equal, 0.0, centered / (deviation + eps))", "return centered / (deviation + eps)"),
    fact="equal rewards are divided, too: 0 / 0, or a rounding error divided by another one",
    question="Is (0.1 + 0.1 + 0.1) / 3 equal to 0.1 in float32?",
)
known.change(
    "small-deviations-are-zero",
    ("equal = mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)", "equal = deviation < eps"),
    fact="a group whose standard deviation is less than eps has advantages of 0, even if its rewards differ",
    question="The rewards are 0, 0.1 and 0.2, and eps is 1. Are they equal?",
)
known.change(
    "in-the-input-dtype",
    (
        "wide = rewards.astype(mx.float32)",
        "wide = rewards if mx.issubdtype(rewards.dtype, mx.floating) else rewards.astype(mx.float32)",
    ),
    (DIVIDED, "(centered / (deviation + eps)).astype(mx.float32)"),
    fact="the advantages are computed in the dtype of the rewards",
    question="How exact is the sum of 500 numbers near 10 in float16?",
)
known.change(
    "empty-not-refused",
    ("if rewards.ndim == 0 or not rewards.size:", "if rewards.ndim == 0:"),
    (
        "equal = mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)",
        "if not rewards.size:\n    return wide\n"
        "equal = mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)",
    ),
    fact="rewards without a completion are not refused",
    question="What is the mean of no rewards?",
)
known.change(
    "group-of-one",
    ("squares / max(1, rewards.shape[-1] - 1)", "squares / (rewards.shape[-1] - 1)"),
    ("equal = mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)",
     "equal = (mx.max(wide, -1, True) == mx.min(wide, -1, True)) & (rewards.shape[-1] > 1)"),
    fact="the advantage of a group of one answer is NaN",
    question="What is G - 1 in a group of one answer?",
)  # fmt: skip


@known.accepted("with mx.std, and the group's range")
def by_std(rewards, eps=1e-4):
    if rewards.ndim == 0 or 0 in rewards.shape:
        raise ValueError(f"shape {rewards.shape}")
    wide = rewards.astype(mx.float32)
    if rewards.shape[-1] == 1:
        return mx.zeros(rewards.shape)
    spread = mx.max(wide, axis=-1, keepdims=True) - mx.min(wide, axis=-1, keepdims=True)
    scaled = (wide - wide.mean(-1, keepdims=True)) / (mx.std(wide, axis=-1, keepdims=True, ddof=1) + eps)
    return mx.where(spread > 0, scaled, 0.0)


known.accepted_change(
    "compared with the first reward",
    (
        "mx.max(wide, axis=-1, keepdims=True) == mx.min(wide, axis=-1, keepdims=True)",
        "mx.all(wide == wide[..., :1], axis=-1, keepdims=True)",
    ),
)
