"""Day 1's figures: one head of the course's model, step by step; all heads; recurrence; multi-head attention."""

import numpy as np
from book.generate.week1.heads import PLACES, SENTENCE, SHOWN, example, habits, heads_of
from tests.week1.formulas import causal64

from tiny_llm_course.dev.book.drawing import TIMES, Boxes, Canvas, flow, matrix, squares, strips
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts

TOKENS = SENTENCE.split()
FUTURE = causal64(len(TOKENS), len(TOKENS)) < 0
DOG = TOKENS.index("dog")


def generated_parts() -> Parts:
    """Return the figures, two numbers for the text, and the widgets."""
    return {
        "weights": weights(),
        "products": products(),
        "carries": carries(),
        "head-atlas": atlas(),
        "habit-before": habit(1),
        "habit-two": habit(2),
        "recurrence": recurrence(),
        "heads": heads(),
        "attention-stepper": attention_stepper(),
    }


def habit(place: int) -> str:
    """Return the percentage of its weight that the shown head gives to one of `PLACES`."""
    return f"{100 * habits()[SHOWN][place]:.0f} %\n"


def weights() -> str:
    """Draw the attention weights of each token."""
    canvas, shares = Canvas(), example().weights
    matrix(canvas, shares, TOKENS, TOKENS, "weights", digits=4, hidden=FUTURE, lit=DOG)
    layer, head = SHOWN
    title = f"Attention weights of layer {layer}, head {head} of the course's model"
    caption = (
        "Each square is the attention weight of a query (row) for a key (column). Each row sums to 1. <b>dog</b> gives "
        f"{100 * shares[DOG, 3]:.0f} % of its weight to <b>blue</b> and {100 * shares[DOG, 2]:.0f} % to <b>a</b>. "
        "A dot is a masked key: a token that comes later."
    )
    return canvas.figure("weights-1-1", title, _rows(shares, 4, FUTURE), caption)


def products() -> str:
    """Draw the dot products of all queries with all keys."""
    canvas, found = Canvas(), example().products
    matrix(canvas, found, TOKENS, TOKENS, None, digits=2, lit=DOG)
    title = "Dot products of each query (row) with each key (column)"
    caption = (
        "Each square is the dot product of a query (row) and a key (column): filled if it is positive, hollow if it is "
        "negative. The size of a square shows the magnitude."
    )
    return canvas.figure("products-1-1", title, _rows(found, 2), caption)


def carries() -> str:
    """Draw each value times its weight for `dog`, and their sum."""
    found = example()
    parts = found.weights[DOG][:, None] * found.value
    names = [f"{number(share)} {TIMES} {token}" for share, token in zip(found.weights[DOG], TOKENS, strict=True)]
    canvas = Canvas()  # at one width: the page would be too large
    strips(canvas, np.vstack([parts, parts.sum(axis=0)]), [*names, "sum"], "value", total=True)
    lengths = ", ".join(f"{number(float(np.linalg.norm(p)))} for {t}" for p, t in zip(parts, TOKENS, strict=True))
    title = "What dog receives from each token: its value vector times its attention weight"
    about = f"Five strips of 64 bars, and a sixth for their sum. The norms of the five are {lengths}."
    caption = (
        "Each strip is a token's value vector, 64 elements, times its attention weight. The last strip is the sum of "
        "the five, which is the output of this head for <b>dog</b>. Almost all of it comes from <b>blue</b> and "
        "<b>a</b>."
    )
    return canvas.figure("carries-1-1", title, about, caption)


def atlas() -> str:
    """Draw all heads on the sentence; the widget also gets their scores and their habits on many sentences."""
    layers, usual = heads_of(SENTENCE), habits()
    canvas, size, step = Canvas(), 8.6, 53.0
    for head in range(len(layers[0].weights)):
        canvas.text(54 + head * step + size * 2.5, 14, f"head {head}", "small", "middle")
    for layer, heads in enumerate(layers):
        level = 22 + layer * step
        canvas.text(48, level + size * 2.5 + 4, f"layer {layer}", "small", "end")
        for head, shares in enumerate(heads.weights):
            left = 54 + head * step
            canvas.rect(
                left - 1,
                level - 1,
                5 * size + 2,
                5 * size + 2,
                "frame role-weights" * ((layer, head) == SHOWN) or "axis",
            )
            # Neither dots nor what is hardly seen: they would be 3 KB of the page.
            squares(canvas, left, level, np.where(shares < 0.1, 0.0, shares), size, "weights", 1.0)
    title = f"All {len(layers)} x {len(layers[0].weights)} heads of the model on the same sentence"
    about = (
        "A small map of attention weights for each head, drawn as in the large figure above. The maps differ from head "
        "to head."
    )
    caption = "Each map shows one head's weights from 10 %, as above: rows are queries, columns are keys."
    still = canvas.figure("atlas-1-1", title, about, caption)
    data = {
        "tokens": TOKENS,
        "shown": SHOWN,
        "places": PLACES,
        "heads": [
            [
                {"scores": _rounded(s, 2), "weights": _rounded(w, 2), "habits": _rounded(h, 2)}
                for s, w, h in zip(heads.scores, heads.weights, usual[layer], strict=True)
            ]
            for layer, heads in enumerate(layers)
        ],
    }
    return element("head-atlas", data, still.rstrip("\n"))


def recurrent_shares() -> np.ndarray:
    """Return each token's share of the last hidden state, if an update takes the mean of the state and the token."""
    state = np.zeros(len(TOKENS))
    for token in np.eye(len(TOKENS)):
        state = (state + token) / 2
    return state


def recurrence() -> str:
    """Draw what `dog` receives from each token, and in how many steps: from a recurrent network, from attention."""
    canvas, cell, step = Canvas(), 40.0, 73.0
    centers = [33 + step * j for j in range(len(TOKENS))]
    recurrent, attention = recurrent_shares(), example().weights[DOG]
    largest = max(recurrent.max(), attention.max())

    def panel(top: float, heading: str, shares: np.ndarray, role: str | None) -> float:
        canvas.text(0, top + 14, heading, "strong")
        for center, token, share in zip(centers, TOKENS, shares, strict=True):
            canvas.text(center, top + 40, token, "", "middle")
            squares(canvas, center - cell / 2, top + 46, np.array([[share]]), cell, role, largest)
            canvas.text(center, top + 102, number(share, 4), "small mono", "middle")
            canvas.path([(center, top + 108), (center, top + 130)], "line", arrow=True)
        return top + 130

    level = panel(0, "Recurrent network: one step per token", recurrent, None)
    for j, center in enumerate(centers):
        canvas.rect(center - 29, level, 58, 26, "frame", 5)
        canvas.text(center, level + 18, f"state {j + 1}", "", "middle")
        if j:
            canvas.path([(centers[j - 1] + 29, level + 13), (center - 29, level + 13)], "line", arrow=True)
    level = panel(level + 48, "Attention: one step for all tokens", attention, "weights")
    canvas.rect(centers[0] - 29, level, centers[-1] - centers[0] + 58, 26, "frame role-value", 5)
    canvas.text((centers[0] + centers[-1]) / 2, level + 18, "output for dog", "", "middle")
    named = [", ".join(f"{t} {number(x, 4)}" for t, x in zip(TOKENS, s, strict=True)) for s in (recurrent, attention)]
    about = f"Shares in the recurrent network's last state: {named[0]}. Attention weights of dog: {named[1]}."
    caption = (
        "Each square is a token's share of the result. This recurrent network halves the share with each step back. In "
        "attention, the share is the weight that the query of <b>dog</b> gives the token."
    )
    return canvas.figure("recurrence-1-1", "What dog receives from each token, in two architectures", about, caption)


def heads() -> str:
    """Draw multi-head attention, from E to E."""
    kinds, lengths = ("query", "key", "value"), ("L", "S", "S")
    boxes: Boxes = {
        "attention": ("attention, in each head\nN x H x L x D", "weights"),
        "join": "join\nN x L x (H·D)",
        "out": "output\nN x L x E",
    }
    arrows: list[tuple[str, ...]] = [("attention", "join"), ("join", "out", "wo")]
    for kind, length in zip(kinds, lengths, strict=True):
        boxes[kind] = (f"{kind}\nN x {length} x E", kind)
        boxes[f"{kind}-2"] = (f"project\nN x {length} x (H·D)", kind)
        boxes[f"{kind}-3"] = (f"split\nN x H x {length} x D", kind)
        arrows += [(kind, f"{kind}-2", f"w{kind[0]}"), (f"{kind}-2", f"{kind}-3"), (f"{kind}-3", "attention")]
    rows = [list(kinds), [f"{kind}-2" for kind in kinds], [f"{kind}-3" for kind in kinds]]
    canvas = Canvas()
    flow(canvas, [*rows, ["attention"] * 3, ["", "join", ""], ["", "out", ""]], boxes, arrows)
    about = (
        "The query, key and value inputs are projected by wq, wk and wv and split into H heads. Attention runs in each "
        "head, and the outputs of the heads are joined and projected by wo."
    )
    return canvas.figure("heads-1-1", "Multi-head attention, from the tokens' vectors to the output", about)


def attention_stepper() -> str:
    """Return row `dog` of `heads.example`, step by step."""
    found = example()
    steps = {"scores": found.products, "scaled by 1 / √64": found.scores, "softmax": found.weights}
    rows = [[name, *map(number, step[DOG])] for name, step in steps.items()]
    caption = "Attention of the query “dog”, step by step. No key is masked, because no token follows it."
    data = {"tokens": TOKENS, **{name: getattr(found, name).tolist() for name in ("query", "key", "value", "products")}}
    return element("attention-stepper", data, table(caption, ["step", *TOKENS], rows))


def _rows(numbers: np.ndarray, digits: int, hidden: np.ndarray | None = None) -> str:
    """Return a figure's numbers as text for screen readers."""
    rows = []
    for i, token in enumerate(TOKENS):
        cells = [
            f"{column} {number(numbers[i, j], digits)}"
            for j, column in enumerate(TOKENS)
            if hidden is None or not hidden[i, j]
        ]
        rows.append(f"{token}: {', '.join(cells)}.")
    return " ".join(rows)


def _rounded(numbers: np.ndarray, digits: int) -> list[list[float]] | list[float]:
    found: list[list[float]] | list[float] = (numbers.round(digits) + 0.0).tolist()
    return found
