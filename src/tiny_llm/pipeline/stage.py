"""One stage of a pipeline: some successive layers of week 5's training model. Given."""

import dataclasses
import time
from typing import NamedTuple

import mlx.core as mx

from ..config import ModelConfig
from ..dataset.loss import cross_entropy
from ..dataset.packing import Rows, document_mask
from ..positional_encoding import rotation_angles
from ..training.model import Params, TrainableModel

EMBEDDING = "model.embed_tokens.weight"
AT_THE_END = ("model.norm.weight", "lm_head.weight")


class Timed(NamedTuple):
    """A pass that a stage has run, in seconds of `time.monotonic`, which the processes of one machine share."""

    forward: bool
    start: float
    end: float


class Stage:
    """The layers of one stage, and the embedding on the first stage, or the norm, the head and the loss on the last."""

    def __init__(self, config: ModelConfig, rank: int, stages: int) -> None:
        """Choose the stage's layers: all stages have equally many, up to one.

        Raises:
            ValueError: there are more stages than layers.
        """
        layers = config.num_hidden_layers
        if stages > layers:
            raise ValueError(f"{layers} layers cannot be divided into {stages} stages: use at most {layers}")
        self.layers = range(layers * rank // stages, layers * (rank + 1) // stages)
        self.first, self.last = rank == 0, rank == stages - 1
        # The first and the last stage each keep a copy of a tied embedding.
        self.has_copy = config.tie_word_embeddings and stages > 1 and (self.first or self.last)
        self.config = config
        self.passes: list[Timed] = []

    def own(self, params: Params) -> Params:
        """Return this stage's parameters, by their names in the whole model."""
        prefixes = tuple(f"model.layers.{number}." for number in self.layers)
        names = [name for name in params if name.startswith(prefixes)]
        if self.first or (self.last and self.config.tie_word_embeddings):
            names.append(EMBEDDING)
        if self.last:
            names += [name for name in AT_THE_END if name in params]
        return {name: params[name] for name in names}

    def activation(self, rows: Rows) -> tuple[tuple[int, int, int], mx.Dtype]:
        """Return the shape, N x L x E, and the dtype of what goes from stage to stage, and of its gradient."""
        return (*rows.tokens.shape, self.config.hidden_size), mx.float32  # type: ignore[return-value]

    def forward(self, params: Params, x: mx.array, rows: Rows) -> mx.array:
        """Return the stage's output, evaluated.

        Args:
            params: as `own` returns them.
            x: N x L x E, the output of the stage before. The first stage ignores it, so any array will do.
            rows: the micro-batch, N x L.

        Returns:
            N x L x E; on the last stage a scalar, the mean loss over the counted targets.
        """
        start = time.monotonic()
        y = self._run(params, x, rows)
        mx.eval(y)
        self.passes.append(Timed(True, start, time.monotonic()))
        return y

    def backward(self, params: Params, x: mx.array, rows: Rows, dy: mx.array) -> tuple[mx.array, Params, mx.array]:
        """Return the output of `forward`, which is computed again, the parameters' gradients and x's gradient.

        `mx.vjp` runs a function forward and backward in one call. So a stage keeps only the input of a forward pass and
        computes the pass again: activation checkpointing.

        Args:
            params: as for `forward`, like x and rows.
            x: the same array.
            rows: the same micro-batch.
            dy: the gradient of the output, in its shape: a scalar on the last stage.

        Returns:
            The output; the gradients by the names of params, multiplied by dy (vector-Jacobian products); and x's, of
            x's shape. All are evaluated.
        """
        start, names = time.monotonic(), list(params)

        def run(x: mx.array, *arrays: mx.array) -> mx.array:
            return self._run(dict(zip(names, arrays, strict=True)), x, rows)

        (y,), (dx, *grads) = mx.vjp(run, [x, *params.values()], [dy])
        mx.eval(y, dx, grads)
        self.passes.append(Timed(False, start, time.monotonic()))
        return y, dict(zip(names, grads, strict=True)), dx

    def _run(self, params: Params, x: mx.array, rows: Rows) -> mx.array:
        model = self._model(params)
        angles = rotation_angles(self.config.head_dim, rows.tokens.shape[1], self.config.rope_theta)
        rotation = tuple(table[rows.positions][:, :, None] for table in (mx.cos(angles), mx.sin(angles)))
        mask = document_mask(rows.document_ids)
        x = model.embedding(rows.tokens) if self.first else x
        for layer in model.layers:
            x = layer(x, rotation, mask)
        return cross_entropy(model.head(model.norm(x)), rows.targets) if self.last else x

    def _model(self, params: Params) -> TrainableModel:
        """Return a model of these layers alone, numbered from 0; what it lacks is an array that is never evaluated."""
        c, first = self.config, self.layers.start
        table = (c.vocab_size, c.hidden_size)
        absent = {EMBEDDING: table} | dict(zip(AT_THE_END, ((c.hidden_size,), table), strict=True))
        own = {name: mx.zeros(shape) for name, shape in absent.items()} | params
        for number in self.layers:
            prefix, renumbered = f"model.layers.{number}.", f"model.layers.{number - first}."
            own |= {name.replace(prefix, renumbered): w for name, w in params.items() if name.startswith(prefix)}
        return TrainableModel(dataclasses.replace(c, num_hidden_layers=len(self.layers)), own)
