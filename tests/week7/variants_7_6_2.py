"""Known programs of task 7.6.2, the scores of an agent."""

import math
from statistics import fmean

import mlx.core as mx
from tests.week7.scoring import EVEN, ONCE, SWAPPED, UNEQUAL, random_runs, runs
from tiny_llm_solution.evaluation.intervals import bootstrap_interval, compare_paired
from tiny_llm_solution.outcomes.scores import Rate, Run, Usage

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("7.6.2")
NONE = runs("a- b-")


def made(program, rows):
    return program([Run(*row) for row in rows])


def numbers(*found):
    return mx.array([min(float(each), 1e9) for each in found])


def cost_of_none(steps, tokens, cost, each):
    """Report of the cost for each solved run whether it is infinite."""
    return numbers(steps, tokens, cost, each == math.inf)


known.probe_table(
    shares=lambda program: numbers(*made(program, UNEQUAL).shares().values()),
    unequal=lambda program: numbers(*made(program, UNEQUAL).success(0.8)),
    even=lambda program: numbers(*made(program, EVEN).success(0.6)),
    once=lambda program: numbers(*made(program, ONCE).success()),
    at=lambda program: numbers(*(made(program, EVEN).pass_at(k) for k in (1, 2, 3))),
    every=lambda program: numbers(*(made(program, EVEN).pass_all(k) for k in (1, 2, 3))),
    usage=lambda program: tuple(map(numbers, made(program, UNEQUAL).usage(3e4))),
    usage_of_none=lambda program: cost_of_none(*made(program, NONE).usage(3.0)),
    against=lambda program: numbers(*made(program, EVEN).against(made(program, SWAPPED))),
    refused_k=lambda program: refusals(lambda k: made(program, UNEQUAL).pass_all(k), [0, 2, 7]),
    unpaired=lambda program: refusals(
        lambda rows: made(program, EVEN).against(made(program, rows)), [runs("a+ b+"), runs("a+ b+ d+")]
    ),
    nothing=lambda program: refusals(lambda rows: made(program, rows), [[]]),
)


@known.sized("4 runs of 200 cases: all scores")
def sized(program):
    rows = [Run(*row) for row in random_runs(0, 200, 4)]
    return lambda: [(t := program(rows)).success(), t.pass_at(2), t.pass_all(2), t.usage(1.0)]


known.change(
    "neighbors-grouped",
    (
        "for run in self.runs:\n    self._by_case.setdefault(run.case, []).append(run)",
        """
        for before, run in zip([None, *self.runs], self.runs):
            if before is None or before.case != run.case:
                self._by_case[run.case] = []
            self._by_case[run.case].append(run)
        """,
    ),
    fact="only runs next to each other are grouped, and a later group of a case replaces an earlier one",
    question="Runs of two cases alternate. How many runs of each does your object keep?",
)
known.change(
    "last-run-only",
    ("self._by_case.setdefault(run.case, []).append(run)", "self._by_case[run.case] = [run]"),
    fact="only the last run of each case is kept",
    question="A case has four runs. How many of them do its scores count?",
)
known.change(
    "runs-counted",
    ("return Rate(math.fsum(shares) / len(shares),", "return Rate(sum(r.solved for r in self.runs) / len(self.runs),"),
    fact="the mean is taken over all runs, so that a case with more runs counts more",
    question="One case was run nine times, another one once. Which share of the mean has each?",
)
known.change(
    "runs-drawn",
    (
        "*bootstrap_interval(shares, confidence)",
        "*bootstrap_interval([float(run.solved) for run in self.runs], confidence)",
    ),
    fact="the bootstrap draws runs instead of cases, as if runs of one case were independent",
    question="Nine runs of one case: how much do they say about other cases?",
)
known.change(
    "confidence-ignored",
    ("*bootstrap_interval(shares, confidence)", "*bootstrap_interval(shares)"),
    fact="the interval is always that of 95 %",
    question="Which of the arguments does `success` pass on?",
)
known.change(
    "pass-all-with-replacement",
    ("math.comb(solved, k) / math.comb(runs, k)", "(solved / runs) ** k"),
    fact="pass^k is (c / n)^k, which draws the same run several times",
    question="Of two runs, one is solved. How often do both of two different runs succeed?",
)
known.change(
    "pass-all-of-pass-at",
    ("math.comb(solved, k) / math.comb(runs, k)", "1 - pass_at_k(runs, solved, k)"),
    fact="pass^k is 1 - pass@k, the share of sets in which no run is solved",
    question='What is the opposite of "at least one": "all", or "none"?',
)
known.change(
    "k-lowered",
    ('raise ValueError(f"k is {k}, but {case} has {len(runs)} runs")', "k = max(1, min(k, len(runs)))"),
    fact="k is lowered to the number of runs when there are too few",
    question="A score that is called pass^8 was computed from two runs. What does a reader think?",
)
known.change(
    "cost-of-solved-runs",
    ("cost = tokens * price / 1e6", "cost = sum(run.tokens for run in self.runs if run.solved) * price / 1e6"),
    fact="only the tokens of solved runs are paid for",
    question="Who pays for the runs that failed?",
)
known.change(
    "cost-per-solved-of-solved-runs",
    ("cost / solved if", "sum(run.tokens for run in self.runs if run.solved) * price / 1e6 / solved if"),
    fact="the cost for each solved run leaves out the tokens of failed runs",
    question="An agent solves one run in a hundred. What have you paid by the time one is solved?",
)
known.change(
    "cost-per-run",
    ("cost / solved if solved else math.inf", "cost / count"),
    fact="the cost is divided by the number of all runs, not of those that are solved",
    question="An agent costs 1 cent a run and solves one in a hundred. What does a solved case cost?",
)
known.change(
    "nothing-solved",
    ("cost / solved if solved else math.inf", "cost / max(solved, 1)"),
    fact="the cost for each solved run is finite although no run is solved",
    question="Two agents cost the same. One solves one case, the other one none. Which has the better cost_per_solved?",
)
known.change(
    "price-per-thousand",
    ("tokens * price / 1e6", "tokens * price / 1e3"),
    fact="the price is taken as dollars per thousand tokens",
    question="For how many tokens is the price?",
)
known.change(
    "paired-by-position",
    ("[theirs[case] for case in mine]", "list(theirs.values())"),
    fact="two agents' cases are paired by their order, not by their names",
    question="The second agent was run on the same cases in another order. Which two do you subtract?",
)
known.change(
    "common-cases-only",
    (
        "raise ValueError(f\"only one agent was run on {', '.join(unpaired)}\")",
        "mine, theirs = ({c: s for c, s in t.items() if c not in unpaired} for t in (mine, theirs))",
    ),
    fact="cases that only one agent was run on are left out in silence",
    question="An agent crashed on the hard cases, and has no runs there. Is it as good as the other one?",
)


@known.accepted("sums of each case")
class Sums:
    def __init__(self, runs):
        self.table, self.steps, self.tokens = {}, 0, 0
        for case, solved, steps, tokens in runs:
            good, count = self.table.get(case, (0, 0))
            self.table[case] = good + bool(solved), count + 1
            self.steps += steps
            self.tokens += tokens
        if not self.table:
            raise ValueError("no runs")
        self.good, self.count = (sum(column) for column in zip(*self.table.values(), strict=True))

    def shares(self):
        return {case: good / count for case, (good, count) in self.table.items()}

    def success(self, confidence=0.95):
        values = [*self.shares().values()]
        return Rate(fmean(values), *bootstrap_interval(values, confidence))

    def pass_at(self, k):
        return fmean(1 - self.drawn(case, count - good, count, k) for case, (good, count) in self.table.items())

    def pass_all(self, k):
        return fmean(self.drawn(case, good, count, k) for case, (good, count) in self.table.items())

    @staticmethod
    def drawn(case, wanted, count, k):
        """The probability that k draws without replacement are all of one kind."""
        if k < 1 or k > count:
            raise ValueError(f"{case} has not {k} runs")
        return math.prod(max(0, wanted - i) / (count - i) for i in range(k))

    def usage(self, price):
        cost = self.tokens / 1e6 * price
        return Usage(
            self.steps / self.count, self.tokens / self.count, cost, cost / self.good if self.good else math.inf
        )

    def against(self, other):
        first, second = self.shares(), other.shares()
        if set(first) != set(second):
            raise ValueError(f"not in both: {set(first) ^ set(second)}")
        names = sorted(first, key=list(first).index)
        return compare_paired([first[name] for name in names], [second[name] for name in names])
