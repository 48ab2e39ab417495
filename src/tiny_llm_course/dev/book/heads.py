"""What a page says of itself to search engines and where it is shared: address, description, picture.

mdBook gives all pages the description of the book, and no address; so this is put into their heads when it is done.
"""

import re
import tomllib
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ...paths import BOOK

PICTURE = "figures/share.png"  # drawn by book/figures/share.py
SIZE = 1200, 630  # of the picture, in pixels: what is shown whole wherever pages are shared
LONGEST = 200  # characters of a description: most places cut it off there
DESCRIPTION = re.compile(r'<meta name="description" content="[^"]*">')
# They are copies of what other pages have, or none.
NO_PAGES = {"404.html", "print.html", "toc.html"}


def settings() -> dict[str, Any]:
    """What book.toml says."""
    return tomllib.loads((BOOK / "book.toml").read_text(encoding="utf-8"))


def address() -> str:
    """Where the book is published, with a slash at the end: the one place is book.toml."""
    return str(settings()["output"]["html"]["site-url"])


def repository() -> str:
    """Where the course is, for `git clone`."""
    return str(settings()["output"]["html"]["git-repository-url"])


def complete(folder: Path) -> None:
    """Complete the heads of all pages of a built book."""
    for file in sorted(folder.rglob("*.html")):
        if file.name not in NO_PAGES:
            html = file.read_text(encoding="utf-8")
            before, after = DESCRIPTION.split(html, maxsplit=1)
            lines = tags(html, file.relative_to(folder).as_posix())
            file.write_text("\n".join([before, *lines, after]), encoding="utf-8", newline="\n")


def tags(html: str, path: str) -> list[str]:
    """What stands in the head of a built page that is found at `path`; the front page says what the book says."""
    book, (width, height) = settings()["book"], SIZE
    title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
    assert title
    front = path == "index.html"
    about = str(book["description"]) if front else description(html)
    place, picture = address() + path.removesuffix("index.html"), address() + PICTURE
    said = {
        "og:type": "website",
        "og:title": str(book["title"]) if front else unescape(title[1]),
        "og:description": about,
        "og:url": place,
        "og:image": picture,
        "og:image:width": str(width),
        "og:image:height": str(height),
        "og:image:alt": "One real head of attention on the words That is a blue dog, and a mistake that is named.",
    }
    return [
        f'<meta name="description" content="{escape(about)}">',
        f'<link rel="canonical" href="{escape(place)}">',
        *(f'<meta property="{name}" content="{escape(text)}">' for name, text in said.items()),
        '<meta name="twitter:card" content="summary_large_image">',
    ]


def description(html: str) -> str:
    """The first paragraph of a built page, cut after a sentence or a word; of a day, what is before and after it."""
    text = _FirstParagraph(html).text
    text = text[max(text.find("Before:"), 0) :]
    if len(text) <= LONGEST:
        return text
    sentences = text[:LONGEST].rpartition(". ")
    return f"{sentences[0]}." if sentences[0] else f"{text[: LONGEST - 1].rpartition(' ')[0]}…"


class _FirstParagraph(HTMLParser):
    """The text of the first paragraph of a page's <main>."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.in_main = self.reading = self.done = False
        self.texts: list[str] = []
        self.feed(html)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_main = self.in_main or tag == "main"
        self.reading = self.reading or (tag == "p" and self.in_main and not self.done)

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self.reading:
            self.reading, self.done = False, True

    def handle_data(self, data: str) -> None:
        if self.reading:
            self.texts.append(data)
