"""mdBook's preprocessor: renders formulas, links terms; bad formulas and includes fail the build, with their line."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...course.registry import load_course
from . import includes
from .math import NoEngine, set_formulas
from .terms import Terms

GLOSSARY = "glossary.md"


def chapters(items: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the chapters of mdBook's tree that come from a file."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            if item["Chapter"]["source_path"]:
                yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def link_terms(pages: dict[str, dict[str, Any]]) -> None:
    """Link terms to the glossary in the days' chapters."""
    chapters_of_days = {day.chapter for day in load_course().days()} & pages.keys()
    if chapters_of_days:
        terms = Terms(pages[GLOSSARY]["content"])
        for path in chapters_of_days:
            page = pages[path]
            page["content"] = terms.link(page["content"], "../" * path.count("/") + GLOSSARY)


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
        for line, fault in includes.faults(page["content"], root / source / path)
    ]
    link_terms(pages)
    try:
        bad = set_formulas(pages, (root / "katex" / "katex.min.js").read_text(encoding="utf-8"))
    except NoEngine as reason:
        print(reason, file=sys.stderr)
        return 1
    wrong += [(path, mistake.line, str(mistake)) for path, mistake in bad]
    for path, line, fault in sorted(wrong):
        print(f"{(root.name / source / path).as_posix()}:{line}: {fault}", file=sys.stderr)
    if wrong:
        return 1
    sys.stdout.buffer.write(json.dumps(book).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
