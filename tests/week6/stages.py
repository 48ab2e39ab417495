"""What the tests and known programs of day 3 share: a small model in stages, micro-batches, and runs over ranks."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from tests.week6.formulas_day3 import EMBEDDING, HEAD, IGNORE, layer_name

from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.ranks import RanksStopped, run_ranks

SIZE, VOCAB, LAYERS = 3, 5, 4
Params = dict[str, mx.array]


class Micro(NamedTuple):
    """A micro-batch: N x L each."""

    tokens: mx.array
    targets: mx.array

    def __len__(self) -> int:
        return int(self.tokens.shape[0])


class SmallStage:
    """A stage as `pipeline.stage.Stage`, of a model whose layers are x + tanh(x @ w.T)."""

    def __init__(self, rank: int, stages: int, tied: bool, size: int = SIZE, layers: int = LAYERS) -> None:
        self.layers = range(layers * rank // stages, layers * (rank + 1) // stages)
        self.first, self.last, self.tied, self.size = rank == 0, rank == stages - 1, tied, size
        self.has_copy = tied and stages > 1 and (self.first or self.last)
        self.ran: list[str] = []  # F or B, and the number of the input
        self.inputs: list[weakref.ref[mx.array]] = []
        self.most_alive = 0

    def own(self, params: Params) -> Params:
        """Return this stage's parameters."""
        names = [layer_name(number) for number in self.layers]
        if self.first or (self.last and self.tied):
            names.append(EMBEDDING)
        if self.last and not self.tied:
            names.append(HEAD)
        return {name: params[name] for name in names}

    def activation(self, rows: Micro) -> tuple[tuple[int, ...], mx.Dtype]:
        """Return the shape and dtype of what goes from stage to stage."""
        return (*rows.tokens.shape, self.size), mx.float32

    def forward(self, params: Params, x: mx.array, rows: Micro) -> mx.array:
        """Return the output or, on the last stage, the loss."""
        self._came("F", x)
        y = self._run(params, x, rows)
        mx.eval(y)
        return y

    def backward(self, params: Params, x: mx.array, rows: Micro, dy: mx.array) -> tuple[mx.array, Params, mx.array]:
        """Return the output, and the gradients of the parameters and of x."""
        self._came("B", x)
        names = list(params)

        def run(x: mx.array, *arrays: mx.array) -> mx.array:
            return self._run(dict(zip(names, arrays, strict=True)), x, rows)

        (y,), (dx, *grads) = mx.vjp(run, [x, *params.values()], [dy])
        mx.eval(y, dx, grads)
        return y, dict(zip(names, grads, strict=True)), dx

    def _came(self, kind: str, x: mx.array) -> None:
        if all(ref() is not x for ref in self.inputs):
            self.inputs.append(weakref.ref(x))
        self.ran.append(kind)
        self.most_alive = max(self.most_alive, sum(ref() is not None for ref in self.inputs))

    def _run(self, params: Params, x: mx.array, rows: Micro) -> mx.array:
        x = params[EMBEDDING][rows.tokens] if self.first else x
        for number in self.layers:
            x = x + mx.tanh(x @ params[layer_name(number)].T)
        if not self.last:
            return x
        logits = x @ params[EMBEDDING if self.tied else HEAD].T
        counted = rows.targets != IGNORE
        labels = mx.where(counted, rows.targets, 0)[..., None]
        losses = mx.logsumexp(logits, axis=-1) - mx.take_along_axis(logits, labels, axis=-1).squeeze(-1)
        return mx.sum(mx.where(counted, losses, 0.0)) / mx.maximum(mx.sum(counted), 1)


def small_params(seed: int, tied: bool, size: int = SIZE, layers: int = LAYERS, vocab: int = VOCAB) -> Params:
    """Return the parameters of the whole small model."""
    draw = normals(seed)
    params = {EMBEDDING: draw(vocab, size)}
    params |= {layer_name(number): draw(size, size) * size**-0.5 for number in range(layers)}
    return params if tied else params | {HEAD: draw(vocab, size)}


def micro_batches(seed: int, *counts: int, vocab: int = VOCAB) -> list[Micro]:
    """Return one micro-batch for each number of counted targets, of different shapes, with some targets ignored."""
    generator, found = np.random.default_rng(seed), []
    for number, count in enumerate(counts):
        rows, length = 1 + (number + 1) % 2, 2 + number % 3
        while rows * length < count:
            length += 1
        targets = np.full(rows * length, IGNORE, np.int32)
        targets[generator.permutation(rows * length)[:count]] = generator.integers(0, vocab, count)
        tokens = generator.integers(0, vocab, (rows, length)).astype(np.int32)
        found.append(Micro(mx.array(tokens), mx.array(targets.reshape(rows, length))))
    return found


class Stepped(NamedTuple):
    """A training step of the small model."""

    losses: list[mx.array]  # by rank
    grads: list[Params]  # by rank
    stages: list[SmallStage]
    groups: list[Any]


def step_over_ranks(
    program: Callable[..., Any], params: Params, batches: Sequence[Micro], orders: Sequence[Any], **sizes: int
) -> Stepped:
    """Run a training step with one rank for each order."""
    tied, ranks = HEAD not in params, len(orders)
    stages = [SmallStage(rank, ranks, tied, **sizes) for rank in range(ranks)]

    def rank_of(group: Any) -> Any:
        stage = stages[group.rank]
        loss, grads = program(stage, stage.own(params), batches, orders[group.rank], group)
        mx.eval(loss, grads)
        return loss, grads

    found, groups = run_ranks(rank_of, ranks)
    return Stepped([loss for loss, _ in found], [grads for _, grads in found], stages, groups)


def finished(run: Callable[[], Any], case: str) -> Any:
    """Return what a run over ranks returns; a deadlock fails the check, with each rank's last call."""
    try:
        return run()
    except RanksStopped as stopped:
        what, _, ranks = str(stopped).partition(": ")
        fail(Kind.STOPPED, what, case, *ranks.split("; "))


def sent_bytes(group: Any) -> int:
    """Return how many bytes a rank has sent."""
    return sum(int(np.prod(call.shape)) * call.dtype.size for call in group.calls if call.name == "send")


def shares_of(tokens: int, ranks: int) -> list[int]:
    """Return how many of the tokens each rank has: at least one, and different numbers if possible."""
    weights = np.arange(1, ranks + 1)
    shares = 1 + (tokens - ranks) * weights // weights.sum()
    shares[-1] += tokens - shares.sum()
    return [int(share) for share in shares]


def experts_over_ranks(
    make: Callable[..., Any], tokens: Sequence[mx.array], gate: mx.array, stacked: Sequence[mx.array], *how: Any
) -> tuple[list[mx.array], list[Any]]:
    """Return each rank's output for its tokens, and the groups; `make` builds the block from the rank's experts."""
    ranks, experts = len(tokens), len(gate)

    def rank_of(group: Any) -> mx.array:
        own = slice(experts * group.rank // ranks, experts * (group.rank + 1) // ranks)
        y: mx.array = make(gate, *(w[own] for w in stacked), *how, group)(tokens[group.rank])
        mx.eval(y)
        return y

    return run_ranks(rank_of, ranks)


class Step(NamedTuple):
    """A pass, as `pipeline.passes.Pass`."""

    forward: bool
    micro_batch: int


def one_f_one_b(rank: int, ranks: int, count: int) -> list[Step]:
    """Return the order of 1F1B: run forward passes until P - rank micro-batches are held."""
    order, held, fresh = list[Step](), list[int](), 0
    while held or fresh < count:
        if fresh < count and len(held) < ranks - rank:
            order.append(Step(True, fresh))
            held.append(fresh)
            fresh += 1
        else:
            order.append(Step(False, held.pop(0)))
    return order


def gpipe(rank: int, ranks: int, count: int) -> list[Step]:
    """Return GPipe's order."""
    return [Step(forward, m) for forward in (True, False) for m in range(count)]
