"""Day 6's figures: from text to token ids, the merging of pairs, and the decoding of bytes to characters.

The solution computes them with its small tokenizer; the widgets only show the steps.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, flow
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import TESTS

WORD = "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}blue"
WORDS, TEXTS = (
    (" dogs", " brown", "ThatThat"),
    ("a \N{DOG} \N{LATIN SMALL LETTER E WITH ACUTE}!", "日本", "\N{DOG}\N{DOG}"),
)
# What a step shows: boxes with something under each, those that matter now marked, and a sentence.
Step = dict[str, Any]


def generated_parts() -> Parts:
    """Return the two widgets and the figures."""
    merging = [{"name": repr(word), "steps": list(merge_steps(word))} for word in WORDS]
    streams = [{"name": text, "steps": list(stream_steps(text))} for text in TEXTS]
    return {
        "merge-steps": _widget("Pairs merged step by step", "Word", merging),
        "stream-steps": _widget("Bytes decoded to characters", "Text", streams),
        "merges": merges(),
        "steps": steps(),
    }


def _widget(label: str, choice: str, choices: list[dict[str, Any]]) -> str:
    rows = [[" ".join(box["text"] for box in step["boxes"]), step["note"]] for step in choices[0]["steps"]]
    data = {"label": label, "choice": choice, "choices": choices}
    return element("box-steps", data, table(f"{label}: {choices[0]['name']}", ["boxes", "what happens"], rows))


def merge_steps(word: str) -> Iterator[Step]:
    """Yield the steps in which `merge_pairs` merges a word's characters: the pair of the lowest rank first."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE, byte_alphabet, merge_pairs

    ranks, alphabet = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").ranks, byte_alphabet()
    pieces = [alphabet[byte] for byte in word.encode()]
    while True:
        known = {pair: ranks[pair] for pair in pairwise(pieces) if pair in ranks}
        if not known:
            yield {"boxes": [_box(piece) for piece in pieces], "note": "No adjacent pair can be merged: done."}
            return
        best = min(known, key=known.__getitem__)
        joined = merge_pairs(pieces, {best: 0})
        boxes, at = [_box(piece) for piece in pieces], 0
        for piece in joined:  # the boxes that become this one
            if piece != pieces[at]:
                boxes[at] |= {"marked": True, "under": f"rank {known[best]}"}
                boxes[at + 1]["marked"] = True
            at += 1 if piece == pieces[at] else 2
        listed = ", ".join(f"{a} {b} (rank {rank})" for (a, b), rank in known.items())
        yield {"boxes": boxes, "note": f"Known pairs: {listed}. {' '.join(best)} has the lowest rank, so it is merged."}
        pieces = joined


def stream_steps(text: str) -> Iterator[Step]:
    """Yield a step for each token: the characters that can be shown, and the bytes of an incomplete character."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE, StreamingDetokenizer

    tokenizer = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json")
    stream, shown, received = StreamingDetokenizer(tokenizer), "", b""
    for token in tokenizer.encode(text):
        new = tokenizer.token_bytes[token]
        piece = stream.add(token)
        shown, received = shown + piece, received + new
        waiting = received[len(shown.encode()) :]
        boxes = [_box(letter.replace(" ", "\N{OPEN BOX}"), _bytes(letter.encode())) for letter in shown]
        boxes += [{**_box("?", _bytes(waiting)), "marked": True}] if waiting else []
        says = f"“{piece}” is shown" if piece else "nothing can be shown"
        held = f"{len(waiting)} byte{'s' * (len(waiting) > 1)} {'are' if len(waiting) > 1 else 'is'} held back"
        waits = f"; {held}" if waiting else ""
        brought = f"byte{'s' * (len(new) > 1)} {_bytes(new)}"
        yield {"boxes": boxes, "note": f"Token {token} contains the {brought}: {says}{waits}."}


def _box(text: str, under: str = "") -> dict[str, Any]:
    return {"text": text, "under": under}


def _bytes(values: bytes) -> str:
    return " ".join(map(str, values))


def merges() -> str:
    """Draw how a word's characters become one token: each row is the word after one more merge."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    ranks = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").ranks
    pieces, rows, joined = list(WORD), [list(WORD)], []
    while pairs := [pair for pair in pairwise(pieces) if pair in ranks]:
        best = min(pairs, key=ranks.__getitem__)
        at = list(pairwise(pieces)).index(best)
        pieces[at : at + 2] = ["".join(best)]
        rows.append(list(pieces))
        joined.append((best, ranks[best]))
    boxes: dict[str, str] = {}
    grid: list[list[str]] = []
    arrows: list[tuple[str, str]] = []
    for i, row in enumerate(rows):
        places = [f"{i}-{j}" for j, piece in enumerate(row) for _ in piece]
        boxes |= {f"{i}-{j}": piece for j, piece in enumerate(row)}
        arrows += [(above, below) for above, below in dict.fromkeys(zip(grid[-1], places, strict=True))] if grid else []
        grid.append(places)
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows, gap=26)
    said = ", then ".join(f"{a} and {b}, rank {rank}" for (a, b), rank in joined)
    title = f"Merging the characters of {WORD} into one token"
    caption = (
        f"Ġ represents the space before the word. Each row is the word after one more merge. The pair with the lowest "
        f"rank is merged first: {said}."
    )
    return canvas.figure("merges-1-6", title, f"{' '.join(rows[0])}: {said}.", caption)


def steps() -> str:
    """Draw the steps from text to token ids, by day 6's small tokenizer."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    special, words = "<|im_start|>", ("That", " is")
    ids = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").encode(special + "".join(words))
    boxes: Boxes = {
        "text": f"text\n{special}{''.join(words)}",
        "special": f"special token\n{special}",
        "plain": f"normal form\n{''.join(words)}",
        "id": f"id\n{ids[0]}",
    }
    arrows: list[tuple[str, ...]] = [("text", "special"), ("text", "plain"), ("special", "id")]
    for i, word in enumerate(words):
        boxes[f"word{i}"] = f"word\n{word.replace(' ', chr(0x2423))}"
        boxes[f"bytes{i}"] = f"bytes\n{' '.join(map(str, word.encode()))}"
        boxes[f"id{i}"] = f"id\n{ids[i + 1]}"
        arrows += [("plain", f"word{i}"), (f"word{i}", f"bytes{i}"), (f"bytes{i}", f"id{i}", "join")]
    grid = [
        ["text"] * 3,
        ["special", "plain", "plain"],
        ["", "word0", "word1"],
        ["", "bytes0", "bytes1"],
        ["id", "id0", "id1"],
    ]
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows)
    about = (
        "Special tokens are split off. The rest is normalized, split into words, encoded as bytes and merged into ids."
    )
    return canvas.figure("steps-1-6", "From text to token ids", about)
