"""Day 4's figures and widget: keys and values from a few directions, two ways to attend, the cache's size."""

import functools
from typing import NamedTuple

import numpy as np
from book.generate.week1.heads import SENTENCE, SHOWN, model, streams_of
from tests.week1.formulas import linear64, rms_norm64, rope64

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow, strips
from tiny_llm_course.dev.book.drawing.canvas import SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.rounding import Array64

STORIES = ROOT / "models" / "held-out-stories.txt"  # not in the training data
READ = 1800  # characters, for the directions; as many after them measure the loss
KEPT = (16, 32, 64, 80, 96, 128)  # numbers
DRAWN = (80, 16)
GAP = 36.0  # pixels between two diagrams


# The widget's models, by their config.json. Only the first has a latent, and no groups. The others get a
# RoPE key of the same size.
WIDGET = {
    "DeepSeek-V3": {"layers": 61, "heads": 128, "dims": 128, "rope": 64, "group": 0},
    "Llama 3.1 8B": {"layers": 32, "heads": 32, "dims": 128, "rope": 64, "group": 4},
    "Qwen3-0.6B": {"layers": 28, "heads": 16, "dims": 128, "rope": 64, "group": 2},
}


V3 = WIDGET["DeepSeek-V3"] | {"latent": 512}


class Vectors(NamedTuple):
    """Of one layer, the keys and values of all heads side by side: L x 2 H_kv D."""

    plain: Array64  # keys as they are before RoPE
    rotated: Array64


def generated_parts() -> Parts:
    """Return the figure, the table and the widget."""
    return {"restored": restored(), "paths": paths(), "shares": shares(), "cache-bytes": cache_bytes()}


def vectors_of(text: str) -> Vectors:
    """Return the keys and values of a text in the layer that the book follows."""
    config, layer = model().config, SHOWN[0]
    w, eps, count = model().layer64(layer), config["rms_norm_eps"], config["num_key_value_heads"]
    read = rms_norm64(streams_of(text)[layer][None], w["input_layernorm.weight"], eps)
    length = read.shape[1]
    key, value = (linear64(read, w[f"self_attn.{x}_proj.weight"]).reshape(1, length, count, -1) for x in "kv")
    normed = rms_norm64(key, w["self_attn.k_norm.weight"], eps)
    rotated = rope64(normed, [range(length)], config["rope_theta"])
    flat = value.reshape(length, -1)
    return Vectors(*(np.concatenate([x.reshape(length, -1), flat], axis=-1) for x in (normed, rotated)))


@functools.cache
def stories() -> Vectors:
    """Return the vectors of some stories, from which the directions are computed."""
    return vectors_of(STORIES.read_text(encoding="utf-8")[:READ])


@functools.cache
def other_stories() -> Vectors:
    """Return the vectors of the stories after these."""
    return vectors_of(STORIES.read_text(encoding="utf-8")[READ : 2 * READ])


def directions_of(vectors: Array64) -> Array64:
    """Return the right singular vectors of balanced keys and values, the first of which lose least."""
    found: Array64 = np.linalg.svd(balanced(vectors, vectors), full_matrices=False)[2]
    return found


def balanced(vectors: Array64, like: Array64) -> Array64:
    """Divide keys and values by their RMS in `like`, so that both have the same weight."""
    half = vectors.shape[1] // 2
    sizes = [np.sqrt(np.mean(like[:, part] ** 2)) for part in (slice(half), slice(half, None))]
    even: Array64 = vectors / np.repeat(sizes, half)
    return even


def share_kept(vectors: Array64, like: Array64) -> Array64:
    """Return the fraction of the squared length of `vectors` that the first 1, 2, 3 .. directions of `like` keep."""
    squares = np.sum((balanced(vectors, like) @ directions_of(like).T) ** 2, axis=0)
    kept: Array64 = np.cumsum(squares) / squares.sum()
    return kept


def restored() -> str:
    """Draw a key and a value of the sentence, and their reconstructions from fewer numbers."""
    every = stories().rotated
    directions = directions_of(every)
    token = balanced(vectors_of(SENTENCE).rotated, every)[-1:]  # of `dog`
    rows = [token[0], *(((token @ directions[:count].T) @ directions[:count])[0] for count in DRAWN)]
    dims, width = model().config["head_dim"], token.shape[1]
    names = ["original", *(f"from {count}" for count in DRAWN)]
    starts = {"key": 0, "value": width // 2}  # of head 0
    parts = {role: np.array([row[at : at + dims] for row in rows]) for role, at in starts.items()}

    def draw(canvas: Canvas) -> None:
        for role, vectors in parts.items():
            level = canvas.bottom + (16 if role == "value" else 0)
            canvas.text(0, level + SMALL, role, "strong")
            strips(canvas, vectors, names, role, level=level + SMALL + 8)

    lost = {role: [_lost(vectors[0], each) for each in vectors[1:]] for role, vectors in parts.items()}
    about = (
        f"A key and a value of dog, each as three rows of {dims} bars: the original, and restored from {DRAWN[0]} and "
        f"from {DRAWN[1]} elements. From {DRAWN[0]}, both keep their large bars. From {DRAWN[1]}, the key has its "
        f"largest bar but different small bars, and the bars of the value are much smaller."
    )
    caption = (
        f"Each bar is an element of the key or the value of <code>dog</code>, for key-value head 0 in layer {SHOWN[0]} "
        f"of the course's model: {2 * dims} of the {width} elements that the layer caches for this token. Below the "
        f"originals are their reconstructions after all {width} elements, with keys and values scaled to the same RMS, "
        f"have been projected onto the top {DRAWN[0]} and {DRAWN[1]} directions of other stories. The squared error, "
        f"relative to the vector's squared length, is {lost['key'][0]} and {lost['key'][1]} for the key, and "
        f"{lost['value'][0]} and {lost['value'][1]} for the value."
    )
    return at_both_widths(draw).figure("restored-4-4", "A key and a value, restored from a latent", about, caption)


def _lost(original: Array64, other: Array64) -> str:
    return f"{np.sum((original - other) ** 2) / np.sum(original**2):.0%}".replace("%", " %")


def paths() -> str:
    """Draw the attention of one head in a decode step, expanded and absorbed, with DeepSeek-V3's sizes."""
    plain, rope, latent = V3["dims"], V3["rope"], V3["latent"]
    cache = f"latent c\nS x {latent}"
    expanded: Boxes = {
        "query": (f"query\n{plain} + {rope}", "query"),
        "latent": cache,
        "rope": (f"RoPE key\nS x {rope}", "key"),
        "key": (f"key\nS x {plain}", "key"),
        "value": (f"value\nS x {plain}", "value"),
        "attention": ("attention\nall S keys, all S values", "weights"),
        "out": (f"output\n{plain}", "value"),
    }
    absorbed: Boxes = {
        "query": (f"query\n{plain} + {rope}", "query"),
        "latent": cache,
        "rope": (f"RoPE key\nS x {rope}", "key"),
        "absorbed": (f"absorbed\n{latent} + {rope}", "query"),
        "attention": ("attention\nlatents as keys and values", "weights"),
        "sum": f"weighted sum\n{latent}",
        "out": (f"output\n{plain}", "value"),
    }
    grids = {
        "Expanded": [
            ["query", "latent", "latent", "rope"],
            ["", "key", "value", ""],
            ["attention"] * 4,
            ["", "out", "out", ""],
        ],
        "Absorbed": [
            ["query", "latent", "rope"],
            ["absorbed", "", ""],
            ["attention"] * 3,
            ["", "sum", ""],
            ["", "out", ""],
        ],
    }
    ways: dict[str, list[tuple[str, ...]]] = {
        "Expanded": [
            ("latent", "key", "W^K"),
            ("latent", "value", "W^V"),
            ("query", "attention"),
            ("key", "attention"),
            ("value", "attention"),
            ("rope", "attention"),
            ("attention", "out"),
        ],
        "Absorbed": [
            ("query", "absorbed", "W^K"),
            ("latent", "attention"),
            ("rope", "attention"),
            ("absorbed", "attention"),
            ("attention", "sum"),
            ("sum", "out", "W^V"),
        ],
    }

    def draw(canvas: Canvas) -> None:
        x = y = 0.0
        for name, boxes in (("Expanded", expanded), ("Absorbed", absorbed)):
            canvas.text(x, y + 14, name, "strong")
            frames = flow(canvas, grids[name], boxes, ways[name], corner=(x, y + 26))
            right = max(left + width for left, _, width, _ in frames.values())
            if canvas.width > WIDEST:
                x = right + GAP
            else:
                y = canvas.bottom + 22

    about = (
        f"Expanded: every step computes the keys and values of all S tokens from their latents, and attends to them. "
        f"Absorbed: the key matrix multiplies the query, attention compares the result with the {latent} elements of "
        f"each latent, and the value matrix multiplies the weighted sum of the latents once."
    )
    caption = (
        "One head of DeepSeek-V3 in a decode step, with S tokens in the cache, which contains the latents and the RoPE "
        "keys. In the expanded form, each matrix multiplies S latents. In the absorbed form, each matrix multiplies "
        "one vector. The output is the same."
    )
    return at_both_widths(draw).figure("paths-4-4", "Latent attention, expanded and absorbed", about, caption)


def shares() -> str:
    """Return a table of the squared length that so many directions keep, before RoPE and after it."""
    plain, rotated = (share_kept(x, like) for x, like in zip(other_stories(), stories(), strict=True))
    width = stories().plain.shape[1]
    heading = f"| Directions, of {width} | Kept before RoPE, % | Kept after RoPE, % |"
    rows = [f"| {n} | {100 * plain[n - 1]:.1f} | {100 * rotated[n - 1]:.1f} |" for n in KEPT]
    count = len(other_stories().plain)
    about = (
        f"*Squared length of the layer-{SHOWN[0]} keys and values that the top directions keep, over {count} tokens of "
        f"stories that were not used to compute the directions.*"
    )
    return "\n".join([heading, "| --: | --: | --: |", *rows, "", about, ""])


def cache_bytes() -> str:
    """Return the widget, and a table of what a token takes with four kinds of attention, at two bytes a number."""
    rows = []
    for name, sizes in WIDGET.items():
        heads, dims = sizes["heads"], sizes["dims"]
        numbers = (2 * heads * dims, 2 * heads // (sizes["group"] or 8) * dims, 2 * dims, 512 + sizes["rope"])
        rows.append([name, *(f"{2 * sizes['layers'] * count:,}" for count in numbers)])
    head = ["model", "MHA", "GQA", "MQA", "MLA, C = 512"]
    caption = "Cache bytes per token in bfloat16, if the model used this kind of attention; groups of 8, 4 and 2 heads"
    return element("cache-bytes", {"models": WIDGET}, table(caption, head, rows))
