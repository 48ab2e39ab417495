"""A check of attention, which must pass correct programs and fail wrong ones."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_attention(attention: Attention) -> None:
    """Return if an attention does what `scaled_dot_product_attention_simple` promises; raise otherwise.

    Its docstring is the whole contract: a correct program need not compute or round as yours does, and may do anything
    with arguments that the docstring rules out.

    Args:
        attention: called as attention(query, key, value, scale=None, mask=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        query, key, value = _inputs(dtype, 2)
        before = [mx.array(x) for x in (query, key, value)]
        bias = mx.random.normal((3, 5), key=mx.random.key(4))
        hidden = mx.array([[0, 0, 0, -mx.inf, -mx.inf], [0, 0, 0, 0, -mx.inf], [0, 0, 0, 0, 0]])
        narrow = bias.astype(dtype)
        for scale, mask in ((None, None), (None, hidden), (0.7, bias), (None, narrow), (0.0, bias + hidden)):
            expected = _formula(query, key, value, scale, mask)
            _agrees(attention(query, key, value, scale=scale, mask=mask), expected, dtype)
        pairs = zip((query, key, value), before, strict=True)
        assert all(mx.array_equal(*pair) for pair in pairs), "an argument was changed"
    # A mask whose numbers float16 does not have: in each row, all but the first key are as good as hidden.
    query, key, value = _inputs(mx.float16, 2)
    far = mx.array([-1e5, -2e5, -2e5, -2e5, -2e5])
    first = mx.broadcast_to(value[..., :1, :], query.shape)
    _agrees(attention(query, key, value, mask=far), first.astype(mx.float32), mx.float16)
    # Independent of the formula: weights that sum to one leave equal values unchanged.
    query, key, value = _inputs(mx.float32, 2)
    alike = attention(query, key, mx.ones_like(value), mask=hidden)
    _agrees(alike, mx.ones_like(query), mx.float32)
    # And no leading dimensions, or two.
    for shape in ((), (1, 4)):
        query, key, value = _inputs(mx.float32, *shape)
        expected = _formula(query, key, value, None, None)
        _agrees(attention(query, key, value), expected, mx.float32)


def _inputs(dtype: mx.Dtype, *leading: int) -> tuple[mx.array, mx.array, mx.array]:
    """Return queries, keys and values, .. x 3 x 6, .. x 5 x 6 and .. x 5 x 6: no two sizes can be confused."""
    sizes = ((3, 6), (5, 6), (5, 6))
    query, key, value = (mx.random.normal((*leading, *size), key=mx.random.key(i)) for i, size in enumerate(sizes))
    return query.astype(dtype), key.astype(dtype), value.astype(dtype)


def _formula(query: mx.array, key: mx.array, value: mx.array, scale: float | None, mask: mx.array | None) -> mx.array:
    """Compute the definition elementwise in float32: slow, and too simple to share a program's mistake."""
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = mx.sum(query[..., :, None, :] * key[..., None, :, :], axis=-1) * scale  # N.. x L x S
    exps = mx.exp(scores if mask is None else scores + mask)
    weights = exps / mx.sum(exps, axis=-1, keepdims=True)
    return mx.sum(weights[..., None] * value[..., None, :, :], axis=-2)  # N.. x L x D


def _agrees(result: mx.array, expected: mx.array, dtype: mx.Dtype) -> None:
    """Assert the shape, the promised dtype, and values within that dtype's rounding."""
    assert result.shape == expected.shape, f"{result.shape}, not {expected.shape}"
    assert result.dtype == dtype, f"{result.dtype}, not {dtype}"
    allowed = 16 * mx.finfo(dtype).eps  # a few roundings of numbers near 1; a mistake is far larger
    distance = mx.max(mx.abs(result.astype(mx.float32) - expected))
    assert distance <= allowed, f"{distance.item()} apart"  # which a NaN is not
