"""The tensor-parallel model: `Qwen3CachedModel` over a rank's part of the weights."""

import mlx.core as mx

from ..config import ModelConfig
from ..distributed.group import Group
from ..quantized.parts import Quantized
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import DENSE
from .parts import VocabularyParts
from .shards import Partition


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
