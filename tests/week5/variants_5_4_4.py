"""Known programs of task 5.4.4, the scaling law."""

import mlx.core as mx
import numpy as np
from tests.week5.formulas_day4 import law64
from tiny_llm_solution.training.scaling import ScalingFit, ScalingLaw

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.4.4")

SIZES = [1e4, 3e4, 1e5, 3e5, 1e6]


def curve(program, sizes, losses, resamples=0, seed=0):
    """Return the losses of the law and of the resampled ones from the smallest size to ten times the largest."""
    fit = program(sizes, losses, resamples, seed)
    at = [min(sizes), max(sizes), 10 * max(sizes)]
    return mx.array([[law.E + law.A * n**-law.alpha for n in at] for law in (fit.law, *fit.resampled)])


def noisy(seed, sizes=SIZES, spread=0.02):
    drawn = np.array(normals(seed)(len(sizes), spread=spread)).tolist()
    return [1.4 + 20 * n**-0.3 + e for n, e in zip(sizes, drawn, strict=True)]


known.probe_table(
    noisy=lambda program: curve(program, SIZES, noisy(1)),
    more_noise=lambda program: curve(program, SIZES, noisy(2, spread=0.1)),
    exact=lambda program: curve(program, SIZES, noisy(3, spread=0.0)),
    steep=lambda program: curve(program, SIZES, [2 + 1e5 * n**-1.2 for n in SIZES]),
    no_entropy=lambda program: curve(program, SIZES, [30 * n**-0.3 - 0.1 for n in SIZES]),
    rising=lambda program: curve(program, SIZES, [2.0, 2.1, 2.2, 2.3, 2.4]),
    resampled=lambda program: curve(program, SIZES, noisy(4), 4),
    resampled_by_seed=lambda program: curve(program, SIZES, noisy(5), 3, 11),
    unsorted=lambda program: curve(program, [1e6, 1e4, 3e5, 1e5, 1e4], noisy(6, [1e6, 1e4, 3e5, 1e5, 1e4]), 2),
)


@known.probe()
def scaling_refusals(program):
    cases = [([1e4, 1e5, 1e6], [3.0, 2.5]), ([1e4, 1e5], [3.0, 2.5]), ([1e4, 1e5, 1e5], [3.0, 2.5, 2.4])]
    cases += [([0.0, 1e4, 1e5], [4.0, 3.0, 2.5]), (SIZES, [4.0, 3.5, 3.0, 2.5, 2.0])]
    return refusals(lambda case: program(*case, 0) and mx.array(0), cases)


@known.sized("5 sizes, 20 resamples")
def sized(program):
    losses = noisy(1)
    return lambda: curve(program, SIZES, losses, 20)


RESIDUALS = "residuals = y - fitted"
known.change(
    "no-entropy",
    (
        "A, E = np.where(E < 0, through_origin, A), np.maximum(0.0, E)",
        "A, E = through_origin, np.zeros_like(E)",
    ),
    fact="E is always 0, as in the power law A * N**-alpha",
    question="Text has an entropy that no model can remove. Which term is it, and what does log(loss) look like "
    "with it?",
)  # fmt: skip
known.change(
    "negative-entropy",
    ("A, E = np.where(E < 0, through_origin, A), np.maximum(0.0, E)", "pass"),
    fact="E may be negative",
    question="Can a loss in nats be below zero, however large the model is?",
)
known.change(
    "entropy-cut-off",
    ("A, E = np.where(E < 0, through_origin, A), np.maximum(0.0, E)", "E = np.maximum(0.0, E)"),
    fact="a negative E is set to 0, but A stays the slope of the other line",
    question="You move a line's intercept to 0. Is its old slope still the best one?",
)
known.change(
    "negative-slope",
    ("A = np.maximum(0.0, (centered * y).sum(axis=1) / np.square(centered).sum(axis=1))",
     "A = (centered * y).sum(axis=1) / np.square(centered).sum(axis=1)"),
    fact="A may be negative",
    question="Your losses rise with the size. What does the law say with A below 0, and what does the docstring allow?",
)  # fmt: skip
known.change(
    "both-cut-off",
    ("A = np.maximum(0.0, (centered * y).sum(axis=1) / np.square(centered).sum(axis=1))",
     "A = (centered * y).sum(axis=1) / np.square(centered).sum(axis=1)"),
    ("A, E = np.where(E < 0, through_origin, A), np.maximum(0.0, E)", "A, E = np.maximum(0.0, A), np.maximum(0.0, E)"),
    fact="negative numbers of the best line are set to 0, and the other number stays as it was",
    question="You set a line's slope or its intercept to 0. Is the other number still the best one?",
)  # fmt: skip
known.change(
    "alpha-one",
    ("low, high = LOWEST, HIGHEST", "low, high = 1.0, 1.0 + 1e-9"),
    fact="alpha is fixed at 1",
    question="Ten times the parameters: by which factor does A / N fall, and by which A * N**-0.3?",
)
known.change(
    "first-grid-alone",
    ("for _ in range(ZOOMS):", "for _ in range(1):"),
    fact="the best alpha of the first grid is returned, and the grid is not refined",
    question="How far apart are two neighboring exponents of your grid? What does the docstring ask for?",
)
known.change(
    "square-roots",
    ("return E, A, np.square(E[:, None] + A[:, None] * x - y).sum(axis=1)",
     "return E, A, np.abs(E[:, None] + A[:, None] * x - y).sum(axis=1)"),
    fact="alpha minimizes the sum of absolute errors instead of squares",
    question="One run is off by 0.2, four are off by 0. Which sum punishes it more: that of squares or that of errors?",
)  # fmt: skip
known.change(
    "residuals-added-to-losses",
    ("_fit(n, fitted + residuals[k])", "_fit(n, y + residuals[k])"),
    fact="the resampled residuals are added to the losses instead of to the law",
    question="A loss already contains its residual. How much noise does your resampled loss have?",
)
known.change(
    "residuals-in-order",
    ("_fit(n, fitted + residuals[k])", "_fit(n, fitted + residuals)"),
    fact="each run keeps its own residual, so all resamples are the same",
    question="How wide is an interval of two hundred equal numbers?",
)
known.change(
    "one-generator",
    ("draws = (np.random.default_rng([seed, i]).integers(n.size, size=n.size) for i in range(resamples))",
     "draws = np.random.default_rng(seed).integers(n.size, size=(resamples, n.size))"),
    fact="one generator draws the residuals of all resamples",
    question="Which numbers does resample 3 draw if it is the only one you compute?",
)  # fmt: skip
known.change(
    "seed-plus-i",
    ("np.random.default_rng([seed, i]).integers(n.size", "np.random.default_rng(seed + i).integers(n.size"),
    fact="resample i is drawn with the seed seed + i instead of [seed, i]",
    question="Which residuals does resample 1 of seed 0 draw, and which does resample 0 of seed 1?",
)
known.change(
    "residuals-negated",
    (RESIDUALS, "residuals = fitted - y"),
    fact="the residuals have the other sign: the law minus the loss",
    question="One loss is far above the law. Where is it in a resample that draws its residual?",
)
known.change(
    "runs-resampled",
    ("_fit(n, fitted + residuals[k])", "_fit(n[k], y[k])"),
    fact="whole runs are drawn instead of residuals",
    question="Five runs, drawn five times with replacement: how often are there fewer than three different sizes?",
)
known.change(
    "scale-of-the-smallest",
    ("float(slopes[best]) * float(n.min()) ** alpha", "float(slopes[best])"),
    fact="A belongs to sizes divided by the smallest one, and is not converted back",
    question="Your x is (N / smallest N)**-alpha. What is A * N**-alpha in terms of it?",
)
known.change(
    "sizes-not-counted",
    ("if len(np.unique(n)) < 3:", "if n.size < 3:"),
    fact="three runs are enough, even of two different sizes",
    question="Through two points goes more than one curve with three unknowns. How many points do two runs of "
    "one size make?",
)


@known.wrong(
    "line-through-logs",
    fact="a straight line is fitted to the logarithms of the sizes and the losses, so E is 0",
    question="Is log(E + A * N**-alpha) a linear function of log(N)? And which errors does the docstring square?",
)
def line_through_logs(sizes, losses, resamples=200, seed=0):
    n, y = np.array(sizes, float), np.array(losses, float)
    if n.shape != y.shape or len(set(sizes)) < 3 or (n <= 0).any():
        least = min(sizes, default=0)
        raise ValueError(
            f"{len(n)} sizes, {len(set(sizes))} different, from {least}, {len(y)} losses: at least 3 are needed"
        )
    x = np.log(n)
    centered = x - x.mean()

    def fit(y):
        slope = (centered * np.log(y)).sum() / np.square(centered).sum()
        A = np.exp(np.log(y).mean() - slope * x.mean())
        return ScalingLaw(0.0, float(A), float(min(max(-slope, 0.01), 2.0)))

    law = fit(y)
    fitted = np.array([law(size) for size in n])
    draws = (np.random.default_rng([seed, i]).integers(n.size, size=n.size) for i in range(resamples))
    return ScalingFit(law, tuple(fit(fitted + (y - fitted)[k]) for k in draws))


@known.accepted("golden-section search with NumPy's least squares")
def golden(sizes, losses, resamples=200, seed=0):
    n, y = np.array(sizes, float), np.array(losses, float)
    if n.shape != y.shape or len(set(sizes)) < 3 or (n <= 0).any():
        least = min(sizes, default=0)
        raise ValueError(
            f"{len(n)} sizes, {len(set(sizes))} different, from {least}, {len(y)} losses: at least 3 are needed"
        )
    law = ScalingLaw(*map(float, law64(n, y)))
    fitted = law.E + law.A * n**-law.alpha
    laws = []
    for i in range(resamples):
        k = np.random.default_rng([seed, i]).integers(len(n), size=len(n))
        laws.append(ScalingLaw(*map(float, law64(n, fitted + (y - fitted)[k]))))
    return ScalingFit(law, tuple(laws))
