"""Routing tables for the tests and known programs of day 5, and the comparison of routers."""

import io
import re
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

by_sum = pytest.mark.parametrize("normalize", [True, False], ids=["normalised", "as they are"])
INTEGERS = (mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64)


def table_of(indices: mx.array, weights: mx.array, experts: int) -> mx.array:
    """Scatter the weights to their experts, N.. x X; an expert that is listed twice gets both."""
    return mx.sum(mx.where(indices[..., None] == mx.arange(experts), weights[..., None], 0), axis=-2)


def chosen(seed: int, leading: tuple[int, ...], top_k: int, experts: int) -> mx.array:
    """Draw k different experts for each token, in any order."""
    order = np.argsort(np.random.default_rng(seed).random((*leading, experts)), axis=-1)
    return mx.array(order[..., :top_k].astype(np.int32))


def products(x: mx.array) -> int:
    """Return how many matrix products an array that is not evaluated still needs."""
    graph = io.StringIO()
    mx.export_to_dot(graph, x)
    return len(re.findall(r'"(?:Matmul|AddMM|GatherMM)"', graph.getvalue()))


def transformers_config(size: int, experts: int, top_k: int, normalize: bool, width: int = 4) -> Any:
    """Return the config for transformers' blocks."""
    from transformers import Qwen3MoeConfig

    return Qwen3MoeConfig(
        hidden_size=size, num_experts=experts, num_experts_per_tok=top_k, norm_topk_prob=normalize,
        moe_intermediate_size=width,
    )  # fmt: skip
