"""The picture of a run: its loss while it went, on the stories it was shown and on those held out."""

from typing import Any

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 190, 20, 44
COLORS = {"loss": "#4c78a8", "held_out_loss": "#e45756"}


def loss_curve(record: dict[str, Any]) -> str:
    """An SVG that is readable on light and on dark."""
    log = record["log"]
    names = {"loss": _training(record), "held_out_loss": "held out"}
    last: float = log[-1]["tokens"]
    values = [entry[name] for entry in log for name in COLORS]
    low, high = int(min(values) * 5) / 5, int(max(values) * 5 + 1) / 5

    def x(tokens: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * tokens / last

    def y(loss: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12" aria-labelledby="t d">',
        '<title id="t">Loss while the model was trained</title>',
        f'<desc id="d">Held-out loss falls from {log[0]["held_out_loss"]} to {log[-1]["held_out_loss"]} nats a token '
        f"over {last / 1e6:.0f} million tokens.</desc>",
        "<style>text{fill:#333}line{stroke:#8884}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
    ]
    for loss in _ticks(low, high):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(loss):.1f}" y2="{y(loss):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
    for tokens in _ticks(0, last / 1e6):
        parts.append(f'<text x="{x(tokens * 1e6):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{tokens:g}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">million tokens</text>')
    parts.append(f'<text x="{LEFT}" y="12" text-anchor="middle">nats a token</text>')
    for name, color in COLORS.items():
        points = " ".join(f"{x(entry['tokens']):.1f},{y(entry[name]):.1f}" for entry in log)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{points}"/>')
    # The two ends may be close: the labels keep a line's distance.
    ends = sorted(COLORS, key=lambda name: y(log[-1][name]))
    gap = max(0.0, 15 - (y(log[-1][ends[1]]) - y(log[-1][ends[0]]))) / 2
    for name, shift in zip(ends, (-gap, gap), strict=True):
        height = y(log[-1][name]) + 4 + shift
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{height:.1f}" style="fill:{COLORS[name]}">{names[name]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _training(record: dict[str, Any]) -> str:
    """What the loss of the training steps is a loss of."""
    if record["teacher"]:
        return "training, mostly the teacher's"
    return "training, with dropout" if record["schedule"]["dropout"] else "training"


def _ticks(low: float, high: float) -> list[float]:
    """Five to ten round numbers between the two."""
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 10)
    return [n * step for n in range(int(-(-low // step)), int(high // step) + 1)]
