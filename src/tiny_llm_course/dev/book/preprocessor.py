"""mdBook's preprocessor: renders formulas, links terms; bad formulas and includes fail the build, with their line."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...course.registry import load_course
from ...paths import ROOT
from .facts import with_facts
from .math import NoEngine, set_formulas
from .parts import FOLDER
from .terms import Terms, as_sections

OPENING = re.compile(r"(?<!\\)\{\{\s*#")
DIRECTIVE = re.compile(r"\{\{\s*#\s*(\w+)\s+([^\s{}:]+)(?::([^\s{}]*))?\s*\}\}")
LINES = re.compile(r"[0-9:]*")
GLOSSARY = "glossary.md"


def faults(text: str, page: Path) -> Iterator[tuple[int, str]]:
    """Yield a page's broken directives and their lines: mdBook warns of a missing file, and ignores a missing part."""
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


def chapters(items: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the chapters of mdBook's tree that come from a file."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            if item["Chapter"]["source_path"]:
                yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main(arguments: list[str]) -> int:
    """Answer whether mdBook's renderer is supported; without arguments, process the book."""
    if arguments[:1] == ["supports"]:
        return 0 if arguments[1:] == ["html"] else 1
    context, book = json.load(sys.stdin.buffer)
    root = Path(context["root"])
    source = Path(context["config"]["book"].get("src", "src"))
    pages = {Path(page["source_path"]).as_posix(): page for page in chapters(book["items"])}
    wrong = [
        (path, line, fault)
        for path, page in pages.items()
        for line, fault in faults(page["content"], root / source / path)
    ]
    if chapters_of_days := {day.chapter for day in load_course().days()} & pages.keys():
        terms = Terms(pages[GLOSSARY]["content"])
        for path in chapters_of_days:  # their terms are linked to the glossary
            address = "../" * path.count("/") + GLOSSARY
            pages[path]["content"] = terms.link(pages[path]["content"], address, path)
        pages[GLOSSARY]["content"] = as_sections(pages[GLOSSARY]["content"])
    try:
        bad = set_formulas(pages, (root / "katex" / "katex.min.js").read_text(encoding="utf-8"))
    except NoEngine as reason:
        print(reason, file=sys.stderr)
        return 1
    wrong += [(path, *mistake) for path, mistake in bad]
    for path, line, fault in sorted(wrong):
        print(f"{(root.name / source / path).as_posix()}:{line}: {fault}", file=sys.stderr)
    if wrong:
        return 1
    for page in pages.values():  # last, so that a fault's line is the file's
        page["content"] = with_facts(page["content"]).replace("</summary>", " </summary>")  # two words to the search
    sys.stdout.buffer.write(json.dumps(book).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
