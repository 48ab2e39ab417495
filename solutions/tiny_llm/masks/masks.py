"""Combining masks of every form into one additive mask."""

import mlx.core as mx

from ..attention import causal_mask


def attention_mask(
    B: int,
    H: int,
    L: int,
    S: int,
    dtype: mx.Dtype,
    mask: mx.array | None = None,
    key_mask: mx.array | None = None,
    causal: bool = False,
) -> mx.array:
    """Combine masks of every form into one, which is added to scores of B x H x L x S.

    A key is hidden from a query if any argument hides it. In a boolean mask True leaves a key visible and False hides
    it. A float mask is added, and -inf hides. The number of a mask's axes, and the argument it is passed as, define
    what its axes mean; their sizes never do.

    Args:
        B: batch rows.
        H: heads.
        L: queries.
        S: keys.
        dtype: of the result. Values out of its range become infinite, such as -1e9 in float16.
        mask: bool or float, with 2, 3 or 4 axes: L x S, the same for all rows and heads; B x L x S, one per row;
            B x H x L x S, where 1 x H x L x S is one per head. Any of these axes may also be 1.
        key_mask: bool or float, B x S: which keys of each row are visible, for all heads and queries.
        causal: whether to hide the future too, as `causal_mask` does: query i sees the keys 0 to i + S - L.

    Returns:
        Four axes, each of the size in B x H x L x S if any argument has that axis, and 1 otherwise: 1 x 1 x 1 x 1
        without any mask. 0 leaves a key visible, -inf hides it; float masks are added in float32. The arguments are not
        changed.

    Raises:
        ValueError: a mask is neither bool nor float; mask's shape is none of the above; key_mask is not B x S; or it is
            causal and L > S. The message names the argument and its dtype or shape.
    """
    total = mx.zeros((1, 1, 1, 1))
    if mask is not None:
        total = total + _additive("mask", _with_four_axes(mask, B, H, L, S))
    if key_mask is not None:
        if key_mask.shape != (B, S):
            raise ValueError(f"key_mask has shape {key_mask.shape}, but B x S = {(B, S)} is needed")
        total = total + _additive("key_mask", key_mask)[:, None, None, :]  # B x 1 x 1 x S
    if causal:
        total = total + causal_mask(L, S, mx.float32)  # L x S, the same for all rows and heads
    return total.astype(dtype)


def _with_four_axes(mask: mx.array, B: int, H: int, L: int, S: int) -> mx.array:
    """Insert the axes that a mask lacks, judging by their number and not by their sizes."""
    if mask.ndim == 2:
        wide = mask[None, None]  # 1 x 1 x L x S
    elif mask.ndim == 3:
        wide = mask[:, None]  # B x 1 x L x S
    elif mask.ndim == 4:
        wide = mask
    else:
        raise ValueError(f"mask has shape {mask.shape}, but L x S, B x L x S or B x H x L x S is needed")
    if any(size not in (1, whole) for size, whole in zip(wide.shape, (B, H, L, S), strict=True)):
        raise ValueError(f"mask has shape {mask.shape}, which does not fit B, H, L, S = {(B, H, L, S)}")
    return wide


def _additive(name: str, mask: mx.array) -> mx.array:
    """Convert a mask of either kind to float32 values to add."""
    if mask.dtype == mx.bool_:
        return mx.where(mask, 0.0, -mx.inf)  # not (1 - mask) * -inf: zero times infinity is NaN
    if not mx.issubdtype(mask.dtype, mx.floating):
        raise ValueError(f"{name} has dtype {mask.dtype}, but bool or a float dtype is needed")
    return mask.astype(mx.float32)
