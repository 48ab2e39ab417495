"""Known programs of task 3.3.4, preemption."""

from tests.week3.played import numbers, play_preemption
from tiny_llm_solution.serving.scheduler import Scheduler, Step

from tiny_llm_course.testkit.methods import completed
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.3.4")


def played(program, places, read, *script):
    return numbers(play_preemption(completed(Scheduler, program), program, Step, places, read, script))


known.probe_table(
    not_needed=lambda program: played(program, 20, [5, 4, 3], ("reserve", 0, 2), ("reserve", 2, 3)),
    of_one=lambda program: played(program, 12, [5, 4, 3], ("reserve", 0, 1)),
    of_the_youngest_and_not_the_longest=lambda program: played(program, 18, [5, 9, 4], ("reserve", 0, 3)),
    of_several=lambda program: played(program, 14, [5, 4, 3, 2], ("reserve", 0, 4)),
    of_oneself=lambda program: played(program, 12, [5, 4, 3], ("reserve", 2, 1)),
    of_oneself_at_last=lambda program: played(program, 14, [5, 4, 3, 2], ("reserve", 1, 7)),
    of_the_only_one_left=lambda program: played(program, 9, [5, 4], ("reserve", 0, 4), ("reserve", 0, 5)),
    of_one_that_has_written=lambda program: played(program, 27, [9, 8, 10], ("reserve", 1, 2)),
)


known.not_timed("a few calls of the kv_cache")

known.change(
    "the-oldest-goes",
    ("self.running.pop()", "self.running.pop(0)"),
    fact="the oldest request is preempted, not the youngest",
    question="If the oldest is always preempted, which request is sure to finish?",
)
known.change(
    "the-longest-goes",
    ("self.running.pop()", "max(self.running, key=lambda one: one.num_computed_tokens)\nself.running.remove(youngest)"),
    fact="the request with the most computed tokens is preempted, not the youngest",
    question="Which request has the most to recompute?",
)
known.change(
    "the-shortest-goes",
    ("self.running.pop()", "min(self.running, key=lambda one: one.num_computed_tokens)\nself.running.remove(youngest)"),
    fact="the request with the fewest computed tokens is preempted, not the youngest",
    question="The oldest request has just been admitted again. Which request is sure to finish?",
)
known.change(
    "requester-preempted",
    ("self.running.pop()", "chunk.request\nself.running.remove(youngest)"),
    fact="the request that needs pages is always the one preempted",
    question="The oldest request needs a page. If it is preempted, which request makes progress?",
)
known.change(
    "an-older-one-for-a-younger",
    ("running.pop()", "running.pop(-2 if self.running[-1] is chunk.request and len(self.running) > 1 else -1)"),
    fact="the request that needs pages is never preempted, so an older one is",
    question="The youngest request needs a page. Which request should wait for which?",
)
known.change(
    "never-oneself",
    (
        "youngest = self.running.pop()",
        """
        others = [one for one in self.running if one is not chunk.request]
        if not others:
            return False
        youngest = others[-1]
        self.running.remove(youngest)
        """,
    ),
    fact="only other requests are preempted, and False is returned when none is left",
    question="The youngest request needs a page. Which request should wait for which?",
)
known.change(
    "as-if-ended",
    ("self.running.pop()", "self.running[-1]"),
    ("self.kv_cache.release(youngest)", 'self._leave(youngest, "preempted")'),
    fact="a preempted request gets a finish_reason, as if it had ended",
    question="A server stops sending when a request has a finish_reason. Are all of this one's tokens generated?",
)
known.change(
    "truncated-to-nothing",
    ("self.kv_cache.release(youngest)", "self.kv_cache.truncate(youngest, 0)"),
    fact="a preempted request is truncated to 0 tokens, not released, so the KV cache still counts it as admitted",
    question="Admission keeps a page free for each admitted request. For which requests does it keep one now?",
)
known.change(
    "false-after-any",
    ("while not self.kv_cache", "gone = 0\nwhile not self.kv_cache"),
    ("step.preempted.append(youngest)", "step.preempted.append(youngest)\ngone += 1"),
    ("return True", "return not gone"),
    fact="the method returns False after any preemption, even if the slots are reserved then",
    question="The youngest request has freed enough pages. What becomes of the chunk in this step?",
)
known.change(
    "whole-sequence-reserved",
    ("len(chunk.tokens)", "chunk.end"),
    fact="slots are reserved for all tokens up to the end of the chunk, not for those of the chunk alone",
    question="1,000 tokens are cached, and the chunk has one. How many slots does it still need?",
)
known.change(
    "one-is-enough",
    ("if youngest is chunk.request:\n    return False", "return youngest is not chunk.request"),
    fact="True is returned after one preemption, without trying reserve again",
    question="The youngest freed one page, and two are needed. What now?",
)
known.change(
    "never-preempts",
    ("youngest = self.running.pop()", "return False\nyoungest = self.running.pop()"),
    fact="no request is preempted when pages run out",
    question="All pages are in use, and every request needs one more. What happens in the next step?",
)
known.change(
    "oneself-stays",
    ("youngest = self", "if self.running[-1] is chunk.request:\n    return False\nyoungest = self"),
    fact="the chunk's own request is not preempted when it is the youngest, but False is returned",
    question="The youngest has three pages, needs a fourth, and keeps running. Which request can use the three?",
)
known.change(
    "none-for-false",
    ("return False", "return None"),
    fact="None is returned where the signature promises a bool",
    question="What does the docstring say is returned if the chunk's own request was preempted?",
)
known.change(
    "memory-kept",
    ("self.kv_cache.release(youngest)", "pass"),
    fact="a preempted request keeps its KV pages",
    question="What does a preemption gain?",
)
known.change(
    "read-kept",
    ("youngest.num_computed_tokens = 0", "pass"),
    fact="a preempted request keeps its num_computed_tokens",
    question="Its pages now hold another request's tokens. How many of its own are cached?",
)
known.change(
    "zero-before-release",
    ("self.kv_cache.release(youngest)", "youngest.num_computed_tokens = 0\nself.kv_cache.release(youngest)"),
    fact="num_computed_tokens becomes 0 before the KV cache is released, which reads it",
    question="A KV cache keeps what a released request has computed, to reuse it. How does it know how much that is?",
)
known.change(
    "output-thrown-away",
    ("youngest.num_computed_tokens = 0", "youngest.num_computed_tokens = 0\nyoungest.output.clear()"),
    fact="a preempted request loses its output",
    question="The client has already seen the first words. Must they be generated again?",
)
known.change(
    "last-in-the-queue",
    ("self.waiting.requeue(youngest)", "self.waiting.add(youngest)"),
    fact="a preempted request is appended to the back of the queue",
    question="Ten younger requests wait. When is the preempted one admitted again?",
)
known.change(
    "nowhere-to-be-found",
    ("self.waiting.requeue(youngest)", "pass"),
    fact="a preempted request is neither running nor in the queue",
    question="Where will the scheduler find the request again?",
)
known.change(
    "the-youngest-is-first",
    ("while not self.kv_cache", "gone: list[Request] = []\nwhile not self.kv_cache"),
    ("self.waiting.requeue(youngest)", "gone.insert(0, youngest)"),
    ("return False", "break"),
    ("return True", "for one in gone:\n    self.waiting.requeue(one)\nreturn chunk.request not in gone"),
    fact="of several preempted requests, the youngest is admitted first",
    question="Requests 3 and 4 are preempted. Which one arrived first, and which one will be admitted first?",
)
known.change(
    "preempted-not-reported",
    ("step.preempted.append(youngest)", "pass"),
    fact="the step does not report the preempted requests",
    question="What does the docstring of step say?",
)
known.change(
    "room-for-who-has-gone",
    ("if youngest is chunk.request:\n    return False", "if youngest is chunk.request:\n    return True"),
    fact="True is returned although the chunk's own request was preempted",
    question="Its pages were freed. Where should its chunk be stored?",
)


@known.accepted("one-at-a-time")
def one_at_a_time(self, chunk, step):
    if self.kv_cache.reserve(chunk.request, len(chunk.tokens)):
        return True
    youngest = max(self.running, key=lambda one: one.request_id)
    self.running = [one for one in self.running if one is not youngest]
    step.preempted += [youngest]
    self.kv_cache.release(youngest)
    youngest.num_computed_tokens = 0
    self.waiting.requeue(youngest)
    return youngest is not chunk.request and one_at_a_time(self, chunk, step)
