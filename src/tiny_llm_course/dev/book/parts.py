"""Generated files, `book/src/generated`: chapters include their parts as `{{#include ../generated/1.1.md:tasks}}`."""

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
    """Return whether a file exists, by opening it, so that the key of a generated file depends on the answer."""
    try:
        file.open("rb").close()
    except FileNotFoundError:
        return False
    return True


def present_text(name: str) -> str:
    """Read a file as last generated; "" if there is none."""
    file = FOLDER / f"{name}.md"
    return file.read_text(encoding="utf-8") if is_there(file) else ""


def parts_in(text: str) -> Parts:
    """Return the parts of a file by anchor."""
    return dict(PART.findall(text))


def present(name: str, anchor: str) -> str:
    """Read a part as last generated; "" if there is none."""
    return parts_in(present_text(name)).get(anchor, "")
