"""Day 7's figure, tables and widget: two models on the course's 40 items, scored in three ways."""

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week1.reference_model import ReferenceModel, model64

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.variants import load_variants

load_solution()
from tiny_llm_solution.evaluation.choices import score_choices  # noqa: E402
from tiny_llm_solution.evaluation.intervals import bootstrap_interval, compare_paired  # noqa: E402
from tiny_llm_solution.evaluation.items import Item, credit, load_items  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402

NAMES = ("tiny-qwen3", "tiny-qwen3-draft")
FIELDS = {"total": "sum", "per_token": "per token", "per_byte": "per byte"}
EXAMPLES = (1, 36)  # items for which the scorings disagree
RESAMPLES = 200  # of the widget
Program = Callable[..., Any]
MISTAKES = {each.name: each.program for each in load_variants(load_course().task("5.7.1")).wrong_programs}
CASES: dict[str, tuple[Program, bool]] = {  # a program, and whether the space is at the end of the prompt
    "space in the choice": (score_choices, False),
    "space in the prompt": (score_choices, True),
    "space in the prompt, choice tokenized alone": (MISTAKES["choice-tokenized-alone"], True),
}


def generated_parts() -> Parts:
    """Return the figure, the tables and the widget."""
    return {
        "grid": grid(),
        "example": example(EXAMPLES[0]),
        "other-example": example(EXAMPLES[1]),
        "compared": compared(),
        "broken": broken(),
        "bootstrap-mean": bootstrap_mean(),
    }


@functools.cache
def items() -> list[Item]:
    """Return the evaluation set."""
    found: list[Item] = load_items(MODELS / "story-choices.toml")
    return found


def space_in_the_prompt(item: Item) -> Item:
    """Return the same item with the space before each choice moved to the end of the prompt."""
    return Item(f"{item.prompt} ", tuple(choice.lstrip() for choice in item.choices), item.answer)


@functools.cache
def tokenizer() -> ByteLevelBPE:
    """Return the tokenizer of both models."""
    return ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")


@functools.cache
def model(name: str) -> ReferenceModel:
    """Return a model, which is computed in float64."""
    checkpoint = load_checkpoint(MODELS / name, mx.float32)
    return ReferenceModel(checkpoint.config, checkpoint.weights)


Tokens = tuple[int, ...]


@functools.cache
def logits_of(name: str) -> dict[Tokens, mx.array]:
    """Return a model's logits for every position of all rows that the tables need, 1 x L x V each."""
    rows: dict[int, list[Tokens]] = {}  # by length: rows of one length are one batch

    def note(tokens: mx.array) -> mx.array:
        row = tuple(np.array(tokens[0]).tolist())
        if row not in rows.setdefault(len(row), []):
            rows[len(row)].append(row)
        return mx.zeros((1, len(row), len(tokenizer().token_bytes)))

    for program, spaced in CASES.values():
        for item in items():
            one = space_in_the_prompt(item) if spaced else item
            program(note, tokenizer().encode, one.prompt, one.choices)
    return {
        row: mx.array(found[None].astype(np.float32))
        for batch in rows.values()
        for row, found in zip(batch, model64(np.array(batch), model(name)), strict=True)
    }


def scores(name: str, item: Item, program: Program = score_choices) -> Any:
    """Return a program's scores of an item's choices."""
    known = logits_of(name)

    def logits(tokens: mx.array) -> mx.array:
        return known[tuple(np.array(tokens[0]).tolist())]

    return program(logits, tokenizer().encode, item.prompt, item.choices)


@functools.cache
def credits(name: str, field: str, program: Program = score_choices, spaced: bool = False) -> list[float]:
    """Return a model's credit for each item."""
    chosen = [space_in_the_prompt(item) for item in items()] if spaced else items()
    return [credit(getattr(scores(name, item, program), field).tolist(), item.answer) for item in chosen]


def grid() -> str:
    """Draw which items the larger model answers right, for each scoring, and mark those on which they differ."""
    rows = np.array([credits(NAMES[0], field) for field in FIELDS])  # 3 x 40
    differ = rows.min(axis=0) != rows.max(axis=0)
    count = rows.shape[1]

    def draw(canvas: Canvas) -> None:
        across, left, cell = (40 if canvas.width > WIDEST else 20), 84.0, 14.0
        step = 4 * (cell + 4) + FONT + 16
        for block in range(-(-count // across)):
            top = FONT + 6 + block * step
            for j in range(block * across, min(count, (block + 1) * across)):
                x = left + (j - block * across + 0.5) * cell
                if j % 5 == 0:
                    canvas.text(x, top - 6, str(j), "small", "middle")
                for i in range(3):
                    side, y = cell - 3.5, top + i * (cell + 4)
                    canvas.rect(x - side / 2, y, side, side, "fill" if rows[i, j] == 1 else "hollow")
                if differ[j]:
                    y = top + 3 * (cell + 4) + 1
                    canvas.path([(x, y + 10), (x, y)], "line", arrow=True)
            for i, name in enumerate(FIELDS.values()):
                canvas.text(left - 8, top + i * (cell + 4) + cell - 4, name, "", "end")

    right = [int(row.sum()) for row in rows]
    wrong = [", ".join(map(str, np.flatnonzero(row != 1))) for row in rows]
    about = "; ".join(f"{name}: wrong on items {those}" for name, those in zip(FIELDS.values(), wrong, strict=True))
    caption = (
        f"Each column is one of {count} items, and each row is a way to score it. A filled square means that "
        f"{NAMES[0]} gives the right choice the highest score; a hollow square means that it does not. The arrows mark "
        f"the {int(differ.sum())} items on which the scorings disagree. Of the answers, {right[0]} are right by the "
        f"sum, {right[1]} per token and {right[2]} per byte."
    )
    title = f"{count} items, scored in three ways"
    return at_both_widths(draw).figure("grid-5-7", title, f"{about}.", caption)


def example(index: int) -> str:
    """Return a table of the larger model's scores of one item's choices."""
    item = items()[index]
    found = scores(NAMES[0], item)
    columns = {field: getattr(found, field).tolist() for field in FIELDS}
    rows = []
    for i, choice in enumerate(item.choices):
        marks = [f"{number(x[i])}{' (best)' if x[i] == max(x) else ''}" for x in columns.values()]
        tokens = round(columns["total"][i] / columns["per_token"][i])
        name = f"{choice.strip()}{' (right)' if i == item.answer else ''}"
        rows.append([name, str(tokens), str(len(choice.encode())), *marks])
    return (
        table(
            f"Item {index}: {item.prompt} ...",
            ["choice", "tokens", "bytes", "sum, nats", "nats per token", "nats per byte"],
            rows,
        )
        + "\n"
    )


def between(ends: tuple[float, float]) -> str:
    """Format an interval in percent."""
    return f"{number(100 * ends[0], 1)} to {number(100 * ends[1], 1)}"


def compared() -> str:
    """Return a table of both models' accuracies, their difference, and how certain each is."""
    rows = []
    for field, name in FIELDS.items():
        both = [credits(each, field) for each in NAMES]
        found = compare_paired(*both)
        cells = [f"{number(100 * float(np.mean(each)), 1)} ({between(bootstrap_interval(each))})" for each in both]
        difference = f"{number(100 * found.difference, 1)} ({between((found.low, found.high))})"
        rows.append([name, *cells, difference, between(apart(*both)), number(found.p_value)])
    head = ["scoring", *NAMES, "paired difference", "unpaired interval", "p-value"]
    return table(f"Accuracy on {len(items())} items in percent, with 95 % intervals", head, rows) + "\n"


def apart(first: list[float], second: list[float], *, resamples: int = 10_000) -> tuple[float, float]:
    """Return the interval of the difference if each model has its own resampled items."""
    means = [
        np.array(values)[np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))].mean(axis=1)
        for seed, values in enumerate((first, second))
    ]
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(low), float(high)


def broken() -> str:
    """Return a table of what a mistake makes of both models' accuracies."""
    rows = []
    for field, scoring in FIELDS.items():
        for words, (program, spaced) in CASES.items():
            right = [sum(credits(each, field, program, spaced)) for each in NAMES]
            winner = "equal" if right[0] == right[1] else NAMES[right[0] < right[1]]
            rows.append([f"{scoring}, {words}", *(f"{count:g}" for count in right), winner])
    return table(f"Right answers on {len(items())} items", ["scoring and data", *NAMES, "better model"], rows) + "\n"


def draws(seed: int) -> list[list[int]]:
    """Return the indices of the widget's resamples."""
    count = len(items())
    found: list[list[int]] = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count)).tolist()
    return found


def bootstrap_mean() -> str:
    """Return the widget, and a table of the interval after some numbers of resamples."""
    both = [credits(name, "total") for name in NAMES]
    rows = []
    for count in (10, 50, RESAMPLES):
        found = compare_paired(*both, resamples=count)
        rows.append([str(count), between((found.low, found.high)), between(apart(*both, resamples=count))])
    data = {
        "names": NAMES,
        "right": both,
        "draws": ["".join(chr(48 + i) for row in draws(seed) for i in row) for seed in (0, 1)],
    }
    head = ["resamples", "same items for both models", "separate items for each model"]
    return element("bootstrap-mean", data, table("95 % interval of the difference, in percentage points", head, rows))
