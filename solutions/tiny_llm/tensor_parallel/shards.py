"""Which part of each weight a rank of a tensor-parallel group holds."""

import dataclasses
from typing import NamedTuple

import mlx.core as mx

from ..config import ModelConfig

ROW_PARALLEL = ("o_proj", "down_proj")  # cut by inputs: each rank computes a part of the sum


class Cut(NamedTuple):
    """A range of a tensor's rows (axis 0) or columns (axis 1)."""

    axis: int
    start: int
    stop: int


class Partition:
    """What rank `rank` of `size` ranks holds of a model.

    Consecutive ranks hold consecutive parts. Query heads, the MLP's width I and the vocabulary are divided. Each rank
    also holds the key-value heads that its query heads use, so a group with more ranks than key-value heads holds
    copies of them. The norms are whole on every rank.

    Attributes: `vocabulary`, the range of the rank's token ids, from V * rank // size on, so that V need not be a
    multiple of size; `config`, the rank's own ModelConfig, with its numbers of heads and tokens and its part of the
    MLP, and otherwise the model's.
    """

    def __init__(self, config: ModelConfig, rank: int, size: int) -> None:
        """Divide a model.

        Args:
            config: of the whole model.
            rank: from 0 to size - 1.
            size: the number of ranks.

        Raises:
            ValueError: H or I is not a multiple of size, or of size and H_kv neither is a multiple of the other. The
                message has the number that does not divide, and size. It is the same on every rank.
        """
        heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.intermediate_size
        for what, count in (("query heads", heads), ("columns of the MLP", width)):
            if count % size:
                raise ValueError(f"{count} {what} cannot be divided among {size} ranks: expected a multiple of {size}")
        if kv_heads % size and size % kv_heads:
            raise ValueError(
                f"{kv_heads} key-value heads cannot be divided among {size} ranks: expected a multiple or a divisor"
            )
        self.vocabulary = range(config.vocab_size * rank // size, config.vocab_size * (rank + 1) // size)
        self.config = dataclasses.replace(
            config,
            num_attention_heads=heads // size,
            num_key_value_heads=max(1, kv_heads // size),
            intermediate_size=width // size,
            vocab_size=len(self.vocabulary),
        )
        head, of_kv, dims = heads // size, self.config.num_key_value_heads, config.head_dim
        first = rank * kv_heads // size  # with fewer key-value heads than ranks, neighbors have the same one
        query = range(rank * head * dims, (rank + 1) * head * dims), heads * dims
        key = range(first * dims, (first + of_kv) * dims), kv_heads * dims
        mlp = range(rank * width // size, (rank + 1) * width // size), width
        rows = self.vocabulary, config.vocab_size
        self._features = {"q_proj": query, "k_proj": key, "v_proj": key, "o_proj": query}
        self._features |= {"gate_proj": mlp, "up_proj": mlp, "down_proj": mlp, "embed_tokens": rows, "lm_head": rows}

    def cut(self, name: str, shape: tuple[int, ...]) -> Cut | None:
        """Return which part of a tensor the rank holds; None for all of it.

        Column-parallel matrices (q, k, v, gate, up), the embedding and the head are cut by rows, their outputs, and so
        are their biases. Row-parallel ones (o, down) are cut by columns, their inputs, and the layer's bias, which is
        added once, after the sum, is whole.

        Args:
            name: as in a checkpoint, such as `model.layers.0.mlp.down_proj.weight`. A quantized matrix has `scales` and
                `biases` as well.
            shape: of the whole tensor. A row of a quantized matrix has fewer columns than inputs: I * bits / 32 words,
                I / group_size scales and biases.

        Raises:
            ValueError: the cut would split a word or a quantization group. The message has the name.
        """
        *_, layer, kind = name.split(".")
        if layer not in self._features:
            return None
        own, total = self._features[layer]
        if layer not in ROW_PARALLEL:
            return Cut(0, own.start, own.stop)
        if kind == "bias":
            return None
        columns = shape[-1]
        if own.start * columns % total or own.stop * columns % total:
            raise ValueError(
                f"{name} has {columns} columns for {total} inputs, inputs {own.start} to {own.stop} split one: "
                "each rank needs whole quantization groups"
            )
        return Cut(1, own.start * columns // total, own.stop * columns // total)

    def take(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """Return the rank's part of each of a whole model's weights, by the same names; the others are not changed.

        Raises:
            ValueError: as `cut`.
        """
        taken = {}
        for name, w in weights.items():
            match self.cut(name, w.shape):
                case None:
                    taken[name] = w
                case Cut(0, start, stop):
                    taken[name] = w[start:stop]
                case Cut(_, start, stop):
                    taken[name] = w[:, start:stop]
        return taken
