"""The front page, what each week changes and a story, token by token; and a sentence's way through the model.

The embedded model generated it in float64 at temperature 0.7. One forward pass over the story returns the probabilities
of all its tokens, so nothing is sampled here.
"""

from html import escape

import numpy as np
from book.generate.week1.heads import heads_of, model, streams_of, tokens_of
from tests.week1.formulas import softmax64
from tests.week1.reference_model import model64

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import BOOK, EMBEDDED_MODEL

PROMPT = "Once upon a time"
STORY = (
    ", there was a little girl named Lily. She loved to play outside in the park with her friends. One day, while "
    "playing, she found a book"
)
BEST = 4  # likeliest tokens for each position
LOST = "The cat was sad because she lost her"  # a token per word
FOUND = 4, 4  # the layer and head in which the last token attends to `cat`
CELL, NUMBERS = 18.0, 4  # of the sentence's way: pixels of a square, and the numbers shown of a vector


def generated_parts() -> Parts:
    """Return the story and the figures."""
    return {"story": story(), "weeks": weeks(), "way": way(), "mistake": mistake()}


def mistake() -> str:
    """Return what `pdm run test` says of a mistake, without the failing case."""
    lines = (BOOK / "transcripts" / "mask-before-scale.txt").read_text(encoding="utf-8").splitlines()
    (failed,) = (line for line in lines if line.startswith("✗"))
    (start,) = (i for i, line in enumerate(lines) if "Your output equals" in line)
    said = [lines[0], failed, "    ...", *lines[start : start + 4]]
    return "\n".join(["```text", *said, "```", ""])


def way() -> str:
    """Draw a sentence's way through the model: a row for each token, and the likeliest tokens after the last one."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer, ids, (layer, head) = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json"), tokens_of(LOST), FOUND
    words, streams, weights = LOST.split(), streams_of(LOST), heads_of(LOST)[layer].weights[head]
    shares = softmax64(model64(np.array([ids]), model())[0, -1], -1)
    best = {str(tokenizer.decode([int(i)])).strip(): 100 * float(shares[i]) for i in np.argsort(-shares)[:NUMBERS]}
    layers, (chosen, *_), top, subject = len(streams) - 1, best, 2 * FONT + 14, int(np.argmax(weights[-1]))
    end = top + len(words) * CELL
    assert len(ids) == len(words)
    hidden = np.triu(np.ones_like(weights, dtype=np.bool_), 1)

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        gap, x, y = 24.0 if wide else 14.0, 0.0, 0.0

        def column(name: str, days: str, width: float, last: bool = False) -> float:
            """Write a heading, point from the last row to the next column, and return where the squares begin."""
            nonlocal x
            canvas.text(x, y + FONT, name, "strong")
            canvas.text(x, y + 2 * FONT + 3, days, "small")
            x += width + gap
            if not last:
                canvas.path([(x - gap + 3, y + end - CELL / 2), (x - 1, y + end - CELL / 2)], "line", arrow=True)
            return x - width - gap

        column("tokens", "day 6", 100)
        for i, (word, token) in enumerate(zip(words, ids, strict=True)):
            level = top + (i + 0.75) * CELL
            canvas.text(0, level, word, "strong" if i in (subject, len(words) - 1) else "")
            canvas.text(100, level, str(token), "small mono", "end")
        squares(canvas, column("embedding", "day 5", NUMBERS * CELL), top, streams[0][:, :NUMBERS], CELL, "stream")
        left = column("attention", "days 1 to 3", len(words) * CELL, not wide)
        squares(canvas, left, top, weights, CELL, "weights", 1.0, hidden)
        canvas.text(left + (subject + 0.5) * CELL, end + SMALL + 2, words[subject], "strong small", "middle")
        if not wide:
            x, y = 0.0, end + 26
        left = column(f"{layers} layers", "day 4: MLP", NUMBERS * CELL)
        squares(canvas, left, y + top, streams[-1][:, :NUMBERS], CELL, "stream")
        left = column("next token", "day 7", 0, True)
        margin = left + max(map(width_of, best)) + 16
        canvas.path([(left, y + end - len(best) * CELL), (left, y + end)], "axis")
        for i, (word, percent) in enumerate(best.items()):
            level = y + end + (i - len(best)) * CELL
            canvas.text(margin - 8, level + 0.75 * CELL, word, "" if i else "strong", "end")
            canvas.rect(margin, level + 2, max(1, percent), CELL - 4, "fill role-logits")
            canvas.text(margin + percent + 5, level + 0.75 * CELL, f"{percent:.0f} %", "small")
        level = y + end + 30
        canvas.path([(left + 20, y + end + 4), (left + 20, level), (44, level)], "line", arrow=True)
        canvas.text(0, level + 5, chosen, "strong role-logits")
        canvas.text(left + 30, level, "sampled and appended", "small")

    said = ", ".join(f"{word} {percent:.0f} %" for word, percent in best.items())
    about = (
        f"A row for each token of {LOST}, from its id through its embedding, attention and {layers} layers. The "
        f"likeliest tokens after the last one: {said}. The first of them is appended to the tokens."
    )
    caption = (
        f"A forward pass of the course's model, a row for each token. In the head shown, <i>{words[-1]}</i> attends to "
        f"<i>{words[subject]}</i> with a weight of {weights[-1, subject]:.2f}, and <i>{chosen}</i> is the likeliest "
        f"next token; of each vector's {model().config['hidden_size']} numbers, the first {NUMBERS} are shown."
    )
    return at_both_widths(draw).figure("way-1", "A sentence's way through the model", about, caption)


def weeks() -> str:
    """Draw the residual stream through one layer, and beside each part what each week makes of it."""
    notes = {
        "tokens": [(3, "many requests"), (6, "many replicas"), (7, "tool calls")],
        "attention": [
            (2, "KV cache"),
            (2, "flash attention"),
            (3, "pages, shared prefixes"),
            (4, "windows, latents"),
            (5, "LoRA adapters"),
            (6, "heads on ranks"),
        ],
        "mlp": [(2, "4-bit weights, kernels"), (4, "experts, shared layers"), (6, "experts on ranks")],
        "head": [(5, "loss and gradients"), (6, "vocabulary on ranks")],
        "sampler": [(3, "draft tokens verified"), (7, "a grammar's mask")],
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
        f"add to it. {week_link(1)} builds all parts. Beside each part are the weeks that extend it: "
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
