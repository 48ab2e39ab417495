"""Day 5's figures: one layer, and what the course's model would predict if each of its layers were the last.

The predictions are a widget. They are computed in float64, so that they are the same on every machine.
"""

from typing import Any

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, SHOWN, model, streams_of, tokens_of
from tests.week1.formulas import linear64, rms_norm64, softmax64
from tests.week1.reference_model import block64

from tiny_llm_course.dev.book.drawing import Canvas, squares
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.testkit.rounding import Array64, to_float64

SENTENCES = (
    SENTENCE,
    "Once upon a time there was a little",
    "The cat sat on the",
    "Tom was sad because he lost his",
    "She opened the box and found a",
)
LEVEL = 162.0  # pixels, from one vector of the stream to the next
BEST = 4  # words a position, each with its probability
NUMBERS = 3  # features of the stream whose values are shown


def generated_parts() -> Parts:
    """Return the widget and the figure."""
    return {"depth": depth(), "stream": stream()}


def depth() -> str:
    """Return the likeliest next tokens after each layer, at each position; for the running sentence as a table."""
    layers = range(model().config["num_hidden_layers"])
    names = ["embedding", *(f"layer {layer}" for layer in layers)]
    sentences = [_recorded(sentence) for sentence in SENTENCES]
    first = sentences[0]
    rows = [
        [name, *(position[0][0] for position in words), size]
        for name, words, size in zip(names, first["words"], _sizes(streams_of(SENTENCE)), strict=True)
    ]
    still = table("Likeliest next token after each layer", ["after", *first["tokens"], "RMS of all"], rows)
    return element("depth-words", {"depths": names, "sentences": sentences}, still)


def _recorded(sentence: str) -> dict[str, Any]:
    """Return a sentence's tokens, and for each depth and position the likeliest words and what each half added."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")

    def word(token: int) -> str:
        return visible(str(tokenizer.decode([token])))

    weights, eps = model().weights, model().config["rms_norm_eps"]
    embedding, norm = (to_float64(weights[f"model.{name}.weight"]) for name in ("embed_tokens", "norm"))
    streams, words = streams_of(sentence), []
    for stream in streams:
        shares = softmax64(linear64(rms_norm64(stream, norm, eps), embedding), -1)
        best = np.argsort(-shares, axis=-1, kind="stable")[:, :BEST]
        words.append(
            [[[word(int(t)), round(float(p[t]), 3)] for t in row] for row, p in zip(best, shares, strict=True)]
        )
    added = [_added(streams[layer], streams[layer + 1], layer) for layer in range(len(streams) - 1)]
    return {"tokens": [word(token) for token in tokens_of(sentence)], "words": words, "added": added}


def _between(before: Array64, layer: int) -> Array64:
    """Return the residual stream, L x E, after a layer's attention."""
    silent = f"model.layers.{layer}.mlp.down_proj.weight"
    without = model().with_weights(**{silent: mx.zeros_like(model().weights[silent])})
    between: Array64 = block64(before[None], without, "causal", layer)[0]
    return between


def _added(before: Array64, after: Array64, layer: int) -> list[list[float]]:
    """Return the RMS of what attention and the MLP of a layer add, at each position."""
    between = _between(before, layer)
    halves = (between - before, after - between)
    return [[round(float(np.sqrt(np.mean(half[i] ** 2))), 2) for half in halves] for i in range(len(before))]


def _sizes(streams: list[Array64]) -> list[str]:
    return [number(float(np.sqrt(np.mean(stream * stream))), 1) for stream in streams]


def stream() -> str:
    """Draw one layer: a token's residual stream, and the two branches that add to it."""
    layer, features, cell = SHOWN[0], 12, 10.0
    before, after = (streams_of(SENTENCE)[i][-1] for i in (layer, layer + 1))
    between = _between(streams_of(SENTENCE)[layer], layer)[-1]
    added = between - before, after - between
    largest = float(max(np.abs(x[:features]).max() for x in (before, between, after, *added)))
    canvas, left, band, right, wide = Canvas(), 34.0, features * cell + 10, 196.0, 172.0
    step = high = 26.0

    def vector(x: float, y: float, values: Array64) -> None:
        squares(canvas, x, y, values[None, :features], cell, "stream", largest)

    canvas.rect(left, 0, band, 2 * LEVEL + 30, "band role-stream")
    for i, (name, values) in enumerate((("x", before), ("h", between), ("x", after))):
        canvas.text(left - 10, i * LEVEL + 19, name, "strong role-stream", "end")
        vector(left + 5, i * LEVEL + 10, values)
    for i, (words, role, total) in enumerate((("attention", "role-weights", added[0]), ("MLP", "series-2", added[1]))):
        top, middle = i * LEVEL + 36, right + wide / 2
        boxes = (["input_layernorm", "post_attention_layernorm"][i], ""), (words, role)
        canvas.path([(left + band, top + high / 2), (right, top + high / 2)], "line role-stream", arrow=True)
        for j, (text, of) in enumerate(boxes):
            y = top + j * (high + step)
            for looks in ("band", "frame")[not j :]:
                canvas.rect(right, y, wide, high, f"{looks} {of}".strip(), 5)
            canvas.text(middle, y + 18, text, "strong" if j else "small", "middle")
            canvas.path([(middle, y + high), (middle, y + high + step)], "line", arrow=True)
        y = top + 2 * (high + step)
        vector(middle - features * cell / 2, y + 2, total)
        canvas.path([(middle - features * cell / 2 - 6, y + 7), (left + band + 9, y + 7)], "line", arrow=True)
        canvas.circle(left + band, y + 7, 8, "ring role-stream")
        canvas.text(left + band, y + 12, "+", "strong", "middle")
    about = (
        f"The residual stream of the last token runs down the left: x before layer {layer}, h after attention, and "
        "x after the MLP. A branch from x goes through input_layernorm and attention, and its result is added to x, "
        "which gives h. A branch from h goes through post_attention_layernorm and the MLP, and its result is added "
        "to h."
    )
    caption = (
        f"The first {features} features of <code>dog</code> in layer {layer} of the course's model, all at the same "
        "scale: the residual stream in the gray band, and beside it what each branch adds."
    )
    title = "One layer: the residual stream, and two branches that add to it"
    x, h, y = (np.round(vector[:NUMBERS], 2) for vector in (before, between, after))
    steps = {"x": x, "attention adds": h - x, "h": h, "the MLP adds": y - h, "x of the next layer": y}
    rows = [[name, *(number(value, 2) for value in values)] for name, values in steps.items()]
    caption_of = f"The first {NUMBERS} features of {SENTENCE.split()[-1]}"
    heads = ["vector", *(f"feature {i}" for i in range(NUMBERS))]
    return canvas.figure("stream-1-5", title, about, caption) + f"\n{table(caption_of, heads, rows)}\n"
