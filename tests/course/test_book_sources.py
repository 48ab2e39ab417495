"""Faults in the pages' sources that mdBook says nothing about, each named by its line.

What the checks find is shown by planted faults, so that none of them is a check in name only.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiny_llm_course.dev.book.math import formulas
from tiny_llm_course.dev.book.parts import FOLDER
from tiny_llm_course.paths import BOOK, COURSE, ROOT

pytestmark = pytest.mark.maintainers
SOURCES = sorted((BOOK / "src").rglob("*.md"))
# Words that may follow themselves.
TWICE = {"had", "that"}

CODE = re.compile(
    r"^[ \t>]*(?P<fence>```+|~~~+).*?^[ \t>]*(?P=fence)[ \t]*$|<!--.*?-->|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)


def prose(text: str) -> str:
    """The page without its code and comments, every line where it was."""
    return CODE.sub(lambda match: "·" + "\n" * match[0].count("\n"), text)


def found(pattern: str, text: str) -> Iterator[tuple[int, str]]:
    """The line of each match, counted from 1, and the match."""
    for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def images_without_a_description(text: str) -> list[int]:
    markdown = [line for line, _ in found(r"!\[\s*\]", prose(text))]
    html = [line for line, tag in found(r"<img\b[^>]*>", prose(text)) if not re.search(r"\balt=[\"'][^\"']", tag)]
    return markdown + html


def drawings_without_a_title(text: str) -> list[int]:
    drawings = found(r"<svg\b.*?</svg>", prose(text))
    hidden = re.compile(r"<svg\b[^>]*aria-hidden=[\"']true")
    return [line for line, svg in drawings if not hidden.match(svg) and not ('role="img"' in svg and "<title" in svg)]


def doubled_words(text: str) -> list[int]:
    # A recorded text is quoted as a model wrote it, in a fence or in a <blockquote>.
    passed = re.compile(r"<(svg|script|blockquote)\b.*?</\1>", re.DOTALL)
    plain = passed.sub(lambda m: "\n" * m[0].count("\n"), prose(text))
    pairs = found(r"(?<![\w.-])([A-Za-z]{2,})[ \t]*[ \t\n][ \t]*\1(?![\w-])", plain)
    return [line for line, pair in pairs if pair.split()[0].lower() not in TWICE]


def headings_out_of_order(text: str) -> list[int]:
    """A page has one title, at its top, and no heading is more than one level below the one before it."""
    wrong, level = [], 0
    for line, heading in found(r"^#+ ", prose(text)):
        depth = len(heading) - 1
        if depth > level + 1 or (depth == 1 and level):
            wrong.append(line)
        level = depth
    return wrong


CHECKS = [
    images_without_a_description,
    drawings_without_a_title,
    doubled_words,
    headings_out_of_order,
]


@pytest.mark.parametrize("page", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_sources_are_clean(check: Callable[[str], list[int]], page: Path) -> None:
    if page.name == "SUMMARY.md" and check is headings_out_of_order:
        return  # its headings are the parts of the book
    assert check(page.read_text(encoding="utf-8")) == []


def test_generated_pages_have_no_formulas() -> None:
    """The preprocessor for formulas runs before anything is included, so that it can tell the line."""
    assert not [page.name for page in FOLDER.glob("*.md") if list(formulas(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize(
    ("check", "text", "lines"),
    [
        (images_without_a_description, "one\n\n![](a.png) ![what it shows](b.png)", [3]),
        (images_without_a_description, '<img src="a.png">\n<img alt="" src="b.png">\n<img alt="it">\n`<img>`', [1, 2]),
        (drawings_without_a_title, '<svg>\n</svg>\n<svg role="img"><title>It</title></svg>', [1]),
        (drawings_without_a_title, '<svg role="img"></svg>\n<svg aria-hidden="true"></svg>', [1]),
        (doubled_words, "the the\nfor all\nall of it, had had, day by day `a a` a-b b", [1, 2]),
        (doubled_words, "```text\nthe the\n```\nand and", [4]),
        (doubled_words, "<blockquote>\nthe the\n</blockquote>\nand and", [4]),
        (headings_out_of_order, "# A\n### B\n## C\n### D\n# E", [2, 5]),
        (headings_out_of_order, "## A\n```python\n# no heading\n```", [1]),
    ],
)
def test_a_planted_fault_is_found(check: Callable[[str], list[int]], text: str, lines: list[int]) -> None:
    assert check(text) == lines


def test_pages_that_the_readme_links_are_readable_before_the_book_is_built() -> None:
    project = COURSE.parents[1]
    linked = re.findall(r"\]\((book/src/[\w/]+\.md)\)", (project / "README.md").read_text(encoding="utf-8"))
    assert len(linked) >= 4
    assert [name for name in linked if "{{#" in (project / name).read_text(encoding="utf-8")] == []
