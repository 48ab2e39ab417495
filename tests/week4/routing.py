"""Which experts tokens go to: what the tests and the known programs of day 5 draw, and how they compare a router's."""

import mlx.core as mx
import numpy as np


def table_of(indices: mx.array, weights: mx.array, experts: int) -> mx.array:
    """The weights at their experts' places, N.. x X; an expert that is named twice has both of them."""
    return mx.sum(mx.where(indices[..., None] == mx.arange(experts), weights[..., None], 0), axis=-2)


def chosen(seed: int, leading: tuple[int, ...], top_k: int, experts: int) -> mx.array:
    """For each token k different experts, in any order."""
    order = np.argsort(np.random.default_rng(seed).random((*leading, experts)), axis=-1)
    return mx.array(order[..., :top_k].astype(np.int32))
