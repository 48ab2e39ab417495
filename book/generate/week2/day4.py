"""Day 4's figures: a register of packed words, the digit extracted from each, and its factor x; a tile of registers."""

import mlx.core as mx
from book.generate.week1.heads import model
from book.generate.week2.day3 import NAME

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.parts import Parts

LANES = DIGITS = 8
SHOWN = 1  # the digit that is brought down
LEFT, CELL, ROW = 52.0, 19.0, 21.0  # pixels
GAP = 56.0


def generated_parts() -> Parts:
    """Return the figures."""
    return {"register": register(), "tile": tile()}


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


def tile() -> str:
    """Draw one step of a tile: an element of each token times two registers of the panel, added to the sums."""
    tokens, registers, walked, shown = 6, 2, 5, 2  # of AVX2; steps that are drawn, and the current one
    rows = registers * LANES

    def draw(canvas: Canvas) -> None:
        cell = 15.0 if canvas.width == WIDEST else 22.0
        left, top = walked * cell + 16, walked * cell + 16
        canvas.text(left, SMALL, f"panel: {rows} rows of W", "small")
        y0, x0 = SMALL + 8, 0.0
        for step in range(walked):
            for register in range(registers):
                x = left + register * (LANES * cell + 4)
                for lane in range(LANES):
                    looks = "fill series-1" if step == shown else "axis"
                    canvas.rect(x + lane * cell, y0 + step * cell, cell - 2, cell - 2, looks)
        for token in range(tokens):
            y = y0 + top + token * cell
            for step in range(walked):
                canvas.rect(x0 + step * cell, y, cell - 2, cell - 2, "fill series-1" if step == shown else "axis")
            for register in range(registers):
                x = left + register * (LANES * cell + 4)
                canvas.rect(x - 1, y - 1, LANES * cell, cell, "frame", 2)
                for lane in range(LANES):
                    canvas.rect(x + lane * cell + 2, y + 2, cell - 6, cell - 6, "fill series-0")
        bottom = y0 + top + tokens * cell
        canvas.text(0, y0 + top - 6, "x", "small strong")
        canvas.text(0, bottom + SMALL + 2, f"{tokens} tokens", "small")
        canvas.text(left, bottom + SMALL + 2, f"tile: {tokens * registers} registers of sums", "small")
        across = left + 2 * LANES * cell + 16
        canvas.path([(across, y0), (across, y0 + walked * cell)], "line", arrow=True)

    about = (
        f"The panel has {rows} columns, in {registers} registers of {LANES} lanes; x has {tokens} rows. The tile of "
        f"{tokens} x {registers} registers of sums is where they meet. A row of the panel and a column of x are lit."
    )
    caption = (
        f"One step of a tile with AVX2. Two loads bring {rows} numbers of the panel, one of each row of W, "
        f"and one element of each token is broadcast: {tokens * registers} multiply-adds update all the sums. Then the "
        "kernel takes the next row of the panel and the next column of x; the sums stay in registers."
    )
    return at_both_widths(draw).figure("tile-2-4", "A tile of sums, which stays in registers", about, caption)
