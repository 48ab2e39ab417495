"""Day 4's figures and widget: recorded training runs, and the scaling law that fits them."""

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, bars
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT

RUNS = Path(__file__).with_name("runs.json")  # by benches/training_runs.py
STEPS = ROOT / "benches" / "training.json"  # by benches/training.py
UNIFORM = math.log(2048)  # the loss of equal probabilities for the tokenizer's tokens
CURVE_HEIGHT = 220.0  # pixels
LEVEL, RESAMPLES = 0.9, 200
REACH = 10  # the widget's curve goes to a model this many times as large as the largest


def generated_parts() -> Parts:
    """Return the figures, the samples and the widget."""
    return {
        "curve": curve(),
        "samples": samples(),
        "sizes": sizes(),
        "scaling-fit": scaling_fit(),
        "resumed": resumed(),
        "step-parts": step_parts(),
        "step-speeds": step_speeds(),
    }


@functools.cache
def recorded() -> list[dict[str, Any]]:
    """Return the recorded runs, the smallest model first."""
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    return sorted(runs.values(), key=lambda run: run["params"])


def largest() -> dict[str, Any]:
    """Return the run of the largest model, which has the samples."""
    return recorded()[-1]


def final(run: dict[str, Any]) -> float:
    """Return a run's held-out loss after its last step."""
    return float(run["held_out"][str(run["steps"])])


def curve() -> str:
    """Draw the largest model's loss at every step, and its held-out loss."""
    run = largest()
    held_out = {int(step): float(loss) for step, loss in run["held_out"].items()}
    canvas = at_both_widths(lambda canvas: loss_curve(canvas, run["loss"], held_out))
    last = run["steps"]
    about = f"The held-out loss falls from {held_out[0]:.2f} to {held_out[last]:.2f} in {last} steps."
    caption = (
        f"A real run of the loop that you write. A Qwen3 with {run['params']:,} parameters is trained on "
        f"{run['tokens']:,} tokens of children's stories in {last} steps, which take {run['cpu_seconds']:.0f} seconds "
        "of CPU time. The thin line is the loss of each step's batch. The dashed line is the loss of a model that "
        f"gives each of the tokenizer's 2,048 tokens the same probability, ln(2048) = {UNIFORM:.2f}."
    )
    return canvas.figure("curve-5-4", "A loss curve", about, caption)


def loss_curve(canvas: Canvas, losses: Sequence[float], held_out: Mapping[int, float]) -> None:
    """Draw the loss of each step as a thin line, and the held-out losses as labeled points."""
    low, high = math.floor(min(losses)), math.ceil(max(losses))
    left, right, top, last = 24.0, canvas.width - 20, 2 * FONT + 26, max(held_out)

    def point(step: float, loss: float) -> tuple[float, float]:
        return left + 10 + (right - left - 30) * step / last, top + CURVE_HEIGHT * (high - loss) / (high - low)

    canvas.text(0, FONT, "loss, nats per token", "small")
    canvas.path([(0, FONT + 17), (26, FONT + 17)], "line thin")
    canvas.text(34, FONT + 22, "training, every step")
    canvas.circle(203, FONT + 17, 4.5, "fill series-0")
    canvas.text(214, FONT + 22, "held out")
    for mark in range(low, high + 1):
        y = point(0, mark)[1]
        canvas.path([(left, y), (right, y)], "grid")
        canvas.text(left - 7, y + SMALL / 3, str(mark), "small mono", "end")
    for step in held_out:
        x, bottom = point(step, low)
        canvas.text(x, bottom + SMALL + 8, str(step), "small mono", "middle")
    canvas.text(right, point(0, low)[1] + 2 * SMALL + 12, "step", "small", "end")
    level = point(0, UNIFORM)[1]
    canvas.path([(left + 10, level), (right, level)], "line series-1")
    canvas.text(right, level + SMALL + 5, f"equal probabilities: {UNIFORM:.2f}", "small", "end")
    canvas.path([point(step, loss) for step, loss in enumerate(losses)], "line thin")
    for step, loss in held_out.items():
        x, y = point(step, loss)
        canvas.circle(x, y, 4.5, "fill series-0")
        # The first point is on the dashed line.
        across, anchor = (0, "middle") if step else (8, "start")
        canvas.text(x + across, y - (20 if step else 7), f"{loss:.2f}", "strong small halo", anchor)


def samples() -> str:
    """List what the largest model wrote after some steps."""
    run = largest()
    rows = "".join(
        f'<tr><th scope="row">{step}</th><td>Once upon a time{printable(escape(" ".join(text.split())))}</td></tr>'
        for step, text in run["samples"].items()
    )
    head = '<thead><tr><th scope="col">Steps</th><th scope="col">What the model writes</th></tr></thead>'
    caption = "<caption>Samples from the same run, drawn at temperature 0.7 by week 2's engine</caption>"
    return f'<div class="table-wrapper"><table>{caption}{head}<tbody>{rows}</tbody></table></div>\n'


def printable(text: str) -> str:
    """Return a text in one line, with a dot for each character that has no letter form."""
    dots = "".join(c if c.isprintable() and c != "\N{REPLACEMENT CHARACTER}" else "\N{MIDDLE DOT}" for c in text)
    return dots.replace("*", "&#42;").replace("_", "&#95;")


def resumed() -> str:
    """List the losses after a resume, with and without the optimizer's state."""
    runs = json.loads(RUNS.with_name("resumed.json").read_text(encoding="utf-8"))
    stop, empty = runs["stop"], "without the optimizer's state"
    assert runs["resumed"] == runs["uninterrupted"]  # bit for bit, to the recorded digits
    kinds = ("uninterrupted", "resumed", empty)
    rows = [[str(step), *(number(runs[kind][step - 1], 4) for kind in kinds)] for step in range(stop - 1, stop + 9)]
    caption = f"Training loss of a small run that was stopped after step {stop} and resumed"
    return table(caption, ["Step", *kinds[:2], f"resumed {empty}"], rows) + "\n"


def sizes() -> str:
    """List the recorded runs, and the losses of the law that is fitted to them."""
    from tiny_llm_solution.training.scaling import fit_scaling_law

    runs = recorded()
    law = fit_scaling_law([run["params"] for run in runs], [final(run) for run in runs], 0).law
    rows = []
    for run in runs:
        loss, fitted = final(run), law(run["params"])
        rows.append([f"{run['params']:,}", *(number(x, 3) for x in (loss, fitted, loss - fitted))])
    text = f"Models of {len(rows)} sizes, trained for the same {runs[0]['steps']} steps on the same data"
    return table(text, ["Parameters N", "Held-out loss", "Fitted law L(N)", "Residual"], rows) + "\n"


def grid() -> list[float]:
    """Return the sizes at which the widget draws a law: the runs' own, and evenly spaced logarithms between them."""
    params = [float(run["params"]) for run in recorded()]
    evenly = [float(f"{n:.4g}") for n in np.geomspace(min(params), REACH * max(params), 25)]
    return sorted([*params, *(n for n in evenly if all(abs(math.log(n / own)) > 0.05 for own in params))])


@functools.cache
def fits() -> dict[str, dict[str, Any]]:
    """Return the fit of every subset of at least three runs, by the runs' numbers."""
    from tiny_llm_solution.training.scaling import fit_scaling_law

    runs, found = recorded(), {}
    for count in range(3, len(runs) + 1):
        for chosen in itertools.combinations(range(len(runs)), count):
            some = [runs[i] for i in chosen]
            fit = fit_scaling_law([run["params"] for run in some], [final(run) for run in some], RESAMPLES)
            between = [fit.interval(n, LEVEL) for n in grid()]
            found["".join(map(str, chosen))] = {
                "law": [round(fit.law.E, 4), float(f"{fit.law.A:.5g}"), round(fit.law.alpha, 4)],
                "loss": [round(fit.law(n), 3) for n in grid()],
                "low": [round(low, 3) for low, _ in between],
                "high": [round(high, 3) for _, high in between],
            }
    return found


def scaling_fit() -> str:
    """Return the widget, and a table of the fit to all sizes and to those without the largest."""
    runs = recorded()
    data = {
        "sizes": [run["params"] for run in runs],
        "losses": [round(final(run), 4) for run in runs],
        "grid": grid(),
        "fits": fits(),
        "level": LEVEL,
    }
    rows = []
    every = "".join(map(str, range(len(runs))))
    for which, words in (
        (every, "all sizes"),
        (every[:-1], "without the largest"),
        (every[1:], "without the smallest"),
    ):
        fit = fits()[which]
        E, _, alpha = fit["law"]
        rows.append([words, number(E), number(alpha), f"{number(fit['low'][-1])} to {number(fit['high'][-1])}"])
    head = ["Fitted to", "E", "alpha", f"{100 * LEVEL:.0f} % interval at {grid()[-1]:,.0f} parameters"]
    return element("scaling-fit", data, table("Laws fitted to the recorded runs", head, rows))


def step_parts() -> str:
    """Draw the time of a training step's parts, of arrays and fused."""
    record = json.loads(STEPS.read_text(encoding="utf-8"))
    kinds = {"arrays": "MLX operations", "fused": "fused operators"}
    largest = max(part[kind] for part in record["parts"].values() for kind in kinds)

    def draw(canvas: Canvas) -> None:
        y = 0.0
        for kind, words in kinds.items():
            times = {name: part[kind] for name, part in record["parts"].items()}
            total = sum(times.values())
            bars(canvas, times, lambda ms: f"{ms:.0f} ms", y=y, heading=f"{words}: {total:.0f} ms", largest=largest)
            y = canvas.bottom + 14

    before, after = (sum(part[kind] for part in record["parts"].values()) for kind in kinds)
    about = f"The parts take {before:.0f} ms with MLX operations and {after:.0f} ms with fused operators."
    caption = (
        "Times of the parts of a training step of the course's model on 8 rows of 256 tokens, forward and backward. "
        "Each part is timed alone, and its shortest time is shown. RoPE, the residual additions and the embedding are "
        "not shown. "
        f"{record['machine']['processor']}, {record['machine']['blas']}, {record['date']}."
    )
    return at_both_widths(draw).figure("step-parts-5-4", "Parts of a training step", about, caption)


def step_speeds() -> str:
    """List the recorded speed of each way to train."""
    record = json.loads(STEPS.read_text(encoding="utf-8"))["steps"]
    names = {
        "ours": "the course's loop",
        "fused": "the course's loop with fused operators",
        "mlx.nn": "mlx.nn and mlx.optimizers",
        "PyTorch": "PyTorch",
    }
    ratios = {"ours": 1.0} | {name: 1 / record["ours"]["ratios"][name] for name in names if name != "ours"}
    rows = [[words, f"{record[name]['best']:,.0f}", number(ratios[name], 2)] for name, words in names.items()]
    caption = f"The whole step, timed in {record['turns']} turns on a shared machine"
    head = ["Training loop", "Best throughput, tokens/s", "Median speed relative to the course's loop"]
    return table(caption, head, rows) + "\n"
