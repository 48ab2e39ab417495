"""Week 3, day 1, task 1: attention of a ragged batch.

Each request must get what it gets alone, by the formula of week 1 in float64.
"""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import grouped64
from tests.week3.ragged import CALLS, Calls, attention_of, calls_of, read_of

from tiny_llm.serving import kv_cache, request
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sweep

by_calls = pytest.mark.parametrize("calls", CALLS, ids=str)
attended = attention_of(
    request, lambda layers: kv_cache.DenseKVCache(layers), lambda kept, *arguments: kept.attend(*arguments)
)


def attended64(query, key, value, calls, layer, *, r=exact):
    """Return each request's attention alone, all its tokens at once."""
    found = np.zeros(query.shape)
    for who, count in enumerate(read_of(calls, len(query))):
        if count:
            heads = [x[who, :count].swapaxes(0, 1) for x in (query, key, value)]
            found[who, :count] = grouped64(*heads, mask="causal", r=r).swapaxes(0, 1)
    return found


def attend_agrees(requests, length, heads, kv_heads, dims, calls, *, seed, dtype=mx.float32, layer=1, spread=1.0):
    draw = normals(seed if isinstance(seed, int) else seed.seed, dtype)
    query = draw(requests, length, heads, dims, spread=spread)
    key, value = draw(requests, length, kv_heads, dims), draw(requests, length, kv_heads, dims)
    agrees(attended, attended64, query, key, value, calls, layer, seed=seed)


@by_dtype
@by_calls
def test_task_1_attend_formula(calls, dtype):
    attend_agrees(3, 5, 6, 2, 4, calls, seed=1, dtype=dtype)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_task_1_attend_layers(layer):
    """Each layer has its own keys and values."""
    attend_agrees(3, 5, 4, 2, 6, CALLS[3], seed=2, layer=layer)


@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (4, 1)], ids=str)
def test_task_1_attend_heads(heads):
    for calls in CALLS[:4]:
        attend_agrees(3, 5, *heads, 5, calls, seed=3)


def test_task_1_attend_eight_decodes():
    """Eight requests of different lengths, then a token of each, three times."""
    counts = (4, 1, 3, 2, 6, 1, 5, 2)
    step = tuple((who, 1) for who in range(8))
    calls = Calls([tuple(enumerate(counts)), step, step[::-1], step])
    attend_agrees(8, 9, 4, 2, 3, calls, seed=4)


def test_task_1_attend_sweep():
    for n in sweep(B=5, L=140, K=4, G=3, D=70):
        calls = calls_of(n.seed, n.B, n.L)
        attend_agrees(n.B, n.L, n.K * n.G, n.K, n.D, calls, seed=n, dtype=n.dtype, spread=min(n.spread, 30.0))


@property_test
@given(requests=st.integers(1, 4), length=st.integers(1, 6), number=st.integers(0, 999))
def test_task_1_attend_any_calls(requests, length, number):
    """However the requests' tokens are split into calls, each gets what it gets alone."""
    attend_agrees(requests, length, 4, 2, 3, calls_of(number, requests, length), seed=number)
