"""Draw what is shown where somebody shares the book: `python book/figures/share.py` writes the picture anew.

It is day 1's head and the mistake of a transcript, on a page that Chromium photographs. A PNG keeps, as a comment, of
which page it is a picture; while that is the same, nothing is drawn, and no browser is needed.
"""

import hashlib
import struct
import sys
import zlib
from html import escape

from tiny_llm_course.dev.book.page_metadata import PICTURE as NAME
from tiny_llm_course.dev.book.page_metadata import SIZE, settings
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.paths import BOOK, make_importable

PICTURE = BOOK / "src" / NAME
TRANSCRIPT = BOOK / "transcripts" / "scale-left-out.txt"
STYLE = """
body { display: grid; grid-template-columns: 1fr 470px; gap: 50px; align-items: center; box-sizing: border-box;
    width: %dpx; height: %dpx; margin: 0; padding: 40px 60px; font-family: "Open Sans", system-ui, sans-serif; }
h1 { margin: 0 0 12px; font-size: 84px; }
p { margin: 0 0 26px; font-size: 31px; line-height: 1.35; }
p:last-child { padding-inline-start: 20px; border-inline-start: 6px solid var(--weights); font-size: 27px; }
:root { --bg: white; --fg: black; --mono-font: monospace; }
figure.drawn { margin: 0; }
figure.drawn svg { max-width: none !important; }
figcaption { display: none; }
"""


def page() -> str:
    """The page that is photographed."""
    book = settings()["book"]
    lines = TRANSCRIPT.read_text(encoding="utf-8").splitlines()
    mistake = next(line.strip() for line in lines if "Your output equals" in line)
    css = (BOOK / "figures.css").read_text(encoding="utf-8") + STYLE % SIZE
    words = f"<h1>{escape(book['title'])}</h1><p>{escape(book['description'])}</p><p>{escape(mistake)}</p>"
    figure = present("1.1", "weights")
    return f"<!DOCTYPE html><html lang=en><style>{css}</style><body><div>{words}</div>{figure}</body></html>"


def digest() -> str:
    """What the PNG's comment should be."""
    return hashlib.sha256(page().encode()).hexdigest()


def comment() -> str:
    """The comment of the PNG as it is; "" if there is none."""
    png, at = PICTURE.read_bytes() if PICTURE.is_file() else b"", 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"tEXt":
            return png[at + 8 : at + 8 + size].partition(b"\0")[2].decode("latin-1")
        at += size + 12
    return ""


def draw() -> None:
    """Photograph the page."""
    make_importable()
    from tests.book.browser import launch

    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("The picture for sharing is out of date, and drawing it needs Playwright: pdm run dev-setup")
    width, height = SIZE
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is None:
            sys.exit("The picture for sharing is out of date, and drawing it needs Chromium or Chrome.")
        photograph = browser.new_page(viewport={"width": width, "height": height})
        photograph.set_content(page())
        png = photograph.screenshot()
        browser.close()
    text = b"Comment\0" + digest().encode()
    chunk = struct.pack(">I", len(text)) + b"tEXt" + text + struct.pack(">I", zlib.crc32(b"tEXt" + text))
    end = len(png) - 12  # before the last chunk, which marks the end
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(png[:end] + chunk + png[end:])


if __name__ == "__main__" and comment() != digest():
    draw()
