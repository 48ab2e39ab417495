"""The page of the heads: all maps small, one large with its numbers. It stands by itself, and asks for nothing."""

import json
import re
from html import escape
from pathlib import Path

import numpy as np

from ...engine.attending import Looks
from ...paths import ROOT

OWN = ROOT / ".tiny-llm" / "attention.html"
MARK = '<meta name="generator" content="tiny-llm attention">'
TEMPLATE = Path(__file__).with_name("page.html")


def page(looks: Looks, text: str, model: str, first: tuple[int, int] = (0, 0)) -> str:
    """The page's text, with the layer and the head that it shows first.

    Its weights have five digits: layer by layer, head by head, each row up to its own place.
    """
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
        "TITLE": escape(f"What the heads look at: {text}"),
        "ABOUT": escape(f"{model}: {layers} layers of {heads} heads, {count} token{'s' * (count != 1)}"),
        "DATA": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one go: what a text says may look like a place to fill.
    return re.sub(r"\{([A-Z]+)\}", lambda place: filled[place[1]], TEMPLATE.read_text(encoding="utf-8"))
