"""What weight sharing saves and what it does not, counted from the config alone."""

from ..config import ModelConfig
from .counts import Counts


def count_shared(config: ModelConfig, distinct: int) -> Counts:
    """Count the weights, multiply-adds and cached numbers of a model whose layers share weights.

    Args:
        config: num_hidden_layers is the number of layers a token passes through; tie_word_embeddings, whether the head
            is the embedding's table; model_type, whether a layer has norms of queries and keys (qwen3) or biases of
            queries, keys and values (qwen2).
        distinct: the number of stored layers, a divisor of num_hidden_layers. Their order does not matter here.

    Returns:
        stored: all weights in the file, norms and biases included, each once.
        macs: per token, one for every element of every matrix that it is multiplied by, each time it is. The head is
            such a matrix, tied or not; an embedding lookup multiplies nothing. Norms, biases and attention's two
            products (queries with keys, weights with values) are not counted: they involve no matrix of the file.
        cached: keys and values, per token, over all layers.

    Raises:
        ValueError: distinct is below 1 or not a divisor of num_hidden_layers; the message states both.
    """
    raise NotImplementedError("4.6.2 What sharing saves")
