"""Day 7's figures: next-token probabilities at three temperatures, and after each filter."""

import json
import re
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week1.formulas import softmax64

from tiny_llm_course.dev.book.drawing import Canvas, bars, matrix
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts, present

LIKELIEST, TEMPERATURES = 6, (0.5, 1, 2)  # words, and how bold a choice is
# How many continuations of the prompt the widget has a bar for, and how far a logit may be off on another machine.
PROMPT, SHOWN, CLOSE = "That is a blue", 12, 0.01


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"filters": filters(), "temperatures": temperatures(), "sampling-sliders": sampling_sliders()}


def filters() -> str:
    """Draw the probabilities of day 7's five words after each of the solution's filters."""
    from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p, penalize_repetition

    words, logits = ("blue", "car", "dog", "is", "bird"), mx.array([[1.5, 0.0, 2.0, -1.0, 1.0]])
    left = {
        "no filter": logits,
        "top-k 2": keep_top_k(logits, 2),
        "top-p 0.9": keep_top_p(logits, 0.9),
        "min-p 0.1": keep_min_p(logits, 0.1),
        "penalty 1.5": penalize_repetition(logits, [[0, 3]], 1.5),
    }
    shares = np.array([softmax64(np.array(row[0], dtype=np.float64), -1) for row in left.values()])
    canvas = Canvas()
    matrix(canvas, shares, list(left), words, "logits", digits=3, hidden=shares == 0)
    rows = (
        f"{name}: {', '.join(f'{word} {number(p, 3)}' for word, p in zip(words, row, strict=True))}."
        for name, row in zip(left, shares, strict=True)
    )
    title = "Probabilities of five words after each filter"
    caption = "Each square is a probability after a filter or the penalty (row). A dot is a word that a filter removes."
    return canvas.figure("filters-1-7", title, " ".join(rows), caption)


def temperatures() -> str:
    """Draw the likeliest next tokens at three temperatures."""
    data = next_token_logits()
    logits = np.array(data["logits"])
    canvas = Canvas()
    said: list[str] = []
    words = [token.replace("\N{OPEN BOX}", "").strip() or "(a space)" for token in data["tokens"][:LIKELIEST]]
    words.append(f"{len(logits) - LIKELIEST:,} others")
    charts: dict[str, dict[str, float]] = {}
    for T in TEMPERATURES:
        share = softmax64(logits / T, -1)
        numbers = [*share[:LIKELIEST].tolist(), float(share[LIKELIEST:].sum())]
        heading = f"temperature {T}" + (": logits unchanged" if T == 1 else "")
        charts[heading] = dict(zip(words, numbers, strict=True))
    for heading, named in charts.items():
        bars(
            canvas,
            named,
            lambda p: number(p, 3),
            "logits",
            y=canvas.bottom + 12 * bool(said),
            heading=heading,
            largest=max(p for chart in charts.values() for p in chart.values()),
        )
        said.append(f"{heading}: " + ", ".join(f"{token} {number(p, 3)}" for token, p in named.items()) + ".")
    title = f"Next-token probabilities after “{PROMPT}”, by the course's model"
    caption = "Each bar is a token's probability after the same logits are divided by the temperature."
    return canvas.figure("temperatures-1-7", title, " ".join(said), caption)


def sampling_sliders() -> str:
    """Return the likeliest tokens without a filter, and after each filter."""
    from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p

    data = next_token_logits()
    logits = mx.array([data["logits"]])
    columns = {
        "no filter": logits,
        "temperature 0.5": logits / 0.5,
        "top-k 5": keep_top_k(logits, 5),
        "top-p 0.5": keep_top_p(logits, 0.5),
        "min-p 0.5": keep_min_p(logits, 0.5),
    }
    shares = [softmax64(np.array(column[0], dtype=np.float64), -1) for column in columns.values()]
    rows = [
        [token, number(data["logits"][i]), *(number(share[i], 3) for share in shares)]
        for i, token in enumerate(data["tokens"][:SHOWN])
    ]
    rows.append([f"{logits.size - SHOWN:,} others", "", *(number(share[SHOWN:].sum(), 3) for share in shares)])
    caption = f"The likeliest tokens after “{PROMPT}”, by the course's model"
    return element("sampling-sliders", data, table(caption, ["token", "logit", *columns], rows))


def next_token_logits() -> dict[str, Any]:
    """Return all logits after the prompt in descending order, and the texts of their tokens; a space is shown as ␣.

    Machines differ in the last digits, so the logits in the book stay as long as they are close.
    """
    script = re.search(r"<script[^>]*>(.*)</script>", present("1.7", "sampling-sliders"))
    old: dict[str, Any] = json.loads(script[1]) if script else {}
    from tiny_llm_course.engine.engine import load_engine

    engine = load_engine(None, solution=True, dtype="float32", stage="kv-cache")
    logits = np.array(engine.model(mx.array([engine.encode(PROMPT)]))[0, -1].astype(mx.float32), dtype=np.float64)
    order = np.argsort(-logits, kind="stable")
    found = logits[order]
    if (
        (old.get("prompt"), old.get("shown")) == (PROMPT, SHOWN)
        and len(old["logits"]) == len(found)
        and np.allclose(old["logits"], found, 0, CLOSE)
    ):
        return old
    texts = [visible(engine.tokenizer.decode([int(token)])) for token in order]
    return {"prompt": PROMPT, "shown": SHOWN, "tokens": texts, "logits": [round(float(logit), 3) for logit in found]}
