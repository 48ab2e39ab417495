"""What a mask saves: attention with a growing share of padding, masked or sliced away."""

from functools import partial

import mlx.core as mx

from tiny_llm.masks.attention import masked_attention
from tiny_llm.masks.masks import attention_mask
from tiny_llm_course.measuring.clock import Program, Table, seconds

# What the book draws of the table.
CHART = ("lines", "ms", ("masked: ms", "sliced: ms"))

H, D = 2, 64


def measure(quick: bool = False) -> Table:
    """Measure attention over keys of which only the first are real and the others are padding."""
    keys = 64 if quick else 512
    real = [keys // 8, keys // 4, keys // 2, keys]
    query, key, value = (mx.random.normal((1, H, keys, D)) for _ in range(3))
    mx.eval(query, key, value)
    programs: list[Program] = []
    for count in real:
        key_mask = mx.arange(keys)[None] < count
        mask = attention_mask(1, H, keys, keys, mx.float32, key_mask=key_mask)
        left = mx.contiguous(key[:, :, :count]), mx.contiguous(value[:, :, :count])
        mx.eval(mask, left)
        programs += [
            partial(masked_attention, query, key, value, mask),
            partial(masked_attention, query, *left),
        ]
    times = seconds(*programs)
    rows = tuple(
        (count, masked * 1e3, sliced * 1e3, masked / sliced)
        for count, masked, sliced in zip(real, times[::2], times[1::2], strict=True)
    )
    return Table(
        ("real keys", "masked: ms", "sliced: ms", "masked / sliced"),
        rows,
        f"With {real[0]} real keys out of {keys}, masked attention takes {rows[0][1] / rows[-1][1]:.2f} times as long "
        f"as with all keys real, and {rows[0][3]:.1f} times as long as with the padding sliced away.",
    )
