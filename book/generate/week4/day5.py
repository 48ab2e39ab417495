"""Day 5's figures and widget: the experts that a random router chooses for real tokens; a grouped matmul."""

import functools

import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, model, streams_of, tokens_of
from tests.week1.formulas import qwen_attention64, rms_norm64
from tests.week4.formulas_day5 import Load64, load64, route64

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, bars, matrix
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.testkit.rounding import Array64, to_float64

LAYER, EXPERTS, TOP_K = 3, 8, 2
ROUTED = (2, 0, 0, 1, 2, 1)  # the experts of three tokens, in the chapter's example
RATE = 0.1  # what the widget's update adds to a bias or subtracts from it


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {
        "chosen": chosen(),
        "grouped": grouped(),
        "load": load(),
        "expert-load": expert_load(),
    }


@functools.cache
def router() -> Array64:
    """Return seeded random weights, X x E, because the course's model has no experts."""
    size = model().config["hidden_size"]
    drawn: Array64 = np.random.default_rng(0).standard_normal((EXPERTS, size)) * size**-0.5
    return drawn


@functools.cache
def read_by_the_mlp(sentence: str) -> Array64:
    """Return the input of the layer's MLP, L x E."""
    config, stream = model().config, streams_of(sentence)[LAYER]
    weights = {name: to_float64(w) for name, w in model().layer(LAYER).items()}
    eps = config["rms_norm_eps"]
    attended = qwen_attention64(
        rms_norm64(stream[None], weights["input_layernorm.weight"], eps),
        config["num_attention_heads"],
        config["num_key_value_heads"],
        weights["self_attn.q_proj.weight"],
        weights["self_attn.k_proj.weight"],
        weights["self_attn.v_proj.weight"],
        weights["self_attn.o_proj.weight"],
        q_norm=weights["self_attn.q_norm.weight"],
        k_norm=weights["self_attn.k_norm.weight"],
        theta=config["rope_theta"],
        eps=eps,
        mask="causal",
    )
    return rms_norm64(stream + attended[0], weights["post_attention_layernorm.weight"], eps)


def chosen() -> str:
    """Draw the weights of the experts that each token of the sentence is routed to."""
    weights, tokens = route64(read_by_the_mlp(SENTENCE), router(), TOP_K, True), SENTENCE.split()
    canvas = Canvas()
    matrix(canvas, weights, tokens, [str(i) for i in range(EXPERTS)], "weights", hidden=weights == 0)
    told = "; ".join(
        f"{token} to " + " and ".join(f"{e} with {row[e]:.2f}" for e in np.argsort(-row)[:TOP_K])
        for token, row in zip(tokens, weights, strict=True)
    )
    idle = [str(e) for e in range(EXPERTS) if not weights[:, e].any()]
    about = f"A table of {len(tokens)} tokens and {EXPERTS} experts. {told}."
    caption = (
        f"Each square is the weight of an expert (column) for a token (row), and a dot is an expert that is not "
        f"selected. The tokens' vectors are real: they are the inputs of the MLP in layer {LAYER} of the course's "
        f"model. The router's weights are random, because the model has no experts. Each token is routed to {TOP_K} of "
        f"{EXPERTS} experts, whose weights sum to 1. Experts without tokens: {', '.join(idle) or 'none'}."
    )
    return canvas.figure("chosen-4-5", "Routing of a sentence's tokens to experts", about, caption)


def grouped() -> str:
    """Draw the chapter's six rows, sorted by expert, and one product per expert."""
    count = len(ROUTED)
    order = sorted(range(count), key=lambda row: ROUTED[row])
    high, step = 24.0, 32.0

    def draw(canvas: Canvas) -> None:
        left, row_width, gap = 98.0, 60.0, 48.0 if canvas.width == WIDEST else 160.0
        sorted_left = left + row_width + gap
        matrix_left = sorted_left + row_width + 26
        for x, heading in ((left, "rows"), (sorted_left, "sorted"), (matrix_left, "products")):
            canvas.text(x, FONT, heading, "strong")
        top = FONT + 12
        for row, expert in enumerate(ROUTED):
            y = top + step * row
            canvas.text(left - 6, y + 17, f"token {row // TOP_K}, to {expert}", "small", "end")
            canvas.rect(left, y, row_width, high, "frame", 3)
            canvas.text(left + row_width / 2, y + 17, f"row {row}", "", "middle")
            there = top + step * order.index(row) + high / 2
            canvas.path([(left + row_width, y + high / 2), (sorted_left, there)], f"line series-{expert}")
        for i, row in enumerate(order):
            canvas.rect(sorted_left, top + step * i, row_width, high, "frame", 3)
            canvas.text(sorted_left + row_width / 2, top + step * i + 17, f"row {row}", "", "middle")
        for expert in sorted(set(ROUTED)):
            first, length = [ROUTED[row] for row in order].index(expert), ROUTED.count(expert)
            y, tall = top + step * first, step * length - (step - high)
            canvas.path([(sorted_left + row_width + 4, y + tall / 2), (matrix_left, y + tall / 2)], "line", arrow=True)
            canvas.rect(matrix_left, y, 76, tall, f"frame series-{expert}", 3)
            canvas.text(matrix_left + 38, y + tall / 2 + 5, f"expert {expert}", "strong", "middle")

    about = f"Rows {', '.join(map(str, range(count)))} go to experts {', '.join(map(str, ROUTED))}. Sorted by expert, "
    about += f"the rows are {', '.join(map(str, order))}, and each expert multiplies {count // 3} adjacent rows."
    caption = (
        "Each row is a copy of a token for one of its experts. After sorting, the rows of an expert are adjacent, so "
        "one product per expert is enough. Rows are numbered before sorting, and each result returns to the place of "
        "its row."
    )
    return at_both_widths(draw).figure("grouped-4-5", "A grouped matmul: rows sorted by expert", about, caption)


def probabilities() -> Array64:
    """Return the router's probabilities for the tokens of all sentences, L x X."""
    return route64(np.concatenate([read_by_the_mlp(sentence) for sentence in SENTENCES]), router(), EXPERTS, False)


def measured(top_k: int) -> Load64:
    """Return the load of all sentences' tokens if each is routed to `top_k` experts."""
    every = probabilities()
    return load64(np.argsort(-every, axis=-1)[:, :top_k].astype(np.float64), every)


def load() -> str:
    """Draw the number of tokens that each expert gets from all sentences."""
    found, count = measured(TOP_K), len(probabilities())
    even = TOP_K * count / EXPERTS
    counts = {f"expert {e}": float(n) for e, n in enumerate(found["tokens"])}
    canvas = at_both_widths(lambda canvas: bars(canvas, counts, lambda n: f"{n:.0f}"))
    told = ", ".join(f"{n:.0f}" for n in found["tokens"])
    caption = (
        f"Each bar is the number of tokens routed to one expert, out of {count} tokens of {len(SENTENCES)} "
        f"sentences, each routed to {TOP_K} experts by the same random router. With a balanced load, each expert would "
        f"get {even:.1f} tokens. The load imbalance (max / mean) is {float(found['imbalance']):.2f}, and the auxiliary "
        f"loss is {float(found['auxiliary_loss']):.3f}."
    )
    about = f"A bar for each of {EXPERTS} experts: {told} tokens."
    return canvas.figure("load-4-5", "Tokens per expert", about, caption)


def expert_load() -> str:
    """Return the widget, and a table of the load for each number of experts per token."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    sentences = [
        {
            "text": sentence,
            "tokens": [visible(str(tokenizer.decode([token])).strip()) for token in tokens_of(sentence)],
            "scores": np.round(read_by_the_mlp(sentence) @ router().T, 5).tolist(),
        }
        for sentence in SENTENCES
    ]
    rows = []
    for top_k in range(1, EXPERTS + 1):
        found = measured(top_k)
        counts = [f"{n:.0f}" for n in found["tokens"]]
        rows.append([str(top_k), *counts, number(float(found["imbalance"])), number(float(found["auxiliary_loss"]), 3)])
    head = ["k", *(f"expert {e}" for e in range(EXPERTS)), "load imbalance", "auxiliary loss"]
    return element("expert-load", {"sentences": sentences, "rate": RATE}, table("Tokens per expert", head, rows))
