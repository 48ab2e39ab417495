"""Day 1's widget and figures: two masks and their combination, and attention from one sequence to another."""

import numpy as np
from book.generate.week1.heads import SENTENCE, example
from tests.week4.formulas_day1 import masked64

from tiny_llm_course.dev.book.drawing import Canvas, flow, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import Array64

TOKENS = SENTENCE.split()
PADDED = 2  # places in front of the second text
CELL, GAP, LARGE = 20.0, 24.0, 32.0  # pixels


def generated_parts() -> Parts:
    """Return the widget, with the figure of the masks as its still, and the other figure."""
    scores = [[round(float(x), 5) for x in row] for row in example().scores]
    return {
        "mask-editor": element("mask-editor", {"tokens": TOKENS, "scores": scores}, masks().rstrip()),
        "crossing": crossing(),
    }


def padded_weights() -> Array64:
    """Return the head's weights for the second sequence, whose first positions are masked padding."""
    size = len(TOKENS)
    visible = np.tril(np.ones((size, size))) * (np.arange(size) >= PADDED)
    eye = np.eye(size)
    return masked64(example().scores, eye, eye, bool_mask=visible, scale=1.0)


def masks() -> str:
    """Draw the causal and the padding mask of the second sequence, and the resulting weights of the head."""
    canvas, size = Canvas(), len(TOKENS)
    future = np.triu(np.ones((size, size), dtype=np.bool_), k=1)
    padding = np.broadcast_to(np.arange(size) < PADDED, (size, size))
    top = FONT + 8
    for i, (heading, hidden) in enumerate((("causal", future), ("padding", padding), ("both", future | padding))):
        x = i * (size * CELL + GAP)
        canvas.text(x + size * CELL / 2, FONT, heading, "small", "middle")
        squares(canvas, x, top, np.ones((size, size)), CELL, None, 1.5, hidden)
        canvas.rect(x, top, size * CELL, size * CELL, "axis")
    low = top + size * CELL + 18
    names = [TOKENS, ["-"] * PADDED + TOKENS[PADDED:]]
    kinds = ((example().weights, future), (padded_weights(), future | padding))
    for i, (words, (weights, hidden)) in enumerate(zip(names, kinds, strict=True)):
        x = i * (size * LARGE + GAP)
        for j, word in enumerate(words):
            canvas.text(x + (j + 0.5) * LARGE, low + SMALL, word, "small", "middle")
        squares(canvas, x, low + SMALL + 6, weights, LARGE, "weights", 1.0, hidden)
        canvas.rect(x, low + SMALL + 6, size * LARGE, size * LARGE, "axis")
    about = (
        f"Above are three grids of {size} x {size}: a causal mask, a padding mask over the first {PADDED} columns, and "
        f"both combined. Below are the weights of one head under two masks. Under the second, the first {PADDED} rows "
        f"are fully masked, and the others distribute their weight over the last {size - PADDED} keys."
    )
    caption = (
        f"Rows are queries, columns are keys, and a dot is a masked key. Above are the masks of the second sequence of "
        f"a batch, which is left-padded by {PADDED} tokens. Below on the left are the weights of week 1's head for "
        f"<i>{SENTENCE}</i>. On the right are the weights from the same scores under both masks, which mask the first "
        f"{PADDED} rows fully."
    )
    return canvas.figure("masks-4-1", "Two masks, their combination, and the resulting weights", about, caption)


def crossing() -> str:
    """Draw cross-attention, from the two sequences to the output."""
    boxes: dict[str, str | tuple[str, str]] = {
        "x": ("x (queries)\nB x L x E", "stream"),
        "memory": "memory\nB x S x M",
        "query": ("query\nB x H x L x D", "query"),
        "key": ("key\nB x H x S x D", "key"),
        "value": ("value\nB x H x S x D", "value"),
        "attention": ("masked attention\nB x H x L x D", "weights"),
        "join": "join\nB x L x (H·D)",
        "out": ("output\nB x L x E", "stream"),
    }
    grid = [["x", "memory", "memory"], ["query", "key", "value"], ["attention"] * 3, ["", "join", ""], ["", "out", ""]]
    arrows: list[tuple[str, ...]] = [
        ("x", "query", "wq"),
        ("memory", "key", "wk"),
        ("memory", "value", "wv"),
        ("query", "attention"),
        ("key", "attention"),
        ("value", "attention"),
        ("attention", "join"),
        ("join", "out", "wo"),
    ]
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows)
    about = (
        "wq projects x to queries, and wk and wv project the memory to keys and values. Masked attention combines "
        "the three in each head, the heads are joined, and wo projects the result."
    )
    caption = "Keys and values are computed from the memory alone, so they are the same for every query."
    return canvas.figure(
        "crossing-4-1", "Cross-attention: queries from one sequence, keys and values from another", about, caption
    )
