"""The fenced blocks of a page of the book."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Fence(NamedTuple):
    """A fenced block of a page."""

    line: int  # of its first line of text, counted from 1
    language: str
    lines: list[str]


def fences(page: Path) -> Iterator[Fence]:
    """The fenced blocks, without their indentation."""
    open_fence: Fence | None = None
    margin = mark = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = re.match(r"( *)(```+|~~~+)(.*)", line)
        if match and open_fence is None:
            margin, mark = match[1], match[2]
            open_fence = Fence(number + 1, match[3].strip(), [])
        elif match and open_fence and match[2] == mark:
            assert not match[3].strip(), f"line {number}: a fence inside the one of line {open_fence.line - 1}"
            yield open_fence
            open_fence = None
        elif open_fence:
            open_fence.lines.append(line.removeprefix(margin))
    assert open_fence is None, f"line {open_fence.line - 1}: a fence that nothing closes"
