"""Read a range of a file's lines, with bounded output and bounded memory."""

import codecs
import os

from .errors import WorkspaceError

MAX_LINE = 1000  # bytes of a line that are shown


def read_range(file: int, first: int = 1, last: int | None = None, max_chars: int = 16_000) -> str:
    r"""Return some lines of a file, each with its number, and a last line that says how to continue.

    A line ends with `\n` and nothing else: `\r` and other separators are part of its text. Each line is returned as its
    number, right-aligned in 6 columns, two spaces, its text, and `\n`. Of a line of more than MAX_LINE bytes, the
    characters that are complete within the first MAX_LINE bytes are shown, then ` [+N bytes]`, where N is the number of
    bytes of the line that follow those MAX_LINE. Invalid UTF-8 is shown as `\ufffd`.

    Lines are returned from `first` on: up to `last`, to the end of the file, or before the line that would make all
    these lines longer than `max_chars` characters; the first line is returned anyway. Then comes one of

    - `[end of file]` if no line follows;
    - `[more lines: continue with first=N]`, where N is the number of the next line;
    - `[the file has N lines]` instead of any lines, if it has fewer than `first`.

    Args:
        file: the descriptor of a regular file, read from its current position. It stays open. No line is read beyond
            the one after the last that is returned, and the file is read in pieces of at most 64 KiB, however long a
            line is.
        first: number of the first line, from 1.
        last: number of the last line, or None.
        max_chars: at least 1.

    Raises:
        WorkspaceError: a line that is read, up to `last`, has a zero byte in its first MAX_LINE bytes: the file is no
            text. Or `first` is less than 1, or `last` less than `first`.
    """
    if first < 1 or (last is not None and last < first):
        raise WorkspaceError(f"lines {first} to {last} are no range: lines are counted from 1")
    shown: list[str] = []
    length = number = 0
    with os.fdopen(file, "rb", buffering=32_768, closefd=False) as lines:
        while piece := lines.readline(MAX_LINE + 1):
            number += 1
            if last is not None and number > last:
                return "".join([*shown, f"[more lines: continue with first={number}]"])
            body, size = piece[:MAX_LINE].removesuffix(b"\n"), len(piece)
            while not piece.endswith(b"\n") and (piece := lines.readline(16_384)):
                size += len(piece)  # the rest of a long line, in pieces
            if b"\0" in body:
                raise WorkspaceError(f"line {number} has a zero byte: the file is no text")
            if number < first:
                continue
            rest = size - len(body) - piece.endswith(b"\n")
            # Not `final`: a character that the cut left incomplete is dropped.
            text = codecs.getincrementaldecoder("utf-8")("replace").decode(body, final=not rest)
            line = f"{number:>6}  {text}{f' [+{rest} bytes]' if rest else ''}\n"
            if shown and length + len(line) > max_chars:
                return "".join([*shown, f"[more lines: continue with first={number}]"])
            shown.append(line)
            length += len(line)
    return "".join([*shown, "[end of file]"]) if shown else f"[the file has {number} lines]"
