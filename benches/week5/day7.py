"""How many items an evaluation needs to find a difference of five points, paired and unpaired."""

import numpy as np

from tiny_llm.evaluation.intervals import compare_paired
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = (
    "lines",
    "width of the 95 % interval in points, % of evaluations that find it",
    ("paired: width", "unpaired: width", "paired: found, %", "unpaired: found, %"),
)

ACCURACIES = 0.80, 0.75  # of the two simulated models
ALIKE = 0.8  # the share of items that are as hard for one model as for the other


def measure(quick: bool = False) -> Table:
    """Simulate evaluations of two models whose true accuracies are known."""
    counts = [40, 160] if quick else [40, 160, 640, 2560]
    evaluations, resamples = (5, 50) if quick else (40, 400)
    rows = []
    for count in counts:
        paired, unpaired = [], []
        for seed in range(evaluations):
            first, second = _answers(count, seed)
            found = compare_paired(first.tolist(), second.tolist(), resamples=resamples)
            paired.append((found.low, found.high))
            unpaired.append(_apart(first, second, resamples))
        widths = [100 * float(np.mean(np.diff(ends, axis=1))) for ends in (paired, unpaired)]
        shares = [100 * float(np.mean(np.array(ends)[:, 0] > 0)) for ends in (paired, unpaired)]
        rows.append((count, *widths, widths[1] / widths[0], *shares))
    columns = ("items", "paired: width", "unpaired: width", "ratio", "paired: found, %", "unpaired: found, %")
    number, *_, by_pairs, by_models = rows[1]
    see = f"With {number} items, the paired interval is above 0 in {by_pairs:.0f} % of the simulated evaluations, the "
    return Table(columns, tuple(rows), see + f"unpaired one in {by_models:.0f} %.")


def _answers(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which items each model answers right: a model is right if an item's hardness is below its accuracy."""
    draw = np.random.default_rng([seed, count])
    hardness, own = draw.random(count), draw.random(count)
    other = np.where(draw.random(count) < ALIKE, hardness, own)
    return (hardness < ACCURACIES[0]).astype(float), (other < ACCURACIES[1]).astype(float)


def _apart(first: np.ndarray, second: np.ndarray, resamples: int) -> tuple[float, float]:
    """Return the interval of the difference if each model has its own resampled items."""
    draw = np.random.default_rng(1)
    means = [
        values[draw.integers(len(values), size=(resamples, len(values)))].mean(axis=1) for values in (first, second)
    ]
    low, high = np.quantile(means[0] - means[1], [0.025, 0.975])
    return float(low), float(high)
