"""What a step computes and moves where layers have windows or experts: week 2's counts, and what is different."""

from ..measure.accounting import flops, traffic
from ..measure.step import Step, Storage
from .config import FurtherConfig


def counted(config: FurtherConfig, length: int, offset: int, storage: Storage) -> tuple[int, int]:
    """The floating-point operations of a step in one row, and its bytes, counted as in week 2.

    Where tokens have experts, the bytes are those of the experts that so many tokens reach, if each chooses them by
    chance. A router that sends all to the same ones reads less.

    Args:
        config: the model's measures.
        length: L, new tokens.
        offset: tokens that the caches have read before; those of a window hold no more than it sees.
        storage: how weights and caches are stored. Weights that are not packed, as this engine has them.
    """
    c = config.measures
    step = Step(c, length, offset)
    computed, moved = flops(step).total, traffic(step, storage).total
    for window in config.windows:
        if window is not None:
            seen = window + config.sinks
            computed -= 4 * c.num_attention_heads * c.head_dim * _unseen_pairs(length, offset, seen)
            unread = max(offset - (seen - 1), 0)  # tokens whose keys and values are gone
            moved -= 2 * c.num_key_value_heads * c.head_dim * storage.size * unread
    if config.experts:
        mlp, expert = 3 * c.hidden_size * c.intermediate_size, 3 * c.hidden_size * config.experts.width
        router = config.experts.count * c.hidden_size
        reached = config.experts.count * (1 - (1 - config.experts.top_k / config.experts.count) ** length)
        layers = len(config.experts.layers)
        computed += layers * 2 * length * (config.experts.top_k * expert + router - mlp)
        moved += layers * storage.size * (round(reached * expert) + router - mlp)
    return computed, moved


def _unseen_pairs(length: int, offset: int, seen: int) -> int:
    """How many pairs of a new token and one up to it are not within the window."""
    first, last = (max(tokens - seen, 0) for tokens in (offset + 1, offset + length))  # unseen of the first and last
    return (first + last) * (last - first + 1) // 2 if first else last * (last + 1) // 2
