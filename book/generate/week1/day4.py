"""Day 4's pictures: the size of the stream, the MLP and its gates, and the widget of a norm and a gate."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from book.generate.week1.heads import SENTENCE, streams_of
from tests.week1.formulas import rms_norm64, silu64

from tiny_llm_course.dev.book.drawing import TIMES, Boxes, Canvas, at_both_widths, bars, flow, round_numbers
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts

TOKENS = SENTENCE.split()
# Vectors, gates and what the gates scale, as the chapter's sessions have them.
VECTORS: list[list[float]] = [
    [1, -1, 1, 1],
    [2, -4, 4, 8],
    [0.02, -0.04, 0.04, 0.08],
    [200, -400, 400, 800],
    [3, 1, -3, -9],
]
GATES: list[float] = [4, -4, 0, 1, -9]
UPS: list[float] = [0.5, 2, 3, -1, 5]
EPS = 1e-5
WIDTH = 330.0  # of the curves, in pixels


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"silu": silu(), "sizes": sizes(), "swiglu": swiglu(), "norm-gate": norm_gate()}


def silu() -> str:
    """Draw SiLU and relu, with the gates of the chapter's session."""
    canvas, across = Canvas(), np.linspace(-10, 5, 151)
    gates = dict(zip(TOKENS, GATES, strict=True))
    drawn = {"silu": silu64(across).tolist(), "relu": np.maximum(across, 0).tolist()}
    curves(canvas, across.tolist(), drawn, lambda x: number(x, 0), dots=gates)
    said = ", ".join(f"{number(float(silu64(np.array(gate))), 3)} for {token}" for token, gate in gates.items())
    about = (
        "To the left of 0, the curve dips slightly below the axis and returns to it; to the right of 0, it approaches "
        f"the line of relu. At the gates of the five tokens, silu is {said}."
    )
    caption = (
        "The solid curve is silu(x), and the dashed curve is relu(x), the larger of x and 0. Each dot is the gate of "
        "one token."
    )
    return canvas.figure("silu-1-4", "The curve of silu", about, caption)


def curves(
    canvas: Canvas,
    across: Sequence[float],
    series: Mapping[str, Sequence[float]],
    words: Callable[[float], str],
    *,
    dots: Mapping[str, float],
) -> None:
    """Draw functions over `across`, on the same scale for both axes; `dots` mark points of the first curve."""
    left, right = min(across), max(across)
    everything = [0.0, *(value for numbers in series.values() for value in numbers)]
    low, high = min(everything), max(everything)
    unit = WIDTH / (right - left)

    def point(x: float, y: float) -> tuple[float, float]:
        return unit * (x - left), unit * (high - y)

    canvas.path([point(left, 0), point(right, 0)], "axis")
    canvas.path([point(0, low), point(0, high)], "axis")
    for mark in round_numbers(left, right, logarithmic=False):
        if mark and left <= mark <= right:
            x, y = point(mark, 0)
            canvas.path([(x, y - 3), (x, y + 3)], "axis")
            canvas.text(x, y + SMALL + 8, words(mark), "small mono", "middle")
    for mark in round_numbers(low, high, logarithmic=False):
        if mark and low <= mark <= high:
            x, y = point(0, mark)
            canvas.path([(x - 3, y), (x + 3, y)], "axis")
            canvas.text(x - 8, y + SMALL / 3, words(mark), "small mono", "end")
    for i, numbers in enumerate(series.values()):
        canvas.path([point(x, y) for x, y in zip(across, numbers, strict=True)], f"line series-{i}")
    first = next(iter(series.values()))
    for name, x in dots.items():
        at = min(range(len(across)), key=lambda i: abs(across[i] - x))
        before, after = max(0, at - 1), min(len(across) - 1, at + 1)
        steep = (first[after] - first[before]) / (across[after] - across[before])
        place = point(across[at], first[at])
        canvas.circle(*place, 4.5, "fill series-0")
        if abs(steep) > 0.25:
            canvas.text(place[0] + 9, place[1] + FONT, name, "strong")
        else:
            canvas.text(place[0], place[1] - 10, name, "strong", "middle")


def sizes() -> str:
    """Draw the RMS of the last token's residual stream, layer after layer."""
    streams = streams_of(SENTENCE)
    rms = [math.sqrt(float(np.mean(stream[-1] ** 2))) for stream in streams]
    names = ["embedding", *(f"layer {layer}" for layer in range(len(rms) - 1))]
    sizes = dict(zip(names, rms, strict=True))
    canvas = at_both_widths(lambda canvas: bars(canvas, sizes, number, "stream"))
    said = ", ".join(f"{name} {number(x)}" for name, x in zip(names, rms, strict=True))
    title = "RMS of dog's residual stream after each layer"
    caption = (
        f"Each bar is the root mean square (see below) of the vector's {streams[0].shape[1]} elements in the course's "
        "model. The next norm, before the following layer's attention, divides the vector by this RMS. The norm before "
        "its MLP divides by the RMS of the vector after attention, which is not drawn."
    )
    return canvas.figure("sizes-1-4", title, f"{said}.", caption)


def swiglu() -> str:
    """Draw the MLP."""
    boxes: Boxes = {
        "x": ("x\nN.. x E", "stream"),
        "gate": "gate\nN.. x I",
        "up": "up\nN.. x I",
        "silu": "SiLU",
        "times": TIMES,
        "out": "output\nN.. x E",
    }
    grid = [["x", "x", "x"], ["gate", "", "up"], ["silu", "", ""], ["", "times", ""], ["", "out", ""]]
    arrows = [
        ("x", "gate", "w_gate"),
        ("x", "up", "w_up"),
        ("gate", "silu"),
        ("silu", "times"),
        ("up", "times"),
        ("times", "out", "w_down"),
    ]
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows, gap=40)
    about = "x is projected by w_gate, followed by SiLU, and by w_up. Their product is projected back to E by w_down."
    return canvas.figure("swiglu-1-4", "SwiGLU, Qwen's MLP", about)


def norm_gate() -> str:
    """Return each token's vector before and after the norm, and its up value after the gate."""
    rows = []
    for token, vector, gate, up in zip(TOKENS, VECTORS, GATES, UPS, strict=True):
        normed = rms_norm64(np.array(vector), np.ones(4), EPS)
        opened = float(silu64(np.array(gate)))
        texts = [", ".join(f"{x:g}" for x in vector), ", ".join(number(x, 4) for x in normed)]
        rows.append([token, *texts, f"{gate:g}", number(opened, 3), number(opened * up, 3)])
    data = {"tokens": TOKENS, "vectors": VECTORS, "gates": GATES, "ups": UPS, "eps": EPS}
    head = ["token", "x", "norm(x)", "gate", "silu(gate)", "silu(gate) · up"]
    return element("norm-gate", data, table("A vector before and after the norm, and after the gate", head, rows))
