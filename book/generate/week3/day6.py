"""Day 6's figures and widget: a verified draft, the residual after a rejection, and the tokens per step."""

from html import escape

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, model, tokens_of
from tests.week1.formulas import softmax64
from tests.week1.reference_model import ReferenceModel, model64
from tests.week3.formulas_day6 import accept64

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.testkit.rounding import Array64

# Sampled once from the draft model at temperature 1, and the uniform samples that verify it: one for each token, and
# one more, chosen so that the token that it selects is among the bars.
DRAFT = ".\nTom and Sue"
DRAWS = [0.35, 0.70, 0.95, 0.43, 0.42]
SHOWN = 6  # tokens in the bars
RATES, COUNTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (2, 4, 8)


def generated_parts() -> Parts:
    """Return the figures and the table."""
    return _of_the_models() | {"lengths": lengths()}


def _of_the_models() -> Parts:
    prompt, whole = tokens_of(SENTENCE), tokens_of(SENTENCE + DRAFT)
    drafted = whole[len(prompt) :]
    checkpoint = load_checkpoint(MODELS / "tiny-qwen3-draft", mx.float32)
    small = ReferenceModel(checkpoint.config, checkpoint.weights)
    q, p = (softmax64(model64(np.array([whole]), each)[0, len(prompt) - 1 :], -1) for each in (small, model()))
    accepted, token = accept64(p, q[:-1], drafted, DRAWS)
    return {
        "tested": tested(p, q, drafted, accepted),
        "judged": judged(p, q, drafted, accepted),
        "residual": residual(p[accepted], q[accepted], drafted, token),
        "draft-accept": draft_accept(p[accepted], q[accepted]),
    }


def tested(p: Array64, q: Array64, drafted: list[int], accepted: int) -> str:
    """Draw each draft token's probability of acceptance as a bar, and its uniform sample as a mark on it."""
    chances = [min(1.0, float(p[i, token] / q[i, token])) for i, token in enumerate(drafted)]
    fates = ["accepted"] * accepted + ["rejected"] + ["discarded"] * (len(drafted) - accepted - 1)

    def draw(canvas: Canvas) -> None:
        left, right = 48.0, canvas.width - 92
        across = right - left
        for i, (token, chance, fate) in enumerate(zip(drafted, chances, fates, strict=True)):
            y = i * 34.0
            canvas.text(0, y + 15, _plain(token), "strong")
            canvas.rect(left, y, across, 20, "axis", 3)
            untested = fate == "discarded"
            canvas.rect(left, y, across * chance, 20, "frame" if untested else "fill series-1", 3)
            if not untested:
                at = left + across * DRAWS[i]
                canvas.path([(at, y - 5), (at, y + 25)], "line")
                canvas.circle(at, y - 5, 3, "dot")
            canvas.text(right + 12, y + 15, fate, "strong" if fate == "rejected" else "")
        y = len(drafted) * 34.0
        canvas.path([(left, y), (right, y)], "axis")
        for tick in (0, 0.5, 1):
            canvas.path([(left + across * tick, y), (left + across * tick, y + 5)], "axis")
            canvas.text(left + across * tick, y + 18, f"{tick:g}", "small", "middle")
        canvas.text(left + across * 0.75, y + 18, "u, and p / q", "small", "middle")

    about = "; ".join(
        f"{_plain(token)}: accepted with probability {chance:.2f}, u = {u:.2f}, {fate}"
        for token, chance, u, fate in zip(drafted, chances, DRAWS, fates, strict=False)
    )
    caption = (
        f"The four draft tokens after <i>{escape(SENTENCE)}</i>, in order. Each bar is the probability that a token is "
        "accepted, which is the smaller of p / q and 1. The line with a dot is u, and the token is accepted if the "
        "line is inside the bar. The token with the empty bar was never tested."
    )
    return at_both_widths(draw).figure("tested-3-6", "The test of four draft tokens", about, caption)


def judged(p: Array64, q: Array64, drafted: list[int], accepted: int) -> str:
    """Return a table of the draft tokens: both models' probabilities, and what becomes of each."""
    lines = ["| draft token | draft, q | target, p | p / q | u | result |", "|---|--:|--:|--:|--:|---|"]
    for i, token in enumerate(drafted):
        ratio = p[i, token] / q[i, token]
        fate = "accepted" if i < accepted else "rejected" if i == accepted else "discarded"
        numbers = f"{q[i, token]:#.3g} | {p[i, token]:#.3g} | {ratio:.2f} | {DRAWS[i]:.2f}"
        lines.append(f"| <code>{_word(token)}</code> | {numbers} | {fate} |")
    return "\n".join(lines) + "\n"


def residual(p: Array64, q: Array64, drafted: list[int], token: int) -> str:
    """Draw both models' likeliest tokens at the rejected position, and the residual of p over q."""
    rest = np.clip(p - q, 0, None)
    rest = rest / rest.sum()
    order, refused = np.argsort(-np.maximum(np.maximum(p, q), rest), kind="stable")[:SHOWN], drafted[2]
    series = {
        "draft, q": (q, "hollow series-0"),
        "target, p": (p, "fill series-0"),
        "residual": (rest, "fill series-1"),
    }
    largest = max(float(each[order].max()) for each, _ in series.values())

    def draw(canvas: Canvas) -> None:
        left, x = 64.0, 64.0
        across = canvas.width - left - 50
        for name, (_, looks) in series.items():
            canvas.rect(x, 2, 12, 12, looks)
            canvas.text(x + 18, 13, name, "small")
            x += 96
        for i, token in enumerate(map(int, order)):
            top = 26 + i * 56.0
            canvas.text(left - 10, top + 28, _plain(token), "strong" if token == refused else "", "end")
            for j, (row, looks) in enumerate(series.values()):
                length = max(across * float(row[token]) / largest, 1)
                canvas.rect(left, top + 16 * j, length, 13, looks)
                canvas.text(left + length + 6, top + 16 * j + 11, f"{row[token]:.3f}", "small")

    kept = float(np.minimum(p, q).sum())
    about = "; ".join(f"{_plain(t)}: q {q[t]:.3f}, p {p[t]:.3f}, residual {rest[t]:.3f}" for t in map(int, order))
    caption = (
        f"Each bar is the probability of a next token after <i>{escape(SENTENCE)}. Tom</i>. The residual is "
        f"max(p \N{MINUS SIGN} q, 0), normalized. Only the most likely tokens are shown. "
        f"<code>{_word(refused)}</code> is more likely under the draft model than under the target model, so its "
        f"residual is 0. The uniform sample u = {DRAWS[-1]:.2f} selects <code>{_word(token)}</code> from "
        f"the residual. A draft token at this position is accepted with a probability of {100 * kept:.0f} %."
    )
    return at_both_widths(draw).figure(
        "residual-3-6", "The residual distribution after a rejected token", about, caption
    )


def draft_accept(p: Array64, q: Array64) -> str:
    """Return the widget over the likeliest tokens of both models and two groups of all others, and a table of them."""
    tokens = [int(token) for token in np.argsort(-np.maximum(p, q), kind="stable")[:SHOWN]]
    others = np.delete(np.arange(len(p)), tokens)
    groups = [*np.reshape(tokens, (-1, 1)), others[p[others] > q[others]], others[p[others] <= q[others]]]
    target, draft = (np.round([row[group].sum() for group in groups], 6) for row in (p, q))
    rest = np.clip(target - draft, 0, None) / np.clip(target - draft, 0, None).sum()
    names = [*map(_plain, tokens), "others, p > q", "others, p ≤ q"]
    rows = [[name, *(number(x, 3) for x in each)] for name, *each in zip(names, draft, target, rest, strict=True)]
    data = {"tokens": names, "target": target.tolist(), "draft": draft.tolist()}
    return element(
        "draft-accept",
        data,
        table("Both models and the residual, of these tokens", ["token", "draft, q", "target, p", "residual"], rows),
    )


def lengths() -> str:
    """Draw the tokens per step over the acceptance rate, for several draft lengths."""
    series = {f"{k} draft tokens": [(1 - a ** (k + 1)) / (1 - a) for a in RATES] for k in COUNTS}
    axes = "acceptance rate", "tokens per step"
    canvas = at_both_widths(lambda canvas: lines(canvas, RATES, series, axes, lambda x: f"{x:g}", logarithmic=False))
    about = "; ".join(f"{name}: from {each[0]:.2f} at 0.1 to {each[-1]:.2f} at 0.9" for name, each in series.items())
    caption = (
        "Each line is the mean number of tokens per step for one draft length. Long drafts pay off only at high "
        "acceptance rates. At a rate of 0.5, the eighth draft token is accepted only once in 256 times."
    )
    return canvas.figure("lengths-3-6", "Tokens per step at each acceptance rate", about, caption)


def _plain(token: int) -> str:
    """Return a token's text with visible spaces and newlines."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    text: str = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json").decode([token])
    return text.replace(" ", "␣").replace("\n", "⏎")


def _word(token: int) -> str:
    return escape(_plain(token))
