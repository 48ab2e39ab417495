"""Tool calls, parsed while the answer is streamed."""

import re
from typing import NamedTuple

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
        raise NotImplementedError("7.2.2 Parsing calls in a stream")

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
        raise NotImplementedError("7.2.2 Parsing calls in a stream")

    def finish(self) -> list[Event]:
        """Return what is left when the answer has ended: text that was held, or an error for a call without an end.

        White space at the end of the answer is text, unless it follows a block. The error begins with "The answer ends
        inside the call", and the call is added to `calls`.
        """
        raise NotImplementedError("7.2.2 Parsing calls in a stream")
