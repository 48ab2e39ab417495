"""Known programs of task 5.7.4, two models on the same items."""

import math

import mlx.core as mx
import numpy as np
from tiny_llm_solution.evaluation.intervals import Comparison, bootstrap_interval

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.7.4")
FIRST = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
SECOND = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
GRADED = [0.5, 3.0, -1.0, 2.0, 0.0, 0.3], [0.2, 1.0, 0.0, 2.0, -4.0, 0.1]


def run(program, *given):
    found = program(*given)
    return mx.array([found.difference, found.low, found.high, found.p_value])


known.probe_table(
    right_and_wrong=lambda program: run(program, FIRST, SECOND, 0.9, 80, 0),
    exchanged=lambda program: run(program, SECOND, FIRST, 0.8, 50, 2),
    graded=lambda program: run(program, *GRADED, 0.9, 60, 1),
    as_often=lambda program: run(program, [1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0], 0.9, 40, 1),
    equal=lambda program: run(program, FIRST, FIRST, 0.9, 30, 1),
    one_item=lambda program: run(program, [1.0], [0.0], 0.9, 10, 1),
    many=lambda program: run(program, [1.0] * 600 + [0.0] * 560, [0.0] * 600 + [1.0] * 560, 0.9, 3, 1),
    unequal=lambda program: refusals(lambda count: run(program, [1.0] * count, [0.0] * 3, 0.9, 10, 1), [4, 2]),
    unequal_message=lambda program: run(program, [1.0] * 4, [0.0] * 3, 0.9, 10, 1),
    no_items=lambda program: refusals(lambda values: run(program, values, values, 0.9, 10, 1), [[]]),
)


@known.sized("200 items, 2,000 resamples")
def sized(program):
    first, second = np.random.default_rng(1).integers(0, 2, (2, 200)).astype(float).tolist()
    return lambda: program(first, second, 0.95, 2000, 0)


PAIRS = "zip(first, second, strict=True)"
BOTH = "low, high = bootstrap_interval(differences, confidence, resamples, seed)"
P = "min(1.0, 2 * tail / 2**decided)"
known.change(
    "unpaired",
    (
        BOTH,
        "ends = [bootstrap_interval(each, confidence, resamples, seed) for each in (first, second)]\n"
        "low, high = ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]",
    ),
    fact="the interval is made of the two models' own intervals, as if each had answered other items",
    question="An item is hard for both models. Does it make the difference between them uncertain?",
)
known.change(
    "ends-subtracted",
    (
        BOTH,
        "ends = [bootstrap_interval(each, confidence, resamples, seed) for each in (first, second)]\n"
        "low, high = ends[0][0] - ends[1][0], ends[0][1] - ends[1][1]",
    ),
    fact="each model has its own interval, and the second's ends are subtracted from the first's, low from low",
    question="Does the resample with the first model's lowest mean also have the second's?",
)
known.change(
    "only-0-and-1",
    (
        "sum(d > 0 for d in differences), sum(d < 0 for d in differences)",
        "differences.count(1), differences.count(-1)",
    ),
    fact="an item counts as decided only if one value is 1 and the other is 0",
    question="The models score 0.5 and 0.2 on an item. Which of them wins it?",
)
known.change(
    "ties-counted",
    ("decided = wins + losses", "decided = len(differences)"),
    fact="items on which the models are equal count as decided",
    question="Both models are right on 1,000 easy items. Does that say which one is better?",
)
known.change(
    "one-sided",
    (P, "min(1.0, tail / 2**decided)"),
    fact="the p-value is one-sided: half as large",
    question="Before you looked, could the other model have won?",
)
known.change(
    "above-one",
    (P, "2 * tail / 2**decided"),
    fact="the p-value exceeds 1 if both models win equally often",
    question="Two wins and two losses: what is twice the probability of two or fewer?",
)
known.change(
    "without-the-observed",
    ("range(min(wins, losses) + 1)", "range(min(wins, losses))"),
    fact="the outcome that was observed is left out of the sum",
    question="The docstring says w or fewer. Which is the last term?",
)
known.change(
    "larger-count",
    ("range(min(wins, losses) + 1)", "range(max(wins, losses) + 1)"),
    fact="the sum goes up to the larger of the two counts",
    question="Nine wins to one: how probable is it that the loser wins one item or none?",
)
known.change(
    "second-minus-first",
    ("[a - b for", "[b - a for"),
    fact="the first model's values are subtracted from the second's",
    question="If the first model is better, which sign has the difference?",
)
known.change(
    "sorted",
    (PAIRS, "zip(sorted(first), sorted(second), strict=True)"),
    fact="both lists are sorted before they are subtracted, so that values of different items are paired",
    question="Which item do the two first values of the sorted lists come from?",
)
known.change(
    "truncated",
    ("if len(first) != len(second):", "if not len(first):"),
    (PAIRS, "zip(first, second, strict=False)"),
    fact="the longer list is cut to the length of the shorter one",
    question="One model did not answer the last item. Which items does your zip pair?",
)
known.change(
    "refused-by-zip",
    (
        "if len(first) != len(second):\n"
        '    raise ValueError(f"{len(first)} and {len(second)} values cannot be paired")',
        "",
    ),
    fact="zip(strict=True) alone refuses unequal numbers of values, and its message states neither",
    question="Which two numbers would you need to find the missing item?",
)
known.change(
    "float-powers",
    (P, "min(1.0, float(2 * tail) / 2.0**decided)"),
    fact="the number of outcomes is a float",
    question="How large is 2^1160, and the largest float?",
)
known.change(
    "normal-approximation",
    (P, "math.erfc(abs(wins - losses) / math.sqrt(2 * decided)) if decided else 1.0"),
    fact="the p-value is the normal approximation, McNemar's test without a correction",
    question="One item is decided. Which p-values are possible in an exact test?",
)


@known.accepted("by NumPy, the tail in logarithms")
def in_logarithms(first, second, confidence=0.95, resamples=10_000, seed=0):
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values and {len(second)} values")
    differences = np.array(first, dtype=np.float64) - np.array(second, dtype=np.float64)
    low, high = bootstrap_interval(differences.tolist(), confidence, resamples, seed)
    won, lost = int((differences > 0).sum()), int((differences < 0).sum())
    m, fewer = won + lost, min(won, lost)
    p = float(min(1.0, math.fsum(2 * math.comb(m, i) / 2**m for i in range(fewer + 1))))
    return Comparison(float(differences.mean()), low, high, p)
