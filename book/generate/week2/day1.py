"""Day 1's figure and widget: what is computed for each new token, with a KV cache and without."""

import numpy as np
from book.generate.week1.heads import SENTENCE, example
from tests.week1.formulas import causal64
from tests.week1.reference_model import embedded_model

from tiny_llm_course.dev.book.drawing import Canvas, squares
from tiny_llm_course.dev.book.drawing.canvas import SMALL
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts

TOKENS = SENTENCE.split()
CELL, GAP = 13.0, 9.0  # pixels
PROMPT, STORY = 16, 256  # tokens of the widget's prompt, and of its prompt and story


def generated_parts() -> Parts:
    """Return the figure and the widget."""
    return {"anew": anew(), "kv-cache": kv_cache()}


def anew() -> str:
    """Draw the weights that each of five steps computes, without a cache and with one."""
    canvas, shares, size = Canvas(), example().weights, len(TOKENS)
    left = [sum(n * CELL + GAP for n in range(1, count)) for count in range(1, size + 1)]
    level = 0.0
    for cached, heading in ((False, "without a cache: all rows"), (True, "with a cache: new row only")):
        canvas.text(0, level + SMALL, heading, "strong")
        level += SMALL + 10
        for count, x in zip(range(1, size + 1), left, strict=True):
            hidden = causal64(count, count) < 0
            rows = slice(count - 1 if cached else 0, count)
            canvas.rect(x - 1, level - 1, count * CELL + 2, count * CELL + 2, "axis")
            squares(canvas, x, level + rows.start * CELL, shares[rows, :count], CELL, "weights", 1.0, hidden[rows])
        level += size * CELL + 6
        for token, count, x in zip(TOKENS, range(1, size + 1), left, strict=True):
            canvas.text(x + count * CELL / 2, level + SMALL, token, "small", "middle")
        level += SMALL + 18
    anew_now, before = computed(False), computed(True)
    title = "Attention weights computed while five tokens are decoded one by one"
    about = (
        f"Five steps. Without a cache, they compute 1, 4, 9, 16 and 25 weights, {anew_now} in total, including every "
        f"row of the previous step. With a cache, they compute 1, 2, 3, 4 and 5 weights, {before} in total."
    )
    caption = (
        "Each grid shows one head's attention weights in one step, as on day 1 of week 1: rows are queries, columns "
        "are keys, and a dot is a masked key. Each step adds the token below its grid. Without a cache, every row but "
        "the last repeats the weights of the previous step exactly."
    )
    return canvas.figure("anew-2-1", title, about, caption)


def computed(cached: bool) -> int:
    """Count the weights that all steps compute together."""
    counts = np.arange(1, len(TOKENS) + 1)
    return int((counts if cached else counts**2).sum())


def kv_cache() -> str:
    """Return the widget, and a table of some of its steps; the bytes are those of the course's model in float32."""
    config = embedded_model().config
    a_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 4
    rows = []
    for length in (PROMPT, PROMPT + 1, 64, 128, STORY):
        before = sum(range(PROMPT, length + 1))
        step = length if length == PROMPT else 1
        rows.append(
            [str(length), str(length), f"{before:,}", str(step), str(length), f"{length * a_token // 1024:,} KiB"]
        )
    head = ["sequence", "computed without a cache", "in total", "computed with a cache", "in total", "cache size"]
    data = {"prompt": PROMPT, "tokens": STORY, "bytes": a_token}
    return element("kv-cache", data, table("Tokens that pass through the model", head, rows))
