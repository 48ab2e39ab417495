"""What generated parts of the book are made of: custom elements with their data, tables, numbers."""

import json
from html import escape
from typing import Any

import numpy as np

MINUS = "\N{MINUS SIGN}"


def element(name: str, data: dict[str, Any] | None, *inside: str) -> str:
    """A custom element with its data. No blank line in it: to Markdown it is one block of HTML."""
    script = [f'<script type="application/json">{json.dumps(data, ensure_ascii=False)}</script>'] if data else []
    return "\n".join([f"<{name}>", *script, *inside, f"</{name}>", ""])


def table(caption: str, head: list[str], rows: list[list[str]]) -> str:
    """Rows begin with what they are about. On a narrow page the table scrolls, in mdBook's wrapper for tables."""
    lines = [f'<div class="table-wrapper"><table><caption>{escape(caption)}</caption>']
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr></thead>")
    lines.append("<tbody>")
    for first, *cells in rows:
        lines.append(
            f'<tr><th scope="row">{escape(first)}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    return "\n".join([*lines, "</tbody></table></div>"])


def visible(text: str) -> str:
    """A token's text as it is shown: a space as ␣, what cannot be printed as a dot."""
    return "".join(letter if letter.isprintable() else "\N{MIDDLE DOT}" for letter in text.replace(" ", "\N{OPEN BOX}"))


def number(x: float, digits: int = 2) -> str:
    """As the widgets write numbers: a real minus, no minus zero."""
    if np.isinf(x):
        return f"{MINUS}∞" if x < 0 else "∞"
    text = f"{abs(x):.{digits}f}"
    return f"{MINUS}{text}" if x < 0 and float(text) else text
