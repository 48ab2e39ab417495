"""Week 1, day 7: repetition penalty, top-k, top-p, min-p, and the sampler that puts them together.

The filters are held to their formulas in float64, to MLX's operators where there are any, and to PyTorch's. The
sampler is held to the probabilities that it must draw with: seeds are fixed, and the bounds are such that a right
program fails once in a million, in whatever way it uses its random numbers.
"""

import math
from statistics import NormalDist

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import softmax64

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, SHIFTS, distinct, forbidding, normals, token_ids
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

# Probabilities of six tokens. No sum of the first few lies near one of P, and no ratio near one of MIN_P: which tokens
# stay does not depend on rounding.
SHARP = [0.60, 0.18, 0.13, 0.05, 0.03, 0.01]
MIDDLE = [0.36, 0.26, 0.18, 0.11, 0.06, 0.03]
FLAT = [0.21, 0.20, 0.18, 0.16, 0.14, 0.11]
P = [0.3, 0.5, 0.7, 0.85]
MIN_P = [0.1, 0.25, 0.6]


def vocabularies(seed, dtype=mx.float32, rows=(SHARP, MIDDLE, FLAT)):
    """Logits with these probabilities: each row in an order of its own, and shifted by a number of its own."""
    generator = np.random.default_rng(seed)
    logits = [generator.permutation(np.log(row)) + shift for row, shift in zip(rows, (2, -1, 1), strict=False)]
    return mx.array(np.array(logits, np.float32)).astype(dtype)


# The formulas, row by row and token by token


def penalty64(logits, tokens, penalty, *, r=exact):
    y = logits.copy()
    for row, seen in enumerate(tokens):
        for token in set(seen):
            value = logits[row, token]
            y[row, token] = value / penalty if value > 0 else value * penalty
    return r(y)


def top_k64(logits, k, *, r=exact):
    kth = np.array([sorted(row)[-min(k, len(row))] for row in logits])
    return r(np.where(logits >= kth[:, None], logits, -np.inf))


def top_p64(logits, p, *, r=exact):
    y = np.full(logits.shape, -np.inf)
    for row, probabilities in enumerate(softmax64(logits, -1)):
        total = 0.0
        for token in np.argsort(-probabilities, kind="stable"):
            y[row, token] = logits[row, token]
            total += probabilities[token]
            if total >= p and p < 1:
                break
    return r(y)


def min_p64(logits, min_p, *, r=exact):
    likelier = np.exp(logits - logits.max(axis=-1, keepdims=True)) >= min_p
    return r(np.where(likelier, logits, -np.inf))


def sampling64(logits, tokens, temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """The probabilities that a sampler draws with, N x V."""
    y = penalty64(logits, tokens, repetition_penalty) / temp
    y = top_k64(y, top_k) if top_k else y
    return softmax64(min_p64(top_p64(y, top_p), min_p), -1)


def possible64(logits, tokens, temp=1.0, seed=None, slack=1e-4, **settings):
    """Which tokens a sampler may choose, N x V; those at the border, which rounding may let in, too."""
    if temp == 0:
        y = penalty64(logits, tokens, settings.get("repetition_penalty", 1.0))
        return y >= y.max(axis=-1, keepdims=True)
    if settings.get("top_p"):
        settings["top_p"] += slack
    if settings.get("min_p"):
        settings["min_p"] -= slack
    return sampling64(logits, tokens, temp, **settings) > 0


# Task 1, repetition penalty


TOKENS = [[2, 0, 2, 2], [5], []]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("penalty", [1.3, 2.0, 0.5])
def test_task_1_penalty_formula(penalty, dtype):
    """Each row has its own tokens: one row uses a token three times, one uses none."""
    agrees(sampler.penalize_repetition, penalty64, normals(1, dtype)(3, 6), TOKENS, penalty, seed=1)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_task_1_penalty_every_token_used(rows):
    """Positive and negative logits in one row, all of them used, if only long ago."""
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
    """More tokens than 16 bits can count, as real models have them."""
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


def used(n, size, most=3):
    """For each row of a sweep's case up to `most` tokens, the vocabulary's last among them, and some of them often."""
    return [token_ids(n.seed + row, size, (most + row) % (most + 1)) for row in range(n.N)]


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


# Task 1, top-k


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_task_1_top_k_formula(k, dtype):
    agrees(sampler.keep_top_k, top_k64, vocabularies(1, dtype), k, seed=1)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_task_1_top_k_many_tokens(rows):
    agrees(sampler.keep_top_k, top_k64, normals(2)(rows, 300, spread=3.0), 40, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [6, 7, 9])
def test_task_1_top_k_of_all_leaves_all(k, dtype):
    agrees(sampler.keep_top_k, top_k64, vocabularies(3, dtype), k, seed=3)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_task_1_top_k_ties(k):
    """Logits equal to the k-th all stay; the rows tie in different places."""
    logits = mx.array([[1.0, 2.0, 2.0, 0.5, 2.0], [3.0, -1.0, -1.0, 4.0, -1.0], [7.0, 7.0, 7.0, 7.0, 7.0]])
    agrees(sampler.keep_top_k, top_k64, logits, k, seed=0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_task_1_top_k_forbidden_tokens(k):
    """-inf stays -inf, also where fewer than k tokens are left to choose from."""
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
def test_task_1_top_k_leaves_k_tokens(rows, size, k, seed):
    logits = normals(seed)(rows, size)
    left = mx.sum((sampler.keep_top_k(logits, k) > -math.inf).astype(mx.int32), axis=-1)
    case = f"number of tokens left of float32, logits {rows} x {size}, k {k}, seed {seed}"
    compare(left, np.full(rows, min(k, size)), mx.int32, 0.0, case, logits.size)


# Task 2, top-p


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", P)
def test_task_2_top_p_formula(p, dtype):
    agrees(sampler.keep_top_p, top_p64, vocabularies(1, dtype), p, seed=1)


@pytest.mark.parametrize("rows", [1, 2])
def test_task_2_top_p_rows(rows):
    agrees(sampler.keep_top_p, top_p64, vocabularies(2, rows=[MIDDLE, SHARP][:rows]), 0.7, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_of_zero_leaves_the_likeliest(dtype):
    agrees(sampler.keep_top_p, top_p64, vocabularies(3, dtype), 0.0, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_of_one_leaves_all(dtype):
    """In the first row the likeliest token has all the probability that float32 can tell from 1."""
    logits = mx.array([[30.0, 1.0, -2.0, -9.0], [0.5, 0.1, -0.3, -0.4]]).astype(dtype)
    agrees(sampler.keep_top_p, top_p64, logits, 1.0, seed=0)


def test_task_2_top_p_of_one_leaves_all_of_many():
    """A float32 sum of many probabilities may stay below 1, or pass it early."""
    agrees(sampler.keep_top_p, top_p64, normals(4)(3, 2000, spread=2.0), 1.0, seed=4)


def test_task_2_top_p_ties():
    """The smallest set, even if a token that is left out is as likely as one that stays; which of them is yours."""
    left = mx.sum((sampler.keep_top_p(mx.array([[1.0] * 4, [-2.0] * 4]), 0.5) > -math.inf).astype(mx.int32), axis=-1)
    case = "number of tokens left of float32, logits 2 x 4, all equal in a row, p 0.5"
    compare(left, np.array([2, 2]), mx.int32, 0.0, case, 8)


@pytest.mark.parametrize("p", [0.0, 0.5, 0.9, 1.0])
def test_task_2_top_p_forbidden_tokens(p):
    """-inf has probability 0 and stays -inf."""
    logits = mx.array([[-math.inf, 1.0, -math.inf, -0.5], [-3.0, -math.inf, -math.inf, -math.inf]])
    agrees(sampler.keep_top_p, top_p64, logits, p, seed=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shift", [-300, 300])
def test_task_2_top_p_large_logits(shift, dtype):
    """Only differences count: all logits of a row may be large or very negative."""
    steps = mx.array([[0.0, 2.0, 4.0, 8.0, -2.0], [4.0, 2.0, 6.0, 0.0, 8.0]])
    agrees(sampler.keep_top_p, top_p64, (steps + shift).astype(dtype), 0.95, seed=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_many_tokens(dtype):
    """Thousands of small probabilities: a sum in float16 or bfloat16 stands still long before it reaches p."""
    logits = normals(6, dtype)(2, 5000, spread=0.3)
    result = sampler.keep_top_p(logits, 0.8)
    case = f"{dtype}, logits 2 x 5000, p 0.8, seed 6".removeprefix("mlx.core.")
    numbers, stays = to_float64(logits), to_float64(result) > -np.inf
    kept = np.where(stays, softmax64(numbers, -1), 0.0).sum(axis=-1)
    compare(mx.array(kept), np.full(2, 0.8), mx.float32, 0.001, f"sum of the probabilities left of {case}", 10000)
    above = np.where(stays, -np.inf, numbers).max(axis=-1) - np.where(stays, numbers, np.inf).min(axis=-1)
    what = "by how much a logit that is dropped exceeds one that stays"
    compare(mx.array(np.maximum(above, 0)), np.zeros(2), mx.float32, 0.0, f"{what}, {case}", 10000)


def unlike(n):
    """Logits of a sweep's case, no two of a row alike; some are -inf, and in float32 they lie far from 0."""
    shift = n.shift if n.spread >= 1 else 0
    logits = distinct(n.seed, n.dtype, n.N, n.V, max(n.spread, 0.1), shift)
    return n.turn(logits, forbidding(n.seed, logits))


def in_order(logits):
    """The same, the likeliest token of each row at the end of the vocabulary, and at its beginning."""
    return mx.sort(logits, axis=-1), -mx.sort(-logits, axis=-1)


def off(borders, wanted, dtype):
    """A number near the wanted one that is far from all borders: a choice that does not depend on rounding.

    If logits are narrow, it is just off one, but not by what float32 can mistake: probabilities must be float32.
    """
    near = np.linspace(0.9 * wanted, 1.1 * wanted, 41)
    distance = np.abs(near[:, None] - np.asarray(borders).reshape(-1)).min(axis=1)
    least = distance.max() if dtype == mx.float32 else min(distance.max(), 0.0005 * wanted)
    return float(near[np.where(distance >= least, distance, np.inf).argmin()])


def test_task_2_top_p_sweep():
    for n in sweep(N=1100, V=4200):
        logits = unlike(n)
        sums = np.cumsum(-np.sort(-softmax64(to_float64(logits), -1), axis=-1), axis=-1)
        for p in (n.turn(0.5, 0.9, 0.7), 0.02):
            agrees(sampler.keep_top_p, top_p64, logits, off(sums, p, n.dtype), seed=n)
        for ordered in in_order(logits):
            agrees(sampler.keep_top_p, top_p64, ordered, off(sums, 0.6, n.dtype), seed=n)


def test_task_2_top_p_pytorch(pytorch):
    logits = vocabularies(7)

    def by_sort(torch, logits, p):
        values, order = torch.sort(logits, dim=-1, descending=True)
        probabilities = torch.softmax(values, dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        values = values.masked_fill(before >= p, -math.inf)
        return torch.empty_like(logits).scatter(-1, order, values)

    expected = pytorch(by_sort, logits, 0.85)
    agrees(sampler.keep_top_p, top_p64, logits, 0.85, seed=7, expected=expected)


@property_test
@given(rows=st.integers(1, 4), size=st.integers(1, 30), p=st.floats(0.001, 0.999), seed=st.integers(0, 99))
def test_task_2_top_p_reaches_p_with_no_token_to_spare(rows, size, p, seed):
    """What is left sums to p or more; without its rarest token it would not."""
    logits = normals(seed)(rows, size, spread=2.0)
    left = np.where(to_float64(sampler.keep_top_p(logits, p)) > -np.inf, softmax64(to_float64(logits), -1), 0.0)
    rarest = np.where(left > 0, left, np.inf).min(axis=-1)
    short = np.maximum(p - left.sum(axis=-1), 0) + np.maximum(left.sum(axis=-1) - rarest - p, 0)
    case = f"probability missing or to spare of float32, logits {rows} x {size}, p {p:.4g}, seed {seed}"
    compare(mx.array(short), np.zeros(rows), mx.float32, 1e-5, case, logits.size)


# Task 2, min-p


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("min_p", MIN_P)
def test_task_2_min_p_formula(min_p, dtype):
    agrees(sampler.keep_min_p, min_p64, vocabularies(1, dtype), min_p, seed=1)


@pytest.mark.parametrize("rows", [1, 2])
def test_task_2_min_p_rows(rows):
    agrees(sampler.keep_min_p, min_p64, vocabularies(2, rows=[FLAT, SHARP][:rows]), 0.25, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_min_p_of_zero_leaves_all(dtype):
    """Even tokens whose probability is 0 in float32."""
    logits = mx.array([[200.0, 1.0, -2.0, -90.0], [0.5, 0.1, -0.3, -0.4]]).astype(dtype)
    agrees(sampler.keep_min_p, min_p64, logits, 0.0, seed=0)


def test_task_2_min_p_of_one_leaves_the_likeliest():
    """And all that are as likely as it."""
    logits = mx.array([[1.0, 2.0, 2.0, 0.5], [-3.0, -4.0, -5.0, -6.0], [0.0, 0.0, 0.0, 0.0]])
    agrees(sampler.keep_min_p, min_p64, logits, 1.0, seed=0)


@pytest.mark.parametrize("min_p", [0.0, 0.1, 1.0])
def test_task_2_min_p_forbidden_tokens(min_p):
    logits = mx.array([[-math.inf, 1.0, -math.inf, -0.5], [-3.0, -math.inf, -math.inf, -math.inf]])
    agrees(sampler.keep_min_p, min_p64, logits, min_p, seed=0)


def test_task_2_min_p_sweep():
    for n in sweep(N=1100, V=4200):
        logits = unlike(n)
        numbers = to_float64(logits)
        shares = np.exp(numbers - numbers.max(axis=-1, keepdims=True))
        for ordered, min_p in zip(in_order(logits), (n.turn(0.1, 0.5, 0.9), 0.01), strict=True):
            agrees(sampler.keep_min_p, min_p64, ordered, off(shares, min_p, n.dtype), seed=n)


def test_task_2_min_p_mlx():
    """By MLX's own softmax."""
    logits = vocabularies(3)
    probabilities = mx.softmax(logits, axis=-1, precise=True)
    kept = mx.where(probabilities >= 0.25 * mx.max(probabilities, axis=-1, keepdims=True), logits, -math.inf)
    agrees(sampler.keep_min_p, min_p64, logits, 0.25, seed=3, expected=to_float64(kept))


def test_task_2_min_p_pytorch(pytorch):
    logits = vocabularies(4)

    def by_softmax(torch, logits, min_p):
        probabilities = torch.softmax(logits, dim=-1)
        return logits.masked_fill(probabilities < min_p * probabilities.amax(dim=-1, keepdim=True), -math.inf)

    expected = pytorch(by_softmax, logits, 0.1)
    agrees(sampler.keep_min_p, min_p64, logits, 0.1, seed=4, expected=expected)


@property_test
@given(shift=st.integers(-40, 40), min_p=st.sampled_from(MIN_P), seed=st.integers(0, 99))
def test_task_2_min_p_ignores_a_shift(shift, min_p, seed):
    """Adding one number to all logits of a row leaves the same tokens."""
    logits = vocabularies(seed)
    stays = mx.isfinite(sampler.keep_min_p(logits + shift, min_p)).astype(mx.int32)
    case = f"which tokens are left of float32, logits 3 x 6 plus {shift}, min_p {min_p}, seed {seed}"
    compare(stays, np.isfinite(min_p64(to_float64(logits), min_p)), mx.int32, 0.0, case, logits.size)


# Task 3, the sampler


def choose(sample, logits, tokens, case):
    """What a sampler chose, as whole numbers, one for each row."""
    with noted(case):
        chosen = sample(logits, tokens)
        if isinstance(chosen, mx.array):
            mx.eval(chosen)
    if isinstance(chosen, mx.array) and not mx.issubdtype(chosen.dtype, mx.integer):
        got = str(chosen.dtype).removeprefix("mlx.core.")
        raise CheckFailed(Finding(Kind.DTYPE, "token ids are whole numbers", (f"got       {got}",), case, logits.size))
    ids = chosen.astype(mx.int32) if isinstance(chosen, mx.array) else chosen
    rows = len(tokens)
    if not isinstance(ids, mx.array) or ids.shape != (rows,):
        compare(ids, np.zeros(rows), mx.int32, 0.0, case, logits.size)  # says what is wrong
    return ids


def chooses(sample, logits, tokens, expected, case):
    """Check that a sampler gives these ids."""
    compare(choose(sample, logits, tokens, case), np.array(expected), mx.int32, 0.0, case, logits.size, indirect=False)


def words(settings):
    """`temp 0.5, top_k 3`, for the description of a case."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "the default arguments"


def made(**settings):
    """The learner's sampler with these settings."""
    with noted(f"making a sampler, {words(settings)}"):
        return sampler.make_sampler(**settings)


GREEDY = [
    {},
    {"repetition_penalty": 2.0},
    {"top_k": 3, "top_p": 0.9, "min_p": 0.1},
    {"repetition_penalty": 1.5, "seed": 3},
]


@pytest.mark.parametrize("settings", GREEDY, ids=words)
def test_task_3_sampler_greedy(settings):
    """temp 0: the likeliest token of each row, after the penalty."""
    logits = normals(1)(4, 7) + mx.array([[3.0], [0.0], [1.0], [-9.0]])
    likeliest = mx.argsort(-logits, axis=-1).tolist()
    tokens = [likeliest[0][:2], likeliest[1][:1] * 3, [], likeliest[3][1:]]
    penalized = penalty64(to_float64(logits), tokens, settings.get("repetition_penalty", 1.0))
    case = f"float32, logits 4 x 7, tokens {tokens}, temp 0, {words(settings)}, seed 1"
    chooses(made(temp=0, **settings), logits, tokens, penalized.argmax(axis=-1), case)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_task_3_sampler_greedy_mlx(rows):
    logits = normals(2)(rows, 50)
    expected = mx.argmax(logits, axis=-1).tolist()
    case = f"float32, logits {rows} x 50, no tokens, temp 0, seed 2"
    chooses(made(temp=0.0), logits, [[]] * rows, expected, case)


SWEPT = [
    {"temp": 0},
    {"temp": 0, "repetition_penalty": 3.0},
    {"top_k": 1, "seed": 1},
    {"temp": 0.7, "top_p": 0.2, "seed": 0},
    {"temp": 1.5, "min_p": 0.6},
    {"temp": 0.3, "top_k": 5, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 0.5, "seed": 2},
]


def test_task_3_sampler_sweep():
    """Samplers that choose again and again, for batches and vocabularies of many sizes: never what is ruled out."""
    samplers = [made(**settings) for settings in SWEPT]
    mx.random.seed(0)
    for n in sweep(N=1100, V=4200):
        logits, tokens = normals(n.seed, n.dtype)(n.N, n.V, spread=max(n.spread, 0.1)), used(n, n.V)
        logits = n.turn(logits, forbidding(n.seed, logits))
        for sample, settings in zip(samplers, SWEPT, strict=True):
            told = f"{words(settings)}, a sampler that was called before, seed {n.seed}"
            case = f"{dtype_word(n.dtype)}, logits {n.N} x {n.V}, {told}"
            chosen = to_float64(choose(sample, logits, tokens, case)).astype(int)
            left = possible64(to_float64(logits), tokens, **settings)
            for row, token in enumerate(chosen):
                if not (0 <= token < n.V and left[row, token]):
                    headline = f"row {row} got token {token}, which is ruled out"
                    raise CheckFailed(Finding(Kind.VALUES, headline, (), case, logits.size))


def test_task_3_sampler_greedy_pytorch(pytorch):
    logits = normals(3)(5, 9)
    expected = pytorch(lambda torch, logits: torch.argmax(logits, dim=-1), logits)
    chooses(made(temp=0.0), logits, [[]] * 5, expected, "float32, logits 5 x 9, no tokens, temp 0, seed 3")


def test_task_3_sampler_greedy_draws_nothing():
    """Random numbers that are drawn afterwards are what they would have been."""
    sample = made(temp=0.0)
    mx.random.seed(4)
    expected = to_float64(mx.random.uniform(shape=(5,)))
    mx.random.seed(4)
    choose(sample, normals(4)(2, 5), [[], []], case := "five random numbers drawn after a call of a sampler, temp 0")
    compare(mx.random.uniform(shape=(5,)), expected, mx.float32, 0.0, case, 10)


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 1}, {"top_p": 0.0}, {"top_p": 0.01}, {"min_p": 1.0}, {"temp": 0.001}, {"top_k": 1, "temp": 5.0}],
    ids=words,
)
def test_task_3_sampler_sure_choices(settings):
    """Settings that leave one token: nothing depends on the draw."""
    logits, tokens = vocabularies(5), [[0], [1], [2]]
    case = f"float32, logits 3 x 6, {words(settings)}, seed 5"
    chooses(made(**settings), logits, tokens, to_float64(logits).argmax(axis=-1), case)


# How often which token is drawn

ROWS, CALLS = 100, 20


def bound(categories, significance=1e-6):
    """The chi-square that a right program exceeds once in a million (Wilson and Hilferty's approximation)."""
    degrees = categories - 1
    z = NormalDist().inv_cdf(1 - significance)
    return degrees * (1 - 2 / (9 * degrees) + z * math.sqrt(2 / (9 * degrees))) ** 3 if degrees else 0.0


def draws_with(settings, logits, tokens, probabilities, case):
    """Check that each row of logits is drawn from with its own probabilities, in 20 calls of 100 copies of each row."""
    sample = made(**settings)
    rows, size = logits.shape
    copies, their_tokens = mx.concatenate([logits] * ROWS), tokens * ROWS
    case = f"float32, logits {rows} x {size}, {words(settings)}, {case}"
    counts = np.zeros((rows, size), dtype=int)
    for _ in range(CALLS):
        ids = np.array(choose(sample, copies, their_tokens, case))
        if ids.min() < 0 or ids.max() >= size:
            raise CheckFailed(
                Finding(Kind.VALUES, f"a token id that does not exist: {ids.max()}", (), case, logits.size)
            )
        np.add.at(counts, (np.arange(len(ids)) % rows, ids), 1)
    total = ROWS * CALLS
    for row in range(rows):
        possible = probabilities[row] > 0
        table = [("expected", probabilities[row]), ("got", counts[row] / total)]
        lines = tuple(f"{name:<10}{' '.join(f'{share:.3f}' for share in shares)}" for name, shares in table)

        def fail(headline, row=row, lines=lines):
            raise CheckFailed(Finding(Kind.VALUES, headline, (f"row {row}, token by token", *lines), case, logits.size))

        if counts[row][~possible].any():
            fail("a token was drawn that the filters drop")
        wanted = total * probabilities[row][possible]
        if ((counts[row][possible] - wanted) ** 2 / wanted).sum() > bound(int(possible.sum())):
            fail(f"in {total} draws the tokens do not come as often as they should")


DRAWN = [
    {},
    {"temp": 0.7},
    {"temp": 2.0},
    {"temp": 0.05},
    {"top_p": 0.96},
    {"min_p": 0.09},
    {"top_k": 2},
    {"top_k": 50},
    {"top_p": 0.7},
    {"top_p": 1.0, "temp": 1.5},
    {"min_p": 0.25},
    {"repetition_penalty": 1.5},
    {"temp": 2.0, "top_p": 0.72},
    {"temp": 0.5, "min_p": 0.25},
    {"top_k": 3, "top_p": 0.7},
    {"top_p": 0.5, "min_p": 0.6},
    {"repetition_penalty": 2.0, "top_k": 3},
    {"repetition_penalty": 2.0, "top_p": 0.6},
    {"temp": 1.5, "top_k": 4, "top_p": 0.8, "min_p": 0.5, "repetition_penalty": 1.3},
]


@pytest.mark.parametrize("settings", DRAWN, ids=words)
def test_task_3_sampler_probabilities(settings):
    """Every filter alone, also just beside its off, any two whose order makes a difference, and all together."""
    tokens = [[1, 1, 4], [0]]
    logits = vocabularies(6, rows=[MIDDLE, FLAT])
    expected = sampling64(to_float64(logits), tokens, **settings)
    draws_with({**settings, "seed": 60}, logits, tokens, expected, f"tokens {tokens}, seed 6")


def test_task_3_sampler_probabilities_of_one_row():
    """As a text is generated: one row, and each call draws."""
    case = "forty calls on the same logits 1 x 6, seed 61"
    sample, logits = made(seed=61), vocabularies(6, rows=[FLAT])
    drawn = mx.stack([choose(sample, logits, [[]], case) for _ in range(40)])
    differ(drawn, mx.broadcast_to(drawn[:1], drawn.shape), "every call chose the same token", case)


def test_task_3_sampler_probabilities_without_a_seed():
    mx.random.seed(7)
    logits = vocabularies(7, rows=[MIDDLE, FLAT])
    draws_with({"top_k": 4}, logits, [[], []], sampling64(to_float64(logits), [[], []], top_k=4), "no seed")


@pytest.mark.parametrize("shift", SHIFTS[:2])
def test_task_3_sampler_probabilities_forbidden_tokens(shift):
    """A token whose logit is -inf is never drawn, wherever the others lie."""
    logits = mx.where(mx.arange(6) == 2, -math.inf, vocabularies(8, rows=[MIDDLE, FLAT]) + shift)
    draws_with(
        {"seed": 80},
        logits,
        [[2], []],
        sampling64(to_float64(logits), [[2], []]),
        f"logit 2 is -inf, the others around {shift}, seed 8",
    )


def test_task_3_sampler_probabilities_pytorch(pytorch):
    logits = vocabularies(9, rows=[MIDDLE, FLAT])

    def by_torch(torch, logits, temp, top_k, top_p):
        values, order = torch.topk(logits / temp, top_k)  # sorted
        probabilities = torch.softmax(values, dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        probabilities = torch.softmax(values.masked_fill(before >= top_p, -math.inf), dim=-1)
        return torch.zeros_like(logits).scatter(-1, order, probabilities)

    expected = pytorch(by_torch, logits, 1.3, 5, 0.72)
    draws_with({"temp": 1.3, "top_k": 5, "top_p": 0.72, "seed": 90}, logits, [[], []], expected, "seed 9")


# Seeds and state


WIDE = (3, 1000)  # rows x tokens: that ten calls agree by chance is out of the question


def several(sample, case, calls=10):
    """What some calls with the same logits choose, calls x rows."""
    logits = normals(10)(*WIDE, spread=0.1)
    return mx.stack([choose(sample, logits, [[]] * WIDE[0], case) for _ in range(calls)])


def same(actual, expected, case):
    compare(actual, to_float64(expected), mx.int32, 0.0, case, expected.size)


def differ(a, b, headline, case):
    if mx.array_equal(a, b):
        raise CheckFailed(Finding(Kind.VALUES, headline, (), case))  # of no size, so that it is told first


def test_task_3_sampler_seed_gives_the_same_tokens():
    case = "two samplers with seed 5, ten calls each on the same logits"
    first = several(made(seed=5), case)
    same(several(made(seed=5), case), first, case)


def test_task_3_sampler_seed_of_zero():
    """0 is a seed like any other."""
    case = "two samplers with seed 0, ten calls each on the same logits"
    first = several(made(seed=0), case)
    same(several(made(seed=0), case), first, case)


def test_task_3_sampler_seed_withstands_other_draws():
    """Somebody else draws random numbers, or sets MLX's seed, between the calls."""
    case = "seed 5, ten calls, with other random numbers drawn between them"
    first = several(made(seed=5), case)
    sample = made(seed=5)
    interrupted = []
    for call in range(10):
        interrupted.append(several(sample, case, 1))
        mx.random.seed(call)
        mx.eval(mx.random.uniform(shape=(call + 1,)))
    same(mx.concatenate(interrupted), first, case)


def test_task_3_sampler_seed_leaves_the_global_state():
    """A sampler with a seed of its own makes nobody else's random numbers repeat."""
    mx.random.seed(11)
    expected = to_float64(mx.random.uniform(shape=(5,)))
    case = "five random numbers drawn with mx.random after three calls of a sampler with seed 5"
    mx.random.seed(11)
    several(made(seed=5), case, 3)
    compare(mx.random.uniform(shape=(5,)), expected, mx.float32, 0.0, case, 3000)


def test_task_3_sampler_samplers_share_no_state():
    """Two samplers that take turns choose what each would choose alone."""
    case = "samplers with seeds 5 and 6 that take turns, ten calls each"
    alone = [several(made(seed=seed), case) for seed in (5, 6)]
    five, six = made(seed=5), made(seed=6)
    turns = [(several(five, case, 1), several(six, case, 1)) for _ in range(10)]
    for together, expected in zip(zip(*turns, strict=True), alone, strict=True):
        same(mx.concatenate(list(together)), expected, case)
    differ(*alone, "different seeds choose the same tokens", case)


@pytest.mark.parametrize("seed", [None, 5])
def test_task_3_sampler_calls_differ(seed):
    """Each call draws anew, and so does each row."""
    case = f"ten calls on the same logits, seed {seed}"
    ids = several(made(seed=seed), case)
    differ(ids, mx.broadcast_to(ids[:1], ids.shape), "every call chose the same tokens", case)


def test_task_3_sampler_uses_a_key_once():
    """A key is drawn with, or split, and never both: the numbers of two calls would be made of the same bits."""
    case = "two calls on the same logits, seed 5"
    ids, logits = several(made(seed=5), case, 2), normals(10)(*WIDE, spread=0.1)
    for half in (0, 1):
        key = mx.random.key(5)
        for _ in range(3):
            keys = key, mx.random.split(key)[half]
            drawn = mx.stack([mx.random.categorical(logits, key=one).astype(ids.dtype) for one in keys])
            differ(ids, drawn, "a key that one call draws with is split for the next call", case)
            key = keys[1]


def test_task_3_sampler_rows_differ():
    """Rows with the same logits are drawn for independently."""
    case = "one call, logits 100 x 1000, all rows equal, seed 5"
    ids = choose(made(seed=5), mx.zeros((100, 1000)), [[]] * 100, case)
    differ(ids, mx.broadcast_to(ids[:1], ids.shape), "every row got the same token", case)


def test_task_3_sampler_without_a_seed_follows_mlx():
    """seed None: mx.random.seed decides."""
    case = "no seed, mx.random.seed(12) before, ten calls"
    mx.random.seed(12)
    first = several(made(), case)
    mx.random.seed(12)
    same(several(made(), case), first, case)


@pytest.mark.parametrize("temp", [0.0, 0.7])
def test_task_3_sampler_leaves_its_inputs(temp):
    logits, tokens = vocabularies(13), [[1, 2], [3], []]
    before = to_float64(logits)
    with noted("making a sampler, make_sampler(temp, 4, 0.9, 0.05, 1.3, 5)"):
        sample = sampler.make_sampler(temp, 4, 0.9, 0.05, 1.3, 5)
    case = f"float32, logits 3 x 6 after a call, temp {temp}, all filters on, seed 13"
    choose(sample, logits, tokens, case)
    compare(logits, before, mx.float32, 0.0, case, logits.size)
    assert tokens == [[1, 2], [3], []], "the sampler changed the caller's lists of tokens"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temp", -0.1),
        ("top_k", -1),
        ("top_p", -0.01),
        ("top_p", 1.01),
        ("min_p", -0.01),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -2.0),
    ],
)
def test_task_3_sampler_refuses(name, value):
    with raises_value_error(f"make_sampler({name}={value})", name):
        sampler.make_sampler(**{name: value})
