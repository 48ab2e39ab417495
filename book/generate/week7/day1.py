"""Day 1's figure, tables and widget: a request for JSON, decoded with the masks of its grammar."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from book.generate.week1.heads import model
from tests.week1.reference_model import model64

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, width_of
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.constrained.grammar import Grammar, GrammarCompiler  # noqa: E402
from tiny_llm_solution.constrained.trie import TokenTrie, unpack  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{1,7}$"},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "colors": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "legs", "colors"],
}
PROMPT = "Once upon a time, there was a frog. It was big and green. "
LARGEST, SHOWN = 2048, 5
NAMES = {"string": "string", "#": "object", "#/properties/name": "name", "#/properties/legs": "legs"}
NAMES |= {"#/properties/colors": "colors", "#/properties/colors/items": "item"}
Likely = list[list[Any]]  # tokens, each with its probability in percent


@dataclass(frozen=True)
class Step:
    """One decode step: the text so far, the rules on the stacks, and the likely tokens without and with the mask."""

    text: str
    stacks: list[list[str]]
    allowed: int
    free: Likely
    masked: Likely
    end: bool


def generated_parts() -> Parts:
    """Return the figure, the table and the widget."""
    return {"steps": figure(), "grammar-steps": widget()}


@functools.cache
def tokenizer() -> ByteLevelBPE:
    """Return the tokenizer of the course's model."""
    return ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")


@functools.cache
def compiled() -> Grammar:
    """Return the grammar of SCHEMA over the model's vocabulary."""
    words = tokenizer()
    trie = TokenTrie(words.token_bytes, LARGEST, {*words.special_tokens.values()})
    return GrammarCompiler(trie, [words.special_tokens["<|im_end|>"]]).compile(SCHEMA)


def shown(token: int) -> str:
    """Return a token's text; the end as a word."""
    text: str = tokenizer().decode([token])
    return "the end" if token in tokenizer().special_tokens.values() else text.replace("\n", "\\n")


def likely(logits: np.ndarray, count: int) -> Likely:
    """Return the most likely tokens."""
    weights = np.exp(logits - logits.max())
    chances = 100 * weights / weights.sum()
    return [[shown(int(t)), round(float(chances[t]), 1)] for t in np.argsort(-logits)[:count]]


@functools.cache
def steps() -> tuple[Step, ...]:
    """Decode greedily with masks until the end."""
    grammar, prompt = compiled(), tokenizer().encode(PROMPT)
    state, output, found = grammar.start, list[int](), list[Step]()
    while True:
        logits = model64(np.array([prompt + output]), model())[0, -1]
        mask = unpack(grammar.mask(state), LARGEST)
        within = np.where(mask, logits, -np.inf)
        stacks = sorted({tuple(_rules(stack)) for stack in grammar.pushdown.sets[state]})
        allowed, best = int(mask.sum()), int(np.argmax(within))
        ends = best in tokenizer().special_tokens.values()
        text = tokenizer().decode(output)
        free, masked = likely(logits, SHOWN), likely(within, min(allowed, SHOWN))
        found.append(Step(text, [list(each) for each in stacks], allowed, free, masked, ends))
        if ends:
            return tuple(found)
        output.append(best)
        state = grammar.advance(state, best)


def _rules(stack: Any) -> list[str]:
    """Return the names of the rules of a stack, the lowest first."""
    names: list[str] = []
    while stack:
        rule, _, stack = stack
        names.insert(0, NAMES.get(rule, rule))
    return names


def figure() -> str:
    """Draw the tokens of the answer, and below each how many were allowed."""
    chosen = [step.masked[0][0] for step in steps()]

    def draw(canvas: Canvas) -> None:
        x, y, high = 0.0, 0.0, 46.0
        for word, step in zip(chosen, steps(), strict=True):
            wide = max(width_of(word), width_of(f"{step.allowed:,}"), 16.0) + 10
            if x + wide > canvas.width - 4:
                x, y = 0.0, y + high + 12
            forced = step.allowed == 1
            canvas.rect(x, y, wide, 22, "frame", 3)
            canvas.text(x + wide / 2, y + 16, word, "", "middle")
            canvas.text(x + wide / 2, y + 38, f"{step.allowed:,}", "small" if forced else "strong", "middle")
            x += wide + 4
        canvas.text(0, y + high + FONT + 4, f"allowed tokens, of {LARGEST:,}", "small")

    surprises = sum(step.free[0][0] != step.masked[0][0] for step in steps())
    about = "; ".join(f"{word}: {step.allowed}" for word, step in zip(chosen, steps(), strict=True))
    caption = (
        f"The tokens of an answer. Below each is the number of tokens that the schema allowed at its step. In "
        f"{surprises} of {len(chosen)} steps, the model's most likely token was not allowed, so the most likely of the "
        f"allowed tokens was chosen."
    )
    return at_both_widths(draw).figure("steps-7-1", "An answer in JSON, token by token", about, caption)


def widget() -> str:
    """Return the widget, and a table of the steps."""
    data = [
        {"text": s.text, "stacks": s.stacks, "allowed": s.allowed, "free": s.free, "masked": s.masked} for s in steps()
    ]
    rows = [
        [str(n), s.text or "(empty)", f"{s.allowed:,}", s.free[0][0].replace(" ", "␣"), s.masked[0][0]]
        for n, s in enumerate(steps())
    ]
    head = ["step", "text so far", "allowed tokens", "most likely token", "chosen token"]
    return element("grammar-steps", {"size": LARGEST, "steps": data}, table("An answer, step by step", head, rows))
