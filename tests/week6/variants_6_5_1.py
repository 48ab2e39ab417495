"""Known programs of task 6.5.1, the cost of a step."""

import mlx.core as mx
import numpy as np
from tests.week6.step_costs import BENT, MISLEADING, MODELS, SCENES, UNEVEN, chunks_of, recorded
from tiny_llm_solution.fleet.cost import StepCost, Work
from tiny_llm_solution.serving.request import Chunk, Request

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.5.1")


def works(program):
    return mx.array([[*program.work(chunks_of(rows, Request, Chunk))] for rows, _ in SCENES.values()])


def predicted(program, steps):
    """Return what a fitted model predicts of some steps, in ms."""
    model = program.fit([(Work(*work), seconds) for work, seconds in steps])
    asked = [(0, 0, 0), (64, 0, 0), (0, 8, 0), (0, 0, 4096), *(work for work, _ in steps[:9])]
    return mx.array([1e3 * model.seconds(Work(*work)) for work in asked])


NOISY = recorded(5, 40, MODELS["a small model on a CPU"], 0.3)
known.probe_table(
    works=works,
    bent=lambda program: predicted(program, BENT),
    misleading=lambda program: predicted(program, MISLEADING),
    uneven=lambda program: predicted(program, UNEVEN),
    noisy=lambda program: predicted(program, NOISY),
    exact=lambda program: predicted(program, recorded(2, 30, MODELS["arithmetic alone"])),
    refused=lambda program: refusals(
        lambda seconds: program.fit([(Work(3, 1, 4), each) for each in seconds]), [[], [0.0], [0.5, -1.0], [0.5]]
    ),
)


@known.sized("fit: 4,000 steps")
def sized(program):
    steps = [(Work(*work), seconds) for work, seconds in recorded(0, 4000, MODELS["a small model on a CPU"], 0.2)]
    return lambda: program.fit(steps)


DIVIDED = "np.array([(1, *work) for work, _ in steps]) / measured[:, None]"
EVERY_SET = "(list(c) for n in range(1, 5) for c in itertools.combinations(range(4), n))"
KEPT = "if rank == len(chosen) and part.min() >= 0 and error < best:"

known.change(
    "absolute-error",
    (DIVIDED, "np.array([(1.0, *work) for work, _ in steps])"),
    (
        "np.linalg.lstsq(terms[:, chosen], np.ones(len(steps)), rcond=None)",
        "np.linalg.lstsq(terms[:, chosen], measured, rcond=None)",
    ),
    ("error = np.sum((terms[:, chosen] @ part - 1) ** 2)", "error = np.sum((terms[:, chosen] @ part - measured) ** 2)"),
    fact="the squared error in seconds is minimal, not the relative one, so that long steps alone decide",
    question="A step of 1 ms is predicted as 3 ms. How much does that add to your sum, and how much should it?",
)
known.change(
    "negative-allowed",
    (EVERY_SET, "([0, 1, 2, 3],)"),
    (KEPT, "if error < best:"),
    fact="coefficients may be negative",
    question="According to your model, a step with more requests is faster. Would you plan a fleet with it?",
)
known.change(
    "clipped",
    (EVERY_SET, "([0, 1, 2, 3],)"),
    (KEPT, "if error < best:"),
    ("found[chosen] = part", "found[chosen] = np.maximum(part, 0)"),
    fact="negative coefficients are set to 0 after the fit, and the others stay as they are",
    question="One coefficient was -1 ms and is 0 now. What do the others still make up for?",
)
known.change(
    "output-decodes",
    ("chunk.start >= len(chunk.request.prompt)", "chunk.request.output"),
    fact="a token decodes if its request has output, which the end of a prompt has after its step",
    question="The work is counted after the step. Which requests have output then?",
)
known.change(
    "one-token-decodes",
    ("len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt)", "len(chunk.tokens) == 1"),
    fact="every chunk of one token counts as decoding, also the end of a prompt",
    question="A prompt of 17 tokens has 16 of them cached. What does its chunk do?",
)
known.change(
    "last-prompt-token-decodes",
    ("chunk.start >= len(chunk.request.prompt)", "chunk.start >= len(chunk.request.prompt) - 1"),
    fact="the last token of a prompt counts as decoding if it is alone in its chunk",
    question="A prompt has 17 tokens. At which position does its output begin?",
)
known.change(
    "recomputed-output-decodes",
    ("len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt)", "chunk.start >= len(chunk.request.prompt)"),
    fact="a chunk of several tokens in the output counts as decoding, as after a preemption",
    question="A preempted request recomputes three tokens of its output in one step. How many tokens is that?",
)
known.change(
    "decoding-reads-alone",
    (
        "cached += chunk.start",
        "cached += chunk.start * (len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt))",
    ),
    fact="cached tokens of chunks that prefill are not counted",
    question="The second half of a prompt is prefilled. Which keys does its attention read?",
)
known.change(
    "cached-after",
    ("cached += chunk.start", "cached += chunk.end"),
    fact="the step's own tokens count as cached",
    question="A prompt of five tokens is computed in one step. How many of them were cached before?",
)
known.change(
    "decoding-tokens-prefill",
    ("decoding += 1", "decoding += 1\nprefilled += 1"),
    fact="the token of a decoding request counts as prefilled as well",
    question="How many terms of your model pay for the token of a request that decodes?",
)
known.change(
    "base-not-weighted",
    (DIVIDED, "np.array([(1, *work) for work, _ in steps]) / np.insert(measured[:, None] * np.ones(3), 0, 1, axis=1)"),
    fact="the constant is not divided by the measured seconds, so that it is a share of each step and no duration",
    question="You divide each row by its seconds. What becomes of the 1 in it?",
)
known.change(
    "no-base",
    (
        "for n in range(1, 5) for c in itertools.combinations(range(4), n)",
        "for n in range(1, 4) for c in itertools.combinations(range(1, 4), n)",
    ),
    fact="the model has no constant: a step without work takes no time",
    question="One request decodes alone. Which bytes does the step read that eight requests would share?",
)
known.change(
    "negative-duration",
    (
        "if (shortest := min(seconds for _, seconds in steps)) <= 0:",
        "if (shortest := min(seconds for _, seconds in steps)) == 0:",
    ),
    fact="a negative duration is accepted",
    question="The clock was set back during a step. What will the fit make of it?",
)
known.change(
    "dropped-one-by-one",
    (EVERY_SET, "[left := [0, 1, 2, 3]] * 4"),
    (
        KEPT,
        "if part.min() < 0:\n    left.pop(int(part.argmin()))\nif part.min() >= 0 and error < best:",
    ),
    fact="the term with the most negative coefficient is dropped until none is negative, and no dropped term returns",
    question="You have dropped two terms, one after the other. Can the best model have the first one?",
)


@known.accepted("coordinate descent")
class Descent:
    work = staticmethod(StepCost.work)

    def __init__(self, *coefficients):
        self.base, self.prefilled, self.decoding, self.cached = coefficients

    def seconds(self, work):
        return float(np.dot((self.base, self.prefilled, self.decoding, self.cached), (1, *work)))

    @classmethod
    def fit(cls, steps):
        if not steps or any(seconds <= 0 for _, seconds in steps):
            raise ValueError(f"durations {[seconds for _, seconds in steps if seconds <= 0]}")
        terms = np.array([[1 / seconds, *(count / seconds for count in work)] for work, seconds in steps])
        scale = np.array([max(column.max(), 1e-300) for column in terms.T])
        terms = terms / scale
        square, target, found = terms.T @ terms, terms.sum(axis=0), np.zeros(4)
        for _ in range(200_000):  # exact along one coordinate at a time, and never below 0
            before = found.copy()
            for n in range(4):
                if square[n, n]:
                    found[n] = max(0.0, found[n] + (target[n] - square[n] @ found) / square[n, n])
            if np.abs(found - before).max() <= 1e-15 * np.abs(found).max():
                break
        return cls(*(found / scale).tolist())


known.accepted_change(
    "two passes over the chunks",
    (
        "prefilled = decoding = cached = 0",
        "chunks = list(chunks)\nprefilled = decoding = 0\ncached = sum(chunk.start for chunk in chunks)",
    ),
    ("cached += chunk.start\n", ""),
)
known.written(
    "with a boolean",
    (
        "if len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt):",
        "decodes = len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt)\nif decodes:",
    ),
)
