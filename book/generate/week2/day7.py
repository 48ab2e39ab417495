"""Day 7's figures and widget: online softmax over blocks, the tiles of the weights, and the Metal kernel's threads."""

import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, SHOWN, example, heads_of

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts

TOKENS = SENTENCE.split()
BLOCKS = ((0, 2), (2, 4), (4, 5))  # of the example's keys
LONGER, SIZE = SENTENCES[2], 4  # of the second picture
GROUPS, LANES, QUERIES, FEATURES = 4, 32, 16, 128  # of a threadgroup of the Metal kernel, and of a head
HELD_BLOCK = 3  # of the second picture, from 1
CELL, SMALL_CELL = 40.0, 30.0  # pixels


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
    """Draw a head's scores in blocks, numbered in their order, and the weights of the one that is in memory."""
    layer, head = SHOWN
    scores, tokens = heads_of(LONGER)[layer].scores[head], LONGER.split()
    size, cell, number = len(scores), SMALL_CELL, 0
    canvas, left, top = Canvas(), max(map(width_of, tokens)) + 16, 2 * FONT + 8
    for i, token in enumerate(tokens):
        canvas.text(left - 8, top + (i + 0.5) * cell + 5, token, "", "end")
        canvas.text(left + (i + 0.5) * cell, FONT * (1 + i % 2), token, "small", "middle")
        canvas.rect(left + (i + 1) * cell, top + i * cell, (size - 1 - i) * cell, cell, "band")
    for row in range(0, size, SIZE):
        for column in range(0, row + SIZE, SIZE):
            height, width = min(SIZE, size - row), min(SIZE, size - column)
            place = left + column * cell, top + row * cell, width * cell, height * cell
            canvas.rect(*place, "axis")
            number += 1
            if number == HELD_BLOCK:
                some = np.s_[row : row + height, column : column + width]
                seen = np.where(np.tri(size), scores, -np.inf)
                weights = np.exp(seen[some] - seen[row : row + height, : column + width].max(axis=1, keepdims=True))
                squares(canvas, *place[:2], weights, cell, "weights", 1.0)
                canvas.rect(*place, "frame", 3)
            else:
                canvas.text(place[0] + place[2] / 4, place[1] + place[3] * 3 / 4 + 5, str(number), "strong", "middle")
    skipped = (-(-size // SIZE)) ** 2 - number
    about = (
        f"A table of {size} x {size} scores, gray above the diagonal. {number} blocks are numbered by rows, and "
        f"number {HELD_BLOCK} is framed. {skipped} blocks are gray."
    )
    caption = (
        f"A head's scores for the {size} tokens of <i>{LONGER}</i>: rows are queries, columns are keys, and gray is "
        f"masked. The blocks of {SIZE} x {SIZE} are numbered in the order in which they are computed. Only the framed "
        f"block, number {HELD_BLOCK}, is in memory. Each of its squares is a weight relative to the query's largest "
        "score so far. "
        "Fully masked blocks are never computed."
    )
    return canvas.figure("blocks-2-7", "Attention weights, one tile at a time", about, caption)


STEPS = ("load\nkeys", "scores,\nm and l", "load\nvalues", "update\no") * 2  # of two key blocks
# What memory holds, by its name: words, looks, the first step and the number of steps.
HELD = {
    "tile": [
        (f"{what}\n{LANES * i}-{LANES * (i + 1) - 1}", f"role-{what[:-1]}", 4 * i + 2 * j, 2)
        for i in range(2)
        for j, what in enumerate(("keys", "values"))
    ],
    "weights": [("32 per\nquery", "role-weights", 4 * i + 1, 3) for i in range(2)],
    "m, l, o": [("kept", "series-0", 1, 7)],
}


def roles() -> str:
    """Draw what each SIMD-group does in each step of two key blocks: time runs to the right, on a phone downwards."""
    lane, lit = 5, 1

    def cell(canvas: Canvas, x: float, y: float, width: float, height: float, step: int, group: int) -> None:
        """Draw an array with the rows of a SIMD-group, and the columns of one lane."""
        rows = QUERIES if step % 2 else LANES
        columns = LANES if step == 1 else FEATURES
        looks = ("role-key", "role-weights", "role-value", "series-0")[step]
        canvas.rect(x, y, width, height, "axis")
        for row in range(group, rows, GROUPS):
            canvas.rect(x, y + height / rows * row, width, height / rows, f"fill {looks}")
        for column in range(lane, columns if step % 2 and group == lit else 0, LANES):
            canvas.rect(x + width / columns * column, y, max(width / columns, 2), height, "hollow series-1")

    def draw(canvas: Canvas) -> None:
        across = canvas.width > WIDEST
        step, group, slot = (71.0, 56.0, 28.0) if across else (52.0, 40.0, 50.0)  # the way to the next one
        begin, top = (84.0, 2 * SMALL + 10) if across else (SMALL + 10, 54.0)
        memory = top + group * GROUPS

        def at(time: float, side: float) -> tuple[float, float]:
            return (time, side) if across else (side, time)

        def write(
            across_at: tuple[float, float], down_at: tuple[float, float], words: str, anchor: str = "start"
        ) -> None:
            x, y = across_at if across else down_at
            for j, line in enumerate(words.split("\n")):
                canvas.text(x, y + SMALL * j, line, "small", anchor)

        for i, words in enumerate(STEPS):
            start = begin + step * i
            write((start, SMALL), (0, start + 18), words)
            canvas.path([at(start - 4, top - 4), at(start - 4, top + group * GROUPS - 4)], "line")
            for s in range(GROUPS):
                cell(canvas, *at(start, top + group * s), *at(step - 8, group - 8), i % 4, s)
        for s in range(GROUPS):
            write((0, top + group * s + 28), (top + group * s + 14, SMALL), f"SIMD-group {s}" if across else str(s))
        write((0, SMALL), (0, SMALL), "" if across else "group")
        for i, (name, spans) in enumerate(HELD.items()):
            place = memory + slot * i
            write((0, place + 16), (place, SMALL), name)
            for words, looks, first, count in spans:
                canvas.rect(*at(begin + step * first, place), *at(step * count - 8, slot - 4), f"frame {looks}", 3)
                middle, side = begin + step * (first + count / 2) - 4, place + (slot - 4) / 2
                write((middle, side + 4), (side, middle), words.replace("\n", " ") if across else words, "middle")

    mine = ", ".join(str(query) for query in range(lit, QUERIES, GROUPS))
    some = ", ".join(str(feature) for feature in range(lane, FEATURES, LANES))
    about = (
        f"Four steps for each of two blocks of {LANES} keys: load keys, compute scores, load values, update o. In each "
        f"step, a SIMD-group has every fourth row: of {LANES} keys or values to load, or of {QUERIES} queries. The "
        "tile holds the keys of a block, then their values; registers hold m, l and o throughout."
    )
    caption = (
        f"Two blocks of {LANES} keys; a thick line is a barrier. To load, a SIMD-group copies the colored rows of "
        f"the tile, {LANES} x {FEATURES}. To compute, the colored rows are its queries: {mine} for SIMD-group "
        f"{lit}. The columns are the {LANES} keys for scores, and the {FEATURES} features for o; those of lane {lane} "
        f"are outlined: key {lane}, then features {some}. The frames are threadgroup memory (tile, weights) and "
        "registers (m, l, o)."
    )
    return at_both_widths(draw).figure("roles-2-7", "What each SIMD-group does, step by step", about, caption)


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
