"""What a step must move and compute, counted from the config alone."""

from .step import Flops, Step, Storage, Traffic


def traffic(step: Step, storage: Storage) -> Traffic:
    """Count the bytes that a step must read and write in memory.

    Args:
        step: the call.
        storage: how weights and caches are stored. Keys and values take `size` bytes a number, quantized or not.

    Returns:
        weights: every weight once, however many tokens there are, norms and biases included. Of the embedding only a
            row for each new token of the batch, also where tokens are alike; the head whole. A tied head is the
            embedding's table, which is then read whole as the head, beside the rows.
        cache_read: the keys and values of all S = offset + length tokens, the new ones too, of each row, key-value
            head and layer; each once, however many queries compare themselves with it.
        cache_written: those of the new tokens.

        Vectors on their way from one operation to the next are not counted: they stay in the processor's caches.

    Source: Pope et al. 2022, section 2.
    """
    raise NotImplementedError("2.2.2 Every byte of a step")


def flops(step: Step) -> Flops:
    """Count the floating-point operations of a step: two for each multiplication with its addition.

    Args:
        step: the call.

    Returns:
        projections: those of queries, keys, values and of attention's output, of every new token.
        attention: scores, and the weighted sums of values, D multiplications for each in every head. A query meets the
            keys up to its own token alone: what the causal mask hides is not counted.
        mlp: the three matrices, of every new token.
        head: the logits of the last token in each row, and of no other.

        Norms, biases, RoPE, softmax, SiLU and sums of vectors are not counted: they are few.

    Source: Kaplan et al. 2020, section 2.1; `torch.utils.flop_counter.FlopCounterMode`.
    """
    raise NotImplementedError("2.2.3 Every operation of a step")
