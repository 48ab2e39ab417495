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
    raise NotImplementedError("2.2.2 Bytes of a step")


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
    raise NotImplementedError("2.2.3 FLOPs of a step")
