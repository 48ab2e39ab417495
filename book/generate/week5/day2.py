"""Day 2's figures and widget: real stories packed in rows, their mask, and losses that are wrong in telling ways."""

import functools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import model, tokens_of
from tests.week1.formulas import linear64, rms_norm64
from tests.week1.reference_model import block64
from tests.week5.formulas_day2 import FIELDS, IGNORE, cross_entropy64, gradient64, pack64

from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines
from tiny_llm_course.dev.book.drawing.canvas import SMALL
from tiny_llm_course.dev.book.html import MINUS, element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.testkit.rounding import Array64, to_float64

LENGTH, ROWS, SHOWN = 64, 6, 2  # of the first figure; SHOWN is the row whose mask it shows
WORDS = ("Ben ran home", "Good night", "That is a blue dog")  # the chapter's example, a token per word
SHORT = 4  # tokens of its rows
STORIES, LONG = 2, 96  # that the course's model reads, in rows of this length
STEPS, EVERY, BATCH, RATE = 40, 8, 4, 120.0  # of the table of logits that is trained
WIDGET = 10  # tokens of a document in the widget
NONE = "\N{EN DASH}"  # of what has no target or no document


def generated_parts() -> Parts:
    """Return the figures, the tables and the widget."""
    return {
        "rows": rows_figure(),
        "packed": packed_example(),
        "leak": leak_table() + "\n",
        "too-good": too_good(),
        "packed-rows": packed_rows(),
    }


@functools.cache
def stories() -> list[list[int]]:
    """Return the held-out stories as tokens."""
    return [tokens_of(story) for story in shipped_stories()]


def packed(documents: Sequence[Sequence[int]], length: int) -> dict[str, Array64]:
    """Pack documents with the solution, after their ids have been computed once."""
    from tiny_llm_solution.dataset.packing import pack_documents

    rows = pack_documents(documents, length, tokens_of(END)[0])
    return {name: to_float64(getattr(rows, name)) for name in FIELDS}


def rows_figure() -> str:
    """Draw the first rows of the stories, and below them the mask of one."""
    from tiny_llm_solution.dataset.packing import document_mask

    rows = packed(stories(), LENGTH)
    ids, tokens = rows["document_ids"][:ROWS], rows["tokens"]
    mask = np.array(document_mask(mx.array(ids[SHOWN : SHOWN + 1].astype(np.int32))))[0, 0]
    looks = [f"fill series-{i}" for i in range(3)]  # of neighbors
    canvas, left, cell, high = Canvas(), 66.0, 4.7, 15.0
    for n, row in enumerate(ids):
        top = n * (high + 5)
        canvas.text(left - 8, top + high - 3, f"row {n}", "small strong" if n == SHOWN else "small", "end")
        for story in np.unique(row).astype(int):
            mine = np.flatnonzero(row == story)
            canvas.rect(left + mine[0] * cell, top, len(mine) * cell, high, looks[story % 3], 2)
    bottom = ROWS * (high + 5) + 12
    canvas.text(left, bottom + SMALL, f"row {SHOWN}: visible tokens, one line per query", "small")
    top = bottom + SMALL + 8
    size = LENGTH * cell
    canvas.rect(left, top, size, size, "axis")
    for i, seen in enumerate(mask):
        visible_keys = np.flatnonzero(seen)
        look = looks[int(ids[SHOWN, i]) % 3]
        canvas.rect(left + visible_keys[0] * cell, top + i * cell, len(visible_keys) * cell, cell, look)
    first, second = (int(story) for story in np.unique(ids[SHOWN]))
    kept = int((ids[SHOWN] == first).sum())
    canvas.text(left - 8, top + kept * cell / 2 + 4, f"story {first}", "small", "end")
    canvas.text(left - 8, top + (kept + LENGTH) * cell / 2 + 4, f"story {second}", "small", "end")
    share = 100 * mask.sum() / (LENGTH * (LENGTH + 1) / 2)
    caption = (
        f"Above: the first {ROWS} rows of {LENGTH} tokens, packed from the held-out stories of the course. Each block "
        f"is a part of one story. Row {SHOWN} contains the last {kept} tokens of story {first}, including its eos, and "
        f"the first {LENGTH - kept} tokens of story {second}. Below: the attention mask of this row. A token attends "
        f"to itself and to the earlier tokens of its own story. The mask allows {share:.0f}% of the pairs that a "
        f"causal mask allows."
    )
    about = (
        f"Rows of tokens colored by story, and a mask of two triangles with sides of {kept} and {LENGTH - kept} tokens."
    )
    assert len(tokens) > ROWS
    return canvas.figure("rows-5-2", "Stories packed in rows, and the mask of one row", about, caption)


def packed_example() -> str:
    """Draw the chapter's example: each token in its document's color, and below it the target, document, position."""
    names = ["eos", *dict.fromkeys(" ".join(WORDS).split())]
    documents = [[names.index(word) for word in text.split()] for text in WORDS]
    rows = {name: array.astype(int) for name, array in pack64(documents, SHORT, 0).items()}
    canvas, left, cell, high = Canvas(), 74.0, 74.0, 24.0
    about = []
    for n, ids in enumerate(rows["document_ids"]):
        top = n * (high + 3 * (SMALL + 3) + 16)
        for line, words in enumerate((f"row {n}", "target", "document", "position")):
            y = top + 17 if not line else top + high + line * (SMALL + 3)
            canvas.text(left - 8, y, words, "small" if line else "small strong", "end")
        for i, document in enumerate(ids):
            x, token = left + i * cell, names[rows["tokens"][n, i]]
            target = NONE if rows["targets"][n, i] == IGNORE else names[rows["targets"][n, i]]
            looks = f"frame series-{document}" if document >= 0 else "axis"
            canvas.rect(x + 2, top, cell - 4, high, looks, 3)
            canvas.text(x + cell / 2, top + 17, token, "", "middle")
            below = (target, str(document).replace("-", MINUS), str(rows["positions"][n, i]))
            for line, words in enumerate(below, 1):
                canvas.text(x + cell / 2, top + high + line * (SMALL + 3), words, "small", "middle")
            about.append(f"{token}, target {target}, document {document}, position {rows['positions'][n, i]}")
    caption = (
        f"Three documents packed in rows of {SHORT} tokens; a box has its document's color. The target {NONE} is "
        f"IGNORE, and document {MINUS}1 is padding."
    )
    return canvas.figure("packed-5-2", "Three documents packed in rows", "; ".join(about) + ".", caption)


@functools.cache
def losses_of_the_model() -> dict[str, float]:
    """Return losses of the course's model on packed stories: right, with other stories visible, unshifted, alone."""
    documents = stories()[:STORIES]
    rows = packed(documents, LONG)
    ids, length = rows["document_ids"], LONG
    causal = np.where(np.tri(length) > 0, 0.0, -np.inf)[None, None]
    own = np.where(ids[:, None, :, None] == ids[:, None, None, :], causal, -np.inf)
    with_mask, without = logits_of(rows["tokens"], own), logits_of(rows["tokens"], causal)
    unshifted = np.where(rows["targets"] == IGNORE, IGNORE, rows["tokens"])
    total = count = 0.0
    for document in documents:
        tokens = np.array([[*document, tokens_of(END)[0]]], np.float64)
        size = len(document)
        alone = logits_of(tokens, np.where(np.tri(size + 1) > 0, 0.0, -np.inf)[None, None])
        total += size * float(cross_entropy64(alone[:, :-1], tokens[:, 1:]))
        count += size
    return {
        "each story alone": total / count,
        "packed, document mask": float(cross_entropy64(with_mask, rows["targets"])),
        "packed, causal mask alone": float(cross_entropy64(without, rows["targets"])),
        "packed, targets not shifted": float(cross_entropy64(with_mask, unshifted)),
    }


def logits_of(tokens: Array64, mask: Array64) -> Array64:
    """Run the course's model on rows, with an additive mask. RoPE sees only differences of positions: no restart."""
    weights, config = model().weights, model().config
    table = to_float64(weights["model.embed_tokens.weight"])
    x = table[tokens.astype(int)]
    for layer in range(config["num_hidden_layers"]):
        x = block64(x, model(), mask, layer)
    normed = rms_norm64(x, to_float64(weights["model.norm.weight"]), config["rms_norm_eps"])
    return linear64(normed, table)


def leak_table() -> str:
    """Return the losses of the course's model as a table."""
    rows = [[name, number(loss, 3)] for name, loss in losses_of_the_model().items()]
    caption = f"Loss of the course's model on {STORIES} held-out stories, in rows of {LONG} tokens"
    return table(caption, ["input", "loss, nats per token"], rows)


@functools.cache
def trained(shifted: bool) -> list[float]:
    """Train a table of logits, V x V, one row per token, and return the training loss every few steps."""
    rows = packed(stories(), LENGTH)
    vocabulary = int(model().config["vocab_size"])
    logits, found = np.zeros((vocabulary, vocabulary)), []
    for step in range(STEPS + 1):
        first = step * BATCH % (len(rows["tokens"]) - BATCH)
        tokens = rows["tokens"][first : first + BATCH].astype(int)
        targets = rows["targets"][first : first + BATCH]
        if not shifted:
            targets = np.where(targets == IGNORE, IGNORE, tokens)
        if step % EVERY == 0:
            found.append(float(cross_entropy64(logits[tokens], targets)))
        read, which = np.unique(tokens, return_inverse=True)
        gradient = gradient64(logits[tokens], targets).reshape(tokens.size, -1)
        logits[read] -= RATE * (np.arange(len(read))[:, None] == which.ravel()) @ gradient  # repeated tokens add up
    return found


def too_good() -> str:
    """Draw the training loss with targets that are shifted, and with targets that are not."""
    steps = list(range(0, STEPS + 1, EVERY))
    series = {"next token": trained(True), "the token itself": trained(False)}

    def draw(canvas: Canvas) -> None:
        lines(canvas, steps, series, ("step", "loss, nats per token"), lambda x: f"{x:g}", logarithmic=False)

    right, wrong = (found[-1] for found in series.values())
    size = int(model().config["vocab_size"])
    caption = (
        f"The training loss of a table of logits, one row per token, trained on packed stories by gradient descent on "
        f"the cross-entropy. Both runs start at ln {size:,} = {series['next token'][0]:.2f}. After {STEPS} steps, the "
        f"loss is {right:.2f} if the target is the next token. With unshifted targets, it is {wrong:.2f} and falls "
        f"toward 0."
    )
    about = f"Two falling lines, which are at {right:.2f} and {wrong:.2f} after {STEPS} steps."
    return at_both_widths(draw).figure(
        "too-good-5-2", "Training loss with shifted and with unshifted targets", about, caption
    )


def packed_rows() -> str:
    """Return the widget, and its first view as a table."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")

    def text(token: int) -> str:
        return visible(str(tokenizer.decode([token])).strip())

    documents: list[dict[str, Any]] = [
        {"ids": story[:WIDGET], "texts": [text(token) for token in story[:WIDGET]]} for story in stories()[:4]
    ]
    eos = tokens_of(END)[0]
    short = [each["ids"][:count] for each, count in zip(documents, (3, 2, 5, 4), strict=True)]
    rows = pack64(short, 8, eos)
    inside = []
    for n, ids in enumerate(rows["document_ids"].astype(int)):
        for i, (token, target) in enumerate(zip(rows["tokens"][n], rows["targets"][n], strict=True)):
            seen = int(rows["positions"][n, i]) + 1
            words = ["eos" if each == eos else text(int(each)) for each in (token, target) if each != IGNORE]
            name = NONE if ids[i] < 0 else "ABCD"[ids[i]]
            inside.append(
                [f"row {n}, {i}", words[0], name, str(seen - 1), str(seen), words[1] if len(words) > 1 else NONE]
            )
    head = ["index", "token", "document", "position", "visible tokens", "target"]
    data = {"eos": eos, "documents": documents}
    return element("packed-rows", data, table("Documents of 3, 2, 5 and 4 tokens, packed in rows of 8", head, inside))
