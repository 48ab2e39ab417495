"""Draw a recorded session as a picture of a terminal: `python book/figures/terminal.py` writes it anew.

The text is that of a transcript, so the picture shows what the command really prints.
"""

from pathlib import Path

from tiny_llm_course.dev.book.drawing import Canvas

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPT = ROOT / "book" / "transcripts" / "scale-left-out.txt"
PICTURE = ROOT / "book" / "src" / "figures" / "terminal.svg"

ADVANCE, LINE, MARGIN, BAR = 7.83, 19.0, 20.0, 34.0  # pixels at 13 px: a character's width, a line's height
MARKS = {"✓": "done", "✗": "failed strong", "○": "open", "⇢": "open", "$": "typed"}
STRONG = ("Week", "    Your output equals")
# It stands in a file, and has the same colors everywhere.
STYLE = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dde5}"
    ".paper{fill:#12161c}.light{fill:#3a424d}.strong{font-weight:bold}"
    ".done{fill:#7fd88f}.failed{fill:#ff8a80}.open{fill:#f2c66d}.typed{fill:#8ab4f8}"
)


def draw(transcript: str) -> str:
    """The SVG of a transcript, its exit code left out."""
    lines = [line for line in transcript.splitlines() if not line.startswith("[exit code")]
    canvas = Canvas()
    canvas.rect(0, 0, 2 * MARGIN + ADVANCE * max(map(len, lines)), BAR + MARGIN + LINE * len(lines), "paper", 9)
    for i in range(3):
        canvas.circle(MARGIN + 18 * i, BAR / 2, 5.5, "light")
    for number, line in enumerate(lines, 1):
        if line:
            looks = "strong" if line.startswith(STRONG) else MARKS.get(line[0], "")
            canvas.text(MARGIN, BAR + LINE * number, line, looks, length=ADVANCE * len(line))
    about = " / ".join(line.strip() for line in lines if line)
    return canvas.drawing("terminal", "A failing task in the terminal", about, style=STYLE) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(TRANSCRIPT.read_text(encoding="utf-8")), encoding="utf-8")
