"""Attention maps as one SVG in the book's style, and as a self-contained HTML page."""

import json
import re
from html import escape
from pathlib import Path

import numpy as np

from ...course.registry import UsageError
from ...dev.book.drawing import Canvas, squares
from ...dev.book.drawing.canvas import FONT, SMALL, width_of
from ...engine.attention_maps import AttentionMaps
from ...paths import ROOT

CELL, GAP = 14.0, 18.0  # pixels
MOST = 100_000  # squares that SVG viewers still draw
OWN = ROOT / ".tiny-llm" / "attention.html"
MARK = '<meta name="generator" content="tiny-llm attention">'
TEMPLATE = Path(__file__).with_name("page.html")


def drawing(looks: AttentionMaps, layers: list[int], heads: list[int], text: str) -> str:
    """Return an SVG, a row of maps per layer, a column per head; raise UsageError beyond MOST squares."""
    count = len(looks.tokens)
    if len(layers) * len(heads) * count * count > MOST:
        raise UsageError("That is too many squares for one drawing: select with --layer or --head.")
    names = looks.names
    hidden = np.triu(np.ones((count, count), dtype=np.bool_), k=1)
    canvas, side, size = Canvas(), max(map(width_of, names)) + 8, count * CELL
    for j, head in enumerate(heads):
        canvas.text(side + j * (size + GAP) + size / 2, SMALL, f"head {head}", "small", "middle")
    for i, layer in enumerate(layers):
        y = SMALL + 10 + i * (size + GAP + FONT)
        canvas.text(0, y + FONT, f"Layer {layer}", "strong")
        y += FONT + 6
        for row, name in enumerate(names):
            canvas.text(side - 8, y + (row + 0.8) * CELL, name, "small", "end")
        for j, head in enumerate(heads):
            x = side + j * (size + GAP)
            canvas.rect(x, y, size, size, "axis")
            squares(canvas, x, y, looks.weights[layer, head].astype(np.float64), CELL, "weights", 1.0, hidden)
    about = (
        f"{len(layers)} x {len(heads)} tables of {count} x {count} weights. A row is a query token, a column a key "
        "token, in the same order; a weight of 1 fills its cell, a dot is masked."
    )
    return canvas.in_a_file("heads", f"Attention weights: {text}", about)


def page(looks: AttentionMaps, text: str, model: str, first: tuple[int, int] = (0, 0)) -> str:
    """Return the page's HTML, with head `first` shown; weights are integers of 1e-5, rows cut at the diagonal."""
    layers, heads, count, _ = looks.weights.shape
    below = np.tril_indices(count)
    data = {
        "tokens": looks.names,
        "layers": layers,
        "heads": heads,
        "first": first[0] * heads + first[1],
        "weights": np.rint(1e5 * looks.weights[:, :, *below]).astype(int).reshape(-1).tolist(),
    }
    filled = {
        "MARK": MARK,
        "TITLE": escape(f"Attention weights: {text}"),
        "ABOUT": escape(f"{model}: {layers} layers of {heads} heads, {count} token{'s' * (count != 1)}"),
        "DATA": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: the text itself may contain a placeholder.
    return re.sub(r"\{([A-Z]+)\}", lambda place: filled[place[1]], TEMPLATE.read_text(encoding="utf-8"))
