"""Day 3's figure and widget: a quantization group, its levels, and the error of each weight."""

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import model

from tiny_llm_course.dev.book.drawing import Canvas
from tiny_llm_course.dev.book.drawing.canvas import SMALL
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts

NAME = "model.layers.0.mlp.down_proj.weight"
WIDTH, TALL = 300.0, 62.0  # pixels of a panel
LEFT = 58.0


def generated_parts() -> Parts:
    """Return the widget."""
    return {"quant-levels": widget()}


def group() -> mx.array:
    """Return the first 64 weights of the matrix, 1 x 64."""
    return model().weights[NAME][:1, :64]


def quantized_twice() -> dict[str, tuple[float, float, np.ndarray, np.ndarray]]:
    """Quantize with both kinds of levels: the scale, the bias, all 16 levels, and the restored weights."""
    from tiny_llm_solution.quantized.affine import dequantize, quantize
    from tiny_llm_solution.quantized.least_squares import quantize_least_squares

    found = {}
    for words, function in (("min-max levels", quantize), ("least-squares fit", quantize_least_squares)):
        packed, scales, biases = function(group())
        steps, start = scales.item(), biases.item()
        became = np.array(dequantize(packed, scales, biases))[0]
        found[words] = (steps, start, start + steps * np.arange(16), became)
    return found


def levels() -> str:
    """Draw a tick for each level, a dot for each weight, and below it the weight's error, for both methods."""
    canvas, weights, level = Canvas(), np.array(group())[0], 0.0
    both = quantized_twice()
    low = float(min(weights.min(), *(each[2].min() for each in both.values())))
    high = float(max(weights.max(), *(each[2].max() for each in both.values())))
    largest = max(np.abs(each[3] - weights).max() for each in both.values())

    def at(x: float) -> float:
        return LEFT + WIDTH * (x - low) / (high - low)

    totals = {}
    for words, (_, _, ticks, became) in both.items():
        errors = became - weights
        totals[words] = float(np.square(errors).sum())
        canvas.text(0, level + SMALL, f"{words}: squared error {totals[words]:.6f}", "strong")
        level += SMALL + 12
        for tick in ticks:
            canvas.path([(at(tick), level), (at(tick), level + 14)], "axis")
        for weight in weights:
            canvas.circle(at(weight), level + 22, 2, "fill")
        middle = level + 32 + TALL / 2
        canvas.path([(LEFT, middle), (LEFT + WIDTH, middle)], "axis")
        for weight, error in zip(weights, errors, strict=True):
            canvas.path([(at(weight), middle), (at(weight), middle - error / largest * TALL / 2)], "line series-0")
        for y, name in ((level + 12, "levels"), (level + 26, "weights"), (middle + 4, "error")):
            canvas.text(0, y, name, "small")
        level += 32 + TALL + 16
    before, after = totals.values()
    title = "A group of 64 weights, its 16 levels, and each weight's quantization error"
    about = (
        f"Min-max levels reach from the smallest weight to the largest, and the squared error is {before:.6f}. "
        "The levels of the least-squares fit are slightly closer together: the error grows at the two ends and shrinks "
        f"for most other weights, and the squared error is {after:.6f}."
    )
    caption = (
        "Each tick is one of 16 levels, and each dot is one of the group's 64 weights. The line below a dot is the "
        "weight's rounding error, drawn upwards if rounding makes the weight larger. Few weights are near the ends, "
        "and many are near the middle, so closer levels increase a few errors and reduce many."
    )
    return canvas.figure("levels-2-3", title, about, caption)


def widget() -> str:
    """Return the widget, with the figure as its still."""
    from tiny_llm_solution.quantized.affine import quantize
    from tiny_llm_solution.quantized.least_squares import quantize_least_squares

    fits: dict[str, dict[int, list[float]]] = {}
    weights = np.array(group())[0]
    for name, function in (("min-max levels", quantize), ("least-squares fit", quantize_least_squares)):
        fits[name] = {}
        for bits in (4, 8):
            _, scales, biases = function(group(), bits=bits)
            fits[name][bits] = [round(scales.item(), 10), round(biases.item(), 8)]
    data = {"weights": [round(float(x), 6) for x in weights], "fits": fits}
    return element("quant-levels", data, levels().rstrip())
