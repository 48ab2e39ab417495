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
    c = config
    if distinct < 1 or c.num_hidden_layers % distinct:
        raise ValueError(f"{c.num_hidden_layers} layers cannot share the weights of {distinct}")
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    table = c.vocab_size * c.hidden_size
    matrices = (2 * queries + 2 * keys + 3 * c.intermediate_size) * c.hidden_size  # q, o; k, v; gate, up, down
    small = 2 * c.head_dim if c.model_type == "qwen3" else queries + 2 * keys  # norms of q and k, or biases
    layer = matrices + small + 2 * c.hidden_size  # and the norms before attention and MLP
    return Counts(
        stored=table * (1 if c.tie_word_embeddings else 2) + distinct * layer + c.hidden_size,
        macs=c.num_hidden_layers * matrices + table,
        cached=c.num_hidden_layers * 2 * keys,
    )
