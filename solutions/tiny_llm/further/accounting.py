"""The FLOPs and bytes of a step with windows or experts: week 2's counts, corrected."""

from ..measure.accounting import flops, traffic
from ..measure.step import Step, Storage
from .config import FurtherConfig


def counted(config: FurtherConfig, length: int, offset: int, storage: Storage) -> tuple[int, int]:
    """Return the FLOPs and the bytes of a step of one row, counted as in week 2.

    With experts, the bytes are the expected ones if each token chooses its experts at random. A router that sends all
    tokens to the same experts reads less.

    Args:
        config: the model's.
        length: L, new tokens.
        offset: earlier tokens; the cache of a window layer holds no more of them than the window sees.
        storage: how weights and caches are stored; weights are unpacked in this engine.
    """
    c = config.base
    step = Step(c, length, offset)
    computed, moved = flops(step).total, traffic(step, storage).total
    for window in config.windows:
        if window is not None:
            seen = window + config.sinks
            computed -= 4 * c.num_attention_heads * c.head_dim * _unseen_pairs(length, offset, seen)
            evicted = max(offset - (seen - 1), 0)  # tokens whose keys and values are no longer cached
            moved -= 2 * c.num_key_value_heads * c.head_dim * storage.size * evicted
    if config.experts:
        mlp, expert = 3 * c.hidden_size * c.intermediate_size, 3 * c.hidden_size * config.experts.width
        router = config.experts.count * c.hidden_size
        reached = config.experts.count * (1 - (1 - config.experts.top_k / config.experts.count) ** length)
        layers = len(config.experts.layers)
        computed += layers * 2 * length * (config.experts.top_k * expert + router - mlp)
        moved += layers * storage.size * (round(reached * expert) + router - mlp)
    return computed, moved


def _unseen_pairs(length: int, offset: int, seen: int) -> int:
    """Count the pairs of a new token and a token up to it that the window hides."""
    first, last = (max(tokens - seen, 0) for tokens in (offset + 1, offset + length))  # unseen of the first and last
    return (first + last) * (last - first + 1) // 2 if first else last * (last + 1) // 2
