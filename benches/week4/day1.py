"""What a mask saves: attention to keys of which more and more are padding, hidden by a mask, or cut away."""

from functools import partial

import mlx.core as mx

from tiny_llm.masks.attention import masked_attention
from tiny_llm.masks.masks import attention_mask
from tiny_llm_course.measuring.clock import Program, Table, seconds

# What the book draws of the table.
CHART = ("lines", "ms", ("masked: ms", "cut away: ms"))

H, D = 2, 64


def measure(quick: bool = False) -> Table:
    """One text of so many queries and as many keys, the last ones padding."""
    keys = 64 if quick else 512
    padded = [0, keys // 2, keys * 3 // 4, keys * 7 // 8]
    query, key, value = (mx.random.normal((1, H, keys, D)) for _ in range(3))
    mx.eval(query, key, value)
    programs: list[Program] = []
    for count in padded:
        key_mask = mx.arange(keys)[None] < keys - count
        mask = attention_mask(1, H, keys, keys, mx.float32, key_mask=key_mask)
        left = mx.contiguous(key[:, :, : keys - count]), mx.contiguous(value[:, :, : keys - count])
        mx.eval(mask, left)
        programs += [
            partial(masked_attention, query, key, value, mask),
            partial(masked_attention, query, *left),
        ]
    times = seconds(*programs)
    rows = tuple(
        (count, masked * 1e3, cut * 1e3, masked / cut)
        for count, masked, cut in zip(padded, times[::2], times[1::2], strict=True)
    )
    return Table(
        ("padding", "masked: ms", "cut away: ms", "masked / cut away"),
        rows,
        f"With {padded[-1]} of {keys} keys padding, a mask takes {rows[-1][1] / rows[0][1]:.2f} times as long as with "
        f"none, and {rows[-1][3]:.1f} times as long as keys that are cut away.",
    )
