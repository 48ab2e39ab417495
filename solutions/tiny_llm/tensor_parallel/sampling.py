"""Sampling when each rank has the logits of its own part of the vocabulary."""

import mlx.core as mx

from ..distributed.group import Group
from ..generate import Sampler


def make_parallel_sampler(
    group: Group, vocabulary: range, vocab_size: int, *, temp: float = 1.0, top_k: int = 0, seed: int = 0
) -> Sampler:
    """Return a function that chooses the next token of each row, the same on all ranks and for every number of ranks.

    With temp = 0 it is the most likely token. Otherwise it is a sample by the Gumbel-max method: the token with the
    largest sum of logit / temp and noise, where all V tokens have noise from `mx.random.gumbel`. Every rank generates
    the noise of all tokens, from the same key, and uses that of its own.

    Each choice takes one all_gather, of each rank's largest number and its token id, and top-k another one, of each
    rank's k largest logits. Nothing of size V is exchanged.

    Args:
        group: the ranks.
        vocabulary: the ids of the rank's tokens. Consecutive ranks have consecutive ranges, which may differ in length.
        vocab_size: V, of all ranks together.
        temp: divides the logits; 0 means the most likely token, and of equal ones the one with the lowest id.
        top_k: keeps the k largest logits of each row, and those equal to the k-th; 0 means off, and so
            does top_k >= V or temp = 0: no all_gather is made for it.
        seed: the same on all ranks. It gives the first key, `mx.random.key(seed)`. Each call splits the key by
            `mx.random.split` into the next call's key and its own, with which it generates `mx.random.gumbel((N, V))`.

    Returns:
        A function of the rank's logits, N x len(vocabulary) in any float dtype, and of each row's tokens so far, which
        it ignores. It returns N token ids of the whole vocabulary.

    Source: Maddison et al. 2014 (Gumbel-max).
    """
    key = mx.random.key(seed)

    def sample(logits: mx.array, tokens: list[list[int]]) -> mx.array:
        nonlocal key
        if temp == 0:
            return _argmax(group, vocabulary, logits)
        logits = logits / temp
        if 0 < top_k < vocab_size:
            logits = mx.where(logits >= _kth_largest(group, top_k, logits), logits, -mx.inf)
        key, now = mx.random.split(key)
        noise = mx.random.gumbel((len(logits), vocab_size), key=now)
        return _argmax(group, vocabulary, logits + noise[:, vocabulary.start : vocabulary.stop])

    return sample


def _argmax(group: Group, vocabulary: range, logits: mx.array) -> mx.array:
    """Return the token id of each row's largest number over all ranks, N; the lowest id of equal ones."""
    best = mx.argmax(logits, axis=-1, keepdims=True)  # N x 1, the first of equal ones
    values = mx.take_along_axis(logits, best, axis=-1)
    pairs = mx.concatenate([values, (best + vocabulary.start).astype(mx.float32)], axis=-1)  # ids are exact to 2^24
    pairs = group.all_gather(pairs[None])  # ranks x N x 2
    winner = mx.argmax(pairs[..., 0], axis=0)  # N, the first rank of equal ones, which has the lowest ids
    return mx.take_along_axis(pairs[..., 1], winner[None], axis=0)[0].astype(mx.uint32)


def _kth_largest(group: Group, k: int, logits: mx.array) -> mx.array:
    """Return the k-th largest logit of each row over all ranks, N x 1."""
    short = max(0, k - logits.shape[-1])  # all ranks must send equally many
    padded = mx.pad(logits, [(0, 0), (0, short)], constant_values=-mx.inf)
    largest = group.all_gather(mx.sort(padded, axis=-1)[None, :, -k:])  # ranks x N x k
    return mx.sort(largest.swapaxes(0, 1).flatten(1), axis=-1)[:, -k, None]


def gather_logits(group: Group, vocabulary: range, vocab_size: int, logits: mx.array) -> mx.array:
    """Return all ranks' logits, N.. x V, on every rank, for a sampler that needs them all, such as top-p."""
    before, after = vocabulary.start, vocab_size - vocabulary.stop
    return group.all_sum(mx.pad(logits, [(0, 0)] * (logits.ndim - 1) + [(before, after)]))
