"""The bytes and FLOPs of a step, counted from the config alone."""

from .step import Flops, Step, Storage, Traffic


def traffic(step: Step, storage: Storage) -> Traffic:
    """Count the bytes that a step must read from and write to memory.

    Args:
        step: the call.
        storage: how weights and caches are stored. Keys and values take `size` bytes per number, quantized or not.

    Returns:
        weights: every weight once, however many tokens there are, norms and biases included. From the embedding, one
            row per new token of the batch, repeated tokens included; the whole head. A tied head is the embedding's
            table, which is then read whole as the head, in addition to the rows.
        cache_read: the keys and values of all S = offset + length tokens, new ones included, for each row, key-value
            head and layer; each once, however many queries use it.
        cache_written: the keys and values of the new tokens.

        Activations are not counted: they stay in the processor's caches.

    Source: Pope et al. 2022, section 2.
    """
    c = step.config
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim

    def matrix(outputs: int, inputs: int) -> int:
        if storage.bits is None:
            return outputs * inputs * storage.size
        groups = inputs // storage.group_size
        return outputs * (inputs * storage.bits // 8 + 2 * groups * storage.scale_size)

    layer = matrix(queries + 2 * keys, c.hidden_size) + matrix(c.hidden_size, queries)
    layer += 2 * matrix(c.intermediate_size, c.hidden_size) + matrix(c.hidden_size, c.intermediate_size)
    vectors = 2 * c.hidden_size + (2 * c.head_dim if c.model_type == "qwen3" else queries + 2 * keys)
    ends = matrix(step.batch * step.length, c.hidden_size) + matrix(c.vocab_size, c.hidden_size)
    token = 2 * c.num_hidden_layers * keys * storage.size  # a key and a value in each layer
    return Traffic(
        weights=c.num_hidden_layers * (layer + vectors * storage.size) + c.hidden_size * storage.size + ends,
        cache_read=step.batch * (step.offset + step.length) * token,
        cache_written=step.batch * step.length * token,
    )


def flops(step: Step) -> Flops:
    """Count the floating-point operations of a step: two per multiply-add.

    Returns:
        projections: query, key, value and output projections, for every new token.
        attention: the scores and the weighted sums of values, D multiply-adds each per head. A query counts only the
            keys up to its own token: what the causal mask hides is not counted.
        mlp: the three matrices, for every new token.
        head: the logits of each row's last token only.

        Norms, biases, RoPE, softmax, SiLU and vector additions are not counted: they are few.

    Source: Kaplan et al. 2020, section 2.1; `torch.utils.flop_counter.FlopCounterMode`.
    """
    c = step.config
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    tokens = step.batch * step.length * c.num_hidden_layers  # through each layer
    # The first new token attends to offset + 1 keys, the last one to offset + length.
    pairs = step.length * step.offset + step.length * (step.length + 1) // 2
    return Flops(
        projections=2 * tokens * c.hidden_size * (2 * queries + 2 * keys),
        attention=2 * 2 * step.batch * c.num_hidden_layers * queries * pairs,
        mlp=2 * tokens * 3 * c.hidden_size * c.intermediate_size,
        head=2 * step.batch * c.vocab_size * c.hidden_size,
    )
