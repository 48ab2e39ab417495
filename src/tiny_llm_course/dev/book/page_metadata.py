"""Complete the heads of built pages: mdBook gives them neither an address nor a description of their own."""

import re
import tomllib
from html import escape, unescape
from pathlib import Path
from typing import Any

from ...paths import BOOK

PICTURE = "figures/share.png"  # drawn by book/figures/share.py
SIZE = 1200, 630  # of the picture, in pixels: shown uncropped wherever pages are shared
LONGEST = 200  # characters of a description, where most sites truncate it
DESCRIPTION = re.compile(r'<meta name="description" content="[^"]*">')
# They are copies of what other pages have, or none.
NO_PAGES = {"404.html", "print.html", "toc.html"}


def settings() -> dict[str, Any]:
    """Load book.toml."""
    return tomllib.loads((BOOK / "book.toml").read_text(encoding="utf-8"))


def address() -> str:
    """Return the published book's address, with a trailing slash."""
    return str(settings()["output"]["html"]["site-url"])


def repository() -> str:
    """Return the course's address for `git clone`."""
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
    """Return the tags for the head of the built page at `path`; the front page gets the book's description."""
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
    """Return a page's first paragraph, cut after a sentence or word; a day's starts at "Before:"."""
    paragraph = re.search(r"<main\b.*?<p\b[^>]*>(.*?)</p>", html, re.DOTALL)
    text = " ".join(unescape(re.sub(r"<[^>]*>", "", paragraph[1] if paragraph else "")).split())
    text = text[max(text.find("Before:"), 0) :]
    if len(text) <= LONGEST:
        return text
    sentences = text[:LONGEST].rpartition(". ")
    return f"{sentences[0]}." if sentences[0] else f"{text[: LONGEST - 1].rpartition(' ')[0]}…"
