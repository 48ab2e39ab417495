"""Checks: what one runs to learn whether a program is right, and what a check must be like to be trusted."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_attention(attention: Attention) -> None:
    """Let an attention pass if it does what `scaled_dot_product_attention_simple` promises, and stop it if it does not.

    Its docstring is what is promised, no more and no less: a right program need not compute as yours does, nor round
    as yours does, and may do as it likes with what no caller may ask of it.

    Args:
        attention: called as attention(query, key, value, scale=None, mask=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong; any will do but NotImplementedError, and `assert` raises one. What is returned
            does not count.
    """
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        query, key, value = _inputs(dtype, 2)
        bias = mx.random.normal((3, 5), key=mx.random.key(4))
        hidden = mx.array([[0, 0, 0, -mx.inf, -mx.inf], [0, 0, 0, 0, -mx.inf], [0, 0, 0, 0, 0]])
        narrow = bias.astype(dtype)
        for scale, mask in ((None, None), (None, hidden), (0.7, bias), (None, narrow), (0.0, bias + hidden)):
            result = attention(query, key, value, scale=scale, mask=mask)
            _agrees(result, _formula(query, key, value, scale, mask), dtype)
    # What holds whatever the formula is: weights that sum to one leave values that are all alike as they are.
    query, key, value = _inputs(mx.float32, 2)
    alike = attention(query, key, mx.ones_like(value), mask=hidden)
    _agrees(alike, mx.ones_like(query), mx.float32)
    # And no leading dimensions, or two.
    for shape in ((), (1, 4)):
        query, key, value = _inputs(mx.float32, *shape)
        _agrees(attention(query, key, value), _formula(query, key, value, None, None), mx.float32)


def _inputs(dtype: mx.Dtype, *leading: int) -> tuple[mx.array, mx.array, mx.array]:
    """Queries, keys and values, .. x 3 x 6, .. x 5 x 6 and .. x 5 x 6: no two sizes can be confused."""
    sizes = ((3, 6), (5, 6), (5, 6))
    query, key, value = (mx.random.normal((*leading, *size), key=mx.random.key(i)) for i, size in enumerate(sizes))
    return query.astype(dtype), key.astype(dtype), value.astype(dtype)


def _formula(query: mx.array, key: mx.array, value: mx.array, scale: float | None, mask: mx.array | None) -> mx.array:
    """The definition, number by number and in float32: slow, and too plain to be wrong in the same way."""
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = mx.sum(query[..., :, None, :] * key[..., None, :, :], axis=-1) * scale  # N.. x L x S
    exps = mx.exp(scores if mask is None else scores + mask)
    weights = exps / mx.sum(exps, axis=-1, keepdims=True)
    return mx.sum(weights[..., None] * value[..., None, :, :], axis=-2)  # N.. x L x D


def _agrees(result: mx.array, expected: mx.array, dtype: mx.Dtype) -> None:
    """The same shape, the dtype that is promised, and numbers as close as that dtype can be expected to come."""
    assert result.shape == expected.shape, f"{result.shape}, not {expected.shape}"
    assert result.dtype == dtype, f"{result.dtype}, not {dtype}"
    allowed = 16 * mx.finfo(dtype).eps  # a few roundings of numbers near 1; a mistake is far more
    distance = mx.max(mx.abs(result.astype(mx.float32) - expected))
    assert distance <= allowed, f"{distance.item()} apart"  # which a NaN is not
