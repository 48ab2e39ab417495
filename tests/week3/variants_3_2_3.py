"""Known programs of task 3.2.3, latencies."""

import math
from itertools import pairwise

import mlx.core as mx
import numpy as np
from tiny_llm_solution.serving.latency import Percentiles, Times

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.3")


def added(program, *rows):
    """Both lists, behind a -1, and the percentiles that there are."""
    kept = program()
    for came, begun, *tokens in rows:
        kept.add(Times(came, begun, tuple(tokens)))
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
    # Whether the mean of all gaps is taken, or that of each request.
    two_of_many_tokens=lambda program: added(
        program, (0.0, 0.0, *map(float, range(1, 31))), (0.0, 1.0, 2.0, 9.0), (5.0, 5.0, 6.0, 9.0)
    ),
    in_no_order=lambda program: added(
        program, (7.0, 8.0, 9.0, 11.0, 12.0), (1.0, 4.0, 20.0, 21.0), (2.0, 2.0, 2.5, 9.0)
    ),
    many=lambda program: added(
        program, *((float(i), i + 0.5, i + 1.0 + (i * 7 % 40) / 8, i + 30.0 + i % 3) for i in range(40))
    ),
    # Of so many, p99 is not the largest.
    two_hundred=lambda program: added(program, *((0.0, 0.0, i / 8, i / 8 + (i * 37 % 200)) for i in range(200))),
    small_lists=lambda program: percentiles(program, [4.0, 3.0, 1.0, 2.0], 1, 25, 26, 50, 51, 75, 76, 100),
    equal_numbers=lambda program: percentiles(program, [2.0, 9.0, 2.0, 2.0], 25, 50, 75, 76),
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

TTFT = "times.tokens[0] - times.came"
TPOT = "(times.tokens[-1] - times.tokens[0]) / (len(times.tokens) - 1)"
PLACE = "place = -(-percent * len(numbers) // 100)"
known.change(
    "ttft-from-the-first-step",
    (TTFT, "times.tokens[0] - times.begun"),
    fact="TTFT begins when the request is let in, so that nobody sees how long it has waited",
    question="A user presses Enter, and the queue is full. When does the user's clock begin to run?",
)
known.change(
    "queue-alone",
    (TTFT, "times.begun - times.came"),
    fact="TTFT is the time in the queue, without the time in which the prompt is read",
    question="The request has been let in. Is its first token there?",
)
known.change(
    "ttft-to-the-end",
    (TTFT, "times.tokens[-1] - times.came"),
    fact="TTFT ends with the last token",
    question="Which token does the F stand for?",
)
known.change(
    "divided-by-n",
    (TPOT, "(times.tokens[-1] - times.tokens[0]) / len(times.tokens)"),
    fact="TPOT is divided by the number of tokens, and not of the steps between them",
    question="Three tokens come at seconds 1, 2 and 3. How many times of waiting are between them?",
)
known.change(
    "tpot-from-the-start",
    (TPOT, "(times.tokens[-1] - times.came) / len(times.tokens)"),
    fact="TPOT holds the time to the first token, too",
    question="A prompt takes ten seconds to read, and then five tokens come in a second. What is the time per token?",
)
known.change(
    "longest-gap",
    (TPOT, "max(b - a for a, b in zip(times.tokens, times.tokens[1:]))"),
    fact="TPOT is the longest gap between two tokens, and not the mean",
    question="Of three gaps, one is long. Which number does the docstring ask for?",
)
known.change(
    "middle-gap",
    (TPOT, "sorted(b - a for a, b in zip(times.tokens, times.tokens[1:]))[(len(times.tokens) - 1) // 2]"),
    fact="TPOT is the median gap between two tokens, and not the mean",
    question="Of three gaps, one is long. Does your number know of it?",
)
known.change(
    "every-gap",
    (
        "self.tpot.append((times.tokens[-1] - times.tokens[0]) / (len(times.tokens) - 1))",
        "self.tpot.extend(b - a for a, b in zip(times.tokens, times.tokens[1:]))",
    ),
    fact="each gap is an entry of tpot, and not each request",
    question="How many entries does a request with ten tokens have in tpot?",
)
known.change(
    "zero-for-one-token",
    ("if len(times.tokens) > 1:", "if times.tokens:"),
    (TPOT, "(times.tokens[-1] - times.tokens[0]) / max(1, len(times.tokens) - 1)"),
    fact="a request with a single token has a TPOT of 0, which makes all others look better",
    question="Between which two tokens does a single one let its user wait?",
)
known.change(
    "two-are-too-few",
    ("if len(times.tokens) > 1:", "if len(times.tokens) > 2:"),
    fact="a request with two tokens has no TPOT",
    question="How many gaps do two tokens have?",
)
known.change(
    "no-token-is-zero",
    ("if times.tokens:", "if True:"),
    ("times.tokens[0] - times.came", "times.tokens[0] - times.came if times.tokens else 0.0"),
    fact="a request without any token has a TTFT of 0",
    question="Somebody waits, sees nothing, and gives up. Is that a fast answer?",
)
known.change(
    "place-from-zero",
    ("sorted(numbers)[place - 1]", "sorted(numbers)[min(place, len(numbers) - 1)]"),
    fact="the percentile is the number one place too far up",
    question="Of four numbers, which are not exceeded by half of them? At which index is that, counted from 0?",
)
known.change(
    "place-rounded-down",
    (PLACE, "place = max(1, percent * len(numbers) // 100)"),
    fact="the place is rounded down, so that fewer than so many percent may be below it",
    question="Of three numbers, how many are 50 percent at least?",
)
known.change(
    "place-rounded",
    (PLACE, "place = max(1, round(percent * len(numbers) / 100))"),
    fact="the place is rounded to the nearest whole number",
    question="Of 37 numbers, 95 percent are 35.15. Are 35 of them enough?",
)
known.change(
    "place-behind-the-rounded-down",
    ("place = -(-percent * len(numbers) // 100)", "place = min(len(numbers), percent * len(numbers) // 100 + 1)"),
    fact="the place is rounded down, and then 1 is added, also where nothing was rounded",
    question="50 percent of four numbers are two numbers. At which place does the second one stand?",
)
known.change(
    "equal-numbers-once",
    ("place = -(-percent", "numbers = set(numbers)\nplace = -(-percent"),
    fact="numbers that are equal count once",
    question="Three requests waited 2 seconds, and one 9. How many of the four waited no longer than 2?",
)
known.change(
    "place-by-floats",
    (PLACE, "place = int(-(-(percent / 100 * len(numbers)) // 1))"),
    fact="percent is divided by 100 before it is multiplied, so that 7 percent of 100 are a little more than 7",
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
    fact="the percentile is a point between two of the numbers, as NumPy's default gives it",
    question="Has anybody waited for as long as your number says?",
)
known.change(
    "from-above",
    ("sorted(numbers)[place - 1]", "sorted(numbers, reverse=True)[place - 1]"),
    fact="the numbers are sorted from the largest down",
    question="Are most users slower than your p95, or faster?",
)
known.change(
    "not-sorted",
    ("sorted(numbers)[place - 1]", "numbers[place - 1]"),
    fact="the numbers are taken in the order in which they came",
    question="What has the order of arrival to do with who waited longest?",
)
known.change(
    "sorted-in-place",
    ("return sorted(numbers)", "numbers.sort()\nreturn numbers"),
    fact="the caller's list is sorted, so that nobody knows any more whose number is whose",
    question="What is in `ttft` after a summary has been asked for?",
)
known.change(
    "summary-sorts",
    ('found = {"ttft"', 'self.ttft.sort()\nself.tpot.sort()\nfound = {"ttft"'),
    fact="`summary` sorts the two lists themselves, and the order in which requests were added is lost",
    question="The second entry of `ttft` is the second request's. Is it still, after a summary?",
)
known.change(
    "largest-for-99",
    ("(50, 95, 99)", "(50, 95, 100)"),
    fact="p99 is the largest of all numbers",
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
    fact="the percentiles of TTFT are None, too, where there is no TPOT",
    question="Each request asked for one token. Has nobody waited for it?",
)
known.change(
    "zeros-for-nobody",
    ("if numbers else None", "if numbers else Percentiles(0.0, 0.0, 0.0)"),
    fact="without any numbers the percentiles are 0, the best that there could be",
    question="Nobody has been served. Was the service fast?",
)
known.change(
    "zero-percent",
    ("not 1 <= percent <= 100", "not 0 <= percent <= 100"),
    fact="percentile 0 is taken",
    question="What is at place 0, if the first one is at place 1?",
)
known.change(
    "any-percent",
    ("if not numbers or not 1 <= percent <= 100:", "if not numbers:"),
    ("sorted(numbers)[place - 1]", "sorted(numbers)[min(max(place, 1), len(numbers)) - 1]"),
    fact="percentiles below 1 and above 100 are taken",
    question="Which number do 101 percent of all numbers not exceed?",
)


@known.accepted("by-counting")
class ByCounting:
    def __init__(self):
        self.ttft, self.tpot = [], []

    def add(self, times):
        tokens = list(times.tokens)
        if not tokens:
            return
        self.ttft.append(tokens[0] - times.came)
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
