"""A run's loss as a curve: of characters in a terminal, and as an SVG."""

from collections.abc import Mapping, Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDE, HIGH, LEFT, BOTTOM = 640, 260, 48, 32  # of the SVG, in pixels
COLORS = {"training": "#4c78a8", "held out": "#e45756"}
Points = Sequence[tuple[int, float]]  # steps and losses


def in_characters(losses: Sequence[float], width: int = 60, height: int = 6) -> list[str]:
    """Return lines that draw the losses as columns, each the mean of as many steps, from 0 to the largest."""
    if not losses:
        return []
    each = -(-len(losses) // width)
    means = [sum(part := losses[i : i + each]) / len(part) for i in range(0, len(losses), each)]
    top = max(means)
    levels = [round(mean / top * height * (len(BLOCKS) - 1)) if top else 0 for mean in means]
    rows = []
    for row in reversed(range(height)):
        filled = [min(max(level - row * (len(BLOCKS) - 1), 0), len(BLOCKS) - 1) for level in levels]
        rows.append("".join(BLOCKS[n] for n in filled))
    rows[0] += f"  {top:.2f}"
    rows[-1] += f"  {means[-1]:.2f} now"
    return rows


def as_svg(curves: Mapping[str, Points]) -> str:
    """Return an SVG of the training and the held-out loss over the steps, readable on light and on dark."""
    points = [point for curve in curves.values() for point in curve]
    last, top = max(step for step, _ in points), max(loss for _, loss in points) * 1.05

    def at(step: int, loss: float) -> str:
        return f"{LEFT + (WIDE - LEFT - 10) * step / last:.1f},{10 + (HIGH - BOTTOM - 10) * (1 - loss / top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img" font-family="sans-serif" '
        'font-size="12"><title>Loss in nats per token, over the steps</title>',
        "<style>text{fill:#333}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
    ]
    for loss in range(int(top) + 1):
        level = at(0, loss).partition(",")[2]
        parts.append(f'<path d="M{LEFT} {level}H{WIDE - 10}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{level}" dy="4" text-anchor="end">{loss}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        line = " ".join(at(*point) for point in curve)
        parts.append(f'<polyline fill="none" stroke="{COLORS[name]}" stroke-width="1.5" points="{line}"/>')
        parts.append(f'<text x="{LEFT + 90 * i}" y="{HIGH - 8}" style="fill:{COLORS[name]}">{name}</text>')
    parts.append(f'<text x="{WIDE - 10}" y="{HIGH - 8}" text-anchor="end">{last} steps; nats per token</text></svg>')
    return "\n".join(parts) + "\n"
