"""Draw a recorded session as a picture of a terminal: `python book/figures/terminal.py` writes it anew.

The text is that of a transcript, so the picture shows what the command really prints.
"""

from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPT = ROOT / "book" / "transcripts" / "scale-left-out.txt"
PICTURE = ROOT / "book" / "src" / "figures" / "terminal.svg"

ADVANCE, LINE, MARGIN, BAR = 7.83, 19.0, 20.0, 34.0  # pixels at 13 px: a character's width, a line's height
INK, PAPER = "#d7dde5", "#12161c"
COLOURS = {"✓": "#7fd88f", "✗": "#ff8a80", "○": "#f2c66d", "⇢": "#f2c66d", "$": "#8ab4f8"}
BOLD = ("Week", "    Your output equals")


def draw(transcript: str) -> str:
    """The SVG of a transcript, its exit code left out."""
    lines = [line for line in transcript.splitlines() if not line.startswith("[exit code")]
    width = 2 * MARGIN + ADVANCE * max(map(len, lines))
    height = BAR + MARGIN + LINE * len(lines)
    texts = [_text(line, BAR + LINE * (number + 1)) for number, line in enumerate(lines) if line]
    lights = [f'<circle cx="{20 + 18 * i}" cy="17" r="5.5" fill="#3a424d"/>' for i in range(3)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
            'aria-labelledby="terminal-title terminal-desc" font-size="13" '
            "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">",
            '<title id="terminal-title">A failing task in the terminal</title>',
            f'<desc id="terminal-desc">{escape(" / ".join(line.strip() for line in lines if line))}</desc>',
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="9" fill="{PAPER}"/>',
            *lights,
            *texts,
            "</svg>\n",
        ]
    )


def _text(line: str, y: float) -> str:
    colour = COLOURS.get(line[0], INK)
    weight = ' font-weight="bold"' if line.startswith((*BOLD, "✗")) else ""
    # textLength keeps the columns in line whatever monospaced font the reader has.
    return (
        f'<text x="{MARGIN:.0f}" y="{y:.0f}" fill="{colour}"{weight} xml:space="preserve" '
        f'textLength="{ADVANCE * len(line):.1f}">{escape(line)}</text>'
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(TRANSCRIPT.read_text(encoding="utf-8")), encoding="utf-8")
