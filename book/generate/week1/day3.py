"""Day 3's figures: heads that share keys and values, and the size of a model's cache."""

import json
from itertools import pairwise

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, flow
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL

# Models: layers, query heads, key-value heads, D, and a power of two of tokens that they take.
MODELS = {"Qwen3-0.6B": (28, 16, 8, 128, 32768), "Qwen3-4B": (36, 32, 8, 128, 32768)}


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"qwen3": qwen3(), "gqa-sharing": gqa_sharing()}


def sharing() -> str:
    """Draw six query heads with six, two and one key-value heads."""
    canvas = Canvas()
    boxes: Boxes = {}
    grid: list[list[str]] = []
    arrows: list[tuple[str, ...]] = []
    names = {6: "multi-head, H_kv = 6", 2: "grouped, H_kv = 2", 1: "multi-query, H_kv = 1"}
    for count, name in names.items():
        boxes[name] = f" {name}"
        boxes |= {f"q{count}-{h}": (f"Q{h}", "query") for h in range(6)}
        boxes |= {f"k{count}-{h}": (f"K{h} V{h}", "key") for h in range(count)}
        shared = [f"k{count}-{h * count // 6}" for h in range(6)]
        grid += [[name] * 6, [f"q{count}-{h}" for h in range(6)], shared]
        arrows += [(f"q{count}-{h}", shared[h]) for h in range(6)]
    flow(canvas, grid, boxes, arrows, gap=8)
    about = (
        "Three arrangements of six query heads. With six key-value heads, each query head uses its own. With two, "
        "three adjacent query heads share a key-value head. With a single key-value head, all six query heads share it."
    )
    caption = (
        "Each arrow connects a query head to the key-value head that it uses. The course's model uses the arrangement "
        "in the middle."
    )
    return canvas.figure("sharing-1-3", "Query heads and the key-value heads that they use", about, caption)


def qwen3() -> str:
    """Draw Qwen3's attention, from x to the output."""
    kinds = {"query": "H", "key": "H_kv", "value": "H_kv"}
    boxes: Boxes = {
        "x": ("x\nL x E", "stream"),
        "attention": ("grouped attention\nH x L x D", "weights"),
        "join": "join\nL x (H·D)",
        "out": "output\nL x E",
    }
    arrows: list[tuple[str, ...]] = [("attention", "join"), ("join", "out", "wo")]
    steps = ("split", "norm", "RoPE", "swap")
    rows: list[list[str]] = [[] for _ in steps]
    for kind, count in kinds.items():
        boxes[f"{kind}-split"] = (f"{kind}\nL x {count} x D", kind)
        boxes |= {f"{kind}-{step}": (step, kind) for step in ("norm", "RoPE")}
        boxes[f"{kind}-swap"] = (f"swap\n{count} x L x D", kind)
        own = [step for step in steps if kind != "value" or step in ("split", "swap")]
        for row, step in zip(rows, steps, strict=True):
            row.append(f"{kind}-{step}" if step in own else "")
        arrows += [("x", f"{kind}-split", f"w{kind[0]}"), (f"{kind}-swap", "attention")]
        arrows += [(f"{kind}-{a}", f"{kind}-{b}") for a, b in pairwise(own)]
    canvas = Canvas()
    grid = [["x"] * 3, *rows, ["attention"] * 3, ["", "join", ""], ["", "out", ""]]
    flow(canvas, grid, boxes, arrows)
    about = (
        "x is projected to queries, keys and values and split into heads. Queries and keys go through a norm and RoPE, "
        "and values do not. The head and length axes of all three are swapped. Grouped attention combines the three, "
        "its heads are joined, and wo projects the result."
    )
    caption = "Each box is a step. The shapes are for one of the N sequences."
    return canvas.figure("qwen3-1-3", "Qwen3's attention", about, caption)


def gqa_sharing() -> str:
    """Return the widget, with the figure as its still."""
    config = json.loads((EMBEDDED_MODEL / "config.json").read_text(encoding="utf-8"))
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings")
    models = {EMBEDDED_MODEL.name: tuple(config[name] for name in names), **MODELS}
    data = [
        {"name": name, "layers": layers, "heads": queries, "kv_heads": own, "head_dim": dims, "context": context}
        for name, (layers, queries, own, dims, context) in models.items()
    ]
    return element("gqa-sharing", {"bytes": 2, "models": data}, sharing().rstrip())
