"""A scaling law: how the loss falls with the size of the model, and how sure the extrapolation is."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LOWEST, HIGHEST = 0.01, 2.0  # of alpha
GRID, ZOOMS = 65, 5  # exponents tried at once; how often the grid is narrowed to the cells beside the best one


@dataclasses.dataclass(frozen=True)
class ScalingLaw:
    """L(N) = E + A * N**-alpha. Given."""

    E: float  # the loss of an infinitely large model: the text's own entropy
    A: float
    alpha: float

    def __call__(self, size: float) -> float:
        """Return the loss of a model with N = size parameters."""
        return self.E + self.A * math.pow(size, -self.alpha)


@dataclasses.dataclass(frozen=True)
class ScalingFit:
    """The fitted law, and the laws of the bootstrap resamples. Given."""

    law: ScalingLaw
    resampled: tuple[ScalingLaw, ...]

    def interval(self, size: float, level: float = 0.9) -> tuple[float, float]:
        """Return the central interval of the resampled laws' losses at a size."""
        losses = [law(size) for law in self.resampled]
        low, high = np.quantile(losses, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def fit_scaling_law(sizes: Sequence[float], losses: Sequence[float], resamples: int = 200, seed: int = 0) -> ScalingFit:
    """Fit L(N) = E + A * N**-alpha by least squares, and refit it to resampled residuals.

    The law has E >= 0, A >= 0 and alpha in [0.01, 2], and minimizes the sum of (L(N) - loss)**2 over the runs, in
    float64. Resample i, from 0, is a fit to the losses law(N_j) + residual_(k_j), where residual_j = loss_j - law(N_j),
    and k = np.random.default_rng([seed, i]).integers(n, size=n) for n runs: a residual bootstrap.

    Args:
        sizes: N of each run, positive numbers, at least three different ones.
        losses: each run's final loss, as many as sizes.
        resamples: the number of refits.
        seed: of the resamples.

    Returns:
        The law and the resampled laws in the order of i; their fields are Python floats. alpha is within 1e-6 of the
        minimum; where several alpha fit equally well, as on constant losses, any of them.

    Raises:
        ValueError: sizes and losses differ in number, fewer than three sizes are different, or a size is not positive.
            The message states the numbers.

    Source: Hoffmann et al. 2022, section 3.3; Efron and Tibshirani 1993, chapter 9.
    """
    raise NotImplementedError("5.4.4 A scaling law")
