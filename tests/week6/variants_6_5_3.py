"""Known programs of task 6.5.3, capacity planning."""

import mlx.core as mx
from tests.week6.planning import Fleets, step_at
from tiny_llm_solution.fleet.capacity import Goal
from tiny_llm_solution.fleet.jobs import Outcome

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.5.3")
GOAL = Goal(0.5, 0.0625)


def found(program, shares, most, seeds=(0,), sizes=(20,), share=0.95):
    """Return the number, 0 for none, whether any run was repeated, and how many numbers were tried, roughly."""
    fleets = Fleets(Outcome, GOAL, shares, sizes)
    number = program(fleets, GOAL, most, seeds=list(seeds), share=share) or 0
    seeds_of = {n: sorted(seed for count, seed in fleets.calls if count == n) for n in fleets.tried}
    same = len({tuple(each) for each in seeds_of.values()}) == 1
    return [
        number,
        len(set(fleets.calls)) == len(fleets.calls),
        len(fleets.tried) > 24,
        max(fleets.tried) <= most,
        same,
    ]


def each(program, cases):
    return mx.array([[float(number) for number in found(program, *case)] for case in cases])


def of(*shares):
    return lambda replicas, seed: shares[seed]


known.probe_table(
    small=lambda program: each(program, [(step_at(n), 8) for n in (1, 2, 3, 5, 8, 9)]),
    large=lambda program: each(program, [(step_at(n), 1000) for n in (7, 100, 600, 1000)]),
    none=lambda program: each(program, [(step_at(99), 5), (step_at(5), 5)]),
    seeds=lambda program: each(program, [(step_at(11), 64, (5, 2, 9))]),
    pooled=lambda program: each(
        program,
        [
            (of(1.0, 0.9), 1, (0, 1)),
            (of(0.9, 1.0), 1, (0, 1)),
            (of(1.0, 0.85), 1, (0, 1)),
            (of(1.0, 0.5), 1, (0, 1), (80, 4)),
            (of(0.5, 1.0), 1, (0, 1), (80, 4), 0.75),
        ],
    ),
    rounded=lambda program: each(program, [(of(0.5), 1, (0,), (2,), 0.75)]),
    lost=lambda program: each(program, [(of(0.8), 1, (0,), (20,), 0.84), (of(0.0), 3, (0,), (8,))]),
)
known.not_timed("a plan takes as long as its simulations")

SUFFICIENT = "return sum(met) >= share * len(met)"
MET = "met = [goal.met_by(outcome) for seed in seeds for outcome in run(replicas, seed)]"

known.change(
    "lost-left-out",
    (MET, "met = [goal.met_by(o) for seed in seeds for o in run(replicas, seed) if o.end is not None]"),
    fact="requests that were rejected or lost are not counted",
    question="A fleet rejects nine of ten requests and serves the tenth fast. Is it large enough?",
)
known.change(
    "more-than-the-share",
    (SUFFICIENT, "return sum(met) > share * len(met)"),
    fact="exactly the share is not sufficient",
    question="19 of 20 requests meet the goal, and the share is 0.95. What does the docstring say?",
)
known.change(
    "share-rounded-down",
    (SUFFICIENT, "return sum(met) >= int(share * len(met))"),
    fact="the number of requests that must meet the goal is rounded down",
    question="17 of 19 requests meet the goal. Is that a share of 0.95?",
)
known.change(
    "first-seed-only",
    (MET, "met = [goal.met_by(outcome) for outcome in run(replicas, seeds[0])]"),
    fact="only the first seed is run",
    question="One seed passes, the other one fails. What do you know about the fleet?",
)
known.change(
    "every-seed",
    (MET, "runs = [[goal.met_by(outcome) for outcome in run(replicas, seed)] for seed in seeds]"),
    (SUFFICIENT, "return all(sum(met) >= share * len(met) for met in runs)"),
    fact="every seed must reach the share by itself, so that more seeds need more replicas",
    question="You add a hundred seeds to be more certain. Why does the fleet grow?",
)
known.change(
    "every-seed-in-turn",
    (MET, "runs = ([goal.met_by(outcome) for outcome in run(replicas, seed)] for seed in seeds)"),
    (SUFFICIENT, "return all(sum(met) >= share * len(met) for met in runs)"),
    fact="every seed must reach the share by itself, and the first that does not ends the try",
    question="The first seed has 94 % and the second 97 %. What do all requests together have?",
)
known.change(
    "mean-of-shares",
    (MET, "runs = [[goal.met_by(outcome) for outcome in run(replicas, seed)] for seed in seeds]"),
    (SUFFICIENT, "return sum(sum(met) / len(met) for met in runs) / len(runs) >= share"),
    fact="the mean of the seeds' shares counts, whatever the number of their requests",
    question="One seed has 80 requests, the other one has 4. How much does each request count?",
)
known.change(
    "fresh-seeds",
    (MET, "met = [goal.met_by(o) for seed in seeds for o in run(replicas, seed + replicas)]"),
    ("def sufficient(replicas: int) -> bool:", "def sufficient(replicas):"),
    fact="every number of replicas gets other seeds",
    question="Two fleets had different requests. What does the difference of their results show?",
)
known.change(
    "one-by-one",
    ("low, high = high, min(2 * high, most)", "low, high = high, high + 1"),
    fact="the numbers are tried one by one",
    question="A run takes a minute. How long do you wait for 600 replicas?",
)
known.change(
    "power-of-two",
    ("while high - low > 1:", "while False:"),
    fact="the result is the first power of two that is sufficient, or `most`",
    question="8 replicas are not sufficient and 16 are. How many may be saved?",
)
known.change(
    "one-too-few",
    ("return high", "return high - 1 if high > 1 else high"),
    fact="the result is the largest number that is not sufficient",
    question="When the interval is closed: which of its ends has met the goal?",
)
known.change(
    "leaps-over-most",
    (
        "if high == most:\n    return None\nlow, high = high, min(2 * high, most)",
        "if 2 * high > most:\n    return None\nlow, high = high, 2 * high",
    ),
    fact="only powers of two up to `most` are doubled to, so that `most` itself is never tried",
    question="At most 1,000 replicas, and 512 are not sufficient. Which number do you try next?",
)
known.change(
    "most-anyway",
    ("return None", "return most"),
    fact="the result is `most` although it is not sufficient",
    question="What will a reader of the plan do with that number?",
)


@known.wrong(
    "last-number-again",
    fact="the number that the search ends with is run once more, to see whether it is sufficient",
    question="Which numbers has the search tried before, and what do you know about this one?",
)
def last_number_again(run, goal, most, *, seeds, share=0.95):
    def enough(replicas):
        found = [goal.met_by(outcome) for seed in seeds for outcome in run(replicas, seed)]
        return sum(found) >= share * len(found)

    first, last = 1, most
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if enough(middle) else (middle + 1, last)
    return last if enough(last) else None


@known.accepted("bisection alone")
def bisection(run, goal, most, *, seeds, share=0.95):
    def enough(replicas):
        found = [goal.met_by(outcome) for seed in seeds for outcome in run(replicas, seed)]
        return sum(found) / len(found) >= share

    if not enough(most):
        return None
    first, last = 1, most
    while first < last:
        middle = (first + last) // 2
        if enough(middle):
            last = middle
        else:
            first = middle + 1
    return last
