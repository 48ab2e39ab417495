"""The legend of the figures: what each color means, and how an array is drawn."""

import numpy as np

from .drawing import ROLES, Canvas, matrix
from .parts import Parts


def legend_parts() -> Parts:
    """Return `roles`, a table of the colors, and `squares`, a drawing of a small array."""
    rows = []  # of a role: a sentence, a formula, a box and a square
    for role, (letter, meaning) in ROLES.items():
        looks = f"role-{role}"
        drawn = (
            '<svg viewBox="0 0 92 26" width="92" height="26" role="img"><title>a box, an arrow, a square</title>'
            f'<rect x="2" y="3" width="30" height="20" rx="4" class="frame {looks}"/>'
            f'<polyline points="36,13 58,13" class="line {looks}"/>'
            f'<polygon points="64,13 57,9 57,17" class="head {looks}"/>'
            f'<rect x="70" y="5" width="16" height="16" class="fill {looks}"/></svg>'
        )
        cells = [f'<span class="{looks}">{role}</span>', f'<span class="{looks}"><i>{letter}</i></span>']
        cells += [f'<span class="drawn">{drawn}</span>', meaning]
        rows.append(f"| {' | '.join(cells)} |")
    roles = "\n".join(["| In a sentence | Letter | In a picture | What it is |", "|---|---|---|---|", *rows, ""])
    canvas, values = Canvas(), np.array([[4.0, 1.0, 0.25], [-4.0, -1.0, 0.0]])
    hidden = np.array([[False, False, False], [False, False, True]])
    matrix(canvas, values, ["first", "second"], ["first", "second", "third"], None, hidden=hidden)
    about = "Filled squares of three sizes for 4, 1 and 0.25; hollow squares for -4 and -1; a dot for a masked number."
    squares = canvas.figure("squares-course", "An array of two rows and three columns", about)
    return {"roles": roles, "squares": squares}
