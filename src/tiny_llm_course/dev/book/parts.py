"""The files of generated parts, `book/src/generated`: one a day, one for what a week has, one for the course.

Each part stands between mdBook's anchors, and a chapter includes it by file and anchor:
`{{#include ../generated/1.1.md:hints-2}}`.
"""

import re

from ...paths import BOOK

FOLDER = BOOK / "src" / "generated"
PART = re.compile(r"<!-- ANCHOR: ([\w-]+) -->\n(.*?)<!-- ANCHOR_END: \1 -->\n", re.DOTALL)

Parts = dict[tuple[str, str], str]  # texts by file ("1.1" for a day, "1" for a week, "course") and anchor


def as_files(parts: Parts) -> dict[str, str]:
    """The text of every file, by its name."""
    files: dict[str, list[str]] = {}
    for (file, anchor), text in parts.items():
        part = f"<!-- ANCHOR: {anchor} -->\n{text}<!-- ANCHOR_END: {anchor} -->\n"
        files.setdefault(f"{file}.md", []).append(part)
    return {name: "\n".join(texts) for name, texts in files.items()}


def present_files() -> dict[str, str]:
    """The text of every file that is there, by its name."""
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}


def parts_in(text: str) -> dict[str, str]:
    """The parts of a file by their anchors."""
    return dict(PART.findall(text))


def present(file: str, anchor: str) -> str:
    """A part as it was generated last; "" if it was not."""
    return parts_in(present_files().get(f"{file}.md", "")).get(anchor, "")
