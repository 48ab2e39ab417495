"""A check of attention with masks: most mistakes show only in rows that a test must include on purpose."""

from collections.abc import Callable, Iterator

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_masked_attention(attention: Attention) -> None:
    """Return if an attention does what `masked_attention` promises; raise otherwise.

    Its docstring is the whole contract: a correct program need not compute or round as yours does, and may do anything
    with arguments that the docstring rules out.

    Args:
        attention: called as attention(query, key, value, mask=None, scale=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        # First sizes that are all different, then equal numbers of heads, queries and keys.
        for heads, length, keys in ((3, 4, 5), (4, 4, 4)):
            query, key, value = _inputs(dtype, heads, length, keys)
            for scale, mask in zip((None, 0.7, 0.0, None, 2.0, None), _masks(heads, length, keys), strict=True):
                _agrees(attention(query, key, value, mask=mask, scale=scale), query, key, value, mask, scale)
            # Large negative numbers hide nothing: if all values are one, so is the output, whatever the weights are.
            far = mx.full((length, keys), -1e5)
            ones = attention(query, key, mx.ones_like(value), mask=far)
            assert mx.max(mx.abs(ones.astype(mx.float32) - 1)) <= 8 * mx.finfo(dtype).eps, "far below zero is hidden"
    query, key, value = _inputs(mx.float32, 3, 4, 5)
    for mask in (mx.ones((3, 2, 3, 4, 5)) == 1, mx.zeros((5, 4)), mx.ones((4, 5), mx.int32)):
        _is_refused(attention, query, key, value, mask)
    _is_refused(attention, query[:1], key[:1], value[:1], mx.zeros((2, 1, 4, 5)))


def _inputs(dtype: mx.Dtype, heads: int, length: int, keys: int) -> tuple[mx.array, mx.array, mx.array]:
    """Return queries, keys and values of a batch of two, with 6 features."""
    sizes = (length, keys, keys)
    query, key, value = (mx.random.normal((2, heads, n, 6), key=mx.random.key(i)) for i, n in enumerate(sizes))
    return query.astype(dtype), key.astype(dtype), value.astype(dtype)


def _masks(heads: int, length: int, keys: int) -> Iterator[mx.array | None]:
    """Yield masks of both kinds, with two, three and four axes, with and without a fully masked row."""

    def drawn(*shape: int) -> mx.array:
        return mx.random.normal(shape, key=mx.random.key(sum(shape)))

    first = mx.arange(keys) == 0
    seeing = mx.arange(length)[:, None] != 1  # all queries but the second
    yield None
    yield (drawn(2, 1, length, keys) < 0) | first
    yield ((drawn(length, keys) < 0) | first) & seeing
    yield drawn(heads, length, keys)
    yield mx.where(drawn(length, keys) < 0, 0.0, drawn(length, keys))
    yield mx.where(seeing, drawn(2, 1, length, keys), -mx.inf)


def _agrees(
    result: mx.array, query: mx.array, key: mx.array, value: mx.array, mask: mx.array | None, scale: float | None
) -> None:
    """Assert the query's shape and dtype, and the formula's values within that dtype's rounding."""
    assert result.shape == query.shape, f"{result.shape}, not {query.shape}"
    assert result.dtype == query.dtype, f"{result.dtype}, not {query.dtype}"
    expected = _formula(query, key, value, mask, scale)
    distance = mx.max(mx.abs(result.astype(mx.float32) - expected))
    assert distance <= 16 * mx.finfo(query.dtype).eps, f"{distance.item()} apart"  # which a NaN is not


def _formula(query: mx.array, key: mx.array, value: mx.array, mask: mx.array | None, scale: float | None) -> mx.array:
    """Compute the definition elementwise in float32. Weights of a fully masked row are zero: their sum would be 0."""
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    exps = mx.exp(mx.sum(query[..., :, None, :] * key[..., None, :, :], axis=-1) * scale)  # N.. x L x S
    if mask is not None:
        exps = exps * (mask if mask.dtype == mx.bool_ else mx.exp(mask))
    weights = exps / mx.maximum(mx.sum(exps, axis=-1, keepdims=True), 1e-30)
    return mx.sum(weights[..., None] * value[..., None, :, :], axis=-2)  # N.. x L x D


def _is_refused(attention: Attention, query: mx.array, key: mx.array, value: mx.array, mask: mx.array) -> None:
    """Assert that a mask of a wrong shape or dtype raises a ValueError."""
    try:
        mx.eval(attention(query, key, value, mask=mask))
    except ValueError:
        return
    raise AssertionError(f"takes a mask of {mask.shape}, {mask.dtype}")
