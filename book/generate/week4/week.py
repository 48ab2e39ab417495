"""The week as one figure: the parts of a decoder layer, and what each day's form of a part costs."""

import json
from typing import Any, NamedTuple

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST, width_of
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.paths import ROOT

ROW, BOX = 54.0, 94.0  # pixels: a day's height, and the width of the layer's boxes


class Change(NamedTuple):
    """A day's change of a part: a column of its benchmark in the plain and in the changed form."""

    part: str
    day: int
    what: str
    measure: str
    plain: tuple[int, int]  # row and column
    changed: tuple[int, int]


CHANGES = (
    Change("q, k, v", 2, "one product, not three", "ms for one token", (0, 1), (0, 2)),
    Change("RoPE", 7, "YaRN scaling", "perplexity of {row} tokens", (-1, 2), (-1, 5)),
    Change("KV cache", 4, "one latent per token", "numbers cached per token", (0, 1), (3, 1)),
    Change("mask", 1, "padding sliced away", "ms, {row} real keys of 512", (0, 1), (0, 2)),
    Change("attention", 3, "a window of 512", "ms after {row} tokens", (-1, 1), (-1, 2)),
    Change("MLP", 5, "2 of 32 experts", "MiB of weights read", (0, 3), (0, 2)),
    Change("next layer", 6, "3 of 12 layers stored", "MiB of weights", (0, 1), (1, 1)),
)


def generated_parts() -> Parts:
    """Return the figure."""
    return {"changes": changes()}


def values(change: Change) -> tuple[float, float, str]:
    """Return the plain and the changed value, and what they measure."""
    record = ROOT / "benches" / "week4" / f"day{change.day}.json"
    rows: list[list[Any]] = json.loads(record.read_text(encoding="utf-8"))["rows"]
    (i, j), (k, m) = change.plain, change.changed
    row = rows[i][0]
    return rows[i][j], rows[k][m], change.measure.format(row=f"{row:,}" if isinstance(row, int) else row)


def changes() -> str:
    """Draw the parts below each other, each with its day's change as a share of the plain form."""
    found = [(change, *values(change)) for change in CHANGES]
    ends = [f"{number(plain)} \N{RIGHTWARDS ARROW} {number(less)}" for _, plain, less, _ in found]

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        left, step = BOX + 18, ROW if wide else ROW + 16
        bar, level, right = (left + 220, 6, max(map(width_of, ends)) + 20) if wide else (left, 40, 8)
        length = canvas.width - bar - right
        for i, ((change, plain, less, measure), words) in enumerate(zip(found, ends, strict=True)):
            y = i * step
            canvas.rect(0, y, BOX, 26, "frame", 5)
            canvas.text(BOX / 2, y + 18, change.part, "strong", "middle")
            if i:
                canvas.path([(BOX / 2, y - step + 26), (BOX / 2, y)], "line", arrow=True)
            canvas.text(left, y + FONT, f"day {change.day}: {change.what}", "strong")
            canvas.text(left, y + FONT + 18, measure, "small")
            canvas.rect(bar, y + level, length, 16, "hollow series-0")
            canvas.rect(bar, y + level, length * less / plain, 16, "fill series-0")
            if wide:
                canvas.text(bar + length + 12, y + level + FONT - 1, words)
            else:
                canvas.text(canvas.width - 8, y + FONT + 18, words, "small", "end")

    about = "; ".join(
        f"{change.part}, day {change.day}, {change.what}: {words} {measure}"
        for (change, *_, measure), words in zip(found, ends, strict=True)
    )
    caption = (
        "An outline is what the plain form of a part costs, and its filled part is what the form that you build costs, "
        "as the days' benchmarks recorded them. The KV cache is compared with that of multi-head attention."
    )
    return at_both_widths(draw).figure("changes-4", "What each day changes in a layer", f"{about}.", caption)
