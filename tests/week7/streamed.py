"""Answers with tool calls, cut into pieces, and what a parser should report, for task 7.2.2.

The reference reads the whole answer so far again, after each piece, with regular expressions.
"""

import codecs
import json
import re
from typing import Any

OPEN, CLOSE = "<tool_call>", "</tool_call>"
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.)+")\s*,\s*"arguments"\s*:\s*(?=\{)')
# A string, up to its end, a line break or the end of the text; a tag; any other character.
TOKEN = re.compile(r'"(?:\\[^\n]|[^"\\\n])*(?:\\?\n|["\\])?|</tool_call>|[\s\S]')
ERRORS = (
    "The call is not JSON",
    "The call has no name",
    "The call has no arguments",
    "The answer ends inside the call",
)

Found = list[tuple[str, str, int]]

READ = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'
ANSWERS = {
    "no call": "That is a blue dog.",
    "one call": READ,
    "text before": f"Let me look.\n{READ}",
    "text after": f"{READ}\nI wait.",
    "two calls": f"{READ}\n{READ.replace('a.py', 'b.py')}",
    "text between": f"First a.\n{READ}\n\nThen b.\n{READ}\n",
    "no line breaks": 2 * '<tool_call>{"name":"now","arguments":{}}</tool_call>',
    "spaces": '<tool_call> {\n "name" : "add" ,\n "arguments" : { "a" : [ 1 , {} ] } \n}\n</tool_call>',
    "two bytes": 'D\u00e9j\u00e0.\n<tool_call>{"name": "\u00e9", "arguments": {"\u72d7": "\U0001f415"}}\n</tool_call>',
    "nested": '<tool_call>\n{"name": "f", "arguments": {"a": {"b": [{"c": {}}]}, "d": "}{]"}}\n</tool_call>',
    "escapes": r'<tool_call>{"name": "f", "arguments": {"a": "\\", "b": "\"}\"", "c": "\\\"}"}}</tool_call>',
    "two backslashes": '<tool_call>\n{"name": "f", "arguments": {"a": "\\\\"}}\n</tool_call>',
    "escaped name": r'<tool_call>{"name": "a\"\u00e9", "arguments": {}}</tool_call>',
    "a tag in a string": '<tool_call>\n{"name": "f", "arguments": {"text": "</tool_call><tool_call>"}}\n</tool_call>',
    "other order": '<tool_call>\n{"arguments": {"path":"\u72d7"}, "name": "read_file"}\n</tool_call>',
    "another key": '<tool_call>\n{"id": 3, "name": "f", "arguments": {"b":1}}\n</tool_call>',
    "a last key": '<tool_call>\n{"name": "f", "arguments": {"b":1}, "id": {"c": 2}}\n</tool_call>',
    "half a tag": "a <tool_ call> b <tool_call c",
    "a tag at the end": "a\n<tool_cal",
    "two beginnings": f"<tool_<{READ}",
    "less than": "if a < b and b <c",
    "only white space": " \n\n",
    "white space at the end": "Yes. \n",
    "white space in front": "\n\n  Yes.",
    "white space after a call": f"{READ}\n  \n",
    "half a tag after a call": f"{READ}\n <tool",
    "no JSON": "<tool_call>\nread a.py\n</tool_call>\nSorry.",
    "single quotes": "<tool_call>\n{'name': 'f', 'arguments': {}}\n</tool_call>",
    "a comma too many": '<tool_call>\n{"name": "f", "arguments": {"a": 1,}}\n</tool_call>\n' + READ,
    "a brace too few": '<tool_call>\n{"name": "f", "arguments": {"a": 1}\n</tool_call>' + READ,
    "two braces too few": '<tool_call>\n{"name": "f", "arguments": {"a": 1\n</tool_call>',
    "a quote too many": '<tool_call>\n{"name": "f", "arguments": {"a": "b"c"}}\n</tool_call>\nSorry.',
    "a quote inside": '<tool_call>\n{"name": "run", "arguments": {"code": "print("hi")"}}\n</tool_call>\nSorry.',
    "a backslash at the end of a line": '<tool_call>\n{"name": "f", "arguments": {"a": "b\\\n</tool_call>\nSorry.',
    "not a number": '<tool_call>\n{"name": "f", "arguments": {"a": NaN}}\n</tool_call>',
    "no name": '<tool_call>\n{"arguments": {}}\n</tool_call>',
    "an empty name": '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
    "a name of no text": '<tool_call>\n{"name": 3, "arguments": {}}\n</tool_call>',
    "no arguments": '<tool_call>\n{"name": "now"}\n</tool_call>',
    "arguments in a string": '<tool_call>\n{"name": "f", "arguments": "{}"}\n</tool_call>',
    "arguments in a list": '<tool_call>\n{"name": "f", "arguments": [{}]}\n</tool_call>',
    "a list": '<tool_call>\n[{"name": "f", "arguments": {}}]\n</tool_call>',
    "an empty block": "<tool_call>\n</tool_call>",
    "two objects": '<tool_call>\n{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {}}\n</tool_call>',
    "a block in a block": f"<tool_call>\n{READ}\n</tool_call>",
    "no end": '<tool_call>\n{"name": "f", "arguments": {"a": "b',
    "an end without a tag": '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n',
    "no end of the name": '<tool_call>\n{"name": "re',
    "a closing tag alone": "a </tool_call> b",
}
# Bytes that no text has.
BYTES = {
    "half a character": "D\u00e9j\u00e0".encode()[:-1],
    "no UTF-8": b"a\xffb<tool_call>\xff</tool_call>\xc3",
    "half a character in a call": '<tool_call>{"name": "f", "arguments": {"a": "\u72d7'.encode()[:-2],
}


def answers() -> dict[str, bytes]:
    """Return all answers as bytes."""
    return {name: text.encode() for name, text in ANSWERS.items()} | BYTES


def pieces_of(data: bytes, size: int) -> list[bytes]:
    """Return the data in pieces of so many bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]


def _scan(text: str, at: int) -> tuple[int, int | None, int | None, bool]:
    """Return where a block ends, where its arguments begin and stop, and whether it has a closing tag."""
    depth, head = 0, HEAD.match(text, at)
    begin: int | None = head.end() if head else None
    stop: int | None = None
    for token in TOKEN.finditer(text, at):
        if token[0] == CLOSE:
            if begin is not None and begin < token.start() and stop is None:
                stop = token.start()
            return token.start(), begin, stop, True
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if begin is not None and token.start() >= begin and stop is None:
            if token[0] == "<":
                stop = token.start()
            elif depth < 2:
                stop = token.end()
    return len(text), begin, stop, False


def _why_not(text: str) -> tuple[Any, str]:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        found = json.loads(text, parse_constant=refuse)
    except ValueError:
        return None, ERRORS[0]
    if not isinstance(found, dict) or not isinstance(found.get("name"), str) or not found["name"]:
        return None, ERRORS[1]
    return found, "" if isinstance(found.get("arguments"), dict) else ERRORS[2]


def _so_far(data: bytes, ended: bool) -> tuple[Found, list[tuple[str, str, str]]]:
    """Return the events of the beginning of an answer, each text in one piece, and the calls that have ended."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, ended)
    events: Found = []
    calls: list[tuple[str, str, str]] = []
    at = 0
    while True:
        opened = text.find(OPEN, at)
        words = text[at:] if opened < 0 else text[at:opened]
        words = words.lstrip() if calls else words
        if opened < 0:
            if not ended:
                words = next(
                    (words[: len(words) - size] for size in range(len(OPEN) - 1, 0, -1) if words.endswith(OPEN[:size])),
                    words,
                ).rstrip()
            return events + [("text", words, -1)] * bool(words), calls
        events += [("text", words.rstrip(), -1)] * bool(words.strip())
        begin, number = opened + len(OPEN), len(calls)
        end, first, stop, closed = _scan(text, begin)
        name, arguments = "", ""
        if first is not None:
            name, arguments = json.loads(HEAD.match(text, begin)[1]), text[first:stop]  # type: ignore[index]
            events += [("name", name, number), ("arguments", arguments, number)]
        if not closed and not ended:
            return events, calls
        found: Any = None
        error = ERRORS[3]
        if closed:
            found, error = _why_not(text[begin:end])
        if first is None and error:
            arguments = text[begin:end].strip()
        elif first is None:
            name, arguments = found["name"], json.dumps(found["arguments"], ensure_ascii=False)
            events += [("name", name, number), ("arguments", arguments, number)]
        events.append(("error" if error else "end", error, number))
        calls.append((name, arguments, error))
        if not closed:
            return events, calls
        at = end + len(CLOSE)


def _new(before: Found, after: Found) -> Found:
    """Return what one list of events adds to another."""
    added = []
    for number, event in enumerate(after):
        if number >= len(before):
            added.append(event)
        elif event != before[number]:
            added.append((event[0], event[1][len(before[number][1]) :], event[2]))
    return added


def _lines(found: list[Found], calls: list[tuple[str, str, str]]) -> list[str]:
    lines = []
    for number, events in enumerate(found):
        when = f"piece {number}" if number < len(found) - 1 else "the end"
        lines += [f"{when}: {kind} {'' if index < 0 else index} {text!a}" for kind, text, index in events]
    return [*lines, *(f"call: {name} {arguments!a} {error}".rstrip() for name, arguments, error in calls)]


def expected_lines(pieces: list[bytes]) -> list[str]:
    """Return what a parser reports after each piece and at the end, and its calls."""
    before: Found = []
    found, data = [], b""
    for piece in pieces:
        data += piece
        after, _ = _so_far(data, False)
        found.append(_new(before, after))
        before = after
    after, calls = _so_far(data, True)
    return _lines([*found, _new(before, after)], calls)


def actual_lines(make: Any, pieces: list[bytes]) -> list[str]:
    """Return the same of a parser; of an error only the words that are specified, and pieces in a row as one."""
    parser, found = make(), []
    for number in range(len(pieces) + 1):
        events = parser.add(pieces[number]) if number < len(pieces) else parser.finish()
        merged: Found = []
        for kind, text, index in events:
            if not text and kind in ("text", "arguments"):
                text = "(an empty piece)"
            if merged and kind in ("text", "arguments") and merged[-1][::2] == (kind, index):
                merged[-1] = (kind, merged[-1][1] + text, index)
            else:
                merged.append((kind, _known(text) if kind == "error" else text, index))
        found.append(merged)
    return _lines(found, [(call.name, call.arguments, _known(call.error)) for call in parser.calls])


def _known(error: str) -> str:
    return next((known for known in ERRORS if error.startswith(known)), error)
