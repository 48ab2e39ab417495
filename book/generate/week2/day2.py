"""Day 2's figures, from recorded measurements: the roofline of a whole engine, and the parts of a decode step. And a
widget that counts the bytes and FLOPs of any step.
"""

import json
from pathlib import Path
from typing import Any

from tests.week1.reference_model import embedded_model

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, bars
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.measured import ROOFLINE, measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.measuring.roofline_text import lines_of
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

ENGINE = ROOT / "benches" / "engine_speed.json"  # pdm run bench engine --solution --json ...
BOXES = ROOT / "benches" / "decode_boxes.json"  # benches/decode_boxes.py
# What Qwen3-0.6B has other than the course's model.
LARGE = {
    "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 3072, "vocab_size": 151936,
}  # fmt: skip
SHAPE = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads", "dims": "head_dim", "mlp": "intermediate_size", "vocab": "vocab_size",
}  # fmt: skip
CACHED = 256  # tokens of each sequence in the widget's table
WIDTH = 80  # of the terminal in which `bench engine` is shown


def generated_parts() -> Parts:
    """Return the roofline, the session and the boxes."""
    engine, boxes = _read(ENGINE), _read(BOXES)
    return {
        "roofline": _roofline(engine),
        "engine": _session(engine),
        "boxes": _boxes(boxes),
        "roof-line": _widget(engine),
    }


def _read(record: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return found


def _roofline(found: dict[str, Any]) -> str:
    caption = (
        "Each point is one step of yesterday's engine, with its arithmetic intensity (FLOPs per byte of memory "
        "traffic) and its throughput (FLOP/s). Both axes are logarithmic."
    )
    return ROOFLINE.figure(found, "roofline-2-2", caption)


def _session(found: dict[str, Any]) -> str:
    heading = f"{found['title']}, {found['storage']}  ({found['package']})"
    lines = ["```text", "$ pdm run bench engine --solution", heading, "", *lines_of(found, WIDTH), "```"]
    return "\n".join(lines) + "\n"


def _boxes(found: dict[str, Any]) -> str:
    """Draw each box's share of the step's memory traffic and of its time."""
    *boxes, (_, size, taken) = found["rows"]
    boxes.append(["the rest", 0, max(taken - sum(ms for _, _, ms in boxes), 0.0)])
    traffic = {name: 100 * moved / size for name, moved, _ in boxes}
    times = {name: 100 * ms / taken for name, _, ms in boxes}
    panels = {"share of the memory traffic": traffic, "share of the time": times}

    def draw(canvas: Canvas) -> None:
        for heading, shares in panels.items():
            y = canvas.bottom + (14 if canvas.bottom else 0)
            bars(canvas, shares, lambda share: f"{share:.1f} %", y=y, heading=heading, largest=max(traffic.values()))

    about = "; ".join(
        f"{name}: {traffic[name]:.1f} % of the traffic, {times[name]:.1f} % of the time" for name in times
    )
    caption = (
        "Each bar is one box in all six layers, timed alone. “The rest” is the time of the whole step minus the times "
        "of the boxes."
    )
    figure = at_both_widths(draw).figure("boxes-2-2", "Each box of a decode step", f"{about}.", caption)
    return "\n".join([figure, f"*{measured_on(found)}*", ""])


def _widget(found: dict[str, Any]) -> str:
    """Return the widget, and a table of some decode steps of the course's model in float32 on the measured machine."""
    load_solution()
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.measure.accounting import flops, traffic
    from tiny_llm_solution.measure.roofline import Roofline
    from tiny_llm_solution.measure.step import Step, Storage

    limits, processor = found["limits"], found["machine"]["processor"]
    bandwidth, peak = limits["bandwidth"], limits["rate"]
    machines = {
        f"the machine above ({processor})": [bandwidth, peak],
        "a laptop's GPU: 100 GB/s, 4 TFLOP/s": [1e11, 4e12],
        "a data-center GPU: 3.3 TB/s, 1,000 TFLOP/s": [3.3e12, 1e15],
    }
    small = embedded_model().config
    models = {"the course's model": ModelConfig.from_dict(small), "Qwen3-0.6B": ModelConfig.from_dict(small | LARGE)}
    rows = []
    for batch in (1, 8, 64, 512):
        step = Step(models["the course's model"], offset=CACHED, batch=batch)
        moved, work = traffic(step, Storage()).total, flops(step).total
        roof = Roofline(bandwidth, peak)
        rate = batch / roof.least_seconds(work, moved)
        rows.append([str(batch), number(moved / 1e6), number(work / 1e6), roof.limit(work, moved), f"{rate:,.0f}"])
    head = ["sequences", "memory traffic, MB", "arithmetic, MFLOP", "limited by", "max tokens/s"]
    shapes = {name: {key: getattr(config, field) for key, field in SHAPE.items()} for name, config in models.items()}
    data = {"models": shapes, "machines": machines}
    caption = (
        f"Decode steps of the course's model in float32, with {CACHED} cached tokens per sequence, at "
        f"{number(bandwidth / 1e9)} GB/s and {number(peak / 1e9)} GFLOP/s"
    )
    return element("roof-line", data, table(caption, head, rows))
