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
MANY = [
    step
    for i in range(1, 31)
    for step in ((i * i * 0.25, "leave", 1), (i * i * 0.25, "enter", 1), (i * i * 0.25, "enter", 1))
]
for most, ops in (
    (2, [(0, "enter", 1), (0, "enter", 1), (1, "enter", 1), (1, "enter", 1), (9, "leave", 1), (9, "enter", 1)]),
    (5, [*HOURS, (17, "enter", 1), (60, "enter", 1)]),
    (5, [*HOURS, (20, "enter", 4), (900, "enter", 1)]),
    (2, PROMISES),
    (4, GROUPS),
    (2, [(0, "enter", 2), (0, "enter", 5), (0, "enter", 1)]),
    (3, [(0, "enter", 3), *MANY]),
    (3, [(0, "enter", 3), (0.01, "leave", 3), (0.02, "enter", 3), (0.03, "enter", 1)]),
    (4, random_ops(1, 4, 40)),
    (3, random_ops(2, 3, 40)),
):  # fmt: skip

    def gate(program, most=most, ops=ops):
        return mx.array(passes(program, most, ops))

    known.probe()(partial(gate))

known.not_timed("it takes a microsecond")

PACE = "(now - self._left[0]) / len(self._left) if self._left else FIRST_GUESS"
known.change(
    "one-too-many",
    ("if missing <= 0:", "if missing <= 1:"),
    fact="one more is let in than there is room for",
    question="Two may be inside, and two are. What becomes of the next one?",
)
known.change(
    "part-of-a-group",
    (
        "if missing <= 0:",
        """
        if 0 < missing < count:
            self.inside = self.most
            return
        if missing <= 0:
        """,
    ),
    fact="of a group that does not fit, as many are let in as there is room for",
    question="Somebody asks for three answers, and there is room for two. What will be done with two?",
)
known.change(
    "refused-for-ever",
    ("if count > self.most:", "if count > 10**9:"),
    fact="a group that can never fit is told to come again",
    question="Five want to enter where there is room for four. When should they come again?",
)
known.change(
    "promised-for-ever",
    (
        """
        if count > self.most:
            raise ValueError(f"{count} requests at once, but there is room for {self.most}")
        now = self._clock()
        """,
        "now = self._clock()",
    ),
    (
        "raise TooBusy(min(LONGEST, max(1, math.ceil(seconds))))",
        """
        if count > self.most:
            raise ValueError(f"{count} requests at once, but there is room for {self.most}")
        raise TooBusy(min(LONGEST, max(1, math.ceil(seconds))))
        """,
    ),
    fact="a group that can never come in is promised its places all the same, and the next one must wait",
    question="A group was refused for ever. Will it come again for its places?",
)
known.change(
    "always-a-second",
    ("seconds = (missing + sum(places for _, places in self._promised)) * pace", "seconds = 1.0"),
    fact="everybody is told to come again in a second",
    question="What do a hundred callers do that are all told one second, where one leaves in ten?",
)
known.change(
    "promises-nothing",
    ("(missing + sum(places for _, places in self._promised)) * pace", "missing * pace"),
    fact="all who are refused are told the same time, and come back together",
    question="You have told somebody that a place will be free in four seconds. What do you tell the next one?",
)
known.change(
    "promises-for-ever",
    ("if until > now]", "]"),
    fact="promises count for ever, also those whose time is over",
    question="Who was told to come at 20 s, and it is 21 s: for whom is that place kept?",
)
known.change(
    "promises-whole-seconds",
    ("(now + seconds, count)", "(now + max(1, math.ceil(seconds)), count)"),
    fact="a promise lasts until its seconds are over that were rounded up",
    question="Until when does the docstring count a promise: before its seconds are rounded, or after?",
)
known.change(
    "promises-one",
    ("self._promised.append((now + seconds, count))", "self._promised.append((now + seconds, 1))"),
    fact="a group that is refused is promised a single place",
    question="How many places must be free for a group of three that has been told to come again?",
)
known.change(
    "promises-what-was-missing",
    ("self._promised.append((now + seconds, count))", "self._promised.append((now + seconds, missing))"),
    fact="a group that is refused is promised as many places as were missing, and not as many as it needs",
    question="One place is free, and three come. How many do they take when they come again?",
)
known.change(
    "missing-one",
    ("missing = self.inside + count - self.most", "missing = min(1, self.inside + count - self.most)"),
    fact="one leaving counts as enough, however many places are missing",
    question="Five are inside where five may be, and four come. How many must leave first?",
)
known.change(
    "pace-that-does-not-go-on",
    (PACE, "(self._left[-1] - self._left[0]) / len(self._left) if self._left else FIRST_GUESS"),
    fact="the pace is that of the leavings alone, and an engine that stands still seems as fast as before",
    question="Nobody has left for a minute. Does your gate know?",
)
known.change(
    "pace-since-the-last",
    (PACE, "now - self._left[-1] if self._left else FIRST_GUESS"),
    fact="the pace is the time since the last leaving",
    question="Somebody left a millisecond ago. How long until the next one does?",
)
known.change(
    "divided-by-sixteen",
    (PACE, "(now - self._left[0]) / REMEMBERED if self._left else FIRST_GUESS"),
    fact="the time is divided by REMEMBERED, also if fewer have left",
    question="Two have left in ten seconds. How long does it take until one leaves?",
)
known.change(
    "pace-of-all-time",
    ("deque(maxlen=REMEMBERED)", "deque()"),
    fact="the pace is that of all leavings since the beginning",
    question="This morning one left in a second, and now one in a minute. When does your gate notice?",
)
known.change(
    "groups-leave-once",
    ("self._left.extend([self._clock()] * count)", "self._left.append(self._clock())"),
    fact="a group that leaves counts as one leaving",
    question="Three leave at once. How many places are free?",
)
known.change(
    "always-rounded-up",
    ("math.ceil(seconds)", "int(seconds) + 1"),
    fact="seconds that are whole already are rounded up to the next whole number",
    question="What is 3.0, rounded up?",
)
known.change(
    "promised-places-are-taken",
    ("if missing <= 0:", "if missing <= 0 and not any(until > now for until, _ in self._promised):"),
    fact="nobody enters while places are promised to others, although there is room",
    question="A promise says when to come again. Does it keep a place free?",
)
known.change(
    "rounded-down",
    ("min(LONGEST, max(1, math.ceil(seconds)))", "min(LONGEST, max(1, math.floor(seconds)))"),
    fact="the seconds are rounded down, and who keeps to them comes too early",
    question="There is room in 3.5 s. What do you say?",
)
known.change(
    "at-once",
    ("max(1, math.ceil(seconds))", "math.ceil(seconds)"),
    ("else FIRST_GUESS", "else 0.0"),
    fact="before anybody has left, the refused are told to come again in no time",
    question="What does a client do that is told 0 seconds?",
)
known.change(
    "any-length",
    ("min(LONGEST, max(1, math.ceil(seconds)))", "max(1, math.ceil(seconds))"),
    fact="there is no longest time that anybody is told",
    question="An engine has stood still for an hour. What do you say to those who come?",
)
known.change(
    "leaves-one",
    ("self.inside -= count", "self.inside -= 1"),
    fact="a group that leaves frees a single place",
    question="Three leave at once. How many are inside?",
)


@known.accepted("plain lists")
class PlainLists:
    def __init__(self, most, clock=time.monotonic):
        self.most, self.clock, self.inside, self.times, self.told = most, clock, 0, [], []

    def enter(self, count=1):
        if self.most < count:
            raise ValueError(f"never more than {self.most}")
        if self.inside + count <= self.most:
            self.inside = self.inside + count
            return
        now, recent = self.clock(), self.times[-16:]
        pace = 1.0
        if recent:
            pace = (now - recent[0]) / len(recent)
        places = self.inside + count - self.most
        for until, wanted in self.told:
            if now < until:
                places += wanted
        self.told.append((now + places * pace, count))
        raise TooBusy(max(1, min(60, math.ceil(places * pace))))

    def leave(self, count=1):
        now = self.clock()
        self.times += [now for _ in range(count)]
        self.inside -= count
