"""Week 1, day 7, task 1: repetition penalty."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.filters import penalty64, used

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES, forbidding, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

TOKENS = [[2, 0, 2, 2], [5], []]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("penalty", [1.3, 2.0, 0.5])
def test_task_1_penalty_formula(penalty, dtype):
    """Each row has its own tokens: one row uses a token three times, one uses none."""
    agrees(sampler.penalize_repetition, penalty64, normals(1, dtype)(3, 6), TOKENS, penalty, seed=1)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_task_1_penalty_every_token_used(rows):
    """Positive and negative logits in one row, all of them used."""
    logits = normals(2)(rows, 7, spread=3.0)
    agrees(sampler.penalize_repetition, penalty64, logits, [[*range(7)]] * rows, 1.5, seed=2)
    agrees(sampler.penalize_repetition, penalty64, logits, [[*range(7), *[0] * 200]] * rows, 1.5, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_penalty_of_one_changes_nothing(dtype):
    agrees(sampler.penalize_repetition, penalty64, normals(3, dtype)(3, 6), TOKENS, 1.0, seed=3)


def test_task_1_penalty_without_tokens_changes_nothing():
    agrees(sampler.penalize_repetition, penalty64, normals(4)(2, 5), [[], []], 1.7, seed=4)


def test_task_1_penalty_of_forbidden_and_zero_logits():
    """-inf stays -inf and 0 stays 0, used or not."""
    logits = mx.array([[-math.inf, 1.0, 0.0, -math.inf], [2.0, -math.inf, -1.0, 0.0]])
    agrees(sampler.penalize_repetition, penalty64, logits, [[0, 1, 2], [1, 2, 3]], 1.5, seed=0)


def test_task_1_penalty_large_vocabulary():
    """More tokens than 16 bits can count, as in real models."""
    tokens = [[69999, 32768], [40000, 65536, 0]]
    agrees(sampler.penalize_repetition, penalty64, normals(6)(2, 70000), tokens, 1.5, seed=6)


def test_task_1_penalty_pytorch(pytorch):
    logits = normals(5)(3, 6)

    def by_gather(torch, logits, tokens, penalty):
        result = logits.clone()
        for row, seen in enumerate(tokens):
            index = torch.tensor(seen, dtype=torch.long)
            score = torch.gather(logits[row], 0, index)
            result[row] = result[row].scatter(0, index, torch.where(score < 0, score * penalty, score / penalty))
        return result

    expected = pytorch(by_gather, logits, TOKENS, 1.2)
    agrees(sampler.penalize_repetition, penalty64, logits, TOKENS, 1.2, seed=5, expected=expected)


def test_task_1_penalty_sweep():
    for n in sweep(N=1100, V=4200, T=1100):
        size = n.turn(n.V, max(n.V, n.T)) if n.T <= 20 else 2 * n.T
        draw, penalty = normals(n.seed, n.dtype), n.turn(1.3, 0.5, 1.0, 3.0, 0.9)
        logits = forbidding(n.seed, draw(n.N, size, spread=n.spread)) + n.shift
        agrees(sampler.penalize_repetition, penalty64, logits, used(n, size, n.T), penalty, seed=n)


@property_test
@given(rows=st.integers(1, 4), size=st.integers(2, 9), seed=st.integers(0, 99))
def test_task_1_penalty_counts_a_token_once(rows, size, seed):
    """How often a token was used, and in which order, makes no difference."""
    generator = np.random.default_rng(seed)
    once = [sorted({int(t) for t in generator.integers(0, size, 3)}) for _ in range(rows)]
    often = [[*reversed(seen), *seen, seen[0]] for seen in once]
    logits = normals(seed)(rows, size)
    expected = to_float64(sampler.penalize_repetition(normals(seed)(rows, size), once, 1.4))
    case = f"float32, logits {rows} x {size}, tokens {often} against {once}, penalty 1.4, seed {seed}"
    compare(sampler.penalize_repetition(logits, often, 1.4), expected, mx.float32, 1e-5, case, logits.size)


@property_test
@given(size=st.integers(2, 9), penalty=st.floats(1.05, 3.0), seed=st.integers(0, 99))
def test_task_1_penalty_makes_used_tokens_less_likely(size, penalty, seed):
    """A penalty above 1 raises no logit, whatever its sign."""
    logits = normals(seed)(1, size)
    penalized = sampler.penalize_repetition(logits, [[*range(size)]], penalty)
    case = f"float32, logits 1 x {size}, all tokens used, penalty {penalty:.4g}, seed {seed}"
    compare(mx.maximum(penalized - logits, 0), np.zeros((1, size)), mx.float32, 0.0, f"rise of {case}", size)
