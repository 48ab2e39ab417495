"""Known programs of task 3.7.4, the metrics of a server."""

import time
from functools import partial

import mlx.core as mx
from tests.week3.figures_script import MODEL, OTHERS, Clock, figures, measured, random_calls
from tiny_llm_solution.server.metrics import (
    EACH_TOKEN,
    ENDED,
    FIRST_STEP,
    HELP,
    LATENCY,
    OUTPUT_TOKENS,
    PREEMPTIONS,
    PROMPT_TOKENS,
    REFUSED,
    STEPS,
    TPOT,
    TTFT,
    WAITING,
    WHOLE_REQUEST,
)

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.7.4")


def numbers(calls, prompts, program):
    """Return the names of all metrics, and the metrics, each scaled apart, because their sizes differ widely."""
    clock = Clock()
    found = figures(measured(program(MODEL, clock), clock, calls, prompts))
    names = "\n".join(sorted(found))
    return mx.array(list(names.encode())), *(
        mx.array(part) for name in sorted(found) for part in divmod(found[name], 1000.0)
    )


for calls, prompts in (
    ([], [1]),
    (
        [(10.0, "arrived", 0, 0), (10.5, "new", 0, 1), (11.0, "new", 0, 1), (12.5, "ends", 0, 1), (12.5, "left", 0, 1)],
        [7],
    ),
    ([(1.0, "arrived", 0, 0), (2.0, "new", 0, 0), (4.0, "new", 0, 1), (6.0, "ends", 0, 1)], [900]),
    ([(1.0, "arrived", 0, 0), (2.0, "new", 0, 3), (4.0, "new", 0, 4), (5.0, "ends", 0, 2)], [5]),
    ([(1.0, "arrived", 0, 0), (2.0, "ends", 0, 0)], [5]),
    ([(1.0, "arrived", 0, 0), (2.0, "ends", 0, 4)], [5]),
    ([(1.0, "arrived", 0, 0), (2.0, "new", 0, 1), (3.0, "new", 0, 1), (6.0, "ends", 0, 0)], [5]),
    ([(0.0, "arrived", 0, 0), (0.25, "new", 0, 1), (0.5, "ends", 0, 1)], [5]),
    ([(0.0, "arrived", 0, 0), (0.0, "refused", 0, 0), (1.0, "preempted", 0, 0), (1.5, "left", 0, 2)], [4]),
    ([(0.0, "arrived", 0, 0), (1.0, "new", 0, 1), (1.5, "left", 0, 2), (2.0, "new", 0, 1)], [4]),
    ([(0.0, "arrived", 0, 0)], [1000005]),
    ([(0.0, "arrived", 0, 0), (1.5, "left", 0, 2), (2.0, "new", 0, 1)], [4]),
    (
        [(0.0, "arrived", 0, 0), (1.0, "new", 0, 1), (2.0, "new", 0, 2), (3.0, "preempted", 0, 0), (9.0, "ends", 0, 1)],
        [4],
    ),
    ([(0.0, "arrived", 0, 0), (0.0, "arrived", 1, 0), (1.0, "preempted", 0, 0), (1.0, "preempted", 1, 0)], [4, 5]),
    ([(0.0, "arrived", 0, 0), (1.0, "new", 0, 0), (2.0, "preempted", 0, 0), (9.0, "new", 0, 1)], [4]),
    random_calls(1, 9, 40),
    random_calls(2, 9, 40),
):
    known.probe()(partial(numbers, calls, prompts))


@known.probe()
def read_twice(program):
    """Return whether the second reading is the first."""
    subject = program(MODEL, clock := Clock())
    first = measured(subject, clock, *random_calls(3, 9, 20))
    return mx.array(subject.exposition(OTHERS) == first)


def kept(program, late):
    """Return whether much is kept of requests that have left; a late step is reported after that."""
    subject, calls = program(MODEL), []
    for i in range(40):
        calls += [(0.0, "arrived", i, 0), (i + 1.0, "new", i, 1), (i + 1.5, "left", i, 0)]
        calls += [(i + 1.75, "new", i, 1)] * late
    measured(subject, Clock(), calls, [1] * 40)
    return mx.array(sum(len(v) for v in vars(subject).values() if isinstance(v, dict | list | set)) > 20)


known.probe_table(
    entries=lambda program: kept(program, False), entries_after_a_late_step=lambda program: kept(program, True)
)


@known.probe()
def labels(program):
    """How the model's name is escaped: lines, and labels in a line, may come in any order."""
    named = {line.partition("model_name=")[2] for line in program('"a" \\').exposition({}).splitlines()}
    values = {each.partition(',le="')[0].partition("} ")[0] for each in named}
    return mx.array(list("\n".join(sorted(values)).encode()))


@known.probe()
def label_of_two_lines(program):
    """Which of three forms the newline has."""
    text = program("a\nb").exposition({})
    return mx.array([form in text for form in ('"a\nb"', r'"a\nb"', r'"a\\nb"')])


known.not_timed("it counts")

FIRST = "if tokens and request in self._arrivals and request not in self._first:"
EACH = "if later := len(request.output) - count:\n    self._times[TPOT].add((now - began) / later)"
known.change(
    "first-step-for-first-token",
    (FIRST, "if request in self._arrivals and request not in self._first:"),
    fact="a request's first step counts as its first token, even if it only prefills part of the prompt",
    question="A prompt is prefilled in ten steps. When does its user see something?",
)
known.change(
    "from-when-it-is-let-in",
    ("for chunk, tokens in zip(", "self._arrivals |= dict.fromkeys(step.admitted, now)\nfor chunk, tokens in zip("),
    fact="TTFT is measured from admission, so queueing time is missing",
    question="A request waits 8 s in the queue. How much of that should the histogram show?",
)
known.change(
    "update-after-it-has-left",
    (FIRST, "if tokens and request not in self._first:"),
    fact="a step with a request that has already left raises a KeyError",
    question="A caller leaves during a step, which is reported afterwards. What is known about its arrival?",
)
known.change(
    "first-token-every-time",
    (FIRST, "if tokens and request in self._arrivals:"),
    fact="every token is recorded as a TTFT",
    question="How many first tokens has a request?",
)
known.change(
    "each-gap-from-arrival",
    ("self._first[request] = now, len(tokens)", "self._first[request] = self._arrivals[request], len(tokens)"),
    fact="TPOT is measured from the arrival, so it includes the TTFT",
    question="A request waits ten seconds and then decodes fast. Which of its two latencies is high?",
)
known.change(
    "first-step-is-one-token",
    ("self._first[request] = now, len(tokens)", "self._first[request] = now, 1"),
    fact="a request's first step counts as one token, even if it yielded several",
    question="A request's first step yields three tokens. How many of its tokens come after that step?",
)
known.change(
    "divided-by-all",
    (EACH, "if len(request.output) - count:\n    self._times[TPOT].add((now - began) / len(request.output))"),
    fact="TPOT is divided by the number of tokens, not of the intervals between them",
    question="Between the first and the fifth token, how many intervals are there?",
)
known.change(
    "one-token-has-a-gap",
    (EACH, "self._times[TPOT].add((now - began) / max(1, len(request.output) - count))"),
    fact="every finished request has a TPOT, even one without a token",
    question="A request ends without a token. Which interval does its TPOT measure?",
)
known.change(
    "all-at-once-has-a-gap",
    (
        EACH,
        "if request in self._first:\n    self._times[TPOT].add((now - began) / max(1, len(request.output) - count))",
    ),
    fact="a request whose tokens all came at once also has a TPOT",
    question="A request had one token. How long was the interval to its next one?",
)
known.change(
    "every-gap",
    (
        "for request in step.finished:",
        """
        for chunk in step.chunks:
            request = chunk.request
            if request in step.finished or request not in self._first:
                continue
            began, count = self._first[request]
            if later := len(request.output) - count:
                self._times[TPOT].add((now - began) / later)
        for request in step.finished:
        """,
    ),
    fact="TPOT is recorded at every step instead of once per request",
    question="Which has more weight in your histogram, a request of ten tokens or one of a thousand?",
)
known.change(
    "added-up-in-place",
    (
        "found, so_far = [], 0",
        """
        found = []
        for number in range(1, len(self._counts)):
            self._counts[number] += self._counts[number - 1]
        """,
    ),
    ("so_far += count  # buckets are cumulative", "so_far = count"),
    fact="the buckets are added up in place, so the next reading adds them up again",
    question="Nothing happens between two readings. What does the first one change in your counts?",
)
known.change(
    "counts-of-each-bucket",
    ("so_far += count  # buckets are cumulative", "so_far = count"),
    ('{label}}} {so_far}"]', '{label}}} {sum(self._counts)}"]'),
    fact="a bucket counts only its own interval instead of everything up to its bound",
    question="What does le stand for?",
)
known.change(
    "bound-belongs-above",
    ("bisect_left(self._bounds, seconds)", "sum(bound <= seconds for bound in self._bounds)"),
    fact="a time equal to a bucket's bound is counted in the next bucket",
    question="Is 0.25 at most 0.25?",
)
known.change(
    "no-bucket-for-the-rest",
    ('zip((*self._bounds, "+Inf"), self._counts, strict=True)', "zip(self._bounds, self._counts, strict=False)"),
    fact="times above the last bound are not counted",
    question="In which bucket is a request that waited two minutes?",
)
known.change(
    "first-tokens-kept",
    ("self._first.pop(request, None)\n", ""),
    fact="the times of first tokens are kept after their requests have left",
    question="After a request has left, which of your tables still contain it?",
)
known.change(
    "arrivals-kept",
    ("self._arrivals.pop(request, None)\n", ""),
    fact="the arrival times are kept after their requests have left",
    question="After a request has left, which of your tables still contain it?",
)
known.change(
    "queued-again",
    ("if request in self._queued:\n    self._queued.remove(request)\n", "if request in self._arrivals:\n"),
    fact="a request that is admitted again after a preemption has a second queue time",
    question="When did the user of a preempted request stop waiting in the queue?",
)
known.change(
    "latency-of-the-tokens",
    ("self._times[LATENCY].add(now - self._arrivals[request])", "self._times[LATENCY].add(now - began)"),
    fact="the latency is measured from the first token, not from the arrival",
    question="A user waits 8 s for the first token and 1 s for the rest. How long did the request take?",
)
known.change(
    "labels-as-they-are",
    ('model_name.replace("\\\\", r"\\\\").replace(\'"\', r"\\"").replace("\\n", r"\\n")', "model_name"),
    fact="quotes and backslashes in the label's value are not escaped",
    question='The model is called "my model", with the quotes. Where does its label end?',
)
known.change(
    "two-lines-in-a-label",
    ('.replace("\\n", r"\\n")', ""),
    fact="a newline in the label's value is not escaped",
    question="A model's name has a newline. On which line does its label end?",
)
known.change(
    "backslashes-escaped-last",
    (
        'model_name.replace("\\\\", r"\\\\").replace(\'"\', r"\\"").replace("\\n", r"\\n")',
        'model_name.replace(\'"\', r"\\"").replace("\\n", r"\\n").replace("\\\\", r"\\\\")',
    ),
    fact="backslashes are escaped last, so those of the other escapes are doubled",
    question='What becomes of the backslash in \\" when every backslash is doubled?',
)
known.change(
    "six-digits",
    ('{name}{{{self._label}}} {value}"', '{name}{{{self._label}}} {value:g}"'),
    ('_sum{{{label}}} {self._sum}"', '_sum{{{label}}} {self._sum:g}"'),
    fact="numbers are rounded to six digits",
    question="A server has generated 1,234,567 tokens. What does the format :g print?",
)
PREEMPTED = "self._counts[PREEMPTIONS] += len(step.preempted)"
known.change(
    "preempted-starts-again",
    (PREEMPTED, f"{PREEMPTED}\nfor request in step.preempted:\n    self._first.pop(request, None)\n"),
    fact="a preempted request has a second TTFT, and its TPOT starts there",
    question="When does the user of a preempted request see its first token?",
)
known.change(
    "steps-for-tokens",
    ("self._counts[OUTPUT_TOKENS] += len(tokens)", "self._counts[OUTPUT_TOKENS] += bool(tokens)"),
    fact="a step counts as one token per request, however many it produced",
    question="A step produces three tokens for a request. By how much does the counter rise?",
)


@known.accepted("numbers without a class for histograms")
class WithoutAClass:
    def __init__(self, model_name, clock=time.perf_counter):
        for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
            model_name = model_name.replace(character, escaped)
        self.model, self.clock = model_name, clock
        self.seen = {}
        self.bounds = {TTFT: WAITING, TPOT: EACH_TOKEN, FIRST_STEP: WAITING, LATENCY: WHOLE_REQUEST}
        self.times = {name: [0] * (len(bounds) + 1) for name, bounds in self.bounds.items()}
        self.sums = dict.fromkeys(self.bounds, 0.0)
        self.total = {STEPS: 0, PREEMPTIONS: 0, PROMPT_TOKENS: 0, OUTPUT_TOKENS: 0, REFUSED: 0}
        self.reasons = {}

    def arrived(self, request):
        self.seen[request] = [self.clock(), None, 0, False]
        self.total[PROMPT_TOKENS] += len(request.prompt)

    def rejected(self):
        self.total[REFUSED] += 1

    def add(self, name, seconds):
        self.sums[name] += seconds
        for number, bound in enumerate((*self.bounds[name], float("inf"))):
            self.times[name][number] += seconds <= bound

    def stepped(self, step):
        now = self.clock()
        self.total[STEPS] += 1
        self.total[PREEMPTIONS] += len(step.preempted)
        for request in step.admitted:
            if (entry := self.seen.get(request)) and not entry[3]:
                entry[3] = True
                self.add(FIRST_STEP, now - entry[0])
        for chunk, new in zip(step.chunks, step.new, strict=True):
            self.total[OUTPUT_TOKENS] += len(new)
            entry = self.seen.get(chunk.request)
            if entry is None:
                continue
            if entry[1] is None:
                if new:
                    entry[1] = now
                    self.add(TTFT, now - entry[0])
            else:
                entry[2] += len(new)
            if chunk.request in step.finished:
                self.add(LATENCY, now - entry[0])
                if entry[2]:
                    self.add(TPOT, (now - entry[1]) / entry[2])

    def finished(self, request, reason):
        self.seen.pop(request, None)
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def family(self, name, kind, samples):
        text = f"# TYPE {name} {kind}\n# HELP {name} {HELP[name]}\n"
        for end, labels, value in samples:
            every = [*labels, f'model_name="{self.model}"']
            text += f"{name}{end}{{{','.join(every)}}} {value!r}\n"
        return text

    def exposition(self, others):
        text = ""
        for name, value in [*others.items(), *self.total.items()]:
            text += self.family(name, "counter" if "_total" in name else "gauge", [("", [], value)])
        ended = [("", [f'finished_reason="{why}"'], value) for why, value in self.reasons.items()]
        text += self.family(ENDED, "counter", ended)
        for name, bounds in self.bounds.items():
            samples = [
                ("_bucket", [f'le="{bound}"'], value)
                for bound, value in zip((*bounds, "+Inf"), self.times[name], strict=True)
            ]
            samples += [("_sum", [], self.sums[name]), ("_count", [], self.times[name][-1])]
            text += self.family(name, "histogram", samples)
        return text
