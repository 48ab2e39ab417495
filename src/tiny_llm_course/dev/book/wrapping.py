"""Python listings in lines that a chapter's column shows whole; in the files, they have up to 120 characters."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 88
SIGNATURE = re.compile(r"(\s*(?:async )?def \w+\()(.+)(\).*:)")
PROSE = re.compile(r'\s*(#|r?""").+')


def wrapped(listing: str) -> str:
    """Wrap long signatures as ruff does, and long docstrings and comments at their words; leave other lines."""
    return "".join(f"{short}\n" for line in listing.splitlines() for short in _wrapped(line))


def _wrapped(line: str) -> Iterator[str]:
    text = line.lstrip()
    indent = line[: -len(text)]
    if len(line) <= WIDTH:
        yield line
    elif PROSE.fullmatch(line):
        yield from _prose(line, f"{indent}# " if text[0] == "#" else indent)
    elif signature := SIGNATURE.fullmatch(line):
        yield signature[1]
        yield from _arguments(f"{indent}    ", signature[2])
        yield indent + signature[3]
    elif re.match(r"(self|\*|\w+: )", text) and text[-1] not in ":,":
        yield from _arguments(indent, text)
    else:
        yield line


def _prose(line: str, indent: str) -> list[str]:
    """Return as few lines as fit, of about the same length."""

    def lines(width: int) -> list[str]:
        return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    return next(short for width in range(40, WIDTH + 1) if len(short := lines(width)) == len(lines(WIDTH)))


def _arguments(indent: str, text: str) -> Iterator[str]:
    """Yield arguments in one line or, if they are too long for it, in a line each."""
    if len(indent + text) <= WIDTH:
        yield indent + text
        return
    start = depth = 0
    for i, char in enumerate(f"{text},"):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            yield f"{indent}{text[start:i]},"
            start = i + 2
