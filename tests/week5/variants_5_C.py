"""Known programs of the open task of week 5: checks of the gradient of cross-entropy, good ones and bad ones."""

import mlx.core as mx
import mlx.nn as nn
from tests.week5.logits import logits_and_targets

from tiny_llm_course.testkit.judging import check_verdicts
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.C")


@known.probe()
def programs_let_through(check):
    return check_verdicts(check, of="5.2.5")


known.not_timed("a check is run once for each change of a program")


def autograd(logits, targets, ignore_index=-100):
    def loss(logits):
        counted = targets != ignore_index
        clean = mx.where(counted[..., None], logits.astype(mx.float32), 0.0)
        each = nn.losses.cross_entropy(clean, mx.where(counted, targets, 0))
        return mx.sum(each * counted) / mx.maximum(mx.sum(counted), 1)

    return mx.grad(loss)(logits)


NOTHING = "assert not mx.any(cross_entropy_vjp(logits, mx.full(2, -100))).item(),"
POISONED = "assert mx.allclose(gradient, mx.array([[1 / 3, -2 / 3, 1 / 3], [0, 0, 0]])),"
known.change(
    "never-calls-it",
    ("for dtype in (mx.float32, mx.float16, mx.bfloat16):", "return\nfor dtype in (mx.float32,):"),
    fact="never calls the program",
    question="What does your check do with `cross_entropy_vjp`?",
)
known.change(
    "stops-everything",
    ("allowed += 1e-5 +", "allowed += -1 -"),
    fact="fails every program, right or wrong",
    question="Has your check ever passed? Which program would show that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="returns the result of its comparison instead of raising",
    question="What happens to the value your check returns?",
)
def returns_what_it_finds(cross_entropy_vjp):
    logits, targets = logits_and_targets(1)
    return mx.allclose(cross_entropy_vjp(logits, targets), autograd(logits, targets)).item()


known.change(
    "all-targets-count",
    ("labels = mx.where(ignored, ignore_index, targets)", "labels = mx.where(targets == ignore_index, 0, targets)"),
    (NOTHING, "assert True,"),
    (POISONED, "assert True,"),
    fact="ignores no position",
    question="Which sentence of the docstring says what ignore_index does?",
)
known.change(
    "default-index-only",
    ("in (-100, 3, -1)", "in (-100,)"),
    fact="never passes an ignore_index",
    question="Which of the three arguments does your check pass?",
)
known.change(
    "float32-only",
    ("(mx.float32, mx.float16, mx.bfloat16)", "(mx.float32,)"),
    fact="uses float32 only",
    question="What does the docstring promise for float16 logits?",
)
known.change(
    "no-nan",
    (POISONED, "assert True,"),
    fact="has no NaN at an ignored position",
    question="What is 0 times NaN, and what does the docstring promise for an ignored position?",
)
known.change(
    "one-position",
    ("[(5, 5, 5), (2, 4, 7)]", "[(1, 1, 5)]"),
    ("ignored = mx.arange(length) % 3 == 1", "ignored = mx.arange(length) > 0"),
    (NOTHING, "assert True,"),
    (POISONED, "assert True,"),
    fact="has a single position, whose mean is its sum",
    question="By what is the gradient divided, and how much is that for one position?",
)
known.change(
    "too-wide",
    ("allowed += 1e-5 +", "allowed += 0.5 +"),
    fact="allows an error of one half",
    question="How large is an entry of the gradient, with eight counted positions?",
)


@known.accepted("by automatic differentiation")
def by_autograd(cross_entropy_vjp):
    for seed, dtype in enumerate((mx.float32, mx.float16, mx.bfloat16)):
        for leading, size in (((4, 4), 4), ((3, 5), 6)):
            for index in (-100, 2, -1):
                logits, targets = logits_and_targets(seed, dtype, leading, size, spread=3.0, ignored=0.4)
                targets = mx.where(targets == -100, index, targets)
                for far in (logits, (logits * 50).astype(dtype), (logits + 1e4).astype(dtype)):
                    gradient, expected = cross_entropy_vjp(far, targets, index), autograd(far, targets, index)
                    assert gradient.dtype == dtype
                    gradient, expected = gradient.astype(mx.float32), expected.astype(mx.float32)
                    rounding = 1e-5 + mx.finfo(mx.float32).eps * mx.max(mx.abs(far)).item()
                    allowed = 0.6 * mx.finfo(dtype).eps * mx.abs(expected) + rounding
                    assert mx.all(mx.abs(gradient - expected) <= allowed).item()
    assert not mx.any(cross_entropy_vjp(mx.ones((3, 4)), mx.full(3, -100))).item()
    poisoned = mx.array([[0.0, 0.0], [mx.nan, mx.nan]])
    assert mx.array_equal(cross_entropy_vjp(poisoned, mx.array([0, -100])), mx.array([[-0.5, 0.5], [0, 0]]))
    for shape in ((1,), (3, 1), (4,)):
        try:
            mx.eval(cross_entropy_vjp(mx.ones((3, 4)), mx.zeros(shape, mx.int32)))
        except ValueError:
            continue
        raise AssertionError("takes targets of another shape")
