"""Draw the book's icon, a causal mask of four tokens: `python book/figures/icon.py` writes it anew.

`favicon.png`, for browsers that take no SVG, is a picture of it, 32 pixels wide.
"""

from pathlib import Path

ICON = Path(__file__).resolve().parents[1] / "theme" / "favicon.svg"
TOKENS, CELL, SIDE = 4, 16, 13  # pixels: of a place, and of what is drawn in it


def draw() -> str:
    """The SVG: a square for each place that may be read, lighter the longer ago."""
    squares = [
        f'<rect x="{CELL * j + 1.5}" y="{CELL * i + 1.5}" width="{SIDE}" height="{SIDE}" rx="2" '
        f'fill-opacity="{1 - 0.2 * (i - j):.1f}"/>'
        for i in range(TOKENS)
        for j in range(i + 1)
    ]
    size = CELL * TOKENS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}">'
        "<style>rect { fill: #7a2f94 } @media (prefers-color-scheme: dark) { rect { fill: #dfa6f2 } }</style>"
        f"{''.join(squares)}</svg>\n"
    )


if __name__ == "__main__":
    ICON.write_text(draw(), encoding="utf-8", newline="\n")
