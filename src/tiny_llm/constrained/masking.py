"""Masks applied to logits, each row with its own request's."""

from collections.abc import Mapping

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from .trie import unpack


def apply_masks(logits: mx.array, masks: Mapping[int, npt.NDArray[np.uint32]]) -> mx.array:
    """Return the logits with -inf for the tokens that a row's mask does not allow.

    Args:
        logits: N x V.
        masks: by row, ceil(V / 32) words each; the other rows stay as they are.
    """
    allowed = np.ones(logits.shape, np.bool_)
    for row, mask in masks.items():
        allowed[row] = unpack(mask, logits.shape[-1])
    return mx.where(mx.array(allowed), logits, -mx.inf)
