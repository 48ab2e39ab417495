"""Known programs of task 4.2.3, dropout."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.3")


def seeded(program, x, rate, training, chance):
    """MLX's own chances are set, too: a program that uses them in the key's place is to do the same each time."""
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
    without_a_key=without_a_key,
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
    fact="what stays is not made larger",
    question="Of four weights of 1/4 two are dropped. What is the sum of the others?",
)
known.change(
    "scaled-by-the-rate",
    (LEFT, "mx.where(stays, x / rate, 0.0)"),
    fact="what stays is divided by the rate, and not by 1 - rate",
    question="At a rate of 0.1, how much larger must the nine that stay of ten be?",
)
known.change(
    "made-smaller",
    (LEFT, "mx.where(stays, x * (1 - rate), 0.0)"),
    fact="what stays is multiplied by 1 - rate",
    question="Is the sum of what stays too large, or too small?",
)
known.change(
    "scaled-at-test-time",
    (LEFT, "mx.where(stays, x, 0.0)"),
    (OFF, "if not training:\n    return x * (1 - rate)\nif rate == 0:"),
    fact="in training nothing is made larger; instead all is multiplied by 1 - rate when it is not training",
    question="What should a model cost at test time that has learned with dropout?",
)
known.change(
    "keeps-the-rate",
    (STAYS, "stays = mx.random.bernoulli(rate, x.shape, key=key)"),
    fact="a number stays with probability `rate`",
    question="At a rate of 0.1, how many of ten numbers should be left?",
)
known.change(
    "drops-what-should-stay",
    (LEFT, "mx.where(~stays, x / (1 - rate), 0.0)"),
    fact="exactly those are dropped that should stay, and the others stay",
    question="What does True mean in the array that you have drawn?",
)
known.change(
    "draws-what-goes",
    (STAYS, "stays = ~mx.random.bernoulli(rate, x.shape, key=key)"),
    fact="what is drawn with probability `rate` is dropped, so that with the same key other numbers stay",
    question="Which probability does the docstring draw with, and what becomes of the numbers whose draw is True?",
)
known.change(
    "checked-in-training-only",
    ("if not 0 <= rate <= 1:", "if training and not 0 <= rate <= 1:"),
    fact="a rate that is no rate is refused in training alone",
    question="When would you like to hear that a rate is 50: as the model is made, or hours later?",
)
known.change(
    "multiplied-by-0-below-1",
    (LEFT, "stays * (x / (1 - rate))"),
    (OFF, "if training and rate == 1:\n    return mx.zeros_like(x)\nif not training or rate == 0:"),
    fact="what is dropped is multiplied by 0, so that infinity becomes NaN",
    question="What is 0 * inf?",
)
known.change(
    "drops-at-test-time",
    (OFF, "if rate == 0:"),
    fact="it drops also when it is not training",
    question="What is `training` for?",
)
known.change(
    "only-at-test-time",
    (OFF, "if training or rate == 0:"),
    fact="it drops when it is not training, and leaves all in training",
    question="When should a model be hindered: while it learns, or while it works?",
)
known.change(
    "never-drops",
    (OFF, "if True:"),
    fact="it never drops anything",
    question="At a rate of a half, how many numbers should be 0?",
)
known.change(
    "0-is-no-rate",
    (OFF, "rate = rate or 0.1\nif not training:"),
    fact="a rate of 0 counts as none given, and a tenth is dropped",
    question="What does `rate or default` give for 0.0?",
)
known.change(
    "one-draw-for-all-rows",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape[-1:], key=key)"),
    fact="one row of chances is drawn, and every row loses the same columns",
    question="How many chances do you draw for an array of 4 x 60?",
)
known.change(
    "key-unused",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape)"),
    fact="the key is not used: MLX's own chances decide, which are others with each call",
    question="Call it twice with one key. Which numbers are dropped?",
)
known.change(
    "one-key-for-all",
    (STAYS, "stays = mx.random.bernoulli(1 - rate, x.shape, key=mx.random.key(0))"),
    fact="the same numbers are dropped whatever the key is",
    question="In two steps of training, should the same numbers be dropped?",
)
known.change(
    "multiplied-by-0",
    (LEFT, "stays * (x / (1 - rate))"),
    fact="what is dropped is multiplied by 0, so that infinity becomes NaN, and so does everything at a rate of 1",
    question="What is 0 * inf? And what is 1 - rate at a rate of 1?",
)
known.change(
    "float32-result",
    (LEFT, "mx.where(stays, x / (1 - rate), mx.array(0.0))"),
    fact="the result is float32 although x is not",
    question="Which dtype has mx.array(0.0), and which one a 0.0 of Python?",
)
known.change(
    "made-larger-only",
    (LEFT, "mx.where(stays, x / (1 - rate), x)"),
    fact="what should be dropped stays as it is, and only the others are made larger",
    question="What is a number after it has been dropped?",
)


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
