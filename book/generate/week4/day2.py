"""Day 2's widget and figures: one token's fused vectors in both orders, a layer's heads, a row after dropout."""

import numpy as np
from book.generate.week1.heads import SENTENCE, SHOWN, example, heads_of, model, streams_of
from tests.week1.formulas import linear64, rms_norm64
from tests.week4.formulas_day2 import places, stays64

from tiny_llm_course.dev.book.drawing import Canvas, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, width_of
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import Array64, to_float64

TOKENS = SENTENCE.split()
FEATURES = 6  # of each vector that are drawn
WIDE, CELL = 36.0, 12.0  # pixels: of a vector, of a number
RATE, CHANCES = 0.4, (1, 2, 3)  # of dropout, and the keys of three steps
WEIGHT = 44.0  # pixels of a weight
ACROSS, SIDE = 3, 18.0  # maps beside each other, and pixels of a weight in them


def generated_parts() -> Parts:
    """Return the widget, with the figure of both orders as its still, and the other figure."""
    vectors, heads, kv_heads = fused()
    data = {"heads": heads, "kv": kv_heads, "vectors": (vectors[:, :FEATURES].round(4) + 0.0).tolist()}
    return {
        "orders": element("fused-layouts", data, orders().rstrip()),
        "heads": maps(),
        "dropped": dropped(),
    }


def fused() -> tuple[Array64, int, int]:
    """Return the last token's projections in the shown layer, in blocks, (H + 2 H_kv) x D; H and H_kv."""
    layer, config = SHOWN[0], model().config
    weights = {name: to_float64(w) for name, w in model().layer(layer).items()}
    read = rms_norm64(streams_of(SENTENCE)[layer][-1:], weights["input_layernorm.weight"], config["rms_norm_eps"])
    parts = [linear64(read, weights[f"self_attn.{name}_proj.weight"])[0] for name in "qkv"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    return np.concatenate(parts).reshape(heads + 2 * kv_heads, -1), heads, kv_heads


def orders() -> str:
    """Draw the same vectors in blocks and interleaved, with a line from each to itself."""
    vectors, heads, kv_heads = fused()
    names = [f"q{i}" for i in range(heads)] + [f"{kind}{i}" for kind in "kv" for i in range(kv_heads)]
    roles = {"q": "query", "k": "key", "v": "value"}
    largest = float(np.abs(vectors[:, :FEATURES]).max())
    canvas, tall = Canvas(), FEATURES * CELL
    tops = {"blocks": FONT + SMALL + 12, "interleaved": FONT + SMALL + 12 + tall + 116}
    at = {layout: [columns[0] for columns in places(heads, kv_heads, 1, layout)] for layout in tops}
    for layout, top in tops.items():
        canvas.text(0, top - SMALL - 10, layout, "strong")
        for vector, name in enumerate(names):
            x, role = at[layout][vector] * WIDE, roles[name[0]]
            canvas.text(x + WIDE / 2, top - 4, name, f"small role-{role}", "middle")
            squares(canvas, x + (WIDE - CELL) / 2, top, vectors[vector, :FEATURES, None], CELL, role, largest)
    above, below = tops["blocks"] + tall + 4, tops["interleaved"] - 2 * SMALL - 16
    for vector, name in enumerate(names):
        ends = [(at[layout][vector] + 0.5) * WIDE for layout in ("blocks", "interleaved")]
        canvas.path([(ends[0], above), (ends[1], below)], f"line role-{roles[name[0]]}")
    ordered = {layout: sorted(range(len(names)), key=lambda v: at[layout][v]) for layout in tops}
    told = "; ".join(f"{layout}: {' '.join(names[v] for v in order)}" for layout, order in ordered.items())
    about = f"Two rows of vectors, joined by lines. {told}."
    caption = (
        f"Each column is a vector of the fused projection of <code>dog</code> in layer {SHOWN[0]} of the course's "
        f"model: six queries, two keys and two values, with the first {FEATURES} of 64 features each. Above, the "
        "vectors are in blocks. Below, they are interleaved, three queries with the key and the value that they share. "
        "The vectors are the same, and only their order differs."
    )
    return canvas.figure("orders-4-2", "One token's queries, keys and values in two orders", about, caption)


def maps() -> str:
    """Draw the attention weights of the shown layer's heads."""
    shown, canvas = heads_of(SENTENCE)[SHOWN[0]].weights, Canvas()
    size, left = len(TOKENS) * SIDE, max(map(width_of, TOKENS)) + 8
    for head, weights in enumerate(shown):
        x, y = left + head % ACROSS * (size + 10), 20 + head // ACROSS * (size + 36)
        canvas.text(x + size / 2, y - 6, f"head {head}", "small", "middle")
        canvas.rect(x, y, size, size, "axis")
        squares(canvas, x, y, np.where(weights < 0.05, 0, weights), SIDE, "weights", 1.0)
        for i, token in enumerate(TOKENS if x == left else ()):
            canvas.text(left - 6, y + (i + 0.5) * SIDE + 5, token, "", "end")
    last = [", ".join(f"{token} {weight:.2f}" for token, weight in zip(TOKENS, w[-1], strict=True)) for w in shown]
    about = "Last rows: " + "; ".join(f"head {head}: {row}" for head, row in enumerate(last)) + "."
    caption = (
        f"The heads of layer {SHOWN[0]} of the course's model. A row is a query and a column a key, with the tokens in "
        "the same order. A full square is a weight of 1, and weights below 0.05 are left out."
    )
    return canvas.figure("heads-4-2", f"The heads of layer {SHOWN[0]} on the same sentence", about, caption)


def dropped() -> str:
    """Draw a row of weights, and the same row after dropout in three training steps."""
    weights = example().weights[-1]
    canvas, right = Canvas(), len(weights) * WEIGHT + 12
    for i, token in enumerate(TOKENS):
        canvas.text((i + 0.5) * WEIGHT, SMALL, token, "small", "middle")
    rows = [("without dropout", weights)]
    for chance in CHANCES:
        rows.append((f"PRNG key {chance}", weights * stays64(RATE, weights.shape, chance) / (1 - RATE)))
    told = []
    for i, (name, row) in enumerate(rows):
        y = SMALL + 10 + i * (WEIGHT * 0.7 + SMALL + 14)
        for j, weight in enumerate(row):
            side = WEIGHT * 0.7
            squares(canvas, j * WEIGHT + (WEIGHT - side) / 2, y, np.array([[weight]]), side, "weights", 1.0)
            canvas.text((j + 0.5) * WEIGHT, y + side + SMALL, f"{weight:.2f}", "small mono", "middle")
        canvas.text(right, y + 0.35 * WEIGHT, name, "strong small")
        canvas.text(right, y + 0.35 * WEIGHT + SMALL + 4, f"sum {row.sum():.2f}", "small")
        told.append(f"{name}: {', '.join(f'{weight:.2f}' for weight in row)}, sum {row.sum():.2f}")
    about = f"Four rows of five squares. {'; '.join(told)}."
    caption = (
        f"Each square is an attention weight of <code>dog</code>, from day 1 of week 1. The first row is without "
        f"dropout, and the rows below are after dropout at a rate of {RATE:g}, with three PRNG keys. The weights that "
        f"are kept are divided by {1 - RATE:g}, so a row sums to 1 on average."
    )
    return canvas.figure("dropped-4-2", "A row of weights, and three samples of dropout", about, caption)
