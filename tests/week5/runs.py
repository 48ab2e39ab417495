"""A small problem to train, a loader and checkpoints in memory for the tests and known programs of day 4."""

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

IGNORE, PADDING = -100, -1
TOKENS, VALUES = 5, 8  # numbers to learn; values that they may be pulled to
SPIKE, BROKEN, INFINITE = 5, 6, 7  # values that make a batch bad: 1000, NaN, infinity

Batch = tuple[mx.array, mx.array]


class Micro:
    """A micro-batch with all that `Rows` have: in each row a document whose last token, the eos, has no target."""

    def __init__(self, tokens: mx.array, targets: mx.array) -> None:
        self.tokens, self.targets = tokens, targets
        self.positions = mx.broadcast_to(mx.arange(targets.shape[-1]), targets.shape)
        counted = mx.sum(targets != IGNORE, axis=-1, keepdims=True)
        self.document_ids = mx.where(self.positions <= counted, 0, PADDING)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.tokens.shape[0]

    def __getitem__(self, rows: slice) -> "Micro":
        """Return some of the rows."""
        return Micro(self.tokens[rows], self.targets[rows])


def micro_batches(counts: Sequence[int]) -> list[Micro]:
    """Return one micro-batch for each number of counted targets, numbered by its tokens, with one to three ignored."""
    found = []
    for number, count in enumerate(counts):
        ignored = (1, 3, 2)[number % 3]
        targets = mx.array([[0] * count + [IGNORE] * ignored], dtype=mx.int32)
        found.append(Micro(mx.full(targets.shape, number), targets))
    return found


def values(seed: int) -> mx.array:
    """Return what the parameters are pulled to, with three bad ones last."""
    drawn = np.random.default_rng(seed).standard_normal(VALUES)
    drawn[SPIKE:] = 1000.0, np.nan, np.inf
    return mx.array(drawn.astype(np.float32))


def batches(seed: int, count: int, bad: dict[int, int] | None = None, length: int = 6) -> list[Batch]:
    """Return seeded batches with different numbers of counted targets; `bad` puts a bad value into some of them."""
    generator, found = np.random.default_rng([seed, 1]), []
    for number in range(count):
        tokens = generator.integers(0, TOKENS, (1, length))
        targets = generator.integers(0, SPIKE, (1, length))
        targets[0, int(generator.integers(1, length)) :] = IGNORE
        if bad and number in bad:
            targets[0, 0] = bad[number]
        found.append((mx.array(tokens.astype(np.int32)), mx.array(targets.astype(np.int32))))
    return found


def loss_and_grads(pulled_to: mx.array) -> Any:
    """Return the function that gives the loss and gradient of w: the mean of (w[token] - value)**2 / 2."""

    def loss(params: dict[str, mx.array], batch: Micro) -> mx.array:
        counted = batch.targets != IGNORE
        wanted = pulled_to[mx.where(counted, batch.targets, 0)]
        errors = mx.where(counted, params["w"][batch.tokens] - wanted, 0.0)
        return mx.sum(mx.square(errors)) / 2 / mx.maximum(mx.sum(counted), 1)

    return mx.value_and_grad(loss)


class Loader:
    """Gives micro-batches in turn, over and over."""

    def __init__(self, made: Sequence[Batch]) -> None:
        self.made, self.number = list(made), 0

    def __next__(self) -> Micro:
        """Return the next micro-batch."""
        self.number += 1
        return Micro(*self.made[(self.number - 1) % len(self.made)])

    def state(self) -> dict[str, Any]:
        """Return the number of the next batch."""
        return {"number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.number = state["number"]


class InMemory:
    """Checkpoints in memory, with the steps that were saved."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.saved, self.latest = kind, list[int](), None

    def save(self, step: int, params: Any, optimizer_state: Any, progress: Any) -> None:
        """Keep a copy."""
        self.saved.append(step)
        arrays = [{name: mx.array(np.array(a)) for name, a in each.items()} for each in (params, optimizer_state)]
        self.latest = self.kind(step, *arrays, copy.deepcopy(progress))

    def load_latest(self) -> Any:
        """Return the last one, or None."""
        return self.latest
