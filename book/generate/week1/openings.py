"""The pictures that days 2, 4, 6 and 7 open with, from the numbers of the course's own formulas and models."""

import math
from itertools import pairwise

import numpy as np
from book.generate.week1.heads import SENTENCE, is_here, streams_of
from book.generate.week1.widgets import BASE, GATES, PROMPT, next_token_logits
from tests.week1.formulas import rope64, silu64, softmax64

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.drawing import Canvas, bars, curves, flow, matrix
from tiny_llm_course.dev.book.html import number
from tiny_llm_course.dev.book.parts import Parts, present
from tiny_llm_course.paths import TESTS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.rounding import Array64

TOKENS = SENTENCE.split()
# Day 2's vector, at every position: two pairs. Day 6's word. Day 7's words, and how bold a choice is.
VECTOR, WORD, LIKELIEST, TEMPERATURES = (
    [1.0, 0.0, 1.0, 0.0],
    "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}blue",
    6,
    (0.5, 1, 2),
)


def generated_parts(course: Course) -> Parts:
    """The pictures. Without the model, those that ask it stay as they are."""
    parts = {
        ("1.2", "hands"): hands(),
        ("1.2", "scores"): scores(),
        ("1.4", "silu"): silu(),
        ("1.6", "merges"): merges(),
        ("1.7", "filters"): filters(),
    }
    asking = {("1.4", "sizes"): sizes, ("1.7", "temperatures"): temperatures}
    return parts | {part: draw() if is_here() else present(*part) for part, draw in asking.items()}


def turned() -> Array64:
    """`VECTOR` at the position of each token, L x D, its pairs neighbours."""
    vectors = np.tile(np.array(VECTOR), (1, len(TOKENS), 1, 1))
    found: Array64 = rope64(vectors, [range(len(TOKENS))], BASE, traditional=True)[0, :, 0]
    return found


def hands() -> str:
    """Each pair of the vector as the hand of a clock."""
    canvas, radius, step, left = Canvas(), 26.0, 66.0, 40.0
    for j, token in enumerate(TOKENS):
        canvas.text(left + step * j, 12, token, "strong", "middle")
    for pair in range(len(VECTOR) // 2):
        middle = 52 + pair * 106
        for j, vector in enumerate(turned()):
            x, y = vector[2 * pair : 2 * pair + 2]
            centre = left + step * j
            canvas.circle(centre, middle, radius, "axis")
            tip = centre + radius * x, middle - radius * y
            canvas.path([(centre, middle), tip], "line role-query")
            canvas.circle(*tip, 4, "fill role-query")
            for line, coordinate in enumerate((x, y)):
                canvas.text(centre, middle + radius + 16 + 14 * line, number(coordinate), "small mono", "middle")
    rows = [f"{token}: {', '.join(map(number, vector))}." for token, vector in zip(TOKENS, turned(), strict=True)]
    title = "The vector 1, 0, 1, 0 at five positions: its two pairs of features as hands"
    caption = (
        "Above, the first two features, turned by 1 radian (57 degrees) for each token; below, the other two, by 0.1. "
        "Under a hand stands where its tip is: how far to the right, how far up."
    )
    return canvas.figure("hands-1-2", title, " ".join(rows), caption)


def scores() -> str:
    """What the turned vectors score against each other."""
    canvas, vectors = Canvas(), turned()
    found = vectors @ vectors.T
    matrix(canvas, found, TOKENS, TOKENS, None, digits=4)
    rows = [f"{token}: {', '.join(number(x, 4) for x in row)}." for token, row in zip(TOKENS, found, strict=True)]
    title = "The scores of the five turned vectors, each with each"
    caption = "A row is a query, a column a key; what counts is how far apart the two stand."
    return canvas.figure("scores-1-2", title, " ".join(rows), caption)


def sizes() -> str:
    """How large the stream of the last token is, layer after layer."""
    streams = streams_of(SENTENCE)
    rms = [math.sqrt(float(np.mean(stream[-1] ** 2))) for stream in streams]
    names = ["embedding", *(f"layer {layer}" for layer in range(len(rms) - 1))]
    canvas = Canvas()
    bars(canvas, dict(zip(names, rms, strict=True)), lambda x: number(x), "stream")
    said = ", ".join(f"{name} {number(x)}" for name, x in zip(names, rms, strict=True))
    title = "How large the numbers of dog's vector are, after each layer"
    caption = (
        f"How large the vector's {streams[0].shape[1]} numbers are, by their root mean square (see below), in the "
        "model that comes with the course. Before a layer's half reads the vector, a norm brings it to 1."
    )
    return canvas.figure("sizes-1-4", title, f"{said}.", caption)


def silu() -> str:
    """SiLU beside relu, with the gates of the chapter's session."""
    canvas, across = Canvas(), np.linspace(-10, 5, 151)
    gates = dict(zip(TOKENS, GATES, strict=True))
    drawn = {"silu": silu64(across).tolist(), "relu": np.maximum(across, 0).tolist()}
    curves(canvas, across.tolist(), drawn, lambda x: number(x, 0), dots=gates)
    said = ", ".join(f"{number(float(silu64(np.array(gate))), 3)} for {token}" for token, gate in gates.items())
    about = (
        "Left of 0 the curve dips a little below the axis and returns to it; right of 0 it rises towards the line of "
        f"relu. At the gates of the five tokens it is {said}."
    )
    return canvas.figure(
        "silu-1-4", "The curve of silu", about, "silu(x), and, dashed, relu(x): the larger of x and 0."
    )


def merges() -> str:
    """How a word's letters become one token: each row is the word, one pair joined since the row above."""
    load_solution()
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    ranks = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").ranks
    pieces, rows, joined = list(WORD), [list(WORD)], []
    while pairs := [pair for pair in pairwise(pieces) if pair in ranks]:
        best = min(pairs, key=ranks.__getitem__)
        at = list(pairwise(pieces)).index(best)
        pieces[at : at + 2] = ["".join(best)]
        rows.append(list(pieces))
        joined.append((best, ranks[best]))
    boxes: dict[str, str] = {}
    grid: list[list[str]] = []
    arrows: list[tuple[str, str]] = []
    for i, row in enumerate(rows):
        places = [f"{i}-{j}" for j, piece in enumerate(row) for _ in piece]
        boxes |= {f"{i}-{j}": piece for j, piece in enumerate(row)}
        arrows += [(above, below) for above, below in dict.fromkeys(zip(grid[-1], places, strict=True))] if grid else []
        grid.append(places)
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows, gap=26)
    said = ", then ".join(f"{a} and {b}, rank {rank}" for (a, b), rank in joined)
    title = f"How the letters of {WORD} become one token"
    caption = f"Ġ is the space before the word. The pair with the lowest number, its rank, is joined first: {said}."
    return canvas.figure("merges-1-6", title, f"{' '.join(rows[0])}: {said}.", caption)


def temperatures() -> str:
    """The likeliest next tokens, at three temperatures."""
    data = next_token_logits()
    logits = np.array(data["logits"])
    canvas = Canvas()
    said: list[str] = []
    words = [token.replace("\N{OPEN BOX}", "").strip() or "(a space)" for token in data["tokens"][:LIKELIEST]]
    words.append(f"{len(logits) - LIKELIEST} others")
    charts: dict[str, dict[str, float]] = {}
    for T in TEMPERATURES:
        share = softmax64(logits / T, -1)
        numbers = [*share[:LIKELIEST].tolist(), float(share[LIKELIEST:].sum())]
        heading = f"temperature {T}" + (": as the model has it" if T == 1 else "")
        charts[heading] = dict(zip(words, numbers, strict=True))
    for heading, named in charts.items():
        bars(
            canvas,
            named,
            lambda p: number(p, 3),
            "logits",
            y=canvas.bottom + 12 * bool(said),
            heading=heading,
            largest=max(p for chart in charts.values() for p in chart.values()),
        )
        said.append(f"{heading}: " + ", ".join(f"{token} {number(p, 3)}" for token, p in named.items()) + ".")
    title = f"What may come after “{PROMPT}”, by the model that comes with the course"
    return canvas.figure("temperatures-1-7", title, " ".join(said), "The same logits, divided by a temperature.")


def filters() -> str:
    """What each filter leaves of day 7's five words, by the solution."""
    load_solution()
    import mlx.core as mx
    from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p, penalize_repetition

    words, logits = ("blue", "car", "dog", "is", "bird"), mx.array([[1.5, 0.0, 2.0, -1.0, 1.0]])
    left = {
        "as it is": logits,
        "top-k 2": keep_top_k(logits, 2),
        "top-p 0.9": keep_top_p(logits, 0.9),
        "min-p 0.1": keep_min_p(logits, 0.1),
        "penalty 1.5": penalize_repetition(logits, [[0, 3]], 1.5),
    }
    shares = np.array([softmax64(np.array(row[0], dtype=np.float64), -1) for row in left.values()])
    canvas = Canvas()
    matrix(canvas, shares, list(left), words, "logits", digits=3, hidden=shares == 0)
    rows = (
        f"{name}: {', '.join(f'{word} {number(p, 3)}' for word, p in zip(words, row, strict=True))}."
        for name, row in zip(left, shares, strict=True)
    )
    title = "What each filter leaves of five words"
    return canvas.figure("filters-1-7", title, " ".join(rows), "A row is a filter; a dot is a word that it drops.")
