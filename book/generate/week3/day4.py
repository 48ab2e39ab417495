"""Day 4's widget: a query that reads its keys from a pool through a block table, and the figure in its still."""

import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, SHOWN, example, heads_of

from tiny_llm_course.dev.book.drawing import Canvas, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT
from tiny_llm_course.dev.book.drawing.grids import Array
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts

TOKENS, OTHERS = SENTENCE.split(), SENTENCES[2].split()[:7]
PAGE, PAGES = 2, 8
TABLE, OTHER_TABLE = (6, 1, 3), (2, 0, 5, 7)  # of the sentence, of another request's
TABLES = (TABLE, (1, 3, 4), (4, 6, 1))  # the reader's choices
FINISHED = SENTENCES[1], 5  # a finished request, and its token in the free slot
CELL, HEIGHT, SLOT = 22.0, 30.0, 86.0  # pixels
NUMBERS, TURNS, POOL = 56.0, 84.0, 178.0  # how far right the table's numbers, the arrows' bends and the pool begin


def generated_parts() -> Parts:
    """Return the widget."""
    return {"paged": paged()}


def stale() -> tuple[str, Array, Array]:
    """Return the token, key and value that a finished request left in the free slot."""
    sentence, position = FINISHED
    layer, head = SHOWN
    _, key, value, *_ = heads_of(sentence)[layer]
    return sentence.split()[position], key[head, position], value[head, position]


def paged() -> str:
    """Return the widget, with one feature of the values; below it, the figure and a table of its pages."""
    shown = example()
    scores, values = shown.scores[-1], shown.value[:, 0]
    others = [OTHERS[PAGE * i : PAGE * (i + 1)] for i in range(len(OTHER_TABLE))]
    token, key, value = stale()
    data = {
        "tokens": TOKENS,
        "scores": [round(float(x), 5) for x in scores],
        "values": [round(float(x), 5) for x in values],
        "page": PAGE,
        "tables": TABLES,
        "pool": [others[OTHER_TABLE.index(page)] if page in OTHER_TABLE else [] for page in range(PAGES)],
        "stale": {
            "token": token,
            "score": round(float(shown.query[-1] @ key / np.sqrt(len(key))), 5),
            "value": round(float(value[0]), 5),
        },
    }
    rows = []
    for i, page in enumerate(TABLE):
        read = np.s_[: PAGE * (i + 1)]
        largest = float(scores[read].max())
        weights = np.exp(scores[read] - largest)
        sums = [largest, float(weights.sum()), float(weights @ values[read])]
        rows.append([str(i), str(page), ", ".join(TOKENS[PAGE * i : PAGE * (i + 1)]), *map(number, sums)])
    head = ["entry", "page of the pool", "tokens", "maximum m", "sum l", "weighted value o"]
    still = table("Online softmax, page by page", head, rows)
    return element("online-softmax", data, pool().rstrip(), still)


def pool() -> str:
    """Draw the weights of `dog`, the slots of its keys, and the block table that points to them."""
    canvas, scores = Canvas(), example().scores[-1]
    weights = np.exp(scores - scores.max())
    canvas.text(0, FONT, "block table", "strong")
    canvas.text(POOL, FONT, f"pool: pages of {PAGE} tokens", "strong")
    top = FONT + 12
    for page in range(PAGES):
        y = top + page * HEIGHT
        canvas.text(POOL - 8, y + HEIGHT / 2 + 4, str(page), "small mono", "end")
        canvas.rect(POOL, y, PAGE * SLOT, HEIGHT - 4, "axis", 3)
        if page not in TABLE + OTHER_TABLE:
            canvas.text(POOL + PAGE * SLOT / 2, y + HEIGHT / 2 + 3, "free", "small", "middle")
    _fill(canvas, top, OTHERS, OTHER_TABLE, None)
    _fill(canvas, top, TOKENS, TABLE, weights)
    told = []
    for i, page in enumerate(TABLE):
        y, of_page = top + (i + 1.5) * HEIGHT, top + page * HEIGHT
        canvas.rect(0, y, NUMBERS, HEIGHT - 4, "axis", 3)
        canvas.text(8, y + HEIGHT / 2 + 3, f"{i}:", "small")
        canvas.text(NUMBERS - 8, y + HEIGHT / 2 + 3, str(page), "strong mono", "end")
        canvas.rect(POOL, of_page, PAGE * SLOT, HEIGHT - 4, "frame", 3)
        middle, bend = y + HEIGHT / 2 - 2, TURNS + 16 * i
        end = of_page + HEIGHT / 2 - 2
        canvas.path([(NUMBERS, middle), (bend, middle), (bend, end), (POOL - 24, end)], "line", arrow=True)
        held = " and ".join(TOKENS[PAGE * i : PAGE * (i + 1)])
        told.append(f"entry {i} is page {page} of the pool, which holds {held}")
    about = (
        f"On the left is a block table with the entries {', '.join(map(str, TABLE))}. Each entry points to a page of "
        f"the pool on the right: {'; '.join(told)}. Pages {', '.join(map(str, sorted(OTHER_TABLE)))} hold tokens of "
        f"another request, and one page is free."
    )
    caption = (
        f"<code>dog</code> attends to the {len(TOKENS)} tokens of <i>{SENTENCE}</i>, two to a page. Each square is "
        "a key's weight relative to the largest score. The weights and their order are the same as on day 7 of week 2. "
        "Dots are tokens of another request. Page 3 has a free slot."
    )
    return canvas.figure("table-3-4", "A query reads its keys through a block table", about, caption)


def _fill(canvas: Canvas, top: float, tokens: list[str], pages: tuple[int, ...], weights: Array | None) -> None:
    """Draw tokens in their slots, with their attention weights, or as dots if they belong to another request."""
    for position, token in enumerate(tokens):
        x, y = POOL + position % PAGE * SLOT, top + pages[position // PAGE] * HEIGHT
        weight = np.ones((1, 1)) if weights is None else weights[position : position + 1][None]
        squares(canvas, x + 4, y + 2, weight, CELL, "weights", 1.0, np.array([[weights is None]]))
        canvas.text(x + CELL + 8, y + HEIGHT / 2 + 3, token, "small")
