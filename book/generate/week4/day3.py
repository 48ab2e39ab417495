"""Day 3's figure and widget: one head's weights with all keys and with a window; the slots of a rolling cache."""

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCES, SHOWN, heads_of, model
from tests.week1.formulas import softmax64
from tests.week4.formulas_day3 import window64

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts

LONGER = SENTENCES[2]
WINDOW, SINKS, BLOCK = 3, 1, 3
GAP, NAMES, LARGEST = 24.0, 52.0, 24.0  # pixels: between the tables, for the tokens' names, and a cell at most
DRAWN, LONG = 20, 4096  # tokens in the widget, and in the sequence whose full cache it names


def generated_parts() -> Parts:
    """Return the figure and the widget."""
    return {"window": window(), "rolling-cache": rolling_cache()}


def window() -> str:
    """Draw the weights of the same scores under two masks; a frame marks the blocks computed for the second."""
    layer, head = SHOWN
    scores = heads_of(LONGER)[layer].scores[head]
    size, seen = len(scores), list[int]()
    assert size == len(LONGER.split())  # a token per word

    def draw(canvas: Canvas) -> None:
        margin = NAMES if canvas.width > WIDEST else 0.0
        cell = min(LARGEST, (canvas.width - GAP - 2 * margin - 8) / (2 * size))
        seen.clear()
        for number, (width, sinks, heading) in enumerate(
            ((None, 0, "all keys"), (WINDOW, SINKS, f"window {WINDOW}, {SINKS} sink"))
        ):
            mask, top = window64(size, size, width, sinks), FONT + 10
            left = margin + number * (size * cell + GAP + margin)
            hidden = np.isinf(mask)
            seen.append(int((~hidden).sum()))
            canvas.text(left, FONT, heading, "strong")
            for row, word in enumerate(LONGER.split() if margin else ()):
                canvas.text(left - 8, top + (row + 0.7) * cell, word, "small", "end")
            canvas.rect(left - 1, top - 1, size * cell + 2, size * cell + 2, "axis")
            squares(canvas, left, top, softmax64(scores + mask, -1), cell, "weights", 1.0, hidden)
            for first in range(0, size, BLOCK) if sinks else ():
                last, begin = min(size, first + BLOCK), max(0, first - WINDOW + 1)
                begin = 0 if begin <= SINKS else begin  # the window reaches the sinks
                height = (last - first) * cell
                canvas.rect(left + begin * cell, top + first * cell, (last - begin) * cell, height, "frame", 3)
                if begin:
                    canvas.rect(left, top + first * cell, SINKS * cell, height, "frame", 3)

    canvas = at_both_widths(draw)
    about = (
        f"Two tables of {size} x {size} weights. In the first, every query attends to all keys up to its own, "
        f"with {seen[0]} weights in total. In the second, it attends to a band of {WINDOW} keys and to the first "
        f"column, with {seen[1]} weights in total."
    )
    caption = (
        f"One head's attention weights for the {size} tokens of <i>{LONGER}</i>: rows are queries, columns are keys, "
        f"and dots are masked keys. On the right, rows from the fifth on are a softmax over fewer scores, so visible "
        f"keys have more weight. Only the framed tiles, of {BLOCK} queries each, are computed."
    )
    return canvas.figure("window-4-3", "Full causal attention, and a sliding window with a sink", about, caption)


def rolling_cache() -> str:
    """Return the widget, with what a token takes in one layer in bfloat16, and a table of a ring's slots."""
    from tiny_llm_solution.local_attention.cache import RollingCache

    config, width, sinks = model().config, 4, 1
    cache, slots, rows = RollingCache(width, sinks), width + sinks, []
    for token in range(2 * slots):
        new = mx.full((1, 1, 1, 1), token)
        keys = cache.update_and_fetch(new, new)[0].flatten().tolist()
        rows.append([str(token), *(str(key) for key in keys), *[""] * (slots - len(keys))])
    data = {
        "tokens": DRAWN,
        "bytes": 2 * config["num_key_value_heads"] * config["head_dim"] * mx.bfloat16.size,
        "long": LONG,
    }
    head = ["after token", *("sink" if slot < sinks else f"slot {slot}" for slot in range(slots))]
    return element("rolling-cache", data, table(f"Tokens in the slots, with a window of {width}", head, rows))
