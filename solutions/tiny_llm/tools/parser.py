"""Tool calls, parsed while the answer is streamed."""

import codecs
import json
import re
from typing import Any, NamedTuple, NoReturn

from .tool import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
# The template's order of keys. In any other order, a call's name is known only when the block ends.
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.)+")\s*,\s*"arguments"\s*:\s*\{')


class Event(NamedTuple):
    """What a piece of an answer adds."""

    kind: str  # "text", "name", "arguments", "end", "error"
    text: str  # new text; the call's name; a piece of its arguments; ""; what is wrong with the call
    call: int = -1  # the number of the call in the answer, from 0; -1 for text


class ToolCallParser:
    """Separates a model's answer into its text and its calls, while it is streamed.

    `calls` lists the calls that have ended, as `ToolCall`.
    """

    def __init__(self) -> None:
        """Start at the beginning of an answer."""
        self.calls: list[ToolCall] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # text that may not be reported yet
        self._after_call = False  # white space is dropped
        self._block: _Block | None = None  # the call that is being read

    def add(self, data: bytes) -> list[Event]:
        """Return what some more bytes of the answer add; they may end inside a character or a tag.

        An answer is text with blocks `<tool_call>` ... `</tool_call>`. White space next to a block is dropped. A block
        holds a JSON object with `name`, a string that is not empty, and `arguments`, an object; other keys are ignored.
        JSON has no NaN and no Infinity, although `json.loads` reads them.
        A tag inside a JSON string is part of that string. JSON strings contain no line breaks, so a line break ends a
        string that was never closed.

        Text is reported at once, except what could be the beginning of `<tool_call>`, or white space before one. The
        events of a call have its number:

        - "name", as soon as the block begins with `{"name": "...", "arguments": {`, with any white space between;
        - "arguments", their JSON text in pieces, as it arrives, from that brace to the one that closes it, or until
          a `<` outside a string;
        - "end", at `</tool_call>`. If the keys come in another order, "name" and "arguments" are reported just before,
          the latter in one piece, as `json.dumps(..., ensure_ascii=False)` writes it;
        - "error" in place of "end", if the block is no such object. Its text begins with "The call is not JSON", "The
          call has no name" or "The call has no arguments".

        Pieces of text or arguments are never empty. `calls` gets a ToolCall for each block, with the name and all
        arguments that were reported. If an error comes before the name, the name is "" and the arguments are the
        block's text, stripped.

        Bytes that are not UTF-8 become U+FFFD.
        """
        return self._read(self._decoder.decode(data))

    def finish(self) -> list[Event]:
        """Return what is left when the answer has ended: text that was held, or an error for a call without an end.

        White space at the end of the answer is text, unless it follows a block. The error begins with "The answer ends
        inside the call", and the call is added to `calls`.
        """
        events = self._read(self._decoder.decode(b"", True))
        if self._block:
            self._end(events, "The answer ends inside the call.")
        elif self._held:
            events.append(Event("text", self._held))
        self._held = ""
        return events

    def _read(self, text: str) -> list[Event]:
        events = list[Event]()
        while text:
            if self._block is None:
                text = self._read_text(text, events)
                continue
            size, closed = self._block.add(text)
            text = text[size:]
            self._report(events)
            if closed:
                self._end(events)
        return events

    def _read_text(self, text: str, events: list[Event]) -> str:
        """Report text up to the next block, and return what follows its tag."""
        text, tag, rest = (self._held + text).partition(OPEN)
        if self._after_call:
            text = text.lstrip()
        size = len(text)
        if not tag:  # a beginning of the tag may be at the end
            size -= next(size for size in range(len(OPEN) - 1, -1, -1) if text.endswith(OPEN[:size]))
        shown = text[:size].rstrip()
        self._held = "" if tag else text[len(shown) :]
        if shown:
            events.append(Event("text", shown))
            self._after_call = False
        if tag:
            self._block = _Block(len(self.calls))
        return rest

    def _report(self, events: list[Event]) -> None:
        """Report what is new of the block's name and arguments."""
        block = self._block
        assert block
        if block.name and not block.named:
            events.append(Event("name", block.name, block.index))
            block.named = True
        if new := block.new_arguments():
            events.append(Event("arguments", new, block.index))

    def _end(self, events: list[Event], error: str = "") -> None:
        """Close the block, and report how it ended."""
        block = self._block
        assert block
        found: Any = {}
        if not error:
            found, error = _parsed(block.text)
        if block.named:
            name, arguments = block.name, block.arguments()
        elif error:
            name, arguments = "", block.text.strip()
        else:
            name, arguments = found["name"], json.dumps(found["arguments"], ensure_ascii=False)
            events += [Event("name", name, block.index), Event("arguments", arguments, block.index)]
        events.append(Event("error" if error else "end", error, block.index))
        self.calls.append(ToolCall(name, arguments, error))
        self._block, self._after_call = None, True


class _Block:
    """The text inside `<tool_call>`, read character by character.

    The characters are in a list: appending to a string copies it, which is quadratic in the length of a call.
    """

    def __init__(self, index: int) -> None:
        self.index, self.name, self.named = index, "", False
        self._characters: list[str] = []
        self._in_string, self._escaped, self._depth = False, False, 0
        self._head_read = False
        self._begin: int | None = None  # of the arguments
        self._stop: int | None = None
        self._sent = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._characters)

    def add(self, text: str) -> tuple[int, bool]:
        """Read up to the closing tag; return how many characters were read, and whether the tag was among them."""
        for size, character in enumerate(text, 1):
            self._characters.append(character)
            if self._in_string:
                self._in_string = character != "\n" and (self._escaped or character != '"')
                self._escaped = character == "\\" and not self._escaped
            elif character == '"':
                self._in_string = True
            elif character == ">" and self._characters[-len(CLOSE) :] == [*CLOSE]:
                del self._characters[-len(CLOSE) :]
                return size, True
            else:
                self._track(character)
        return len(text), False

    def _track(self, character: str) -> None:
        """Find where the arguments begin and stop, outside of strings."""
        if character in "{[":
            self._depth += 1
            if self._depth == 2 and not self._head_read:
                self._head_read = True  # a later brace is not the one that opens the arguments
                if head := HEAD.fullmatch(self.text):
                    self._begin = self._sent = len(self._characters) - 1
                    self.name = json.loads(head[1])
        elif character in "}]":
            self._depth -= 1
        if self._begin is not None and self._stop is None:
            if character == "<":  # no JSON: perhaps the closing tag
                self._stop = len(self._characters) - 1
            elif self._depth < 2:
                self._stop = len(self._characters)

    def new_arguments(self) -> str:
        """Return the arguments' text since the last call."""
        if self._begin is None:
            return ""
        stop = len(self._characters) if self._stop is None else self._stop
        new, self._sent = "".join(self._characters[self._sent : stop]), stop
        return new

    def arguments(self) -> str:
        """Return the arguments' text."""
        return "".join(self._characters[self._begin : self._stop])


def _parsed(text: str) -> tuple[Any, str]:
    """Return a block's object, and what is wrong with it."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return None, f"The call is not JSON: {error}."
    if not isinstance(found, dict) or not (isinstance(found.get("name"), str) and found["name"]):
        return found, 'The call has no name: expected {"name": "...", "arguments": {...}}.'
    if not isinstance(found.get("arguments"), dict):
        return found, 'The call has no arguments: expected {"name": "...", "arguments": {...}}.'
    return found, ""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
