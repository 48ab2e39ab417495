"""Set a chapter's facts, the paragraph below its title, as a list of names and values."""

import posixpath
import re

from .parts import present

FACTS = re.compile(r"\A(# [^\n]*\n+)(\*\*Needs\*\*.*?\n)(?=\n)", re.DOTALL)
INCLUDE = re.compile(r"\{\{#include (?:\.\./)?generated/([\w.]+)\.md:([\w-]+)\}\}")
NAME = re.compile(r"\*\*(Needs|Time|You edit|Contract|Before|After)\*\*:?\s")
FILE = re.compile(r"`([\w/.-]+)`")


def with_facts(page: str) -> str:
    """Return the page with its facts as a `dl`, or unchanged if it has none."""
    found = FACTS.match(page)
    if not found:
        return page
    _, *parts = NAME.split(INCLUDE.sub(lambda part: present(*part.groups()).strip(), found[2]))
    rows = ['<dl class="facts">']
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        said = _files(text) if name == "You edit" else text.strip()
        rows.append(f"<div><dt>{name}</dt><dd>\n\n{said}\n\n</dd></div>")
    return "\n".join([found[1], *rows, "</dl>", page[found.end() :]])


def _files(text: str) -> str:
    """Name each folder once, followed by its files."""
    folders: dict[str, list[str]] = {}
    for file in FILE.findall(text):
        folder, name = posixpath.split(file)
        folders.setdefault(folder, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(names)} in `{folder}`" for folder, names in folders.items())
