"""Day 4's figure: a register of packed words, the digit that shift and mask extract from each, and its factor x."""

import mlx.core as mx
from book.generate.week1.heads import model
from book.generate.week2.day3 import NAME

from tiny_llm_course.dev.book.drawing import Canvas
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.parts import Parts

LANES = DIGITS = 8
SHOWN = 1  # the digit that is brought down
LEFT, CELL, ROW = 52.0, 19.0, 21.0  # pixels
GAP = 56.0


def generated_parts() -> Parts:
    """Return the figure."""
    return {"register": register()}


def words() -> list[int]:
    """Return the first words of row 0 of day 3's matrix, by min and max, one for each of a register's 8 lanes."""
    from tiny_llm_solution.quantized.affine import quantize

    packed, _, _ = quantize(model().weights[NAME][:1].astype(mx.float32))
    found: list[int] = packed[0, :LANES].tolist()
    return found


def register() -> str:
    """Draw a row for each lane: the digits of its word in written order, the extracted digit, and its x."""
    canvas = Canvas()
    right = LEFT + DIGITS * CELL
    for place in range(DIGITS):
        canvas.text(LEFT + (DIGITS - place - 0.5) * CELL, SMALL, str(place), "small", "middle")
    canvas.text(0, SMALL, "digit", "small")
    canvas.text(right + GAP, SMALL, f">> {4 * SHOWN} & 15", "small mono", "middle")
    top = SMALL + 10
    left_over = []
    for lane, word in enumerate(words()):
        y = top + lane * ROW
        canvas.text(0, y + FONT, f"lane {lane}", "small")
        for place in range(DIGITS):
            digit = word >> 4 * place & 15
            x = LEFT + (DIGITS - 1 - place) * CELL
            canvas.rect(x, y, CELL, ROW - 3, "axis")
            canvas.text(x + CELL / 2, y + FONT, f"{digit:x}", "mono strong" if place == SHOWN else "mono", "middle")
        left_over.append(word >> 4 * SHOWN & 15)
        canvas.path([(right + 6, y + ROW / 2 - 2), (right + GAP - 16, y + ROW / 2 - 2)], "line", arrow=True)
        canvas.text(right + GAP, y + FONT, str(left_over[-1]), "mono strong", "middle")
        canvas.text(right + GAP + 22, y + FONT, f"times x[{DIGITS * lane + SHOWN}]", "small")
    bottom = top + LANES * ROW
    canvas.rect(LEFT + (DIGITS - 1 - SHOWN) * CELL, top - 2, CELL, LANES * ROW + 1, "frame", 3)
    canvas.text(right + GAP + 22, bottom + SMALL + 4, "eight products at once", "small", "middle")
    title = "A register of eight words, and the digit that one shift and one mask extract from each"
    about = (
        f"Eight rows, one for each lane, with the eight hexadecimal digits of its word. Column {SHOWN} is framed. "
        f"After shift and mask the lanes hold {', '.join(map(str, left_over))}; their factors are x[{SHOWN}], "
        f"x[{SHOWN + DIGITS}] and so on to x[{SHOWN + DIGITS * (LANES - 1)}]."
    )
    caption = (
        "Each row is one of the first eight words of row 0, with its highest digit on the left, so its first weight is "
        f"on the right. One shift by {4 * SHOWN} and one mask, for all lanes at once, extract digit {SHOWN} of each "
        f"word: weights {SHOWN}, {SHOWN + DIGITS}, {SHOWN + 2 * DIGITS} and so on of the row. Therefore x must be "
        "stored in the same order."
    )
    return canvas.figure("register-2-4", title, about, caption)
