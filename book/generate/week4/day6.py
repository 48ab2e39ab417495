"""Day 6's widget, orders of shared layers, and figures: keys of layers with the same weights, and training runs."""

import datetime
import json
import math
from typing import Any

import numpy as np
from book.generate.week1.heads import SENTENCE, model, streams_of
from tests.week1.formulas import linear64, rms_norm64

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines, strips
from tiny_llm_course.dev.book.drawing.canvas import FONT
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.measuring.machine import in_words
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.rounding import to_float64

RECORD = ROOT / "benches" / "weight_sharing.json"
LAYERS, STORED = 6, 3
CELL = 40.0  # pixels
# What the chart shows; the table has all.
DRAWN = ("tied", "tied, 3 sets, sequence", "tied, 1 set", "tied, 3 layers")


def generated_parts() -> Parts:
    """Return the widget, the figures and tables."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return {
        "shared-layers": shared_layers(),
        "keys": keys(),
        "first-losses": first_losses(found),
        "trained": trained(found),
    }


def shared_layers() -> str:
    """Return the widget, with the sizes of the course's model, and the figure of the orders as its still."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.weight_sharing.counting import count_shared
    from tiny_llm_solution.weight_sharing.owners import ORDERS

    config = ModelConfig.from_dict(model().config)
    one, two = (count_shared(config, distinct).stored for distinct in (1, 2))
    table, norm = config.vocab_size * config.hidden_size, config.hidden_size
    layer = two - one
    assert table + layer + norm == one
    cached = count_shared(config, 1).cached // LAYERS
    data = {"orders": ORDERS, "layers": (LAYERS, 2 * LAYERS), "sets": (1, 2, 3, 6)}
    sizes = {"table": table, "layer": layer, "norm": norm, "cached": cached}
    return element("shared-layers", data | sizes, orders().rstrip())


def orders() -> str:
    """Draw a row of layers for each order; a number is the set of weights that a layer uses."""
    from tiny_llm_solution.weight_sharing.owners import ORDERS, weight_owner

    canvas, told = Canvas(), []
    for i, order in enumerate(ORDERS):
        y = i * (CELL + FONT + 16)
        canvas.text(0, y + FONT, order, "strong")
        owners = [weight_owner(layer, LAYERS, STORED, order) for layer in range(LAYERS)]
        for layer, owner in enumerate(owners):
            x = layer * (CELL + 14)
            canvas.rect(x, y + FONT + 6, CELL, CELL - 8, "frame", 3)
            canvas.text(x + CELL / 2, y + FONT + 6 + CELL / 2, str(owner), "strong", "middle")
            if layer:
                middle = y + FONT + 2 + CELL / 2
                canvas.path([(x - 14, middle), (x, middle)], "line", arrow=True)
        told.append(f"{order}: {' '.join(map(str, owners))}")
    caption = "Each box is a layer, and a token passes through the six layers from left to right. The number in a box "
    caption += "says which of three sets of weights the layer uses."
    return canvas.figure("orders-4-6", "Three orders of shared layers", "; ".join(told) + ".", caption)


def keys() -> str:
    """Draw the last token's key when the weights of layer 0 are used once, and when they are used a second time."""
    weights = {name: to_float64(w) for name, w in model().layer(0).items()}
    eps, dims = model().config["rms_norm_eps"], model().config["head_dim"]
    found = []
    for stream in streams_of(SENTENCE)[:2]:  # what the embedding gives, and what layer 0 makes of it
        read = rms_norm64(stream[-1:], weights["input_layernorm.weight"], eps)
        key = linear64(read, weights["self_attn.k_proj.weight"])[:, :dims]
        found.append(rms_norm64(key, weights["self_attn.k_norm.weight"], eps)[0])
    first, second = found
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    canvas = at_both_widths(lambda canvas: strips(canvas, np.stack(found), ["layer 0", "layer 1"], "key"))
    about = (
        f"Two vectors of {dims} elements, one below the other. The cosine of the angle between them is {cosine:.2f}."
    )
    caption = (
        f"Each row is a key of <code>dog</code> in <i>{SENTENCE}</i>, head 0, before RoPE. Both use the weights of "
        "layer 0 of the course's model. The first key is computed from the token's embedding. The second key is "
        "computed from the output of layer 0, as a layer 1 with shared weights would compute it. The cosine of the "
        f"angle between the keys is {cosine:.2f}, so the same weights produce different keys."
    )
    return canvas.figure("keys-4-6", "Keys of two layers with shared weights", about, caption)


def first_losses(found: dict[str, Any]) -> str:
    """Return a table of the losses before the first step, in nats."""
    rows = [f"| {row['spread']} | {row['model']} | {row['nats']:.2f} |" for row in found["first_losses"]]
    head = [
        "| Standard deviation of the tables | Model | Loss before the first step, nats per token |",
        "|--:|:--|--:|",
    ]
    return "\n".join([*head, *rows, ""])


def trained(found: dict[str, Any]) -> str:
    """Draw the perplexity of some runs, and return a table of the final values of all."""
    seed, *others = dict.fromkeys(run["seed"] for run in found["runs"])
    runs = {run["model"]: run for run in found["runs"] if run["seed"] == seed}
    drawn = {name: [math.exp(entry["held_out_loss"]) for entry in runs[name]["log"]] for name in DRAWN if name in runs}
    steps = [entry["step"] for entry in next(iter(runs.values()))["log"]]
    axes = "steps", "held-out perplexity"
    canvas = at_both_widths(lambda canvas: lines(canvas, steps, drawn, axes, number))
    about = "; ".join(f"{name}: {', '.join(map(number, values))}" for name, values in drawn.items())
    caption = "Each line is a small model's perplexity per token on held-out stories during training. Lower is better."
    figure = canvas.figure("trained-4-6", "Training runs that share weights", f"At steps {steps}. {about}.", caption)
    ends = {name: run["log"][-1]["bits_per_byte"] for name, run in runs.items()}
    head = ["Model", "Layers", "Sets stored", "Weights", "Final bits per byte", "Relative to tied"]
    rows = []
    for name, run in runs.items():
        counts = len(run["layers"]), len(set(run["layers"])), f"{run['weights']:,}"
        rows.append([name, *counts, f"{ends[name]:.3f}", f"{100 * (ends[name] / ends['tied'] - 1):+.1f} %"])
    again = ""
    if others:
        apart = [
            abs(run["log"][-1]["bits_per_byte"] - ends[run["model"]]) for run in found["runs"] if run["seed"] != seed
        ]
        again = f" With another seed, the final values differ by at most {max(apart):.3f}."
    day, shape = datetime.date.fromisoformat(found["date"]), found["schedule"]
    torch = found["machine"]["torch"]
    where = (
        f"*{shape['steps']} steps of {shape['rows']} x {shape['context']} tokens, E {found['shape']['hidden_size']}, "
        f"V {found['shape']['vocab_size']}, on {day.day} {day:%B} {day.year}; one run each, seed {seed}.{again} "
        f"PyTorch {torch}; {in_words(found['machine'])}.*"
    )
    sides = [":--", *["--:"] * (len(head) - 1)]
    table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in [head, sides, *rows])
    return f"{figure}\n{table}\n\n{where}\n"
