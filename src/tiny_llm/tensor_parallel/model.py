"""The tensor-parallel model: `Qwen3CachedModel` over a rank's part of the weights."""

from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..distributed.group import Group
from ..quantized.parts import Quantized
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import DENSE, Dense
from .parts import ParallelParts
from .shards import Partition
from .vocabulary import VocabularyEmbedding


class VocabularyParts(ParallelParts):
    """`ParallelParts` with the embedding's rows, and so the logits, divided among the ranks."""

    def __init__(self, group: Group, inner: Dense, partition: Partition) -> None:
        """Store the group, the factory of the rank's own matrices, and what the rank holds."""
        super().__init__(group, inner)
        self.vocabulary = partition.vocabulary

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Any:
        """Return a `VocabularyEmbedding` of the rank's rows of the table, `name.weight`."""
        return VocabularyEmbedding(self.inner.embedding(weights, name, config), self.vocabulary, self.group)


def parallel_parts(config: ModelConfig, weights: dict[str, mx.array], group: Group) -> VocabularyParts:
    """Return the factory of a rank's layers, for dense weights or for those of a quantized checkpoint.

    Args:
        config: of the whole model.
        weights: the rank's, as `Partition.take` returns them.
        group: the ranks.

    Raises:
        ValueError: the model cannot be divided among the ranks.
    """
    packed = "model.embed_tokens.scales" in weights
    inner = Quantized.like(config, weights) if packed else DENSE
    return VocabularyParts(group, inner, Partition(config, group.rank, group.size))


class TensorParallelModel(Qwen3CachedModel):
    """Token ids in, equal on all ranks; the logits of the rank's own part of the vocabulary out.

    A forward pass takes two all_sums per layer and one for the embedding. All ranks must call it with the same tokens.
    """

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], group: Group) -> None:
        """Build the layers, from arguments as `parallel_parts` takes them.

        Raises:
            KeyError: a weight is missing.
            ValueError: the model cannot be divided among the ranks.
        """
        own = Partition(config, group.rank, group.size)
        super().__init__(own.config, weights, parallel_parts(config, weights, group))
