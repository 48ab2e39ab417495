"""Day 4's pictures: how few numbers hold the keys and values of a real layer, and the two ways to read latents."""

import functools
from typing import NamedTuple

import numpy as np
from book.generate.week1.heads import SENTENCE, SHOWN, model, streams_of
from tests.week1.formulas import linear64, rms_norm64, rope64

from tiny_llm_course.dev.book.drawing import Canvas, strips
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.rounding import Array64

STORIES = ROOT / "models" / "held-out-stories.txt"  # which the model was not trained on
READ = 1800  # letters of them
KEPT = (16, 32, 64, 80, 96, 128)  # numbers
DRAWN = (80, 16)


class Vectors(NamedTuple):
    """Of one layer, the keys and values of all heads side by side: L x 2 H_kv D."""

    plain: Array64  # keys as they are before RoPE
    turned: Array64


def generated_parts() -> Parts:
    """The pictures."""
    return {
        "restored": restored(),
        "shares": shares(),
    }


def vectors_of(text: str) -> Vectors:
    """The keys and values of a text in the layer that the book follows; values weigh as much as keys."""
    config, layer = model().config, SHOWN[0]
    w, eps, count = model().layer64(layer), config["rms_norm_eps"], config["num_key_value_heads"]
    read = rms_norm64(streams_of(text)[layer][None], w["input_layernorm.weight"], eps)
    length = read.shape[1]
    key, value = (linear64(read, w[f"self_attn.{x}_proj.weight"]).reshape(1, length, count, -1) for x in "kv")
    normed = rms_norm64(key, w["self_attn.k_norm.weight"], eps)
    turned = rope64(normed, [range(length)], config["rope_theta"])
    flat = value.reshape(length, -1)
    return Vectors(*(np.concatenate([x.reshape(length, -1), flat], axis=-1) for x in (normed, turned)))


@functools.cache
def stories() -> Vectors:
    """Those of some stories, in which directions are found."""
    return vectors_of(STORIES.read_text(encoding="utf-8")[:READ])


def balanced(vectors: Array64, like: Array64) -> Array64:
    """Keys and values, each over the root of the mean square that they have in `like`."""
    half = vectors.shape[1] // 2
    sizes = [np.sqrt(np.mean(like[:, part] ** 2)) for part in (slice(half), slice(half, None))]
    even: Array64 = vectors / np.repeat(sizes, half)
    return even


def share_kept(vectors: Array64) -> Array64:
    """Which share of all squares is kept by the best 1, 2, 3 .. numbers a token."""
    squares = np.linalg.svd(balanced(vectors, vectors), compute_uv=False) ** 2
    kept: Array64 = np.cumsum(squares) / squares.sum()
    return kept


def restored() -> str:
    """One key of the sentence, as it is, and as it is restored from fewer numbers."""
    every = stories().plain
    directions = np.linalg.svd(balanced(every, every), full_matrices=False)[2]
    token = balanced(vectors_of(SENTENCE).plain, every)[-1:]  # of `dog`
    dims = model().config["head_dim"]
    rows = [token[0, :dims]]
    for count in DRAWN:
        latent = token @ directions[:count].T
        rows.append((latent @ directions[:count])[0, :dims])
    width = token.shape[1]
    canvas = Canvas()
    strips(canvas, np.array(rows), [f"of {width}", *(f"of {count}" for count in DRAWN)], "key")
    about = (
        f"Three rows of {dims} bars: the key of dog as it is, restored from {DRAWN[0]} numbers, nearly the same, and "
        f"from {DRAWN[1]}, with the same large bars and other small ones."
    )
    caption = (
        f"A key of <code>dog</code> in layer {SHOWN[0]} of the embedded model: {dims} of the {width} numbers that the "
        f"layer caches for this token. Above the original; below its reconstruction if all {width} are projected to "
        f"{DRAWN[0]} principal components, and to {DRAWN[1]}. The components were computed on other stories."
    )
    return canvas.figure("restored-4-4", "A key, restored from a latent", about, caption)


def shares() -> str:
    """A table: what is kept of keys and values by so many numbers, before RoPE and after it."""
    plain, turned = (share_kept(x) for x in stories())
    width = stories().plain.shape[1]
    heading = f"| components kept of {width} | before RoPE: % | after RoPE: % |"
    rows = [f"| {n} | {100 * plain[n - 1]:.1f} | {100 * turned[n - 1]:.1f} |" for n in KEPT]
    count = len(stories().plain)
    about = (
        f"*Variance of the layer-{SHOWN[0]} keys and values retained by the top principal components, over {count} "
        f"tokens of stories.*"
    )
    return "\n".join([heading, "| --: | --: | --: |", *rows, "", about, ""])
