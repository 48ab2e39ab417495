"""Layer factories that double the output of each matrix: with halved matrices the model is unchanged."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from tests.week1.reference_model import ReferenceModel


class Doubling:
    """Has only the methods of `Dense`."""

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Callable[[mx.array], mx.array]:
        """x -> 2 x @ W.T + b."""
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"] if bias else None
        return lambda x: 2 * (x @ w.T) if b is None else 2 * (x @ w.T) + b

    def embedding(self, weights: dict[str, mx.array], name: str, config: Any) -> "DoublingTable":
        """An embedding with doubled rows."""
        return DoublingTable(weights[f"{name}.weight"])


class Counting(Doubling):
    """Records the names of the created matrices."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Callable[[mx.array], mx.array]:
        """Record and forward."""
        self.made.append(name)
        return super().projection(weights, name, bias)


class DoublingTable:
    """Has only the methods of `Embedding`."""

    def __init__(self, weight: mx.array) -> None:
        self._weight = weight

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the doubled rows."""
        return 2 * self._weight[tokens]

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the doubled logits."""
        return 2 * (x @ self._weight.T)


def halved(model: ReferenceModel) -> ReferenceModel:
    """Return the model with its matrices halved."""
    return model.with_weights(**{name: w / 2 for name, w in model.weights.items() if w.ndim == 2})
