"""Day 2's figures, from recorded measurements: the roofline of a whole engine, and the parts of a decode step."""

import json
from pathlib import Path
from typing import Any

from tiny_llm_course.dev.book.bench_charts import ROOFLINE
from tiny_llm_course.dev.book.drawing import Canvas, bars
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.measuring.roofline_text import lines_of
from tiny_llm_course.paths import ROOT

ENGINE = ROOT / "benches" / "engine_speed.json"  # pdm run bench engine --solution --json ...
BOXES = ROOT / "benches" / "decode_boxes.json"  # benches/decode_boxes.py
WIDTH = 80  # of the terminal in which `bench engine` is shown


def generated_parts() -> Parts:
    """Return the roofline, the session and the boxes."""
    engine, boxes = _read(ENGINE), _read(BOXES)
    return {
        "roofline": _roofline(engine),
        "engine": _session(engine),
        "boxes": _boxes(boxes),
    }


def _read(record: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return found


def _roofline(found: dict[str, Any]) -> str:
    caption = (
        "Each point is one step of the engine, with its arithmetic intensity (FLOPs per byte of memory traffic) and "
        "its throughput (FLOP/s). Both axes are logarithmic."
    )
    return ROOFLINE.figure(found, "roofline-2-2", caption)


def _session(found: dict[str, Any]) -> str:
    heading = f"{found['title']}, {found['storage']}  ({found['package']})"
    lines = ["```text", "$ pdm run bench engine --solution", heading, "", *lines_of(found, WIDTH), "```"]
    return "\n".join(lines) + "\n"


def _boxes(found: dict[str, Any]) -> str:
    """Draw the time of each box, and list its memory traffic and the time that the traffic alone would take."""
    *boxes, (whole, size, taken) = found["rows"]
    rest = taken - sum(ms for _, _, ms in boxes)
    canvas = Canvas()
    times = {name: ms for name, _, ms in boxes} | {"the rest": max(rest, 0.0)}
    bars(canvas, times, lambda ms: f"{number(ms)} ms")
    table = [("Box", "Traffic, KB", "Memory-bound time, ms", "Measured time, ms"), (":--", "--:", "--:", "--:")]
    for name, moved, ms in [*boxes, ["the rest", 0, rest], [whole, size, taken]]:
        table.append((name, number(moved / 1e3), number(1e3 * moved / found["bandwidth"]), number(ms)))
    told = "; ".join(f"{name}: {number(ms)} ms" for name, ms in times.items())
    caption = (
        "Each bar is the time of one box, timed alone, in all six layers. “The rest” is the remainder of the step."
    )
    about = f"{told}. The whole step takes {number(taken)} ms."
    figure = canvas.figure("boxes-2-2", "Time of each box in a decode step", about, caption)
    return "\n".join([figure, *(f"| {' | '.join(row)} |" for row in table), "", f"*{measured_on(found)}*", ""])
