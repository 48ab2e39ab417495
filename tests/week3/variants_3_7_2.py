"""Known programs of task 3.7.2, the gate."""

import math
import time
from functools import partial

import mlx.core as mx
from tests.week3.gate_script import passes, random_ops
from tiny_llm_solution.server.backpressure import TooBusy

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.7.2")

HOURS = [(0, "enter", 1)] * 5 + [(4 * i, what, 1) for i in (1, 2, 3, 4) for what in ("leave", "enter")]
PROMISES = [
    (0, "enter", 2),
    (8, "leave", 2),
    (8, "enter", 2),
    *[(16, "enter", 1)] * 3,
    (21, "enter", 1),
    (99, "enter", 2),
]
GROUPS = [*((0, "enter", count) for count in (3, 2, 1, 5)), (2, "leave", 4), (2, "enter", 4), (9, "enter", 2)]
FASTER = [
    (0, "enter", 8), (0, "leave", 1), (0, "enter", 1), (50, "enter", 1), (60, "leave", 8), (60, "enter", 8),
    (64, "enter", 1), (70, "enter", 2), (70, "leave", 1), (70, "enter", 1), (71, "enter", 1),
]  # fmt: skip
MANY = [
    step
    for i in range(1, 31)
    for step in ((i * i * 0.25, "leave", 1), (i * i * 0.25, "enter", 1), (i * i * 0.25, "enter", 1))
]
for max_inside, ops in (
    (2, [(0, "enter", 1), (0, "enter", 1), (1, "enter", 1), (1, "enter", 1), (9, "leave", 1), (9, "enter", 1)]),
    (5, [*HOURS, (17, "enter", 1), (60, "enter", 1)]),
    (5, [*HOURS, (20, "enter", 4), (900, "enter", 1)]),
    (2, PROMISES),
    (4, GROUPS),
    (8, FASTER),
    (1, [(0, "enter", 1), (0, "enter", 1), (1, "enter", 1)]),
    (2, [(0, "enter", 2), (0, "enter", 5), (0, "enter", 1)]),
    (3, [(0, "enter", 3), *MANY]),
    (3, [(0, "enter", 3), (0.01, "leave", 3), (0.02, "enter", 3), (0.03, "enter", 1)]),
    (8, [(0, "enter", 8), (0, "leave", 1), (0, "enter", 1), *[(55, "enter", 1)] * 6]),
    (1, [(0, "enter", 1), (0, "leave", 1), (0, "enter", 1), (60, "enter", 1)]),
    (4, random_ops(1, 4, 40)),
    (3, random_ops(2, 3, 40)),
):  # fmt: skip

    def gate(program, max_inside=max_inside, ops=ops):
        return mx.array(passes(program, max_inside, ops))

    known.probe()(partial(gate))

known.not_timed("it takes a microsecond")

SPREAD = "estimate if estimate <= LONGEST else LONGEST // 2 + estimate % (LONGEST // 2)"
PACE = "(now - self._left[0]) / len(self._left) if self._left else FIRST_GUESS"
known.change(
    "part-of-a-group-fits",
    ("if missing <= 0:", "if self.inside < self.max_inside:"),
    fact="a group is admitted as soon as one slot is free, even if it needs more",
    question="One slot is free, and three arrive. How many are inside then?",
)
known.change(
    "always-a-second",
    ("seconds = (missing + sum(places for _, places in self._promised)) * pace", "seconds = 1.0"),
    fact="Retry-After is always one second",
    question="One request leaves every ten seconds. What do a hundred clients do that all get one second?",
)
known.change(
    "promises-nothing",
    ("(missing + sum(places for _, places in self._promised)) * pace", "missing * pace"),
    fact="all rejected clients get the same Retry-After and come back together",
    question="One client was promised capacity in four seconds. What do you tell the next one?",
)
known.change(
    "promises-for-ever",
    ("if until > now]", "]"),
    fact="expired promises still count",
    question="A client was to return at 20 s, and it is 21 s. Is its capacity still promised?",
)
known.change(
    "promises-a-moment-longer",
    ("if until > now]", "if until >= now]"),
    fact="a promise still counts at the very moment when its seconds are over",
    question="A client was rejected for one second at 0 s. At 1 s, is its capacity still promised?",
)
known.change(
    "expired-only-in-front",
    (
        "self._promised = [(until, places) for until, places in self._promised if until > now]",
        "while self._promised and self._promised[0][0] <= now:\n    del self._promised[0]",
    ),
    fact="an expired promise still counts while an older one lasts",
    question="One client is promised capacity in 100 s, and later another one in 2 s. Which promise expires first?",
)
known.change(
    "used-up-by-others",
    (
        "self.inside += count",
        "self._promised = [each for each in self._promised if each[0] > now][1:]\nself.inside += count",
    ),
    fact="a call that is admitted cancels the oldest promise",
    question="One client was promised capacity, and another one is admitted. Does the first one still come back?",
)
known.change(
    "promises-whole-seconds",
    ("(now + seconds, count)", "(now + max(1, math.ceil(seconds)), count)"),
    fact="a promise lasts until its rounded-up time instead of its exact one",
    question="Until when does the docstring count a promise: before the seconds are rounded, or after?",
)
known.change(
    "promises-one",
    ("self._promised.append((now + seconds, count))", "self._promised.append((now + seconds, 1))"),
    fact="a rejected group is promised capacity for one request",
    question="How much capacity must be free for a group of three that returns?",
)
known.change(
    "promises-what-was-missing",
    ("self._promised.append((now + seconds, count))", "self._promised.append((now + seconds, missing))"),
    fact="a rejected group is promised only the missing capacity, not all that it needs",
    question="One slot is free, and three arrive. How many do they take when they return?",
)
known.change(
    "missing-one",
    ("missing = self.inside + count - self.max_inside", "missing = min(1, self.inside + count - self.max_inside)"),
    fact="one departure counts as enough, however much capacity is missing",
    question="Five are inside where five is the limit, and four arrive. How many must leave first?",
)
known.change(
    "own-count-promised",
    ("(missing + sum(", "(missing + count + sum("),
    fact="a rejected call also counts among those that were rejected before it",
    question="The first rejected client waits for one departure. Whose places are promised then?",
)
known.change(
    "whole-group-missing",
    ("(missing + sum(", "(count + sum("),
    fact="a whole rejected group counts as missing, although there is capacity for some of it",
    question="One slot is free, and three arrive. How many requests must leave first?",
)
known.change(
    "pace-that-does-not-go-on",
    (PACE, "(self._left[-1] - self._left[0]) / len(self._left) if self._left else FIRST_GUESS"),
    fact="the rate ignores the time since the last departure, so a stalled engine seems as fast as before",
    question="No request has left for a minute. Does your gate notice?",
)
known.change(
    "pace-since-the-last",
    (PACE, "now - self._left[-1] if self._left else FIRST_GUESS"),
    fact="the rate is computed from the last departure alone",
    question="One request left a millisecond ago. How long until the next one does?",
)
known.change(
    "intervals-between",
    (PACE, "(now - self._left[0]) / max(1, len(self._left) - 1) if self._left else FIRST_GUESS"),
    fact="the time is divided by one less than the number of departures",
    question="The time counts from the oldest departure until now. Four have left: how many intervals is that?",
)
known.change(
    "divided-by-remembered",
    (PACE, "(now - self._left[0]) / REMEMBERED if self._left else FIRST_GUESS"),
    fact="the time is divided by REMEMBERED, even if fewer requests have left so far",
    question="Four have left in 16 s, and 16 departures would be remembered. How many seconds does one take?",
)
known.change(
    "one-too-few",
    ("if missing <= 0:", "if missing < 0:"),
    fact="one request fewer than max_inside is admitted",
    question="The limit is two, and one is inside. How many more fit?",
)
known.change(
    "pace-of-all-time",
    ("deque(maxlen=REMEMBERED)", "deque()"),
    fact="the rate is averaged over all departures since the start",
    question="This morning one left per second, and now one per minute. When does your gate notice?",
)
known.change(
    "groups-leave-once",
    ("self._left.extend([self._clock()] * count)", "self._left.append(self._clock())"),
    fact="a group that leaves counts as one departure",
    question="Three leave at once. How many slots are free?",
)
known.change(
    "always-rounded-up",
    ("math.ceil(seconds)", "int(seconds) + 1"),
    fact="whole seconds are also rounded up, to the next whole number",
    question="What is 3.0, rounded up?",
)
known.change(
    "promised-places-are-taken",
    ("if missing <= 0:", "if missing <= 0 and not any(until > now for until, _ in self._promised):"),
    fact="no request enters while capacity is promised to others, even if there is some",
    question="A promise says when to retry. Does it reserve the capacity?",
)
known.change(
    "rounded-down",
    ("max(1, math.ceil(seconds))", "max(1, math.floor(seconds))"),
    fact="Retry-After is rounded down, so clients return too early",
    question="There is capacity in 3.5 s. What Retry-After do you send?",
)
known.change(
    "at-once",
    ("max(1, math.ceil(seconds))", "math.ceil(seconds)"),
    fact="Retry-After is 0 when requests have just left",
    question="What does a client do with a Retry-After of 0 seconds?",
)
known.change(
    "any-length",
    (SPREAD, "estimate"),
    fact="Retry-After has no upper limit",
    question="An engine has been stalled for an hour. What Retry-After do clients get?",
)
known.change(
    "limit-counts-as-above",
    (SPREAD, SPREAD.replace("<=", "<")),
    fact="an estimate of exactly LONGEST is replaced, too",
    question="The estimate is 60 seconds. Is that above LONGEST?",
)
known.change(
    "the-same-for-all",
    (SPREAD, "min(LONGEST, estimate)"),
    fact="all clients whose estimate is above a minute get the same Retry-After and come back together",
    question="A hundred clients get a Retry-After of 60. What happens a minute later?",
)
known.change(
    "leaves-one",
    ("self.inside -= count", "self.inside -= 1"),
    fact="a group that leaves frees capacity for one request",
    question="Three leave at once. How many are inside?",
)
known.change(
    "rounded-to-the-nearest",
    ("max(1, math.ceil(seconds))", "max(1, round(seconds))"),
    fact="Retry-After is rounded to the nearest second, so some clients return too early",
    question="There is capacity in 3.4 s. What Retry-After do you send?",
)


@known.accepted("plain lists")
class PlainLists:
    def __init__(self, max_inside, clock=time.monotonic):
        self.max_inside, self.clock, self.inside, self.times, self.told = max_inside, clock, 0, [], []

    def enter(self, count=1):
        if self.max_inside < count:
            raise ValueError(f"never more than {self.max_inside}")
        if self.inside + count <= self.max_inside:
            self.inside = self.inside + count
            return
        now, recent = self.clock(), self.times[-16:]
        pace = 1.0
        if recent:
            pace = (now - recent[0]) / len(recent)
        places = self.inside + count - self.max_inside
        for until, wanted in self.told:
            if now < until:
                places += wanted
        self.told.append((now + places * pace, count))
        told = max(1, math.ceil(places * pace))
        raise TooBusy(told % 30 + 30 if told > 60 else told)

    def leave(self, count=1):
        now = self.clock()
        self.times += [now for _ in range(count)]
        self.inside -= count
