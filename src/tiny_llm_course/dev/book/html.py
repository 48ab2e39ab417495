"""The elements of generated parts: custom elements with their data, tables, numbers."""

import json
import re
from html import escape
from typing import Any

import numpy as np

MINUS = "\N{MINUS SIGN}"
HYPHEN = re.compile(r"(?<![^\s(])-(?=[\d.])")  # in place of a minus
NUMBER = re.compile(f"[{MINUS}-]?[\\d,]*\\.?\\d+|\N{EN DASH}|")


def element(name: str, data: dict[str, Any] | None, *inside: str) -> str:
    """Return a custom element with its data, without blank lines, so that Markdown takes it for one block of HTML."""
    script = [f'<script type="application/json">{json.dumps(data, ensure_ascii=False)}</script>'] if data else []
    return "\n".join([f"<{name}>", *script, *inside, f"</{name}>", ""])


def table(caption: str, head: list[str], rows: list[list[str]]) -> str:
    """Return a table whose rows begin with their header; it scrolls on narrow pages, in mdBook's wrapper.

    Columns of numbers are aligned at the right.
    """
    columns = zip(*rows, strict=True)
    kinds = [' class="number"' if all(map(NUMBER.fullmatch, column)) else "" for column in columns][1:]
    kinds = kinds or [""] * len(head[1:])
    heads = zip(head, ["", *kinds], strict=True)
    lines = [f'<div class="table-wrapper"><table><caption>{escape(caption)}</caption>']
    lines.append(
        "<thead><tr>" + "".join(f'<th scope="col"{kind}>{escape(cell)}</th>' for cell, kind in heads) + "</tr></thead>"
    )
    lines.append("<tbody>")
    for first, *cells in rows:
        data = "".join(
            f"<td{kind}>{escape(HYPHEN.sub(MINUS, cell))}</td>" for cell, kind in zip(cells, kinds, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{data}</tr>')
    return "\n".join([*lines, "</tbody></table></div>"])


def quotes(texts: list[tuple[str, str]]) -> str:
    """Return recorded texts, each below its heading, as one block of HTML, which wraps at any width."""
    found = [f"<p><strong>{escape(heading)}</strong><br>{escape(text, quote=False)}</p>" for heading, text in texts]
    return "\n".join(["<blockquote>", *found, "</blockquote>", ""])


def visible(text: str) -> str:
    """Return a token's text with spaces as ␣ and unprintable characters as dots."""
    return "".join(letter if letter.isprintable() else "\N{MIDDLE DOT}" for letter in text.replace(" ", "\N{OPEN BOX}"))


def number(x: float, digits: int = 2) -> str:
    """Format a number as the widgets do: with a real minus, and no minus zero."""
    if np.isinf(x):
        return f"{MINUS}∞" if x < 0 else "∞"
    text = f"{abs(x):.{digits}f}"
    return f"{MINUS}{text}" if x < 0 and float(text) else text
