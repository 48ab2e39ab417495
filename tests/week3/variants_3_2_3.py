"""Known programs of task 3.2.3, latencies."""

import math
from itertools import pairwise

import mlx.core as mx
import numpy as np
from tiny_llm_solution.serving.latency import Percentiles, RequestTimes

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.3")


def added(program, *rows):
    """Return both lists, after a -1, and the percentiles, if any."""
    kept = program()
    for came, begun, *tokens in rows:
        kept.add(RequestTimes(came, begun, tuple(tokens)))
    summary, found = kept.summary(), []
    for name in ("ttft", "tpot"):
        part = summary[name]
        found += [-7.0] if part is None else [part.p50, part.p95, part.p99]
    return mx.array([-1.0, *kept.ttft]), mx.array([-1.0, *kept.tpot]), mx.array(found)


def percentiles(program, numbers, *percents):
    given = list(numbers)
    return mx.array([program.percentile(given, percent) for percent in percents]), mx.array(given)


known.probe_table(
    three_tokens=lambda program: added(program, (10.0, 12.0, 13.0, 14.0, 18.0)),
    began_at_once=lambda program: added(program, (3.0, 3.0, 5.0, 6.0, 8.0, 14.0)),
    one_token=lambda program: added(program, (10.0, 12.0, 13.0)),
    no_token=lambda program: added(program, (10.0, 12.0), (3.0, 4.0, 5.0, 7.0)),
    none=lambda program: added(program),
    # Distinguishes the mean of all intervals from the mean per request.
    two_of_many_tokens=lambda program: added(
        program, (0.0, 0.0, *map(float, range(1, 31))), (0.0, 1.0, 2.0, 9.0), (5.0, 5.0, 6.0, 9.0)
    ),
    in_no_order=lambda program: added(
        program, (7.0, 8.0, 9.0, 11.0, 12.0), (1.0, 4.0, 20.0, 21.0), (2.0, 2.0, 2.5, 9.0)
    ),
    many=lambda program: added(
        program, *((float(i), i + 0.5, i + 1.0 + (i * 7 % 40) / 8, i + 30.0 + i % 3) for i in range(40))
    ),
    # With that many, p99 is not the maximum.
    two_hundred=lambda program: added(program, *((0.0, 0.0, i / 8, i / 8 + (i * 37 % 200)) for i in range(200))),
    small_lists=lambda program: percentiles(program, [4.0, 3.0, 1.0, 2.0], 1, 25, 26, 50, 51, 75, 76, 100),
    equal_numbers=lambda program: percentiles(program, [2.0, 9.0, 2.0, 2.0], 25, 50, 75, 76),
    tuple=lambda program: mx.array([program.percentile((4.0, 3.0, 1.0), percent) for percent in (1, 50, 100)]),
    one_number=lambda program: percentiles(program, [4.0], 1, 50, 100),
    hundred=lambda program: percentiles(program, [float(i) for i in range(100)], 7, 29, 50, 95, 99),
    thirty_seven=lambda program: percentiles(
        program, np.random.default_rng(3).permutation(37).astype(float).tolist(), 5, 50, 95, 99
    ),
)


@known.probe()
def latency_refuses(program):
    found = []
    for numbers, percent in (([], 50), ([1.0], 0), ([1.0, 2.0], 101), ([1.0, 2.0], -5)):
        try:
            program.percentile(numbers, percent)
            found.append(0)
        except ValueError:
            found.append(1)
        except Exception:
            found.append(2)
    return mx.array(found)


known.not_timed("a few sums and a sort")

TTFT = "times.tokens[0] - times.arrival"
TPOT = "(times.tokens[-1] - times.tokens[0]) / (len(times.tokens) - 1)"
PLACE = "place = -(-percent * len(numbers) // 100)"
known.change(
    "ttft-from-the-first-step",
    (TTFT, "times.tokens[0] - times.scheduled"),
    fact="TTFT starts when the request is scheduled, so queueing time is missing",
    question="A user presses Enter, and the queue is full. When does the user's clock start?",
)
known.change(
    "queue-alone",
    (TTFT, "times.scheduled - times.arrival"),
    fact="TTFT is the queueing time only, without the prefill",
    question="The request was admitted. Has it its first token?",
)
known.change(
    "ttft-to-the-end",
    (TTFT, "times.tokens[-1] - times.arrival"),
    fact="TTFT ends with the last token",
    question="Which token does the F stand for?",
)
known.change(
    "divided-by-n",
    (TPOT, "(times.tokens[-1] - times.tokens[0]) / len(times.tokens)"),
    fact="TPOT is divided by the number of tokens, not of the intervals between them",
    question="Three tokens come at seconds 1, 2 and 3. How many intervals are there between them?",
)
known.change(
    "tpot-from-the-start",
    (TPOT, "(times.tokens[-1] - times.arrival) / len(times.tokens)"),
    fact="TPOT includes the time to the first token",
    question="A prefill takes ten seconds, and then five tokens come in a second. What is the time per token?",
)
known.change(
    "longest-gap",
    (TPOT, "max(b - a for a, b in zip(times.tokens, times.tokens[1:]))"),
    fact="TPOT is the maximum interval between tokens, not the mean",
    question="One of three intervals is long. Which statistic does the docstring name?",
)
known.change(
    "middle-gap",
    (TPOT, "sorted(b - a for a, b in zip(times.tokens, times.tokens[1:]))[(len(times.tokens) - 1) // 2]"),
    fact="TPOT is the median interval between tokens, not the mean",
    question="One of three intervals is long. Does your number change if it grows?",
)
known.change(
    "every-gap",
    (
        "self.tpot.append((times.tokens[-1] - times.tokens[0]) / (len(times.tokens) - 1))",
        "self.tpot.extend(b - a for a, b in zip(times.tokens, times.tokens[1:]))",
    ),
    fact="tpot has one entry per interval, not per request",
    question="How many entries of tpot does a request with ten tokens add?",
)
known.change(
    "zero-for-one-token",
    ("if len(times.tokens) > 1:", "if times.tokens:"),
    (TPOT, "(times.tokens[-1] - times.tokens[0]) / max(1, len(times.tokens) - 1)"),
    fact="a request with a single token adds a TPOT of 0, which flatters the percentiles",
    question="Between which two tokens is the interval of a single token?",
)
known.change(
    "two-are-too-few",
    ("if len(times.tokens) > 1:", "if len(times.tokens) > 2:"),
    fact="a request with two tokens has no TPOT",
    question="How many intervals do two tokens have?",
)
known.change(
    "no-token-is-zero",
    ("if times.tokens:", "if True:"),
    ("times.tokens[0] - times.arrival", "times.tokens[0] - times.arrival if times.tokens else 0.0"),
    fact="a request without any token has a TTFT of 0",
    question="A user waits, sees nothing, and gives up. Was that a fast answer?",
)
known.change(
    "place-from-zero",
    ("sorted(numbers)[place - 1]", "sorted(numbers)[min(place, len(numbers) - 1)]"),
    fact="the percentile's index is one too high",
    question="Which of four values is the smallest that half of them do not exceed? What is its index, from 0?",
)
known.change(
    "place-rounded-down",
    (PLACE, "place = max(1, percent * len(numbers) // 100)"),
    fact="the rank is rounded down, so fewer than the given percent may be at or below the result",
    question="How many of three values are at least 50 percent of them?",
)
known.change(
    "place-rounded",
    (PLACE, "place = max(1, round(percent * len(numbers) / 100))"),
    fact="the rank is rounded to nearest",
    question="95 percent of 37 values are 35.15. Are 35 of them enough?",
)
known.change(
    "rank-floor-plus-one",
    ("place = -(-percent * len(numbers) // 100)", "place = min(len(numbers), percent * len(numbers) // 100 + 1)"),
    fact="the rank is floor + 1, even if nothing was rounded",
    question="50 percent of four values are two. What is the rank of the second one?",
)
known.change(
    "equal-numbers-once",
    ("place = -(-percent", "numbers = set(numbers)\nplace = -(-percent"),
    fact="duplicate values count once",
    question="Three requests waited 2 seconds, and one 9. How many of the four waited at most 2?",
)
known.change(
    "place-by-floats",
    (PLACE, "place = int(-(-(percent / 100 * len(numbers)) // 1))"),
    fact="percent is divided by 100 before the multiplication, so 7 percent of 100 is slightly more than 7",
    question="In Python, what is 7 / 100 * 100?",
)
known.change(
    "between-two",
    (
        "return sorted(numbers)[place - 1]",
        """
        exact = percent / 100 * (len(numbers) - 1)
        low = int(exact)
        both = sorted(numbers)[low : low + 2]
        return both[0] + (exact - low) * (both[-1] - both[0])
        """,
    ),
    fact="the percentile is interpolated between two values, as in NumPy's default",
    question="Was any request as slow as your number says?",
)
known.change(
    "from-above",
    ("sorted(numbers)[place - 1]", "sorted(numbers, reverse=True)[place - 1]"),
    fact="the values are sorted in descending order",
    question="Are most users slower than your p95, or faster?",
)
known.change(
    "not-sorted",
    ("sorted(numbers)[place - 1]", "numbers[place - 1]"),
    fact="the values stay in order of arrival",
    question="What has the order of arrival to do with the longest wait?",
)
known.change(
    "sorted-in-place",
    ("return sorted(numbers)", "numbers.sort()\nreturn numbers"),
    fact="the caller's list is sorted in place",
    question="What is in `ttft` after a call of summary?",
)
known.change(
    "lists-sorted-in-place",
    (
        "return sorted(numbers)",
        "numbers = numbers if isinstance(numbers, list) else list(numbers)\nnumbers.sort()\nreturn numbers",
    ),
    fact="a caller's list is sorted in place, and only a tuple is copied",
    question="What is in `ttft` after a call of summary?",
)
known.change(
    "summary-sorts",
    ('found = {"ttft"', 'self.ttft.sort()\nself.tpot.sort()\nfound = {"ttft"'),
    fact="`summary` sorts the two lists in place, and the order of the requests is lost",
    question="The second entry of `ttft` is the second request's. Is it still, after a summary?",
)
known.change(
    "largest-for-99",
    ("(50, 95, 99)", "(50, 95, 100)"),
    fact="p99 is the maximum",
    question="Of 200 requests, how many may be slower than p99?",
)
known.change(
    "ninety-for-95",
    ("(50, 95, 99)", "(50, 90, 99)"),
    fact="p95 is the 90th percentile",
    question="How many of a hundred users wait longer than your p95?",
)
known.change(
    "no-tpot-no-ttft",
    ('{"ttft": self.ttft,', '{"ttft": self.ttft if self.tpot else [],'),
    fact="the TTFT percentiles are also None when there is no TPOT",
    question="Each request asked for one token. Did none of them wait for it?",
)
known.change(
    "zeros-for-no-values",
    ("if numbers else None", "if numbers else Percentiles(0.0, 0.0, 0.0)"),
    fact="the percentiles of no values are 0, the best possible",
    question="No request was served. Was the service fast?",
)
known.change(
    "zero-percent",
    ("not 1 <= percent <= 100", "not 0 <= percent <= 100"),
    fact="percentile 0 is accepted",
    question="Ranks start at 1. Which value has rank 0?",
)
known.change(
    "any-percent",
    ("if not numbers or not 1 <= percent <= 100:", "if not numbers:"),
    ("sorted(numbers)[place - 1]", "sorted(numbers)[min(max(place, 1), len(numbers)) - 1]"),
    fact="percentiles below 1 and above 100 are accepted",
    question="Which value do 101 percent of all values not exceed?",
)


@known.accepted("by-counting")
class ByCounting:
    def __init__(self):
        self.ttft, self.tpot = [], []

    def add(self, times):
        tokens = list(times.tokens)
        if not tokens:
            return
        self.ttft.append(tokens[0] - times.arrival)
        gaps = [later - earlier for earlier, later in pairwise(tokens)]
        if gaps:
            self.tpot.append(math.fsum(gaps) / len(gaps))

    def summary(self):
        found = {"ttft": None, "tpot": None}
        for name in found:
            if numbers := getattr(self, name):
                p50, p95, p99 = (self.percentile(numbers, percent) for percent in (50, 95, 99))
                found[name] = Percentiles(p50=p50, p95=p95, p99=p99)
        return found

    @classmethod
    def percentile(cls, numbers, percent):
        if percent < 1 or percent > 100 or len(numbers) == 0:
            raise ValueError(f"{percent} of {len(numbers)}")
        ascending = sorted(numbers)
        needed = percent * len(ascending)
        return next(x for at, x in enumerate(ascending, 1) if 100 * at >= needed)
