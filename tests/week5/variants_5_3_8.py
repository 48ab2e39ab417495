"""Known programs of task 5.3.8, the learning-rate schedule."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.8")


def rates(program, *settings, steps):
    return mx.array([program(step, *settings) for step in steps], mx.float32)


known.probe_table(
    whole=lambda program: rates(program, 1.0, 10, 110, steps=range(0, 111, 5)),
    with_floor=lambda program: rates(program, 1.0, 10, 110, 0.1, steps=range(0, 111, 5)),
    warm=lambda program: rates(program, 1.0, 4, 20, 0.5, steps=range(5)),
    afterwards=lambda program: rates(program, 1.0, 10, 110, 0.1, steps=(111, 150, 200, 210, 1000)),
    without_warmup=lambda program: rates(program, 1.0, 0, 8, steps=range(9)),
)


@known.probe()
def schedule_refused(program):
    bad = [
        (-1, 1.0, 10, 100),
        (5, 1.0, -2, 100),
        (5, 1.0, 100, 100),
        (5, 1.0, 120, 100),
        (5, 1.0, 1, 9, 1.5),
        (5, 1.0, 1, 9, -0.5),
    ]
    return refusals(lambda arguments: mx.array(program(*arguments)), bad)


known.not_timed("a single number")

WARM = "return peak * step / warmup"
PROGRESS = "progress = min(1.0, (step - warmup) / (total - warmup))"
FALL = "return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2"
known.change(
    "counted-from-zero",
    (WARM, "return peak * (step + 1) / warmup"),
    fact="steps are counted from 0, so the peak comes one step early",
    question="Which step has the peak, according to the docstring?",
)
known.change(
    "warmup-from-the-floor",
    (WARM, "return floor + (peak - floor) * step / warmup"),
    fact="the warm-up starts at the floor instead of 0",
    question="From which rate does the warm-up rise?",
)
known.change(
    "warmup-missing",
    ("if step < warmup:", "if step < 0:"),
    ("(step - warmup) / (total - warmup)", "max(step - warmup, 0) / (total - warmup)"),
    fact="there is no warm-up: the rate is the peak from the first step on",
    question="What is the rate at step 1 of 10 warm-up steps?",
)
known.change(
    "cosine-from-step-0",
    ("(step - warmup) / (total - warmup)", "step / total"),
    fact="the cosine starts at step 0 instead of at `warmup`, so the rate jumps down after the warm-up",
    question="What should the rate be at step `warmup`, if one comes from either side?",
)
known.change(
    "cosine-over-total-steps",
    ("(step - warmup) / (total - warmup)", "(step - warmup) / total"),
    fact="the cosine takes `total` steps after the warm-up, and does not reach the floor at `total`",
    question="How many steps are left after the warm-up?",
)
known.change(
    "floor-as-a-minimum",
    (FALL, "return max(floor, peak * (1 + math.cos(math.pi * progress)) / 2)"),
    fact="the cosine falls to 0, and max() keeps it at the floor from there on",
    question="At which step should the rate reach the floor?",
)
known.change(
    "floor-ignored",
    (FALL, "return peak * (1 + math.cos(math.pi * progress)) / 2"),
    fact="the floor is ignored: the rate falls to 0",
    question="What is the rate at step `total`?",
)
known.change(
    "floor-added",
    (FALL, "return floor + peak * (1 + math.cos(math.pi * progress)) / 2"),
    fact="the floor is added to a cosine of full height, so the rate starts above the peak",
    question="What should be the rate at step `warmup`?",
)
known.change(
    "linear",
    (FALL, "return floor + (peak - floor) * (1 - progress)"),
    fact="the rate falls along a straight line instead of a cosine",
    question="A quarter of the way, is a cosine above or below the straight line?",
)
known.change(
    "whole-cosine",
    (FALL, FALL.replace("math.pi * progress", "2 * math.pi * progress")),
    fact="the rate falls along a whole cosine and is back at the peak at `total`",
    question="What is the cosine of 2 pi?",
)
known.change(
    "quarter-cosine",
    (FALL, "return floor + (peak - floor) * math.cos(math.pi / 2 * progress)"),
    fact="the rate falls along a quarter of a cosine, which is steepest at the end",
    question="Half of a cosine ends flat. Does yours?",
)
known.change(
    "warmup-equal-to-total",
    ("0 <= warmup < total", "0 <= warmup <= total"),
    fact="a `warmup` equal to `total` is not refused",
    question="How many steps does the cosine have then, and what is its progress divided by?",
)
known.change(
    "rises-again",
    (PROGRESS, "progress = (step - warmup) / (total - warmup)"),
    fact="the cosine continues after `total`, and the rate rises again",
    question="What is the cosine of 1.5 pi? Which step is that?",
)


@known.accepted("in three parts")
def in_parts(step, peak, warmup, total, floor=0.0):
    if step < 0 or warmup < 0 or warmup >= total or floor < 0 or floor > peak:
        raise ValueError(f"step {step}, peak {peak}, warmup {warmup}, total {total}, floor {floor}")
    if step >= total:
        return floor
    if step <= warmup and warmup:
        return step * (peak / warmup)
    return floor + (peak - floor) * math.cos(math.pi / 2 * (step - warmup) / (total - warmup)) ** 2
