"""A small scheduler and a model of a table for the tests and known programs of 5.6.5, and what to expect of them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

VOCAB, ROWS = 11, 13
END = 10  # the end token
PROMPTS = [[3, 1, 4], [1], [5, 9, 2, 6, 5]]


@dataclasses.dataclass(frozen=True)
class Piece:
    """A chunk: what the sampler is given of it."""

    request: Any
    num_logits: int


def table_of(seed: int, dtype: mx.Dtype = mx.float32, spread: float = 1.5, end: float = 0.0) -> mx.array:
    """Return seeded logits, ROWS x VOCAB; `end` is added to those of the end token."""
    drawn = np.random.default_rng([seed, 56]).standard_normal((ROWS, VOCAB)) * spread
    drawn[:, END] += end
    return mx.array(drawn.astype(np.float32)).astype(dtype)


def row_after(tokens: Sequence[int]) -> int:
    """Return the table row after these tokens: it depends on all of them, and on their order."""
    return int(sum(token * (i + 3) for i, token in enumerate(tokens)) % ROWS)


class ToyScheduler:
    """Serves `seats` requests at a time, in an order that changes, and spends a step on each `part` of a prompt."""

    def __init__(self, table: mx.array, sampler: Callable[..., Any], seats: int = 100, part: int = 100) -> None:
        self.table, self.sampler, self.seats, self.part = table, sampler, seats, part
        self.waiting: list[Any] = []
        self.running: list[Any] = []
        self.most = self.steps = 0

    def submit(self, request: Any) -> None:
        """Add a request."""
        if request.output or request.finish_reason or not request.prompt or request.max_tokens < 1:
            raise ValueError("a request is submitted once, with a prompt, and asks for one token at least")
        self.waiting.append(request)

    def step(self) -> None:
        """Compute one step: of each request a part of its prompt, or its next token."""
        while self.waiting and len(self.running) < self.seats:
            self.running.append(self.waiting.pop(0))
        self.most = max(self.most, len(self.running))
        self.steps += 1
        order = self.running[:: -1 if self.steps % 2 else 1]
        pieces, rows = [], []
        for request in order:
            request.num_computed_tokens = min(request.num_computed_tokens + self.part, request.num_tokens)
            pieces.append(Piece(request, int(request.num_computed_tokens == request.num_tokens)))
            if pieces[-1].num_logits:
                rows.append(row_after(request.tokens(0, request.num_tokens)))
        sampled = self.sampler(self.table[mx.array(rows or [0])][: len(rows)], pieces)
        for piece, new in zip(pieces, sampled, strict=True):
            for token in new:
                self._append(piece.request, token)

    def _append(self, request: Any, token: int) -> None:
        if token in request.eos_ids:
            request.finish_reason = "stop"
        else:
            request.output.append(token)
            if len(request.output) >= request.max_tokens:
                request.finish_reason = "length"
        if request.finish_reason:
            self.running.remove(request)


def alone(
    table: mx.array, prompt: list[int], seed: int, temp: float, max_tokens: int
) -> tuple[list[int], list[float], bool]:
    """Return the tokens that a request gets, the log-probability of each in float64, and whether it has ended."""
    tokens: list[int] = []
    logs: list[float] = []
    while len(tokens) < max_tokens:
        logits = table[row_after(prompt + tokens)].astype(mx.float32) / temp
        noise = mx.random.gumbel((VOCAB,), key=mx.array([seed, len(tokens)], mx.uint32))
        token = int(mx.argmax(logits + noise).item())  # type: ignore[arg-type]
        wide = np.array(logits, np.float64)
        tokens.append(token)
        logs.append(float(wide[token] - wide.max() - np.log(np.exp(wide - wide.max()).sum())))
        if token == END:
            return tokens, logs, True
    return tokens, logs, False
