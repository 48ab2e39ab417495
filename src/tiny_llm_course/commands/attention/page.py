"""The page of the heads: all maps small, one large with its numbers. It stands by itself, and asks for nothing."""

import json
from html import escape
from pathlib import Path

import numpy as np

from ...engine.attending import Looks
from ...paths import ROOT
from .command import visible

OWN = ROOT / ".tiny-llm" / "attention.html"
MARK = '<meta name="generator" content="tiny-llm attention">'
TEMPLATE = Path(__file__).with_name("page.html")


def page(looks: Looks, text: str, model: str) -> str:
    """The page's text. Weights are in thousandths: layer by layer, head by head, each row up to its own place."""
    layers, heads, count, _ = looks.weights.shape
    below = np.tril_indices(count)
    data = {
        "tokens": [visible(token) for token in looks.tokens],
        "layers": layers,
        "heads": heads,
        "weights": np.rint(1000 * looks.weights[:, :, *below]).astype(int).reshape(-1).tolist(),
    }
    filled = {
        "MARK": MARK,
        "TITLE": escape(f"What the heads look at: {text}"),
        "ABOUT": escape(f"{model}: {layers} layers of {heads} heads, {count} token{'s' * (count != 1)}"),
        "DATA": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = TEMPLATE.read_text(encoding="utf-8")
    for name, value in filled.items():
        page = page.replace(f"{{{name}}}", value)
    return page
