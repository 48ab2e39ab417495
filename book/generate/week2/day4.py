"""Day 4's figure and widgets: a register of packed words and their factors x; lanes and a tile, step by step."""

import re
from typing import Any

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, model, streams_of
from book.generate.week2.day3 import NAME
from book.generate.week2.day6 import packed, read_by_down

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.testkit.rounding import Array64

LANES = DIGITS = 8
SHOWN = 1  # the digit that is brought down
LEFT, CELL, ROW = 52.0, 19.0, 21.0  # pixels
GAP = 56.0
TOKENS, INPUTS, ROWS = 16, 8, 32  # of the widget's product


def generated_parts() -> Parts:
    """Return the widgets."""
    return {"lane-steps": lane_steps(), "register-tile": register_tile()}


def words() -> list[int]:
    """Return the first words of row 0 of day 3's matrix, by min and max, one for each of a register's 8 lanes."""
    from tiny_llm_solution.quantized.affine import quantize

    packed, _, _ = quantize(model().weights[NAME][:1].astype(mx.float32))
    found: list[int] = packed[0, :LANES].tolist()
    return found


def register() -> str:
    """Draw a row for each lane: the digits of its word in written order, the extracted digit, and its x."""
    left_over = [word >> 4 * SHOWN & 15 for word in words()]

    def draw(canvas: Canvas) -> None:
        cell, gap = CELL * canvas.width / WIDEST, GAP * canvas.width / WIDEST
        right = LEFT + DIGITS * cell
        for place in range(DIGITS):
            canvas.text(LEFT + (DIGITS - place - 0.5) * cell, SMALL, str(place), "small", "middle")
        canvas.text(0, SMALL, "digit", "small")
        canvas.text(right + gap, SMALL, f">> {4 * SHOWN} & 15", "small mono", "middle")
        top = SMALL + 10
        for lane, word in enumerate(words()):
            y = top + lane * ROW
            canvas.text(0, y + FONT, f"lane {lane}", "small")
            for place in range(DIGITS):
                digit = word >> 4 * place & 15
                x = LEFT + (DIGITS - 1 - place) * cell
                canvas.rect(x, y, cell, ROW - 3, "axis")
                canvas.text(x + cell / 2, y + FONT, f"{digit:x}", "mono strong" if place == SHOWN else "mono", "middle")
            canvas.path([(right + 6, y + ROW / 2 - 2), (right + gap - 16, y + ROW / 2 - 2)], "line", arrow=True)
            canvas.text(right + gap, y + FONT, str(left_over[lane]), "mono strong", "middle")
            canvas.text(right + gap + 22, y + FONT, f"times x[{DIGITS * lane + SHOWN}]", "small")
        bottom = top + LANES * ROW
        canvas.rect(LEFT + (DIGITS - 1 - SHOWN) * cell, top - 2, cell, LANES * ROW + 1, "frame", 3)
        canvas.text(right + gap + 22, bottom + SMALL + 4, "eight products at once", "small", "middle")

    title = "A register of eight words, and the digit that one shift and one mask extract from each"
    about = (
        f"Eight rows, one for each lane, with the eight hexadecimal digits of its word. Column {SHOWN} is framed. "
        f"After the shift and the mask, the lanes hold {', '.join(map(str, left_over))}. Their factors are x[{SHOWN}], "
        f"x[{SHOWN + DIGITS}] and so on to x[{SHOWN + DIGITS * (LANES - 1)}]."
    )
    caption = (
        "Each row is one of the first eight words of row 0, with its highest digit on the left, so its first weight is "
        f"on the right. One shift by {4 * SHOWN} and one mask, for all lanes at once, extract digit {SHOWN} of each "
        f"word: weights {SHOWN}, {SHOWN + DIGITS}, {SHOWN + 2 * DIGITS} and so on of the row. Therefore x must be "
        "stored in the same order."
    )
    return at_both_widths(draw).figure("register-2-4", title, about, caption)


def row_in_lanes() -> dict[str, Any]:
    """Return row 0 of W and the input of `dog`: block 0, and the lanes' totals over all blocks."""
    q, scale, bias, _ = packed()
    x, products = read_by_down(SENTENCE)[-1], scale[0] * q[0]
    of_words = (products * x).reshape(-1, DIGITS).sum(axis=1)
    return {
        "words": words(),
        "x": [round(float(each), 4) for each in x[: LANES * DIGITS]],
        "scale": round(float(scale[0, 0]), 8),
        "total": [round(float(each), 5) for each in of_words.reshape(-1, LANES).sum(axis=0)],
        "added": round(float(bias[0] @ x), 5),
        "blocks": len(of_words) // LANES,
    }


def lane_steps() -> str:
    """Return the widget, with the figure as its still."""
    return element("lane-steps", row_in_lanes(), register().rstrip())


def product() -> tuple[Array64, Array64]:
    """Return tokens x inputs of a residual stream, and inputs x rows of a quantized matrix, as `unpack` stores them."""
    from tiny_llm_solution.quantized.affine import dequantize, quantize

    streams = np.concatenate([streams_of(text)[3] for text in SENTENCES[1:3]])
    weight = model().weights["model.layers.3.self_attn.q_proj.weight"][:ROWS].astype(mx.float32)
    panel = np.array(dequantize(*quantize(weight)), dtype=np.float64).T
    return np.round(streams[:TOKENS, :INPUTS], 3), np.round(panel[:INPUTS], 3)


def processors() -> dict[str, dict[str, int]]:
    """Return each processor's lanes and registers, and the tokens per tile that the solution chooses for it."""
    source = (SOLUTION / "kernels" / "matmul.cpp").read_text(encoding="utf-8")
    many, few = (int(found) for found in re.findall(r"constexpr int TILE = (\d+);", source))
    return {
        "AVX2: 16 \N{MULTIPLICATION SIGN} 8 lanes": {"lanes": 8, "registers": 16, "tile": few},
        "AVX-512: 32 \N{MULTIPLICATION SIGN} 16 lanes": {"lanes": 16, "registers": 32, "tile": many},
        "NEON: 32 \N{MULTIPLICATION SIGN} 4 lanes": {"lanes": 4, "registers": 32, "tile": many},
    }


def register_tile() -> str:
    """Return the widget, and a table of the loads and multiply-adds per input of some tiles."""
    x, panel = product()
    rows = []
    for tokens, registers in ((1, 1), (1, 2), (2, 2), (4, 2), (6, 2), (12, 2)):
        loads, products, used = tokens + registers, tokens * registers, tokens * registers + registers + 1
        row = [f"{tokens} x {registers}", str(loads), str(products), number(loads / products), str(used)]
        rows.append(row)
    head = [
        "tokens \N{MULTIPLICATION SIGN} registers of rows",
        "loads",
        "multiply-adds",
        "loads per multiply-add",
        "registers used",
    ]
    data = {"x": x.tolist(), "panel": panel.tolist(), "kinds": processors(), "of": model().config["hidden_size"]}
    return element("register-tile", data, table("What a tile does for one input", head, rows))
