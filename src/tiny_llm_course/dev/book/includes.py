"""Find broken includes: mdBook only warns of a missing file, and ignores a missing part."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...paths import ROOT
from .parts import FOLDER

OPENING = re.compile(r"(?<!\\)\{\{\s*#")
DIRECTIVE = re.compile(r"\{\{\s*#\s*(\w+)\s+([^\s{}:]+)(?::([^\s{}]*))?\s*\}\}")
LINES = re.compile(r"[0-9:]*")


def faults(text: str, page: Path) -> Iterator[tuple[int, str]]:
    """Yield the broken directives of a page, each with its line number, counted from 1."""
    for opening in OPENING.finditer(text):
        if reason := _fault(DIRECTIVE.match(text, opening.start()), page):
            yield text.count("\n", 0, opening.start()) + 1, reason


def _fault(directive: re.Match[str] | None, page: Path) -> str:
    if directive is None:
        return "a directive is not complete: it is {{#include FILE}} or {{#include FILE:PART}}"
    name, file, part = directive.groups()
    if name != "include":
        return f"there is no directive #{name}, only #include"
    target = (page.parent / file).resolve()
    # What makes it, if a command does.
    command = " (pdm run dev book)" if target.parent == FOLDER else ""
    if target.parent.name == "transcripts":
        command = f" (pdm run dev transcripts {target.stem})"
    if not target.is_file():
        shown = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else file
        return f"there is no {shown} to include{command}"
    if part and not LINES.fullmatch(part):
        marks = re.findall(rf"\bANCHOR(?:_END)?: *{re.escape(part)}(?!\S)", target.read_text(encoding="utf-8"))
        if len(marks) != 2:
            return f"{file} has no part {part}{command}"
    return ""
