"""Known programs of task 3.3.4, preemption."""

from tests.week3.played import numbers, play_preemption
from tiny_llm_solution.serving.scheduler import Scheduler, Step

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.3.4")


def played(program, places, read, *script):
    return numbers(play_preemption(Scheduler, program, Step, places, read, script))


known.probe_table(
    not_needed=lambda program: played(program, 20, [5, 4, 3], ("room", 0, 2), ("room", 2, 3)),
    of_one=lambda program: played(program, 12, [5, 4, 3], ("room", 0, 1)),
    of_the_youngest_and_not_the_longest=lambda program: played(program, 18, [5, 9, 4], ("room", 0, 3)),
    of_several=lambda program: played(program, 14, [5, 4, 3, 2], ("room", 0, 4)),
    of_oneself=lambda program: played(program, 12, [5, 4, 3], ("room", 2, 1)),
    of_oneself_at_last=lambda program: played(program, 14, [5, 4, 3, 2], ("room", 1, 7)),
    of_one_that_has_written=lambda program: played(program, 27, [9, 8, 10], ("room", 1, 2)),
)


known.not_timed("a few calls of the memory")

known.change(
    "the-oldest-goes",
    ("self.running.pop()", "self.running.pop(0)"),
    fact="the oldest request goes, and not the youngest",
    question="If the oldest always goes, which request is certain to come to an end?",
)
known.change(
    "the-longest-goes",
    ("self.running.pop()", "max(self.running, key=lambda one: one.read)\nself.running.remove(youngest)"),
    fact="whoever has read most goes, and not the youngest",
    question="Who has most to read anew?",
)
known.change(
    "whoever-asks-goes",
    ("self.running.pop()", "chunk.request\nself.running.remove(youngest)"),
    fact="the request that needs room goes itself",
    question="The oldest request needs a page. If it goes itself, who moves on?",
)
known.change(
    "an-older-one-for-a-younger",
    ("running.pop()", "running.pop(-2 if self.running[-1] is chunk.request and len(self.running) > 1 else -1)"),
    fact="the request that needs room is spared, and an older one goes for it",
    question="The youngest request needs a page. Who should wait for whom?",
)
known.change(
    "one-is-enough",
    ("if youngest is chunk.request:\n    return False", "return youngest is not chunk.request"),
    fact="after one request has gone, there is said to be room",
    question="The youngest gave back one page, and two are needed. What now?",
)
known.change(
    "nobody-goes",
    ("youngest = self.running.pop()", "return False\nyoungest = self.running.pop()"),
    fact="nobody goes where there is no room, and everyone waits for the others",
    question="All pages are taken, and every request needs one more. What happens in the next step?",
)
known.change(
    "oneself-stays",
    ("youngest = self", "if self.running[-1] is chunk.request:\n    return False\nyoungest = self"),
    fact="a chunk's own request that is the youngest is told that there is no room, and keeps what it has",
    question="The youngest has three pages, needs a fourth, and stays. Who can have the three meanwhile?",
)
known.change(
    "none-for-false",
    ("return False", "return None"),
    fact="what is returned is None where the signature promises a bool",
    question="What does the docstring say is returned if the chunk's own request was put back?",
)
known.change(
    "memory-kept",
    ("self.memory.release(youngest)", "pass"),
    fact="whoever is put back keeps its room in memory",
    question="What has been won by putting a request back?",
)
known.change(
    "read-kept",
    ("youngest.read = 0", "pass"),
    fact="whoever is put back counts as read what is in memory no more",
    question="Its pages are somebody else's now. How many of its tokens are in memory?",
)
known.change(
    "output-thrown-away",
    ("youngest.read = 0", "youngest.read = 0\nyoungest.output.clear()"),
    fact="whoever is put back loses the text that it has written",
    question="Somebody has read the first words of that text already. Must they be written again?",
)
known.change(
    "last-in-the-queue",
    ("self.waiting.put_back(youngest)", "self.waiting.add(youngest)"),
    fact="whoever is put back waits behind those who came later",
    question="Ten requests wait, which all came later. When is it its turn again?",
)
known.change(
    "nowhere-to-be-found",
    ("self.waiting.put_back(youngest)", "pass"),
    fact="whoever is put back neither runs nor waits",
    question="Where will the scheduler find the request again?",
)
known.change(
    "the-youngest-is-first",
    ("while not self.memory", "gone: list[Request] = []\nwhile not self.memory"),
    ("self.waiting.put_back(youngest)", "gone.insert(0, youngest)"),
    ("return False", "break"),
    ("return True", "for one in gone:\n    self.waiting.put_back(one)\nreturn chunk.request not in gone"),
    fact="of several who are put back, the youngest is the next one to be let in",
    question="Requests 3 and 4 are put back. Which of them came first, and which one will be let in first?",
)
known.change(
    "not-told",
    ("step.preempted.append(youngest)", "pass"),
    fact="the step does not say who was put back",
    question="What does the docstring say of step?",
)
known.change(
    "room-for-who-has-gone",
    ("if youngest is chunk.request:\n    return False", "if youngest is chunk.request:\n    return True"),
    fact="there is said to be room for a chunk whose own request was put back",
    question="Its pages are given back. Where should its chunk be written?",
)


@known.accepted("one-at-a-time")
def one_at_a_time(self, chunk, step):
    if self.memory.reserve(chunk.request, len(chunk.tokens)):
        return True
    youngest = max(self.running, key=lambda one: one.number)
    self.running = [one for one in self.running if one is not youngest]
    step.preempted += [youngest]
    self.memory.release(youngest)
    youngest.read = 0
    self.waiting.put_back(youngest)
    return youngest is not chunk.request and one_at_a_time(self, chunk, step)
