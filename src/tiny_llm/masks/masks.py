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
    raise NotImplementedError("4.1.1 Combining masks")
