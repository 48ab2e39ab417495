"""Day 5's figures and widget: a chat example, an adapter's matrices beside W, its answers, and the updates' ranks.

All numbers are from models/good-night, which `models/fine_tune.py` made.
"""

import functools
import json
from typing import Any

import numpy as np
from book.generate.week1.heads import model
from tests.week5.chats import chatml, conversation

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, bars, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST, width_of
from tiny_llm_course.dev.book.html import element, number, quotes, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.testkit.rounding import Array64, to_float64

FOLDER = MODELS / "good-night"
SHOWN, CORNER = "model.layers.3.self_attn.q_proj", 16
THING = "cow"  # whose stories the chapter quotes
RANKS = (1, 2, 4, 8, 16, 32, 64)


def generated_parts() -> Parts:
    """Return the figures, the answers and the widget."""
    return {
        "update": update(),
        "example": example(),
        "answers": answers(("before", "adapter")),
        "broken-answers": answers(("alpha forgotten", "alpha not divided")),
        "counts": counts(),
        "lora-rank": lora_rank(),
    }


@functools.cache
def record() -> dict[str, Any]:
    """Return what the fine-tuning recorded."""
    found: dict[str, Any] = json.loads((FOLDER / "record.json").read_text(encoding="utf-8"))
    return found


@functools.cache
def matrices() -> tuple[Array64, Array64, Array64, float]:
    """Return W, A and B of the projection that is shown, and alpha / r."""
    from tiny_llm_solution.lora.files import load_adapter

    adapter = load_adapter(FOLDER)
    a, b = (to_float64(adapter.weights[f"{SHOWN}.lora_{x}"]) for x in "ab")
    layer, name = SHOWN.removeprefix("model.layers.").split(".", 1)
    return to_float64(model().layer(int(layer))[f"{name}.weight"]), a, b, adapter.scale


def update() -> str:
    """Draw a corner of W, and of the update as the product of B and A."""
    w, a, b, scale = matrices()
    rank, part = len(a), slice(CORNER)
    whole = scale * b @ a
    cell = 8.0
    side, thin = CORNER * cell, rank * cell

    def draw(canvas: Canvas) -> None:
        y = 2 * FONT
        gap = 26.0
        canvas.text(0, FONT, "W")
        squares(canvas, 0, y, w[part, part], cell, None, float(np.abs(w).max()))
        canvas.rect(0, y, side, side, "frame")
        x, down = (side + 2 * gap, 0.0) if canvas.width > WIDEST else (0.0, side + FONT + 22)
        canvas.text(x, down + FONT, "B")
        squares(canvas, x, y + down, b[part], cell, None, float(np.abs(b).max()))
        canvas.rect(x, y + down, thin, side, "frame")
        canvas.text(x + thin + gap, down + FONT, "A")
        squares(canvas, x + thin + gap, y + down, a[:, part], cell, None, float(np.abs(a).max()))
        canvas.rect(x + thin + gap, y + down, side, thin, "frame")
        x += thin + 2 * gap + side if canvas.width > WIDEST else 0
        at = (x, down) if canvas.width > WIDEST else (side + gap, 0.0)
        canvas.text(at[0], at[1] + FONT, f"{number(scale, 0)} B A")
        squares(canvas, at[0], at[1] + y, whole[part, part], cell, None, float(np.abs(w).max()))
        canvas.rect(at[0], at[1] + y, side, side, "frame")

    share = np.linalg.norm(whole) / np.linalg.norm(w)
    about = (
        f"Four grids of squares: {CORNER} rows and columns of W, {CORNER} rows of B with {rank} columns, {rank} rows "
        f"of A, and {CORNER} rows and columns of their product, which has smaller squares than W."
    )
    caption = (
        f"A corner of the matrix W of <code>{SHOWN.removeprefix('model.')}</code>, {w.shape[0]} x {w.shape[1]}, and "
        f"the same corner of the adapter's update. B is {b.shape[0]} x {rank} and A is {rank} x {a.shape[1]}, so "
        f"together they have {a.size + b.size:,} elements, compared with {w.size:,} in W. W and the update are drawn "
        f"to the same scale; A and B each have a scale of their own. The norm of the update is {number(float(share))} "
        f"times the norm of W."
    )
    return at_both_widths(draw).figure("update-5-5", "A matrix and its low-rank update", about, caption)


def example() -> str:
    """Draw the tokens of a conversation, marking the learned ones."""
    from tiny_llm_solution.lora.sft import chat_example
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    end = tokenizer.special_tokens["<|im_end|>"]
    messages = conversation("Hi!", "Hello, frog!")
    tokens, targets = chat_example(messages, tokenizer, chatml, end)

    def words(token: int) -> str:
        return visible(tokenizer.decode([token])).replace("\N{MIDDLE DOT}", "\\n")

    def draw(canvas: Canvas) -> None:
        x, y, high = 0.0, 0.0, 46.0
        for token, target in zip(tokens, targets, strict=True):
            below = words(target) if target >= 0 else "\N{EN DASH}"
            wide = max(width_of(words(token)), width_of(below), 16.0) + 10
            if x + wide > canvas.width - 4:
                x, y = 0.0, y + high + 12
            canvas.rect(x, y, wide, 22, "frame", 3)
            canvas.text(x + wide / 2, y + 16, words(token), "", "middle")
            canvas.text(x + wide / 2, y + 38, below, "strong" if target >= 0 else "small", "middle")
            x += wide + 4

    learned = [words(target) for target in targets if target >= 0]
    about = f"{len(tokens)} tokens, of which {len(learned)} have a target: {', '.join(learned)}."
    caption = (
        f"The tokens of a conversation of two messages, in the format of the course's model. Below each token is its "
        f"target, the next token, or a dash if the position does not count in the loss. {len(learned)} of the "
        f"{len(tokens)} positions count."
    )
    return at_both_widths(draw).figure("example-5-5", "A conversation and its targets", about, caption)


def answers(which: tuple[str, ...]) -> str:
    """Quote answers to the same request."""
    found = []
    for name in which:
        (text,) = (each["text"] for each in record()["answers"][name] if each["thing"] == THING)
        shown = text if len(text) < 260 else text[:240].rsplit(" ", 1)[0] + " ..."
        if shown != text and text.endswith("!"):  # it has an end of its own
            shown += text[-40:][text[-40:].index(" ") :]
        heading = {
            "before": "before fine-tuning",
            "adapter": "with the adapter",
            "alpha not divided": "alpha not divided by r",
        }.get(name, name)
        if name == "alpha forgotten":
            heading = "alpha / r left out"
        found.append((heading, " ".join(shown.split())))
    return quotes(found)


def counts() -> str:
    """Draw how many answers end as they should."""
    found = record()["answers"]
    names = {"before": "before", "adapter": "adapter", "full": "all weights"}
    styles = {words: sum(each["style"] for each in found[name]) for name, words in names.items()}
    ends = {words: sum(each["ends"] for each in found[name]) for name, words in names.items()}
    total = len(found["before"])

    def draw(canvas: Canvas) -> None:
        bars(canvas, styles, lambda n: f"{n:.0f}", heading="Answers that end with Good night, little", largest=total)
        bars(
            canvas,
            ends,
            lambda n: f"{n:.0f}",
            y=canvas.bottom + 14,
            heading="... and name the requested thing",
            largest=total,
        )

    told = "; ".join(f"{name}: {styles[name]} and {ends[name]}" for name in styles)
    caption = (
        f"Greedy answers to {total} requests for stories about things that were not in the training data. The bars "
        f"show how many answers end with <em>Good night, little</em>, and how many of these name the requested thing. "
        f"Both fine-tuned models were trained for {record()['steps']} steps on {record()['examples']} examples."
    )
    about = f"Bars for three models, each with {total} answers: {told}."
    return at_both_widths(draw).figure("counts-5-5", "Answers in the new style", about, caption)


def lora_rank() -> str:
    """Return the widget, and a table of the share that each rank keeps."""
    data, rows = [], []
    for name, found in record()["updates"].items():
        outputs, inputs = found["shape"]
        layer, _, part = name.partition(".")
        title = f"layer {layer}, {part.rpartition('.')[2]}"
        data.append({
            "name": title, "outputs": outputs, "inputs": inputs,
            "singular": found["singular"], "squares": found["squares"],
        })  # fmt: skip
        squared = np.cumsum(np.square(found["singular"])) / found["squares"]
        rows.append([title, *(f"{100 * squared[r - 1]:.0f} %" for r in RANKS)])
    head = ["matrix", *(f"r = {r}" for r in RANKS)]
    return element(
        "lora-rank", {"matrices": data}, table("Share of an update's squared norm that rank r keeps", head, rows)
    )
