"""Day 1's figure, tables and widget: a request for JSON, decoded with the masks of its grammar."""

import copy
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from book.generate.week1.heads import model
from book.generate.week7.automata import after, dfa_figure, stacks_figure
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
Likely = list[list[Any]]  # tokens, each with its probability in percent, and perhaps whether it is allowed


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
    """Return the figures and the widget."""
    return {
        "steps": figure(),
        "dfa": dfa_figure(compiled().pushdown.rules["#/properties/name"]),
        "trie": trie(),
        "stacks": stacks(),
        "fork": fork(),
        "grammar-steps": widget(),
    }


@functools.cache
def tokenizer() -> ByteLevelBPE:
    """Return the tokenizer of the course's model."""
    return ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")


@functools.cache
def compiled(largest: int = 8) -> Grammar:
    """Return the grammar of SCHEMA, with `largest` legs, over the model's vocabulary."""
    words, schema = tokenizer(), copy.deepcopy(SCHEMA)
    schema["properties"]["legs"]["maximum"] = largest
    trie = TokenTrie(words.token_bytes, LARGEST, {*words.special_tokens.values()})
    return GrammarCompiler(trie, [words.special_tokens["<|im_end|>"]]).compile(schema)


def shown(token: int) -> str:
    """Return a token's text; the end as a word."""
    text: str = tokenizer().decode([token])
    return "the end" if token in tokenizer().special_tokens.values() else text.replace("\n", "\\n")


def likely(logits: np.ndarray, count: int, mask: np.ndarray | None = None) -> Likely:
    """Return the most likely tokens, and with a mask whether it allows each."""
    weights = np.exp(logits - logits.max())
    chances = 100 * weights / weights.sum()
    best = np.argsort(-logits)[:count]
    found: Likely = [[shown(int(t)), round(float(chances[t]), 1)] for t in best]
    return found if mask is None else [[*each, bool(mask[t])] for each, t in zip(found, best, strict=True)]


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
        free, masked = likely(logits, SHOWN, mask), likely(within, min(allowed, SHOWN))
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


def trie() -> str:
    """Draw the nodes of the trie that a walk reaches where a color must follow."""
    tokens = set(tokenizer().token_bytes.values())
    starts = {token[:n] for token in tokens for n in range(len(token) + 1)}

    def draw(canvas: Canvas) -> None:
        wide, high, radius = 84.0, 48.0, 15.0
        words = [word.encode() for word in ("blue", "green", "red")]
        middle = radius + high * len(words) / 2
        canvas.text(0, middle + 5, "root", "strong")
        for row, word in enumerate([*words, b""]):
            y, x = radius + high * row, 64.0
            canvas.path([(42, middle), (x, middle), (x, y), (x + wide - 44 - radius, y)], "line")
            reached = [word[:n] for n in range(1, len(word) + 1) if word[:n] in starts]
            for n, prefix in enumerate(reached):
                x = 64 + 40 + n * wide
                if n:
                    canvas.path([(x - wide + radius, y), (x - radius, y)], "line")
                canvas.circle(x, y, radius, "band" if prefix in tokens else "ring")
                canvas.text(x, y + 5, prefix[-1:].decode(), "strong" if prefix in tokens else "", "middle")
            if not word:
                others = len({start for start in starts if len(start) == 1}) - len(words)
                canvas.text(x + 28, y + 5, f"{others} other bytes, not read")

    about = "Below the root: b, then l; g, then r; r, then e, then d. A token ends at b, g, r, re and red."
    caption = (
        "The nodes that the walk reaches. At a filled node, a token ends: b, g, r, re and red are allowed, but bl and "
        "gr are no tokens. The walk looks at nothing below a byte that the DFA cannot read, such as the other "
        "children of each node."
    )
    return at_both_widths(draw).figure("trie-7-1", "A walk of the trie", about, caption)


def stacks() -> str:
    """Draw the stack while the list of colors is read."""
    colors = ('"colors":', '"colors":["b', '"colors":["blue"', '"colors":["blue"]')
    shown = [after(compiled(), NAMES, '{"name":"Be","legs":2,' + text) for text in colors]
    caption = (
        "The stack of rules after more and more of a text. A call puts a rule on top, and the end of the rule removes "
        "it. Below each text is what may follow."
    )
    return stacks_figure("stacks-7-1", "A stack of rules", shown, caption)


def fork() -> str:
    """Draw the stacks where an integer may continue or end."""
    legs = ('"legs":', '"legs":1', '"legs":12')
    shown = [after(compiled(12), NAMES, '{"name":"Be",' + text) for text in legs]
    caption = (
        "The stacks if up to 12 legs are allowed. After a 1, there are two: one on which the integer continues, and "
        "one on which it has ended."
    )
    return stacks_figure("fork-7-1", "Two stacks at once", shown, caption)


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
