"""Listings in lines that a chapter's column shows whole; in the files, they have up to 120 characters."""

import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise

WIDTH = 88
SIGNATURE = re.compile(r"(\s*(?:async )?def \w+\()(.+)(\).*:)")
PROSE = re.compile(r'\s*(#|r?""").+')
C_COMMENTS = re.compile(r"^( *///?)(?: .*\n\1)*(?: .*\n)", re.MULTILINE)
C_STATEMENT = re.compile(r"^( *)(?!/)\S.*?[;{]( *//[^\n]*)?$", re.MULTILINE | re.DOTALL)


def wrapped(listing: str) -> str:
    """Wrap long signatures as ruff does, and long docstrings and comments at their words; leave other lines."""
    return "".join(f"{short}\n" for line in listing.splitlines() for short in _wrapped(line))


def wrapped_c(listing: str) -> str:
    """Wrap long paragraphs of comments, and the arguments of long C++ declarations and calls; leave all else."""
    return C_STATEMENT.sub(_c_statement, C_COMMENTS.sub(_c_comments, listing))


def _c_comments(found: re.Match[str]) -> str:
    mark, lines = f"{found[1]} ", found[0].splitlines()
    if max(map(len, lines)) <= WIDTH:
        return found[0]
    paragraphs = [lines[0]]
    for last, line in pairwise(lines):
        if last.endswith("."):
            paragraphs.append(line)
        else:
            paragraphs[-1] += f" {line.removeprefix(mark)}"
    return "".join(f"{line}\n" for text in paragraphs for line in _prose(text, mark))


def _c_statement(found: re.Match[str]) -> str:
    statement, indent, remark = found[0], found[1], found[2] or ""
    if max(map(len, statement.splitlines())) <= WIDTH:
        return statement
    if remark:
        remark, statement = f"{indent}{remark.lstrip()}\n", statement[: -len(remark)]
    code = indent + " ".join(statement.split())
    opened, closed = code.find("("), code.rfind(")")
    if len(code) > WIDTH and opened > 0:
        arguments = _arguments(f"{indent}    ", code[opened + 1 : closed])
        code = "\n".join([code[: opened + 1], "\n".join(arguments).rstrip(","), indent + code[closed:]])
    return remark + code


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
