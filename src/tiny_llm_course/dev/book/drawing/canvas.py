"""Shapes and the SVG figure made of them. Looks are classes of `book/figures.css`; roles look the same in the whole
book.
"""

import re
from collections.abc import Callable
from html import escape

from ....paths import BOOK
from ..html import HYPHEN, MINUS

# What has a color and a second mark in the whole book: its letter in formulas, and its meaning.
ROLES = {
    "query": ("Q", "what a token looks for"),
    "key": ("K", "what a token has to offer"),
    "value": ("V", "what a token passes on"),
    "weights": ("A", "attention weights: how much of each value a query takes"),
    "stream": ("x", "the residual stream: a token's vector between layers"),
    "logits": ("z", "a score for each possible next token"),
}
FONT, SMALL = 14.0, 12.0  # pixels; a wider figure would be scaled down to unreadable text on a phone
WIDEST = 372.0
COLUMN = 664.0  # what fills the column of a page
SCALE = 1.15  # at most; then text is as large as the page's
LARGER = 1.5  # of a figure that is drawn once: `book/figures.css` makes its text smaller in return
MARGIN = 2.0
# Signs of numbers and of sizes, in place of the letters that code has for them.
SIGNS = {
    HYPHEN: MINUS,
    re.compile(r"(?<=[\w)]) x (?=[\w(])"): " \N{MULTIPLICATION SIGN} ",
}
INDEX = re.compile(r"(?<=\b[A-Z])([_^])([A-Za-z]{1,4})\b")
# Styles that a figure gets from its page, and a file must contain.
COLORS = "svg{background:white;font-size:14px} :root{--fg:#1d1d1d;--bg:white;--links:#1a56a8;--mono-font:monospace}"


def width_of(words: str, size: float = FONT) -> float:
    """Estimate the width of words in the page's font, generously."""
    return 0.58 * size * len(words)


def place(number: float) -> str:
    """Format a coordinate to a tenth of a pixel, the same on every machine."""
    return f"{round(float(number), 1) + 0.0:g}"


class Canvas:
    """A drawing in pixels from the upper left corner, y downwards; it grows with its shapes."""

    def __init__(self, width: float = WIDEST) -> None:
        self.width = width  # what there is; a drawing may be narrower
        self.wide: Canvas | None = None  # the same for the column of a page
        self._shapes: list[str] = []
        self._left = self._top = self._right = self._bottom = 0.0

    def rect(self, x: float, y: float, width: float, height: float, looks: str, round_by: float = 0) -> None:
        """Draw a box from its upper left corner."""
        corner = f' rx="{place(round_by)}"' if round_by else ""
        sides = f'x="{place(x)}" y="{place(y)}" width="{place(width)}" height="{place(height)}"'
        self._add(f'<rect {sides}{corner} class="{looks}"/>', (x, y), (x + width, y + height))

    def circle(self, x: float, y: float, radius: float, looks: str) -> None:
        """Draw a disc or a ring around a center."""
        ends = (x - radius, y - radius), (x + radius, y + radius)
        self._add(f'<circle cx="{place(x)}" cy="{place(y)}" r="{place(radius)}" class="{looks}"/>', *ends)

    def path(self, points: list[tuple[float, float]], looks: str, arrow: bool = False) -> None:
        """Draw a line from point to point, perhaps with an arrowhead at its end."""
        if arrow:  # its head stops short of what it points at, and the line at the head
            (x0, y0), (x1, y1) = points[-2:]
            across, down = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)  # lines are upright or level
            x1, y1 = x1 - 1.5 * across, y1 - 1.5 * down
            points = [*points[:-1], (x1 - 6 * across, y1 - 6 * down)]
        places = " ".join(f"{place(x)},{place(y)}" for x, y in points)
        self._add(f'<polyline points="{places}" class="{looks}"/>', *points)
        if arrow:
            wings = [(x1 - 7 * across + side * down, y1 - 7 * down + side * across) for side in (4, -4)]
            head = " ".join(f"{place(x)},{place(y)}" for x, y in [(x1, y1), *wings])
            self._add(f'<polygon points="{head}" class="head {looks}"/>', *wings)

    def text(
        self, x: float, y: float, words: str, looks: str = "", anchor: str = "start", *, length: float = 0
    ) -> None:
        """Draw words with their baseline at y and the `anchor` at x; a `length` in pixels also keeps their spaces."""
        for letters, sign in {} if length else SIGNS.items():
            words = letters.sub(sign, words)
        size = SMALL if "small" in looks.split() else FONT
        width = length or width_of(words, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        kind = f' class="{looks}"' if looks else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        exact = f' xml:space="preserve" textLength="{place(length)}"' if length else ""
        drawn = f'<text x="{place(x)}" y="{place(y)}"{side}{kind}{exact}>{_with_indices(words)}</text>'
        self._add(drawn, (left, y - size), (left + width, y + size / 4))

    @property
    def bottom(self) -> float:
        """The lowest y drawn so far."""
        return self._bottom

    def figure(self, name: str, title: str, about: str, caption: str = "", *, larger: float = LARGER) -> str:
        """Return one block of HTML; `name` is unique in the book. Raise ValueError if it is too wide for a phone.

        A figure that is drawn once is at most `larger` times its size.
        """
        drawings = [self._fitting(name, title, about, "narrow" if self.wide else "", larger)]
        if self.wide:
            drawings.append(self.wide._fitting(f"{name}-wide", title, about, "wide"))
        drawing = "\n".join(drawings)
        below = f"<figcaption>{caption}</figcaption>\n" if caption else ""
        return f'<figure class="drawn">{drawing}\n{below}</figure>\n'

    def in_a_file(self, name: str, title: str, about: str) -> str:
        """Return the SVG as a file of its own."""
        style = COLORS + (BOOK / "figures.css").read_text(encoding="utf-8")
        return self.drawing(name, title, about, 'class="drawn"', style) + "\n"

    def _fitting(self, name: str, title: str, about: str, looks: str, larger: float = LARGER) -> str:
        width = self._right - self._left + 2 * MARGIN
        if width > self.width:
            where = "a phone" if self.width == WIDEST else "a page"
            raise ValueError(f"figure {name} is {width:.0f} pixels wide, {self.width:.0f} is what {where} shows")
        kind, scale = (f'class="{looks}" ', SCALE) if looks else ("", larger)
        return self.drawing(name, title, about, f'{kind}style="max-width:{width * scale:.0f}px"')

    def drawing(self, name: str, title: str, about: str, attributes: str = "", style: str = "") -> str:
        """Return the SVG, with its own `style` if it is for a file, where the page's does not apply."""
        left, top = self._left - MARGIN, self._top - MARGIN
        width, height = self._right - left + MARGIN, self._bottom - top + MARGIN
        view = " ".join(map(place, (left, top, width, height)))
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" '
        head += f'aria-labelledby="{name}-title {name}-about" {attributes}'.rstrip()
        said = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-about">{escape(about)}</desc>'
        styles = [f"<style>{style}</style>"] if style else []
        return "\n".join([f"{head}>", said, *styles, *self._shapes, "</svg>"])

    def _add(self, shape: str, *points: tuple[float, float]) -> None:
        self._shapes.append(shape)
        for x, y in points:
            self._left, self._right = min(self._left, x), max(self._right, x)
            self._top, self._bottom = min(self._top, y), max(self._bottom, y)


def _with_indices(words: str) -> str:
    """Return words as SVG; the part after `_` in "H_kv" is lowered, that after `^` in "W^K" raised."""
    start, *others = INDEX.split(words)
    drawn = escape(start)
    for sign, index, rest in zip(others[::3], others[1::3], others[2::3], strict=True):
        down = 3 if sign == "_" else -4
        drawn += f'<tspan dy="{down}" class="index">{index}</tspan>'
        drawn += f'<tspan dy="{-down}">{escape(rest)}</tspan>' if rest else ""
    return drawn


def at_both_widths(draw: Callable[[Canvas], object]) -> Canvas:
    """Draw a figure for a phone, and again for the column of a page; the page shows the one that fits."""
    canvas = Canvas()
    draw(canvas)
    canvas.wide = Canvas(COLUMN)
    draw(canvas.wide)
    return canvas


def looks_of(role: str | None) -> str:
    """Return the class of a role, "" for None; raise ValueError for an unknown one."""
    if role is None:
        return ""
    if role not in ROLES:
        raise ValueError(f"no role {role!r}, there are {', '.join(ROLES)}")
    return f"role-{role}"
