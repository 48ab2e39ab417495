"""The roofline of a measured engine, as `bench engine` has found it: in the book, and in a file of its own."""

from typing import Any

from ...measuring.clock import number
from ...measuring.roofline_text import extent
from .drawing import Canvas, roofline

TITLE = "What the machine allows, and what was reached"


def canvas_of(found: dict[str, Any]) -> Canvas:
    """The roof and a point for each kind of step."""
    canvas = Canvas()
    points = {row["step"]: (row["flops"] / row["bytes"], row["flops"] / row["seconds"]) for row in found["rows"]}
    limits = found["limits"]["bandwidth"], found["limits"]["rate"]
    prefills = [(step.rpartition(" ")[2], point) for step, point in points.items() if step.startswith("prefill")]
    decodes = [(step.rpartition(" ")[2], point) for step, point in points.items() if step.startswith("decode")]
    series = {"prefill of so many tokens": prefills}
    if decodes:  # they stand too close together for words
        after = f"decode step after {' or '.join(count for count, _ in decodes)} tokens"
        series[after] = [("", point) for _, point in decodes]
    ends = extent(*limits, list(points.values()))
    roofline(canvas, limits, {name: of for name, of in series.items() if of}, ends, number)
    return canvas


def about(found: dict[str, Any]) -> str:
    """What there is to see, in a sentence."""
    steps = "; ".join(
        f"{row['step']}: {number(row['flops'] / row['bytes'])} FLOPs a byte, "
        f"{number(row['flops'] / row['seconds'] / 1e9)} GFLOP/s"
        for row in found["rows"]
    )
    at_most = found["limits"]
    roof = f"{number(at_most['bandwidth'] / 1e9)} GB/s and {number(at_most['rate'] / 1e9)} GFLOP/s"
    return f"A roof, {roof}, that turns at {number(found['ridge'])} FLOPs a byte. Below it: {steps}."


def in_a_file(found: dict[str, Any]) -> str:
    """The SVG by itself."""
    return canvas_of(found).in_a_file("roofline", TITLE, about(found))
