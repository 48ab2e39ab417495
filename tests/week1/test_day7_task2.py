"""Week 1, day 7, task 2: Top-k."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.filters import top_k64, vocabularies

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES, forbidding, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_task_1_top_k_formula(k, dtype):
    agrees(sampler.keep_top_k, top_k64, vocabularies(1, dtype), k, seed=1)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_task_1_top_k_many_tokens(rows):
    agrees(sampler.keep_top_k, top_k64, normals(2)(rows, 300, spread=3.0), 40, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [6, 7, 9])
def test_task_1_top_k_of_all_keeps_all(k, dtype):
    agrees(sampler.keep_top_k, top_k64, vocabularies(3, dtype), k, seed=3)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_task_1_top_k_ties(k):
    """Logits equal to the k-th all stay; the rows tie in different places."""
    logits = mx.array([[1.0, 2.0, 2.0, 0.5, 2.0], [3.0, -1.0, -1.0, 4.0, -1.0], [7.0, 7.0, 7.0, 7.0, 7.0]])
    agrees(sampler.keep_top_k, top_k64, logits, k, seed=0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_task_1_top_k_forbidden_tokens(k):
    """-inf stays -inf, even when fewer than k finite logits remain."""
    logits = mx.array([[-math.inf, 1.0, -math.inf, -2.0], [-3.0, -math.inf, -math.inf, -math.inf]])
    agrees(sampler.keep_top_k, top_k64, logits, k, seed=0)


def test_task_1_top_k_sweep():
    for n in sweep(N=1100, V=4200, K=1100):
        draw = normals(n.seed, n.dtype)
        agrees(sampler.keep_top_k, top_k64, draw(n.N, n.V, spread=n.spread), n.K, seed=n)
        agrees(sampler.keep_top_k, top_k64, draw(n.N, n.V + n.K), n.K, seed=n)
        logits = forbidding(n.seed, draw(n.N, n.V)) + n.shift
        agrees(sampler.keep_top_k, top_k64, logits, n.turn(1, n.V, max(1, n.V // 2)), seed=n)


def test_task_1_top_k_mlx():
    """`mx.topk` gives the k largest numbers, in some order."""
    logits = normals(4)(3, 20)
    largest = mx.sort(mx.topk(logits, 4, axis=-1), axis=-1)
    kept = mx.where(logits >= largest[:, :1], logits, -math.inf)
    agrees(sampler.keep_top_k, top_k64, logits, 4, seed=4, expected=to_float64(kept))


def test_task_1_top_k_pytorch(pytorch):
    logits = normals(5)(3, 9)

    def by_topk(torch, logits, k):
        values, index = torch.topk(logits, k)
        return torch.full_like(logits, -math.inf).scatter(-1, index, values)

    expected = pytorch(by_topk, logits, 4)
    agrees(sampler.keep_top_k, top_k64, logits, 4, seed=5, expected=expected)


@property_test
@given(rows=st.integers(1, 4), size=st.integers(1, 30), k=st.integers(1, 30), seed=st.integers(0, 99))
def test_task_1_top_k_keeps_k_tokens(rows, size, k, seed):
    logits = normals(seed)(rows, size)
    left = mx.sum((sampler.keep_top_k(logits, k) > -math.inf).astype(mx.int32), axis=-1)
    case = f"number of tokens kept of float32, logits {rows} x {size}, k {k}, seed {seed}"
    compare(left, np.full(rows, min(k, size)), mx.int32, 0.0, case, logits.size)
