"""Day 7's figures and widget: online softmax over blocks, the tiles of the weights, and the Metal kernel's threads."""

import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, SHOWN, example, heads_of

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts

TOKENS = SENTENCE.split()
BLOCKS = ((0, 2), (2, 4), (4, 5))  # of the example's keys
LONGER, SIZE = SENTENCES[2], 4  # of the second picture
GROUPS, LANES, QUERIES, FEATURES = 4, 32, 16, 128  # of a threadgroup of the Metal kernel, and of a head
CELL, SMALL_CELL = 40.0, 20.0  # pixels


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"running": running(), "blocks": blocks(), "roles": roles(), "online-softmax": online_softmax()}


def running() -> str:
    """Draw the weights of the last query's keys after each block, relative to the largest score so far."""
    canvas, scores = Canvas(), example().scores[-1]
    for i, token in enumerate(TOKENS):
        canvas.text((i + 0.5) * CELL, SMALL, token, "small", "middle")
        canvas.text((i + 0.5) * CELL, 2 * SMALL + 6, f"{scores[i]:.2f}", "small mono", "middle")
    told, before, right = [], -np.inf, len(TOKENS) * CELL + 14
    for i, (first, last) in enumerate(BLOCKS):
        y = 2 * SMALL + 18 + i * (CELL + 16)
        largest = float(scores[:last].max())
        weights = np.exp(scores[None, :last] - largest)
        squares(canvas, 0, y, weights, CELL, "weights", 1.0)
        canvas.rect(first * CELL, y - 2, (last - first) * CELL, CELL + 3, "frame", 3)
        words = [f"largest {largest:.2f}", f"total {weights.sum():.2f}"]
        if i:
            words.append(f"earlier: times {np.exp(before - largest):.2f}")
        for j, each in enumerate(words):
            canvas.text(right, y + FONT + j * (FONT + 1), each, "small")
        told.append(f"after block {i + 1}: {', '.join(words)}")
        before = largest
    about = f"Three rows of squares, one for each block of keys; {'; '.join(told)}."
    caption = (
        "The scores of <code>dog</code>, from day 1 of week 1, arrive in blocks of two. Each square is a "
        "key's weight relative to the largest score so far, whose square fills its cell. The frame marks the latest "
        "block. A larger score scales all earlier weights down by the same factor. The last row, divided by the last "
        "total, is the softmax."
    )
    return canvas.figure("running-2-7", "Online softmax over blocks of scores", about, caption)


def blocks() -> str:
    """Draw a head's attention weights in blocks, only one of which is in memory at a time."""
    layer, head = SHOWN
    weights = heads_of(LONGER)[layer].weights[head]
    size = len(weights)
    canvas, hidden = Canvas(), np.triu(np.ones((size, size), dtype=np.bool_), k=1)
    skipped = 0
    for row in range(0, size, SIZE):
        for column in range(0, size, SIZE):
            height, width = min(SIZE, size - row), min(SIZE, size - column)
            place = column * SMALL_CELL, row * SMALL_CELL, width * SMALL_CELL, height * SMALL_CELL
            canvas.rect(*place, "axis")
            if column > row + height - 1:
                skipped += 1
                continue
            some = np.s_[row : row + height, column : column + width]
            squares(canvas, *place[:2], weights[some], SMALL_CELL, "weights", 1.0, hidden[some])
    canvas.rect(0, SIZE * SMALL_CELL, SIZE * SMALL_CELL, SIZE * SMALL_CELL, "frame", 3)
    count = -(-size // SIZE)
    about = (
        f"A table of {size} x {size} weights, with the upper right hidden, divided into {count} x {count} blocks. "
        f"{skipped} of them are empty, and one is framed."
    )
    caption = (
        f"Each square is one of a head's attention weights for the {size} tokens of <i>{LONGER}</i>, in blocks of "
        f"{SIZE}: rows are queries, columns are keys, and a dot is a masked key. Of this head, only the framed "
        f"block is in memory. Each row of blocks is processed from left to right, up to the diagonal. Empty blocks are "
        f"fully masked and never computed."
    )
    return canvas.figure("blocks-2-7", "Attention weights, one tile at a time", about, caption)


def roles() -> str:
    """Draw what one thread of the Metal kernel computes in both halves of a block."""
    lane, group, side, tall = 5, 1, 288.0, 9.0

    def half(canvas: Canvas, left: float, top: float, heading: str, columns: int, below: str) -> None:
        width = side / columns
        canvas.text(left, top + FONT, heading, "strong")
        top += FONT + 8
        for query in range(QUERIES):
            y = top + tall * query
            if query % GROUPS == group:
                canvas.rect(left, y, side, tall - 1, "fill series-1")
        for column in range(lane, columns, LANES):
            canvas.rect(left + width * column, top, width, tall * QUERIES - 1, "hollow")
            for query in range(group, QUERIES, GROUPS):
                canvas.rect(left + width * column, top + tall * query, width, tall - 1, "fill series-0")
        canvas.rect(left, top - 1, side, tall * QUERIES + 1, "frame", 2)
        canvas.text(left, top + tall * QUERIES + SMALL + 4, below, "small")

    def draw(canvas: Canvas) -> None:
        canvas.text(0, FONT + 8 + tall * 9, "queries", "small")
        half(canvas, 50, 0, "scores", LANES, f"{LANES} keys: lane {lane} has key {lane}")
        left, top = (50.0, canvas.bottom + 14) if canvas.width == WIDEST else (50 + side + 26, 0.0)
        if top:
            canvas.text(0, top + FONT + 8 + tall * 9, "queries", "small")
        some = ", ".join(str(feature) for feature in range(lane, FEATURES, LANES))
        half(canvas, left, top, "weighted values", FEATURES, f"{FEATURES} features: lane {lane} has {some}")

    mine = ", ".join(str(query) for query in range(group, QUERIES, GROUPS))
    about = (
        f"Two tables with {QUERIES} rows, the queries of a threadgroup. The first has a column per key, and the second "
        f"has a column per feature. SIMD-group {group} has rows {mine}. Its lane {lane} has one column of the first "
        f"table and {FEATURES // LANES} columns of the second."
    )
    caption = (
        f"The shaded rows are the queries {mine} of SIMD-group {group}. The outlines mark what lane {lane} reads from "
        f"the tile, which is one key and then some features of all values. The solid cells are what this thread "
        "computes. Between the halves, the lanes of a SIMD-group exchange their weights."
    )
    return at_both_widths(draw).figure(
        "roles-2-7", "What one thread computes, for scores and for values", about, caption
    )


def last_query() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the tokens of `LONGER`, and the scores and values, D numbers each, of the shown head's last query."""
    layer, head = SHOWN
    found, tokens = heads_of(LONGER)[layer], LONGER.split()
    repeats = len(found.query) // len(found.value)
    return tokens, found.scores[head][-1], found.value[head // repeats]


def online_softmax() -> str:
    """Return the widget, with one feature of the values, and a table of its blocks of four keys."""
    tokens, scores, values = last_query()
    feature = values[:, 0]
    rows, before = [], -np.inf
    for first in range(0, len(scores), SIZE):
        largest = float(scores[: first + SIZE].max())
        weights = np.exp(scores[: first + SIZE] - largest)
        seen = float(weights @ feature[: first + SIZE])
        kept = number(float(np.exp(before - largest)), 4) if first else ""
        rows.append(
            [f"{min(first + SIZE, len(scores))} keys", number(largest), number(weights.sum(), 4), number(seen, 4), kept]
        )
        before = largest
    ids = [visible(token) for token in tokens]
    data = {
        "tokens": ids,
        "scores": [round(float(x), 5) for x in scores],
        "values": [round(float(x), 5) for x in feature],
    }
    head = ["after", "maximum m", "sum l", "weighted value o", "factor for the earlier l and o"]
    return element("online-softmax", data, table("One query's online softmax, four keys at a time", head, rows))
