"""The week as one figure, from its records: pretraining, fine-tuning, rewards and evaluation."""

import json
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from book.generate.week5.day4 import largest, printable
from book.generate.week5.day5 import record as adapter
from book.generate.week5.day6 import record as rewards
from book.generate.week5.day6 import smooth

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT

ITEMS = ROOT / "benches" / "week5" / "day7.json"
TOP, LINE, GAP = 44.0, 18.0, 26.0  # pixels: above a curve, of a note, between panels
QUOTED, PROMPT = ("0", "100", "250"), "Once upon a time"  # steps, and what the model continued
BEFORE = ("tokenizer", "data and loss", "gradients, AdamW", "the loop")


class Panel(NamedTuple):
    """A curve, of which the ends are labeled."""

    heading: str
    axes: str
    values: Sequence[float]
    digits: int
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> list[str]:
        """The numbers at the ends."""
        return [f"{self.values[i]:.{self.digits}f}" for i in (0, -1)]

    def draw(self, canvas: Canvas, x: float, y: float, width: float, height: float) -> None:
        """Draw it from its upper left corner."""
        canvas.text(x, y + FONT, self.heading, "strong")
        canvas.text(x, y + 2 * FONT + 3, self.axes, "small")
        left, right = (x + width_of(self.ends[0]) + 8, x + width - width_of(self.ends[1]) - 8)
        low, high, last = min(self.values), max(self.values), len(self.values) - 1
        points = [
            (left + (right - left) * i / last, y + TOP + height * (high - value) / (high - low))
            for i, value in enumerate(self.values)
        ]
        canvas.path(points, "line series-0" if last < 100 else "line thin")
        for (u, v), words, anchor, step in zip(
            (points[0], points[-1]), self.ends, ("end", "start"), (-8, 8), strict=True
        ):
            canvas.circle(u, v, 4.5, "fill series-0")
            canvas.text(u + step, v + 5, words, "strong", anchor)


def generated_parts() -> Parts:
    """Return the figure."""
    return {"curves": curves()}


def panels() -> list[Panel]:
    """Return the days' curves."""
    run, tuned, (before, after) = largest(), adapter(), (rewards()["before"], rewards()["grpo"]["after"])
    rounds = [row["reward"] for row in rewards()["grpo"]["rounds"]]
    items = json.loads(ITEMS.read_text(encoding="utf-8"))["rows"]
    story = tuned["answers"]["adapter"][0]["text"]
    return [
        Panel("days 1 to 4: pretraining", f"loss, {run['steps']} steps", run["loss"], 2),
        Panel(
            "day 5: fine-tuning",
            f"loss, {tuned['steps']} steps",
            tuned["losses"],
            2,
            ("now it ends stories with", story[story.rindex("Good") :]),
        ),
        Panel(
            "day 6: rewards",
            f"mean reward, {len(rounds)} rounds",
            smooth(rounds),
            2,
            ("answers within 40 words:", f"{before['in time']:.0%}, then {after['in time']:.0%}".replace("%", " %")),
        ),
        Panel(
            "day 7: evaluation",
            "interval width, points",
            [row[1] for row in items],
            1,
            ("two models compared on", f"{items[0][0]} items, up to {items[-1][0]:,}"),
        ),
    ]


def curves() -> str:
    """Draw the pretraining with what the model wrote during it, and the other curves below."""
    (first, *others), run = panels(), largest()

    def draw(canvas: Canvas) -> None:
        wide, whole = canvas.width > WIDEST, canvas.width - 8
        first.draw(canvas, 0, 0, whole, 84)
        for i, what in enumerate(BEFORE, 1):
            canvas.text(whole, FONT + LINE * i, f"day {i}: {what}", "small", "end")
        y = TOP + 84 + 6
        for step in QUOTED:
            y += LINE
            canvas.text(0, y, f"step {step}", "strong small")
            words, most = f"{PROMPT}{run['samples'][step]}", int((whole - 66) / width_of("n", SMALL))
            canvas.text(66, y, printable(textwrap.shorten(words, most, placeholder=" ...")), "small")
        y += GAP
        width = (whole - 2 * GAP) / 3 if wide else whole / 2
        for i, panel in enumerate(others):
            x, top = (i * (width + GAP), y) if wide else (0.0, y + 108 * i)
            panel.draw(canvas, x, top, width, 46)
            left, level = (x, top + TOP + 46 + 1.5 * LINE) if wide else (width + 12, top + TOP + LINE)
            for j, note in enumerate(panel.notes):
                canvas.text(left, level + LINE * j, note, "small")

    about = "; ".join(f"{p.heading}, {p.axes}: from {' to '.join(p.ends)}" for p in (first, *others))
    caption = (
        f"A recorded run of your loop trains {run['params']:,} random weights, and the lines quote what the model "
        "writes. Days 5 and 6 train the course's larger model further; day 7's curve is the width of the 95 % interval "
        "of the difference between two models, in simulated evaluations."
    )
    return at_both_widths(draw).figure("curves-5", "The week's curves", f"{about}.", caption)
