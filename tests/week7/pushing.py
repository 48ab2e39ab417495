"""Rules and recorded masks for task 7.1.4, and what a pushdown automaton is compared with."""

import functools
import json
from typing import Any

import numpy as np
from tests.week1.tokenizing import alphabet_formula
from tests.week7.record_masks import BYTES, END, MODEL, RECORD, SIZE, schemas

from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

NUMBER = "0|[1-9][0-9]*"
# By name: the rules of small grammars as regular expressions, in which <x> calls the rule x, and texts.
GRAMMARS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one rule": ({"#": "(?:do)*(?:g|dig)"}, ["dog", "dig", "do", "dogs", "g", "dodog", "dodig", "digg"]),
    "a list": ({"#": r"\[(?:<n>(?:,<n>)*)?\]", "n": NUMBER}, ["[]", "[1,20]", "[1,]", "[0]", "[01]", "[1", "[12,3,4]"]),
    "nested lists": ({"#": r"\[(?:<#>(?:,<#>)*)?\]"}, ["[]", "[[],[[]]]", "[[]", "[]]", "[[[[]]]]", "[,]"]),
    "the same call twice": ({"#": "<a><a>", "a": "x+"}, ["xx", "xxx", "x", "xxxxx", ""]),
    "two rules that begin alike": (
        {"#": "<a>!|<b>[?]", "a": "do|dog", "b": "dog|dot"},
        ["do!", "dog!", "dog?", "dot?", "do?", "dot!"],
    ),
    "a call at the end": ({"#": "a<b>", "b": "b<c>|b", "c": "c"}, ["ab", "abc", "a", "abcc"]),
    "calls three deep": (
        {"#": r"\(<x>\)", "x": "<y>-<y>", "y": "<n>", "n": NUMBER},
        ["(1-2)", "(10-0)", "(1-)", "(1-2", "(12)"],
    ),
    "mutual recursion": ({"#": "a<b>?", "b": "b<#>?"}, ["a", "ab", "aba", "abab", "b", "aa"]),
    "another character": ({"#": "«<t>»", "t": "[^«»]|<#>"}, ["«é»", "««犬»»", "«»", "««a»", "«ab»"]),
}
CALL_FIRST = {"#": "<a>!", "a": "b"}  # the first state reads no byte itself


def expression(text: str, package: Any) -> Any:
    """Return a regular expression with calls: <x> is parsed as a character, which is then replaced by a call."""
    names: list[str] = []
    while "<" in text:
        name = text[text.index("<") + 1 : text.index(">")]
        names.append(name)
        text = text.replace(f"<{name}>", chr(0xE000 + len(names) - 1), 1)
    parsed, kinds = package("pattern").parse_regex(text), package("expression")

    def replaced(part: Any) -> Any:
        kind = type(part).__name__
        if kind == "Chars":
            code = part.ranges[0][0]
            return kinds.Call(names[code - 0xE000]) if 0xE000 <= code < 0xE000 + len(names) else part
        if kind == "Sequence":
            return kinds.Sequence(tuple(map(replaced, part.parts)))
        if kind == "Choice":
            return kinds.Choice(tuple(map(replaced, part.options)))
        return kinds.Repeat(replaced(part.part), part.least, part.most)

    return replaced(parsed)


def accepts(pushdown: Any, text: str | bytes) -> bool:
    """Return whether an automaton reads a text to its end, and may end there."""
    state = pushdown.start
    for byte in text.encode() if isinstance(text, str) else text:
        state = int(pushdown.row(state)[byte])
        if state < 0:
            return False
    return bool(pushdown.accepts(state))


@functools.cache
def token_bytes() -> dict[int, bytes]:
    """Return the bytes of each token of the course's model, without the special ones."""
    byte_of = {letter: byte for byte, letter in alphabet_formula().items()}
    vocab = json.loads(MODEL.read_text(encoding="utf-8"))["model"]["vocab"]
    return {token: bytes(byte_of[letter] for letter in text) for text, token in vocab.items()}


@functools.cache
def recorded() -> dict[str, np.ndarray]:
    """Return the record of llguidance's masks."""
    with np.load(RECORD) as file:
        return dict(file)


def steps(vocabulary: str, number: int) -> list[tuple[int, list[int]]]:
    """Return each step of a schema's text: the next token, -1 for the end, and the tokens that llguidance allows."""
    record, size = recorded(), SIZE if vocabulary == "tokens" else BYTES
    which = np.flatnonzero(record[f"{vocabulary}_schema"] == number)
    masks = np.unpackbits(record[f"{vocabulary}_mask"][which].view(np.uint8), axis=1, bitorder="little", count=size)
    following = record[f"{vocabulary}_next"][which].tolist()
    return [(token, np.flatnonzero(mask).tolist()) for token, mask in zip(following, masks, strict=True)]


def check_bytes(pushdown: Any, number: int) -> None:
    """Check the bytes that may follow at each step of a recorded text, and where it may end."""
    schema, state, text = schemas()[number], pushdown.start, b""
    for following, allowed in steps("bytes", number):
        case = f"schema {json.dumps(schema)[:200]}, after {text.decode(errors='replace')!a:.60}"
        with noted(case):
            row, ends = pushdown.row(state), pushdown.accepts(state)
        check_row(row, case)
        actual = [*np.flatnonzero(row >= 0).tolist(), *([BYTES - 1] if ends else [])]
        expected, got = ([bytes([n]) if n < 256 else "the end" for n in one] for one in (allowed, actual))
        size = len(case) + len(text)
        fail_if_different("the bytes that may follow differ from llguidance's", expected, got, case, size)
        if following < 0:
            break
        state, text = int(row[following]), text + bytes([following])


def check_row(row: Any, case: str) -> None:
    """Check a row's type."""
    if not isinstance(row, np.ndarray) or row.shape != (256,) or row.dtype != np.int32:
        got = f"{row.shape}, {row.dtype}" if isinstance(row, np.ndarray) else type_words(row)
        fail(Kind.TYPE, f"`row` returned {got}, expected 256 numbers, int32", case)


__all__ = [
    "CALL_FIRST",
    "END",
    "GRAMMARS",
    "MODEL",
    "NUMBER",
    "SIZE",
    "accepts",
    "check_bytes",
    "expression",
    "schemas",
    "steps",
    "token_bytes",
]
