"""The front page: what each week changes, and a story, token by token, with the likeliest tokens at each position.

The embedded model generated it in float64 at temperature 0.7. One forward pass over the story returns the probabilities
of all its tokens, so nothing is sampled here.
"""

from html import escape

import numpy as np
from book.generate.week1.heads import model, tokens_of
from tests.week1.formulas import softmax64
from tests.week1.reference_model import model64

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow
from tiny_llm_course.dev.book.drawing.canvas import SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL

PROMPT = "Once upon a time"
STORY = (
    ", there was a little girl named Lily. She loved to play outside in the park with her friends. One day, while "
    "playing, she found a book"
)
BEST = 4  # likeliest tokens for each position


def generated_parts() -> Parts:
    """Return the story and the figure."""
    return {"story": story(), "weeks": weeks()}


def weeks() -> str:
    """Draw the residual stream through one layer, and beside each part what each week makes of it."""
    notes = {
        "tokens": [(3, "of many requests"), (6, "over replicas"), (7, "tool calls")],
        "attention": [
            (2, "KV cache"),
            (2, "flash attention"),
            (3, "pages, prefixes"),
            (4, "masks, MLA, windows"),
            (5, "LoRA"),
            (6, "heads on ranks"),
        ],
        "mlp": [(2, "4-bit weights, kernels"), (4, "experts, shared layers"), (6, "experts on ranks")],
        "head": [(5, "loss and gradients"), (6, "vocabulary on ranks")],
        "sampler": [(3, "checks draft tokens"), (7, "a grammar's mask")],
    }
    boxes: Boxes = {
        "tokens": "tokens",
        "embedding": ("embedding", "stream"),
        "attention": ("attention", "weights"),
        "mlp": "MLP",
        "+": ("+", "stream"),
        "between": ("stream", "stream"),
        "++": ("+", "stream"),
        "head": ("head", "logits"),
        "sampler": "sampler",
    }
    grid = [
        ["tokens"],
        ["embedding"],
        ["", "attention"],
        ["+"],
        ["between"],
        ["", "mlp"],
        ["++"],
        ["head"],
        ["sampler"],
    ]
    arrows: list[tuple[str, ...]] = [
        ("tokens", "embedding"),
        ("embedding", "+"),
        ("embedding", "attention"),
        ("attention", "+"),
        ("+", "between"),
        ("between", "++"),
        ("between", "mlp"),
        ("mlp", "++"),
        ("++", "head"),
        ("head", "sampler"),
    ]
    said = "; ".join(
        f"{boxes[name][0] if isinstance(boxes[name], tuple) else boxes[name]}: "
        + ", ".join(f"{what} in week {week}" for week, what in each)
        for name, each in notes.items()
    )

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        frames = flow(canvas, grid, boxes, arrows, gap=60 if wide else 12)
        left = max(x + width for x, _, width, _ in frames.values()) + (40 if wide else 13)
        for name, each in notes.items():
            x, y, width, height = frames[name]
            middle, half = y + height / 2, 9 * len(each) - 2
            canvas.path([(x + width + 3, middle), (left - 7, middle)], "axis")
            canvas.path([(left - 7, middle - half), (left - 7, middle + half)], "axis")
            top = middle + 5 - 9 * (len(each) - 1)
            for i, (week, what) in enumerate(each):
                label = f"week {week}" if wide else f"{week}"
                canvas.text(left, top + 18 * i, label, "strong small")
                canvas.text(left + width_of(label, SMALL) + 8, top + 18 * i, what, "" if wide else "small")

    about = f"A column from tokens to sampler, in which attention and the MLP add to the residual stream. {said}."
    caption = (
        "One layer of the model is shown, and all layers are alike. Attention and the MLP read the residual stream and "
        f"add to it. {week_link(1)} builds all parts, and the numbers are the weeks that change a part: "
        f"{', '.join(map(week_link, sorted({week for each in notes.values() for week, _ in each})))}."
    )
    return at_both_widths(draw).figure("weeks", "The engine, and what each week changes in it", about, caption)


def week_link(number: int) -> str:
    """Return a link to a week's overview."""
    return f'<a href="week{number}/overview.html">Week {number}</a>'


def story() -> str:
    """Return each token of the story with its probability and the likeliest tokens at its position."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    prompt, ids = tokens_of(PROMPT), tokens_of(PROMPT + STORY)
    shares = softmax64(model64(np.array([ids]), model())[0], -1)
    steps = []
    for place in range(len(prompt), len(ids)):
        before = shares[place - 1]
        best = [int(token) for token in np.argsort(-before, kind="stable")[:BEST]]
        said = [[str(tokenizer.decode([token])), round(float(before[token]), 3)] for token in (ids[place], *best)]
        steps.append({"said": said[0], "best": said[1:]})
    told = escape(tokenizer.decode(ids[len(prompt) :]))
    still = f'<figure class="drawn"><p><b>{PROMPT}</b>{told} ...</p></figure>'
    return element("story-teller", {"prompt": PROMPT, "steps": steps}, still)
