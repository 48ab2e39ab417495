"""The files of generated parts, `book/src/generated`: one a day, one for what a week has, one for the course.

Each part stands between mdBook's anchors, and a chapter includes it by file and anchor:
`{{#include ../generated/1.1.md:hints-2}}`.
"""

import re
from pathlib import Path

from ...paths import BOOK

FOLDER = BOOK / "src" / "generated"
PART = re.compile(r"<!-- ANCHOR: ([\w-]+) -->\n(.*?)<!-- ANCHOR_END: \1 -->\n", re.DOTALL)

Parts = dict[str, str]  # the texts of one file by their anchors


def as_text(parts: Parts) -> str:
    """Join the parts of a file, each between its anchors."""
    return "\n".join(f"<!-- ANCHOR: {a} -->\n{text}<!-- ANCHOR_END: {a} -->\n" for a, text in parts.items())


def is_there(file: Path) -> bool:
    """Return whether a file exists. It is opened, so that the key of a generated file depends on the answer."""
    try:
        file.open("rb").close()
    except FileNotFoundError:
        return False
    return True


def present_text(name: str) -> str:
    """Read a file as it was generated last; "" if it was not."""
    file = FOLDER / f"{name}.md"
    return file.read_text(encoding="utf-8") if is_there(file) else ""


def parts_in(text: str) -> Parts:
    """The parts of a file by their anchors."""
    return dict(PART.findall(text))


def present(name: str, anchor: str) -> str:
    """Read a part as it was generated last; "" if it was not."""
    return parts_in(present_text(name)).get(anchor, "")
