"""Day 1's figures and widget: merges of stories and of small corpora, and tokenizers that are saved wrongly."""

import functools
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlx.core as mx
from tests.week5.merging import QWEN, counts_of, merges_formula
from tests.week5.training_texts import OF_STORIES, STORIES

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import shipped_stories
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, width_of
from tiny_llm_course.dev.book.html import element, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.variants import load_variants

load_solution()
from tiny_llm_solution.tokenizer import byte_alphabet, merge_pairs  # noqa: E402

SPACED = ",\N{EM SPACE}"  # wider than the gap between two tokens of a word
SENTENCE = "That is a blue dog"
STEPS = (0, 50, 500)  # and all of them
PROMPT, ANSWER = "Once upon a time, there was a little dog", 20
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# The chapter's four words, and the widget's corpora: words with their counts.
WORDS = {"dog": 3, "dogs": 1, "dig": 2, "digs": 2}
CORPORA = {
    "dogs that dig": WORDS | {"big": 2, "blue": 2},
    "everything ties": {"fox": 1, "dig": 1, "cab": 1, "bed": 1},
    "runs of one letter": {"aaaa": 2, "aab": 2, "baaa": 1, "aaaaaa": 1, "bb": 3},
}
BARS = 8  # pairs that the widget shows
# Mistakes of task 5.1.4 that are put between the embedded model and its text.
BROKEN = ("", "ids-of-bytes", "merges-sorted", "special-tokens-first")


def generated_parts() -> Parts:
    """Return the figures, the tables and the widget."""
    return {
        "stories": stories(),
        "four-words": four_words() + "\n",
        "bpe-merges": bpe_merges(),
        "ties": ties() + "\n",
        "broken": broken() + "\n",
    }


@functools.cache
def embedded_merges() -> list[tuple[str, str]]:
    """Return the merges of the embedded model's tokenizer, which were learned from stories."""
    data = json.loads((EMBEDDED_MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    return [(left, right) for left, right in data["model"]["merges"]]


@functools.cache
def story_words() -> Counter[str]:
    """Return the word counts of the held-out stories, in Qwen's words."""
    from tiny_llm_solution.bpe.words import count_words

    return Counter(count_words(shipped_stories(), QWEN, normalization="NFC"))


def tokens_after(merges: int) -> tuple[int, list[str]]:
    """Return the held-out stories' number of tokens with only the first merges, and the sentence's tokens."""
    ranks = {pair: rank for rank, pair in enumerate(embedded_merges()[:merges])}
    count = sum(times * len(merge_pairs(list(word), ranks)) for word, times in story_words().items())
    letters = byte_alphabet()
    words = [SENTENCE.split(" ")[0], *(f" {word}" for word in SENTENCE.split(" ")[1:])]
    pieces = [merge_pairs([letters[byte] for byte in word.encode()], ranks) for word in words]
    return count, [piece for word in pieces for piece in word]


def stories() -> str:
    """Draw the sentence's tokens and the stories' number of tokens as merges are added."""
    every = len(embedded_merges())
    found = {merges: tokens_after(merges) for merges in (*STEPS, every)}
    bytes_of = found[0][0]
    gap, high, row = 3.0, 24.0, 78.0

    def draw(canvas: Canvas) -> None:
        unit = min(16.0, (canvas.width - 4 - gap * len(SENTENCE)) / len(SENTENCE))
        for i, (merges, (count, pieces)) in enumerate(found.items()):
            top = i * row
            said = f"{merges:,} merges: {len(pieces)} tokens"
            canvas.text(0, top + FONT, said, "strong")
            x = 0.0
            for piece in pieces:
                wide = unit * len(piece) + gap * (len(piece) - 1)
                canvas.rect(x, top + FONT + 7, wide, high, "frame", 3)
                shown = piece.replace("\u0120", "\N{OPEN BOX}")
                canvas.text(
                    x + wide / 2, top + FONT + 24, shown, "mono", "middle", length=min(wide, 0.62 * FONT * len(piece))
                )
                x += wide + gap
            words = f"{count:,} tokens in the stories"
            room = canvas.width - width_of(words) - 10
            canvas.rect(0, top + FONT + 36, max(room * count / bytes_of, 1), 12, "fill series-0")
            canvas.text(room * count / bytes_of + 6, top + FONT + 47, words)

    about = "; ".join(
        f"after {merges} merges, the sentence is {' | '.join(pieces)}, and the stories have {count} tokens"
        for merges, (count, pieces) in found.items()
    )
    shares = [f"{bytes_of / count:.2f}" for count, _ in found.values()]
    caption = (
        f"The tokens of a sentence and the total number of tokens in the course's {len(shipped_stories())} held-out "
        f"stories (bars), as more merges are applied. The tokenizer of the course's model learned the merges from "
        f"other stories. In the held-out stories, the average token is {', '.join(shares[:-1])} and {shares[-1]} bytes "
        f"long. {visible(' ')} stands for a space."
    )
    return at_both_widths(draw).figure("stories-5-1", "More merges, fewer tokens", about, caption)


def counts_at(words: dict[str, int], merges: list[tuple[str, str]]) -> tuple[list[list[str]], Counter[tuple[str, str]]]:
    """Return the words' tokens after some merges, and the counts of their pairs."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    rows = [merge_pairs(list(word), ranks) for word in words]
    counts: Counter[tuple[str, str]] = Counter()
    for row, times in zip(rows, words.values(), strict=True):
        for pair in pairwise(row):
            counts[pair] += times
    return rows, counts


def in_order(counts: Counter[tuple[str, str]], merges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs, the next to be merged first."""
    tokens = [*sorted(byte_alphabet().values()), *map("".join, merges)]
    return sorted(counts, key=lambda pair: (-counts[pair], tokens.index(pair[0]), tokens.index(pair[1])))


def four_words() -> str:
    """Return the chapter's table: the counts before each merge of its four words."""
    merges, rows = merges_formula(WORDS, 99), []
    for step in range(len(merges) + 1):
        tokens, counts = counts_at(WORDS, merges[:step])
        best = in_order(counts, merges[:step])[:4]
        listed = SPACED.join(f"{{{' '.join(pair)}}} {counts[pair]}" for pair in best)
        words = SPACED.join(f"{{{' '.join(row)}}}" for row in tokens)
        rows.append([str(step), words, listed or "none", f"{{{' '.join(best[0])}}}" if best else ""])
    caption = ", ".join(f"{word} {count}" for word, count in WORDS.items())
    found = table(
        f"Words and their counts: {caption}", ["merges", "words as tokens", "most frequent pairs", "next merge"], rows
    )
    return re.sub(r"\{([^}]*)\}( \d+)?", _boxed, found)


def _boxed(found: re.Match[str]) -> str:
    """Return the tokens between braces as code, with their count, on one line."""
    tokens = "\N{NARROW NO-BREAK SPACE}".join(f"<code>{token}</code>" for token in found[1].split())
    return tokens + (found[2] or "").replace(" ", "\N{NO-BREAK SPACE}")


def corpus_steps(words: dict[str, int]) -> list[dict[str, Any]]:
    """Return the widget's steps: before each merge the words' tokens and the largest counts, the best pair first."""
    merges, steps = merges_formula(words, 99), []
    for step in range(len(merges) + 1):
        rows, counts = counts_at(words, merges[:step])
        order = in_order(counts, merges[:step])
        pairs = [[*pair, counts[pair]] for pair in order[:BARS]]
        steps.append({"rows": rows, "pairs": pairs, "more": max(0, len(order) - BARS)})
    return steps


def bpe_merges() -> str:
    """Return the widget, and the steps of its first corpus as a table."""
    corpora: list[dict[str, Any]] = [
        {"name": name, "counts": list(words.values()), "steps": corpus_steps(words)} for name, words in CORPORA.items()
    ]
    rows = []
    for number, step in enumerate(corpora[0]["steps"]):
        best = step["pairs"][0] if step["pairs"] else []
        rows.append(
            [
                str(number),
                ", ".join(map("|".join, step["rows"])),
                f"{best[0]} {best[1]} ({best[2]})" if best else "none",
            ]
        )
    name, words = next(iter(CORPORA.items()))
    listed = ", ".join(f"{word} {count}" for word, count in words.items())
    inside = table(f"Merges of {name}: {listed}", ["merges", "words as tokens", "next merge (count)"], rows)
    return element("bpe-merges", {"corpora": corpora}, inside)


def ties() -> str:
    """Say what other rules for ties change in the merges of the held-out stories."""
    counts, known = counts_of(STORIES), load_variants(load_course().task("5.1.3"))
    ours = merges_formula_fast(counts)
    rows = []
    for name, words in (("largest-ids", "largest ids first"), ("ties-by-text", "by the text of the tokens")):
        program = next(each for each in known.wrong_programs if each.name == name).program
        theirs = program(counts, OF_STORIES)
        first = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
        same = sum("".join(a) == "".join(b) for a, b in zip(ours, theirs, strict=False))
        shared = len({"".join(pair) for pair in ours[:500]} & {"".join(pair) for pair in theirs[:500]})
        rows.append([words, str(first), f"{shared} of 500", f"{same} of {len(ours)}"])
    head = [
        "other tie-breaking rule",
        "rank of the first different merge",
        "tokens among the first 500 merges of both rules",
        "merges with the same token at the same id",
    ]
    return table("Other tie-breaking rules compared with the course's rule, on the held-out stories", head, rows)


def merges_formula_fast(counts: dict[str, int]) -> list[tuple[str, str]]:
    """Return the merges of the held-out stories by the solution's trainer."""
    from tiny_llm_solution.bpe.trainer import train_bpe

    found: list[tuple[str, str]] = train_bpe(counts, OF_STORIES)
    return found


def broken() -> str:
    """Return what the embedded model writes through its own tokenizer, saved with a mistake."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.qwen3_cached.generate import generate_cached
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    checkpoint = load_checkpoint(EMBEDDED_MODEL, mx.float32)
    model = Qwen3CachedModel(ModelConfig.from_dict(checkpoint.config), checkpoint.weights)
    known = load_variants(load_course().task("5.1.4"))
    rows = []
    for name in BROKEN:
        variant = next((each for each in known.wrong_programs if each.name == name), known.solution)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "tokenizer.json"
            variant.program(path, embedded_merges(), SPECIAL, QWEN, "NFC")
            tokenizer = ByteLevelBPE.from_file(path)
        prompt = tokenizer.encode(PROMPT)
        written = tokenizer.decode(generate_cached(model, prompt, ANSWER))
        rows.append(
            [
                variant.fact or "the file is correct",
                str(len(prompt)),
                visible(written).replace("\N{OPEN BOX}", " ").strip(),
            ]
        )
    head = ["tokenizer file", "tokens in the prompt", f"the model's next {ANSWER} tokens"]
    return table(f"Prompt: {PROMPT}", head, rows)
