"""Draw silu and relu, day 4's gates as dots: `python book/figures/silu.py` writes the picture anew."""

from pathlib import Path

import numpy as np
from tests.week1.formulas import silu64

PICTURE = Path(__file__).resolve().parents[1] / "src" / "figures" / "silu.svg"
GATES = {"That": 4.0, "is": -4.0, "a": 0.0, "blue": 1.0, "dog": -9.0}

LEFT, RIGHT, LOW, HIGH = -10.0, 6.0, -1.0, 5.0  # the part of the plane that is shown
UNIT, MARGIN = 29.0, 8.0  # pixels
WIDTH, HEIGHT = UNIT * (RIGHT - LEFT) + 2 * MARGIN, UNIT * (HIGH - LOW) + 2 * MARGIN
# Where a name stands, seen from its dot: beside the curve and the axes, not on them.
ABOVE, BELOW = (0, -11, "middle"), (10, 16, "start")


def draw() -> str:
    """The SVG, in the page's own colours."""
    xs = np.linspace(LEFT, HIGH, 151)
    said = ", ".join(f"{silu64(np.array(gate)):.3f} for {token}" for token, gate in GATES.items())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
            f'aria-labelledby="silu-title silu-desc" style="max-width: {WIDTH:.0f}px; width: 100%" font-size="15" '
            'fill="currentColor">',
            '<title id="silu-title">The curve of silu</title>',
            f'<desc id="silu-desc">Left of 0 it dips a little below the axis and returns to it; right of 0 it rises '
            f"towards the line of relu. At the gates of the five tokens it is {said}.</desc>",
            *_axes(),
            f'<polyline points="{_points(xs, np.maximum(xs, 0))}" fill="none" stroke="currentColor" '
            'stroke-width="1.5" stroke-dasharray="5 5"/>',
            f'<polyline points="{_points(xs, silu64(xs))}" fill="none" stroke="var(--links)" stroke-width="3"/>',
            *(mark for token, gate in GATES.items() for mark in _dot(token, gate)),
            "</svg>\n",
        ]
    )


def _place(x: float, y: float) -> tuple[float, float]:
    return MARGIN + UNIT * (x - LEFT), MARGIN + UNIT * (HIGH - y)


def _points(xs: np.ndarray, ys: np.ndarray) -> str:
    return " ".join("{:.1f},{:.1f}".format(*_place(x, y)) for x, y in zip(xs, ys, strict=True))


def _axes() -> list[str]:
    """Both axes through 0, every second number."""
    (x0, y0), (left, top), (right, bottom) = _place(0, 0), _place(LEFT, HIGH), _place(RIGHT, LOW)
    lines = [(left, y0, right, y0), (x0, top, x0, bottom)]
    drawn = [
        f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="currentColor" stroke-opacity="0.65"/>'
        for a, b, c, d in lines
    ]
    for tick in range(-8, 6, 2):
        x = _place(tick, 0)[0]
        if tick:
            drawn.append(f'<text x="{x:.1f}" y="{y0 + 28:.1f}" text-anchor="middle">{_minus(tick)}</text>')
    for tick in (2, 4):
        drawn.append(f'<text x="{x0 - 6:.1f}" y="{_place(0, tick)[1] + 5:.1f}" text-anchor="end">{tick}</text>')
    return drawn


def _dot(token: str, gate: float) -> list[str]:
    x, y = _place(gate, float(silu64(np.array(gate))))
    right, down, anchor = ABOVE if gate < 0 else BELOW
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var(--links)"/>',
        f'<text x="{x + right:.1f}" y="{y + down:.1f}" text-anchor="{anchor}" font-weight="bold">{token}</text>',
    ]


def _minus(number: int) -> str:
    return f"\N{MINUS SIGN}{-number}" if number < 0 else str(number)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
