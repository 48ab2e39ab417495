"""Day 6's two pictures to step through: pairs that are joined, and bytes that become characters.

Both are computed by the solution and its small tokenizer; the widget only shows them.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import TESTS
from tiny_llm_course.programs.packages import load_solution

WORDS, TEXTS = (
    (" blue", "dog", " dogs", "ThatThat"),
    ("a \N{DOG} \N{LATIN SMALL LETTER E WITH ACUTE}!", "日本", "\N{DOG}\N{DOG}"),
)
# What a step shows: boxes with something under each, those that matter now marked, and a sentence.
Step = dict[str, Any]


def generated_parts(course: Course) -> Parts:
    """A part for each."""
    load_solution()
    merges = [{"name": repr(word), "steps": list(merge_steps(word))} for word in WORDS]
    streams = [{"name": text, "steps": list(stream_steps(text))} for text in TEXTS]
    return {
        ("1.6", "merge-steps"): _widget("Pairs that are joined, step by step", "Word", merges),
        ("1.6", "stream-steps"): _widget("Bytes that become characters", "Text", streams),
    }


def _widget(label: str, choice: str, choices: list[dict[str, Any]]) -> str:
    rows = [[" ".join(box["text"] for box in step["boxes"]), step["note"]] for step in choices[0]["steps"]]
    data = {"label": label, "choice": choice, "choices": choices}
    return element("box-steps", data, table(f"{label}: {choices[0]['name']}", ["boxes", "what happens"], rows))


def merge_steps(word: str) -> Iterator[Step]:
    """A word's letters, joined as `merge_pairs` joins them: the known pair of the lowest rank first, everywhere."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE, byte_alphabet, merge_pairs

    ranks, alphabet = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").ranks, byte_alphabet()
    pieces = [alphabet[byte] for byte in word.encode()]
    while True:
        known = {pair: ranks[pair] for pair in pairwise(pieces) if pair in ranks}
        if not known:
            yield {"boxes": [_box(piece) for piece in pieces], "note": "No pair of neighbours is known: done."}
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
        yield {"boxes": boxes, "note": f"Known: {listed}. The lowest rank is joined: {' '.join(best)}."}
        pieces = joined


def stream_steps(text: str) -> Iterator[Step]:
    """A text's tokens, one by one: the characters that can be shown, and the bytes that wait for the rest of theirs."""
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
        waits = f"; {len(waiting)} byte{'s' * (len(waiting) > 1)} wait{'s' * (len(waiting) == 1)}" if waiting else ""
        yield {"boxes": boxes, "note": f"Token {token} brings {_bytes(new)}: {says}{waits}."}


def _box(text: str, under: str = "") -> dict[str, Any]:
    return {"text": text, "under": under}


def _bytes(values: bytes) -> str:
    return " ".join(map(str, values))
