"""Day 2's figures: a vector rotated by its position, and the widget that rotates it."""

import numpy as np
from book.generate.week1.heads import SENTENCE
from tests.week1.formulas import rope64

from tiny_llm_course.dev.book.drawing import Canvas, matrix
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import Array64

TOKENS = SENTENCE.split()
VECTOR = [1.0, 0.0, 1.0, 0.0]  # of two pairs, at every position
# The widget's query, which is its key as well: two pairs.
PAIRS, BASE, POSITIONS = [[1, 0], [1, 0]], 100, 16


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"hands": hands(), "scores": scores(), "rope-rotation": rope_rotation()}


def turned() -> Array64:
    """Return `VECTOR` rotated to the position of each token, L x D, with adjacent pairs."""
    vectors = np.tile(np.array(VECTOR), (1, len(TOKENS), 1, 1))
    found: Array64 = rope64(vectors, [range(len(TOKENS))], BASE, traditional=True)[0, :, 0]
    return found


def hands() -> str:
    """Draw each pair of the vector as the hand of a clock."""
    canvas, radius, step, left = Canvas(), 26.0, 66.0, 40.0
    for j, token in enumerate(TOKENS):
        canvas.text(left + step * j, 12, token, "strong", "middle")
    for pair in range(len(VECTOR) // 2):
        middle = 52 + pair * 106
        for j, vector in enumerate(turned()):
            x, y = vector[2 * pair : 2 * pair + 2]
            center = left + step * j
            canvas.circle(center, middle, radius, "axis")
            tip = center + radius * x, middle - radius * y
            canvas.path([(center, middle), tip], "line role-query")
            canvas.circle(*tip, 4, "fill role-query")
            for line, coordinate in enumerate((x, y)):
                canvas.text(center, middle + radius + 16 + 14 * line, number(coordinate), "small mono", "middle")
    rows = [f"{token}: {', '.join(map(number, vector))}." for token, vector in zip(TOKENS, turned(), strict=True)]
    title = "The vector 1, 0, 1, 0 at five positions: its two pairs of features as rotated vectors"
    caption = (
        "Each circle shows one pair of features as a vector. The upper pair is rotated by 1 radian (57 degrees) per "
        "token, the lower pair by 0.1 radian. Below each circle are the vector's coordinates, x before y."
    )
    return canvas.figure("hands-1-2", title, " ".join(rows), caption)


def scores() -> str:
    """Draw the scores of the rotated vectors with one another."""
    canvas, vectors = Canvas(), turned()
    found = vectors @ vectors.T
    matrix(canvas, found, TOKENS, TOKENS, None, digits=4)
    rows = [f"{token}: {', '.join(number(x, 4) for x in row)}." for token, row in zip(TOKENS, found, strict=True)]
    title = "Scores of the five rotated vectors with one another"
    caption = (
        "Each square is the score of a query (row) and a key (column). Before rotation, all vectors are equal, so the "
        "score depends only on the distance between their positions."
    )
    return canvas.figure("scores-1-2", title, " ".join(rows), caption)


def rope_rotation() -> str:
    """Return the widget, and a table of pairs of positions at distances 1 and 3."""
    vector = np.array(PAIRS, dtype=np.float64).reshape(1, 1, 1, 4)

    def turned(position: int) -> Array64:
        return rope64(vector, [range(position, position + 1)], BASE, traditional=True).flatten()

    rows = []
    for query, key in [(1, 0), (4, 3), (15, 14), (3, 0), (15, 12)]:
        q, k = turned(query), turned(key)
        both = [", ".join(map(number, x)) for x in (q, k)]
        rows.append([f"{query} and {key}", str(query - key), *both, number(float(q @ k), 4)])
    data = {"tokens": TOKENS, "base": BASE, "positions": POSITIONS, "query": PAIRS, "key": PAIRS}
    head = ["positions", "distance", "query", "key", "score"]
    return element("rope-rotation", data, table("Scores of equal vectors depend only on the distance", head, rows))
