"""Known programs of task 4.2.3, dropout."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.3")


def seeded(program, x, rate, training, chance):
    """MLX's global seed is also set, so that a program that uses it instead of the key is reproducible."""
    mx.random.seed(1000)
    return program(x, rate, training, mx.random.key(chance))


def without_a_key(program):
    mx.random.seed(8)
    return program(normals(26)(4, 60), 0.3, True), program(normals(26)(4, 60), 0.3, True)


known.probe_table(
    trains=lambda program: seeded(program, normals(21)(4, 60), 0.3, True, 1),
    half=lambda program: seeded(program, normals(22)(4, 60), 0.5, True, 2),
    another_key=lambda program: seeded(program, normals(22)(4, 60), 0.5, True, 3),
    evaluates=lambda program: seeded(program, normals(23)(4, 60), 0.3, False, 4),
    rate_0=lambda program: seeded(program, normals(24)(4, 60), 0.0, True, 5),
    rate_0_evaluates=lambda program: seeded(program, normals(24)(4, 60), 0.0, False, 5),
    rate_1=lambda program: seeded(program, normals(25)(4, 60), 1.0, True, 6),
    of_infinity=lambda program: seeded(program, mx.full((60,), mx.inf), 0.5, True, 7),
    one_row=lambda program: seeded(program, normals(27)(60), 0.3, True, 9),
    refused_outside_training=lambda program: program(normals(31)(3, 4), 50, False),
    refused_nan=lambda program: program(normals(32)(3, 4), float("nan"), True),
    without_a_key=without_a_key,
    caller=lambda program: (x := normals(29)(4, 60), seeded(program, x, 0.3, True, 11)),
)
known.probe_table(mx.float16, narrow=lambda program: seeded(program, normals(28, mx.float16)(4, 60), 0.3, True, 10))


@known.sized("x 1,024 x 1,024, rate 0.1, float32")
def sized(program):
    x, key = normals(1)(1024, 1024), mx.random.key(1)
    return lambda: program(x, 0.1, True, key)


STAYS = "stays = mx.random.bernoulli(1 - rate, x.shape, key=key)"
LEFT = "mx.where(stays, x / (1 - rate), 0.0)"
OFF = "if not training or rate == 0:"

known.change(
    "not-scaled",
    (LEFT, "mx.where(stays, x, 0.0)"),
    fact="the kept values are not scaled up",
    question="Two of four weights of 1/4 are dropped. What is the sum of the others?",
)
known.change(
    "scaled-by-the-rate",
    (LEFT, "mx.where(stays, x / rate, 0.0)"),
    fact="the kept values are divided by rate instead of 1 - rate",
    question="At a rate of 0.1, by how much must the nine kept of ten be scaled?",
)
known.change(
    "made-smaller",
    (LEFT, "mx.where(stays, x * (1 - rate), 0.0)"),
    fact="the kept values are multiplied by 1 - rate",
    question="Is the sum of the kept values too large or too small?",
)
known.change(
    "scaled-in-place",
    (f"return {LEFT}", "x /= 1 - rate\nreturn mx.where(stays, x, 0.0)"),
    fact="`x /= 1 - rate` also changes the caller's x",
    question="Does `x /= 2` make a new MLX array, or change the one that x and the caller refer to?",
)
known.change(
    "scaled-at-test-time",
    (LEFT, "mx.where(stays, x, 0.0)"),
    (OFF, "if not training:\n    return x * (1 - rate)\nif rate == 0:"),
    fact="scaling happens at inference, by 1 - rate, instead of in training",
    question="What should dropout cost at inference?",
)
known.change(
    "keeps-the-rate",
    (STAYS, "stays = mx.random.bernoulli(rate, x.shape, key=key)"),
    fact="a value is kept with probability rate",
    question="At a rate of 0.1, how many of ten values should be kept?",
)
known.change(
    "drops-what-should-stay",
    (LEFT, "mx.where(~stays, x / (1 - rate), 0.0)"),
    fact="the keep mask is inverted",
    question="What does True mean in your sampled mask?",
)
known.change(
    "draws-what-goes",
    (STAYS, "stays = ~mx.random.bernoulli(rate, x.shape, key=key)"),
    fact="a drop mask is sampled with probability rate, so the same key keeps other values",
    question="With which probability does the docstring sample, and what happens to a value whose sample is True?",
)
known.change(
    "checked-in-training-only",
    ("raise ValueError(", "if training:\n    raise ValueError("),
    fact="an invalid rate raises only in training",
    question="When should a rate of 50 raise: when the model is built, or hours later?",
)
known.change(
    "nan-accepted",
    ("if not 0 <= rate <= 1:", "if rate < 0 or rate > 1:"),
    fact="a rate of NaN is accepted, because NaN is neither below 0 nor above 1",
    question="What do `rate < 0` and `rate > 1` return for NaN?",
)
known.change(
    "drops-at-test-time",
    (OFF, "if rate == 0:"),
    fact="values are also dropped when training is False",
    question="What is `training` for?",
)
known.change(
    "only-at-test-time",
    (OFF, "if training or rate == 0:"),
    fact="training is inverted: values are dropped only at inference",
    question="When should dropout act: in training or at inference?",
)
known.change(
    "never-drops",
    (OFF, "if True:"),
    fact="no value is ever dropped",
    question="At a rate of a half, how many values should be 0?",
)
known.change(
    "0-is-no-rate",
    (OFF, "rate = rate or 0.1\nif not training:"),
    fact="a rate of 0 is replaced by a default of 0.1",
    question="What is `rate or default` for 0.0?",
)
known.change(
    "one-draw-for-all-rows",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape[-1:], key=key)"),
    fact="one row of the mask is sampled and shared, so every row loses the same columns",
    question="How many samples do you need for an array of 4 x 60?",
)
known.change(
    "key-unused",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape)"),
    fact="key is ignored and MLX's global random state is used, which differs in each call",
    question="Call it twice with one key. Which values are dropped?",
)
known.change(
    "one-key-for-all",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape, key=mx.random.key(0))"),
    fact="the key is fixed, so the same values are dropped whatever key is passed",
    question="Should two training steps drop the same values?",
)
known.change(
    "multiplied-by-0",
    (LEFT, "stays * (x / (1 - rate))"),
    fact="dropped values are multiplied by 0, so infinity becomes NaN",
    question="What is 0 * inf? Does your program compute it at a rate of 1?",
)
known.change(
    "float32-result",
    (LEFT, "mx.where(stays, x / (1 - rate), mx.array(0.0))"),
    fact="the result is float32 although x is not",
    question="Which dtype has mx.array(0.0), and which one Python's 0.0?",
)
known.change(
    "made-larger-only",
    (LEFT, "mx.where(stays, x / (1 - rate), x)"),
    fact="dropped values stay as they are, and only the others are scaled up",
    question="What is a value after it has been dropped?",
)
known.change(
    "a-rate-of-1-rejected",
    ("if not 0 <= rate <= 1:", "if not 0 <= rate < 1:"),
    fact="a rate of 1 raises",
    question="What does dropout return if every element is dropped?",
)
known.together("keeps-the-rate", "drops-what-should-stay", makes="draws-what-goes")
known.written("zeros at a rate of 1", (OFF, f"if training and rate == 1:\n    return mx.zeros_like(x)\n{OFF}"))


@known.accepted("uniform-numbers")
def uniform_numbers(x, rate, training, key=None):
    if not 0 <= rate <= 1:
        raise ValueError(f"the rate {rate} is not from 0 to 1")
    if not training or rate in (0, 1):
        return mx.zeros_like(x) if training and rate else x
    stays = mx.random.uniform(shape=x.shape, key=key) < 1 - rate
    return mx.where(stays, x / (1 - rate), mx.zeros_like(x))


@known.accepted("put-to-zero-afterwards")
def put_to_zero(x, rate, training, key=None):
    if rate < 0 or rate > 1 or rate != rate:
        raise ValueError(f"the rate {rate} is not from 0 to 1")
    if training and rate == 1:
        return mx.zeros_like(x)
    if training and rate > 0:
        drops = mx.logical_not(mx.random.bernoulli(1 - rate, shape=x.shape, key=key))
        scaled = x * (1 / (1 - rate))
        scaled[drops] = 0.0
        return scaled
    return x
