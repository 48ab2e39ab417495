"""Day 5's figures: one layer, and what the course's model would predict if each of its layers were the last.

The predictions are a widget. They are computed in float64, so that they are the same on every machine.
"""

from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, model, streams_of, tokens_of
from tests.week1.formulas import linear64, rms_norm64, softmax64
from tests.week1.reference_model import block64

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, flow
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
BEST = 4  # words a position, each with its probability


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


def _added(before: Array64, after: Array64, layer: int) -> list[list[float]]:
    """Return the RMS of what attention and the MLP of a layer add, at each position."""
    silent = f"model.layers.{layer}.mlp.down_proj.weight"
    without = model().with_weights(**{silent: mx.zeros_like(model().weights[silent])})
    between = block64(before[None], without, "causal", layer)[0]
    halves = (between - before, after - between)
    return [[round(float(np.sqrt(np.mean(half[i] ** 2))), 2) for half in halves] for i in range(len(before))]


def _sizes(streams: list[Array64]) -> list[str]:
    return [number(float(np.sqrt(np.mean(stream * stream))), 1) for stream in streams]


def stream() -> str:
    """Draw one layer: the residual stream, and the two branches that add to it."""
    boxes: Boxes = {
        "x": ("x", "stream"),
        "norm1": "input_layernorm",
        "attention": "attention",
        "plus1": ("+", "stream"),
        "h": ("h", "stream"),
        "norm2": "post_attention_layernorm",
        "mlp": "MLP",
        "plus2": ("+", "stream"),
        "next": ("next layer", "stream"),
    }
    grid = [["x"], ["", "norm1"], ["", "attention"], ["plus1"], ["h"], ["", "norm2"], ["", "mlp"], ["plus2"], ["next"]]
    ways = [["x", "plus1", "h", "plus2", "next"], ["x", "norm1", "attention", "plus1"], ["h", "norm2", "mlp", "plus2"]]
    canvas = Canvas()
    flow(canvas, grid, boxes, [step for way in ways for step in pairwise(way)])
    about = (
        "The residual stream runs down the left. A branch from x goes through input_layernorm and attention, and its "
        "result is added to x, which gives h. A branch from h goes through post_attention_layernorm and the MLP, and "
        "its result is added to h."
    )
    return canvas.figure("stream-1-5", "One layer: the residual stream, and two branches that add to it", about)
