"""Shapes on a canvas, and the figure that is made of them: one SVG in the page's own colours.

A shape's looks are classes of `book/figures.css`. Those of the course's roles, `role-query` and its like, give it the
colour and the line that the role has everywhere in the book. The canvas grows with what is drawn on it.
"""

from html import escape

from ....paths import BOOK

# What has a colour and a second mark in the whole book: the letter that it has in formulas, and what it is.
ROLES = {
    "query": ("Q", "what a token looks for"),
    "key": ("K", "what a token has to offer"),
    "value": ("V", "what a token hands over"),
    "weights": ("A", "how much of each value a query takes"),
    "stream": ("x", "a token's vector on its way through the layers"),
    "logits": ("z", "a score for each token that may come next"),
}
FONT, SMALL = 14.0, 12.0  # pixels; what is wider than a phone would shrink below what can be read
WIDEST = 372.0
MARGIN = 2.0
# What the page gives a figure, and a file must have itself.
COLOURS = "svg{background:white;font-size:14px} :root{--fg:#1d1d1d;--bg:white;--links:#1a56a8;--mono-font:monospace}"


def width_of(words: str, size: float = FONT) -> float:
    """About what words take in the page's font, rather too much than too little."""
    return 0.58 * size * len(words)


def place(number: float) -> str:
    """A coordinate: a tenth of a pixel is enough, and the same on every machine."""
    return f"{round(float(number), 1) + 0.0:g}"


class Canvas:
    """Where shapes are put, in pixels from the upper left corner, y downwards."""

    def __init__(self) -> None:
        self._shapes: list[str] = []
        self._left = self._top = self._right = self._bottom = 0.0

    def rect(self, x: float, y: float, width: float, height: float, looks: str, round_by: float = 0) -> None:
        """A box, from its upper left corner."""
        corner = f' rx="{place(round_by)}"' if round_by else ""
        sides = f'x="{place(x)}" y="{place(y)}" width="{place(width)}" height="{place(height)}"'
        self._add(f'<rect {sides}{corner} class="{looks}"/>', (x, y), (x + width, y + height))

    def circle(self, x: float, y: float, radius: float, looks: str) -> None:
        """A disc or a ring around a centre."""
        ends = (x - radius, y - radius), (x + radius, y + radius)
        self._add(f'<circle cx="{place(x)}" cy="{place(y)}" r="{place(radius)}" class="{looks}"/>', *ends)

    def path(self, points: list[tuple[float, float]], looks: str, arrow: bool = False) -> None:
        """A line from point to point, with a head at its end if it is an arrow."""
        places = " ".join(f"{place(x)},{place(y)}" for x, y in points)
        self._add(f'<polyline points="{places}" class="{looks}"/>', *points)
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            across, down = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)  # lines are upright or level
            wings = [(x1 - 7 * across + side * down, y1 - 7 * down + side * across) for side in (4, -4)]
            head = " ".join(f"{place(x)},{place(y)}" for x, y in [(x1, y1), *wings])
            self._add(f'<polygon points="{head}" class="head {looks}"/>', *wings)

    def text(
        self, x: float, y: float, words: str, looks: str = "", anchor: str = "start", *, length: float = 0
    ) -> None:
        """A line of text that stands on y; x is where it starts, its "middle" or its "end".

        With a `length`, in pixels, it is as long as that in any font, and its spaces are kept.
        """
        size = SMALL if "small" in looks.split() else FONT
        width = length or width_of(words, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        kind = f' class="{looks}"' if looks else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        exact = f' xml:space="preserve" textLength="{place(length)}"' if length else ""
        drawn = f'<text x="{place(x)}" y="{place(y)}"{side}{kind}{exact}>{escape(words)}</text>'
        self._add(drawn, (left, y - size), (left + width, y + size / 4))

    @property
    def bottom(self) -> float:
        """How far down something has been drawn."""
        return self._bottom

    def figure(self, name: str, title: str, about: str, caption: str = "") -> str:
        """The whole, as a figure with its caption. `name` is the book's only one; `about` says what there is to see.

        No blank line is in it: to Markdown it is one block of HTML.

        Raises:
            ValueError: it is wider than a phone shows without making its text too small.
        """
        width = self._right - self._left + 2 * MARGIN
        if width > WIDEST:
            raise ValueError(f"figure {name} is {width:.0f} pixels wide, {WIDEST:.0f} is what a phone shows")
        lines = [
            '<figure class="drawn">' + self.drawing(name, title, about, f'style="max-width:{width * 1.15:.0f}px"'),
            *([f"<figcaption>{caption}</figcaption>"] if caption else []),
            "</figure>",
        ]
        return "\n".join(lines) + "\n"

    def in_a_file(self, name: str, title: str, about: str) -> str:
        """The SVG as a file of its own."""
        style = COLOURS + (BOOK / "figures.css").read_text(encoding="utf-8")
        return self.drawing(name, title, about, 'class="drawn"', style) + "\n"

    def drawing(self, name: str, title: str, about: str, attributes: str = "", style: str = "") -> str:
        """The SVG by itself, with its own `style` if it is to stand in a file, where the page's does not reach."""
        left, top = self._left - MARGIN, self._top - MARGIN
        width, height = self._right - left + MARGIN, self._bottom - top + MARGIN
        view = " ".join(map(place, (left, top, width, height)))
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" '
            f'aria-labelledby="{name}-title {name}-about" {attributes}'.rstrip()
            + ">",
            f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-about">{escape(about)}</desc>',
            *([f"<style>{style}</style>"] if style else []),
            *self._shapes,
            "</svg>",
        ]
        return "\n".join(lines)

    def _add(self, shape: str, *points: tuple[float, float]) -> None:
        self._shapes.append(shape)
        for x, y in points:
            self._left, self._right = min(self._left, x), max(self._right, x)
            self._top, self._bottom = min(self._top, y), max(self._bottom, y)


def looks_of(role: str | None) -> str:
    """The class of a role; none for what has no role.

    Raises:
        ValueError: the book has no such role.
    """
    if role is None:
        return ""
    if role not in ROLES:
        raise ValueError(f"no role {role!r}, there are {', '.join(ROLES)}")
    return f"role-{role}"
