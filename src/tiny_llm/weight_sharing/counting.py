"""What sharing saves, counted from the config alone, and what it does not."""

from ..config import ModelConfig
from .counts import Counts


def count_shared(config: ModelConfig, distinct: int) -> Counts:
    """Count the weights, the multiplications and the cached numbers of a model of which some layers share.

    Args:
        config: the model's measures. num_hidden_layers is how many layers a token passes through;
            tie_word_embeddings, whether the head is the embedding's table; model_type, whether a layer has norms of
            queries and keys (qwen3) or biases of queries, keys and values (qwen2).
        distinct: how many layers are stored, a divisor of num_hidden_layers. In what order they are used changes none
            of the counts.

    Returns:
        stored: all weights that the file holds, norms and biases included, each once.
        macs: for each token, one for every number of every matrix that it is multiplied by, as often as it is. The head
            is such a matrix, tied or not, and looking a row up is no multiplication. Norms, biases, and the products
            of queries with keys and of weights with values, are not counted: they are in no matrix of the file.
        cached: keys and values, for each token, of all layers.

    Raises:
        ValueError: distinct is below 1 or no divisor of num_hidden_layers; the message says both.
    """
    raise NotImplementedError("4.6.2 What sharing saves")
