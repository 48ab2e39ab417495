"""Day 6's pictures: a draft of four tokens judged, what is left over where one is refused, and how long runs become."""

from html import escape

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, model, tokens_of
from tests.week1.formulas import softmax64
from tests.week1.reference_model import ReferenceModel, model64
from tests.week3.formulas_day6 import accept64

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.dev.book.drawing import Canvas, bars, lines
from tiny_llm_course.dev.book.drawing.canvas import FONT
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.testkit.rounding import Array64

# Drawn once by the draft model at temperature 1, and the numbers that judge it: one for each token, and one more, which
# was chosen so that the token that it picks is among the bars.
DRAFT = ".\nTom and Sue"
DRAWS = [0.35, 0.70, 0.95, 0.43, 0.42]
SHOWN = 6  # tokens in the bars
RATES, COUNTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (2, 4, 8)


def generated_parts() -> Parts:
    """The pictures and the table."""
    return _of_the_models() | {"lengths": lengths()}


def _of_the_models() -> Parts:
    prompt, whole = tokens_of(SENTENCE), tokens_of(SENTENCE + DRAFT)
    drafted = whole[len(prompt) :]
    checkpoint = load_checkpoint(MODELS / "tiny-qwen3-draft", mx.float32)
    small = ReferenceModel(checkpoint.config, checkpoint.weights)
    q, p = (softmax64(model64(np.array([whole]), each)[0, len(prompt) - 1 :], -1) for each in (small, model()))
    accepted, token = accept64(p, q[:-1], drafted, DRAWS)
    return {"judged": judged(p, q, drafted, accepted), "residual": residual(p[accepted], q[accepted], drafted, token)}


def judged(p: Array64, q: Array64, drafted: list[int], accepted: int) -> str:
    """A table: each drafted token, what both models give it, and what becomes of it."""
    lines = ["| drafted token | draft, q | target, p | p / q | number | so it |", "|---|--:|--:|--:|--:|---|"]
    for i, token in enumerate(drafted):
        ratio = p[i, token] / q[i, token]
        fate = "stands" if i < accepted else "is refused" if i == accepted else "does not count"
        numbers = f"{q[i, token]:.3f} | {p[i, token]:.3f} | {ratio:.2f} | {DRAWS[i]:.2f}"
        lines.append(f"| <code>{_word(token)}</code> | {numbers} | {fate} |")
    return "\n".join(lines) + "\n"


def residual(p: Array64, q: Array64, drafted: list[int], token: int) -> str:
    """The likeliest tokens of both models at the place of the refused one, and what p has over q."""
    rest = np.clip(p - q, 0, None)
    rest = rest / rest.sum()
    order = np.argsort(-np.maximum(np.maximum(p, q), rest), kind="stable")[:SHOWN]
    canvas, tall = Canvas(), SHOWN * (FONT + 8) + FONT + 26
    largest = max(float(each[order].max()) for each in (p, q, rest))
    headings = ("draft, q", "target, p", "p - q where that is above 0, made to sum to 1")
    for i, (row, heading) in enumerate(zip((q, p, rest), headings, strict=True)):
        values = {_plain(each): float(row[each]) for each in map(int, order)}
        bars(canvas, values, lambda x: f"{x:.3f}", "weights", y=i * tall, heading=heading, largest=largest)
    kept = float(np.minimum(p, q).sum())
    refused = drafted[2]
    about = "; ".join(f"{_plain(t)}: q {q[t]:.3f}, p {p[t]:.3f}, left over {rest[t]:.3f}" for t in map(int, order))
    caption = (
        f"Behind <i>{escape(SENTENCE)}. Tom</i>, the tokens of which the two models think most. "
        f"<code>{_word(refused)}</code> has been drafted too often: nothing of it is left over. The number "
        f"{DRAWS[-1]:.2f} picks <code>{_word(token)}</code>. "
        f"A token drafted here stands in {100 * kept:.0f} of 100 cases."
    )
    return canvas.figure("residual-3-6", "What a refused token leaves to the others", about, caption)


def lengths() -> str:
    """How many tokens a step gives, for each share of drafted tokens that stands."""
    canvas = Canvas()
    series = {f"{k} drafted": [(1 - a ** (k + 1)) / (1 - a) for a in RATES] for k in COUNTS}
    axes = "acceptance rate", "tokens a step gives"
    lines(canvas, RATES, series, axes, lambda x: f"{x:g}", logarithmic=False)
    about = "; ".join(f"{name}: from {each[0]:.2f} at 0.1 to {each[-1]:.2f} at 0.9" for name, each in series.items())
    caption = (
        "Long drafts are of use to those who are nearly always right. "
        "At a rate of 0.5 the eighth drafted token stands once in 256 times."
    )
    return canvas.figure("lengths-3-6", "Tokens that one step gives", about, caption)


def _plain(token: int) -> str:
    """A token as a name in a figure: a space is shown, and so is the end of a line."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    text: str = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json").decode([token])
    return text.replace(" ", "␣").replace("\n", "⏎")


def _word(token: int) -> str:
    return escape(_plain(token))
