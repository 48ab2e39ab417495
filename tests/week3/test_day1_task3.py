"""Week 3, day 1, task 3: sampling by rows.

Each row must get the token that the samplers of week 1 choose for it alone.
"""

import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm.serving import request, sampling
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import same_ids

# all params in use: greedy, sampled, one filter each, and all together
PARAMS = [
    {},
    {"temp": 0.7, "seed": 1},
    {"temp": 3.0, "top_k": 2, "seed": 2},
    {"temp": 4.0, "top_p": 0.5, "seed": 3},
    {"temp": 2.0, "min_p": 0.4, "seed": 4},
    {"repetition_penalty": 9.0},
    {"temp": 1.5, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.4, "seed": 5},
]


def rows_of_params(params, seed, size, begun=4, written=3):
    """Return a chunk for each request, with logits unless its params are None."""
    draw, chunks = np.random.default_rng(seed), []
    for each in params:
        tokens = draw.integers(0, size, begun + written).tolist()
        settings = request.SamplingParams(**each or {})
        one = request.Request(
            tokens[:begun], 99, settings, output=tokens[begun:], num_computed_tokens=begun + written - 1
        )
        chunks.append(request.Chunk(one, one.num_computed_tokens, tokens[-1:], int(each is not None)))
    return chunks


def chosen(logits, chunks, case):
    """Return the token of each chunk, or None."""
    with noted(case):
        found = sampling.sample_rows(logits, chunks)
    if type(found) is not list or any(type(each) is not list for each in found):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a list of lists", case)
    lengths = [len(each) for each in found]
    if lengths != (expected := [chunk.num_logits for chunk in chunks]):
        fail(Kind.SHAPE, "wrong numbers of tokens per chunk", case, f"expected  {expected}", f"got       {lengths}")
    if wrong := next((token for each in found for token in each if type(token) is not int), None):
        fail(Kind.TYPE, f"a token is {type_words(wrong)}, expected an int", case)
    return [each[0] if each else None for each in found]


def by_row(logits, chunks):
    """Sample each row alone, in float64, with the given noise."""
    found, row = [], 0
    for chunk in chunks:
        if not chunk.num_logits:
            found.append(None)
            continue
        one, own, row = chunk.request, to_float64(logits[row].astype(mx.float32)), row + 1
        p, used = one.params, sorted({*one.prompt, *one.output})
        own[used] = np.where(own[used] > 0, own[used] / p.repetition_penalty, own[used] * p.repetition_penalty)
        if p.temp:
            own = own / p.temp
            if p.top_k:
                own[own < np.sort(own)[-min(p.top_k, len(own))]] = -np.inf
            order = np.argsort(-own, kind="stable")
            likely = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
            if p.top_p < 1:
                before = np.concatenate([[0.0], np.cumsum(likely[order])[:-1]])
                own[order[1:][before[1:] >= p.top_p]] = -np.inf
            likely = np.exp(own - own.max())
            own[likely < p.min_p] = -np.inf
            own = own + to_float64(sampling.gumbel_noise([(p.seed, len(one.output))], len(own)))[0]
        found.append(int(own.argmax()))
    return found


def chooses(params, seed, size=40, dtype=mx.float32, written=3):
    chunks = rows_of_params(params, seed, size, written=written)
    logits = normals(seed, dtype)(sum(chunk.num_logits for chunk in chunks), size, spread=2.0)
    case = f"{len(logits)} rows of {size} logits, params {list(params)}, seed {seed}"
    actual, expected = chosen(logits, chunks, case if len(case) < 160 else f"{case[:156]} ..."), by_row(logits, chunks)
    if actual != expected:
        fail(Kind.VALUES, "wrong tokens", case[:160], f"expected  {expected}", f"got       {actual}")


@by_dtype
@pytest.mark.parametrize("number", range(len(PARAMS)))
def test_task_3_rows_alone(number, dtype):
    for seed in range(4):
        chooses([PARAMS[number]], seed, dtype=dtype)


@by_dtype
def test_task_3_rows_together(dtype):
    """All settings in one batch, in any order, with chunks without logits between them."""
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(PARAMS)).tolist()
        mixed = [PARAMS[i] for i in order]
        chooses(mixed, seed, dtype=dtype)
        chooses([None, *mixed[:3], None, None, *mixed[3:], None], seed, dtype=dtype)


def test_task_3_rows_no_logits():
    case = "two chunks in the middle of their prompts, logits 0 x 5"
    if (actual := chosen(mx.zeros((0, 5)), rows_of_params([None, None], 1, 5), case)) != [None, None]:
        fail(Kind.VALUES, "wrong tokens", case, f"got       {actual}")


def test_task_3_rows_sweep():
    for n in sizes(R=9, V=1100):
        params = [PARAMS[(n.seed + 3 * i) % len(PARAMS)] if (n.seed + i) % 5 else None for i in range(n.R)]
        chooses(params, n.seed, n.V, written=n.seed % 4)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=["float16", "bfloat16"])
def test_task_3_rows_penalty_in_float32(dtype):
    """A penalized logit, rounded to the dtype, equals the other one, which is before it or after it."""
    for number in range(12):
        used = mx.array([10 + number], dtype)
        other = (used.astype(mx.float32) / 1.1).astype(dtype)
        for token, row in ((0, [used, other]), (1, [other, used])):
            logits = mx.concatenate(row)[None]
            one = request.Request([token], 9, request.SamplingParams(repetition_penalty=1.1))
            chunks = [request.Chunk(one, 0, [token], 1)]
            case = f"{str(dtype).rpartition('.')[2]}, logits {logits.tolist()}, token {token} used, penalty 1.1"
            same_ids(chosen(logits, chunks, case), by_row(logits, chunks), case)


def test_task_3_rows_are_independent():
    """A request gets the same token alone and with others, in any row."""
    case = "a request with temp 2 and a seed, alone and as the third of five rows"
    chunks = rows_of_params([{"temp": 2.0, "seed": number} for number in range(5)], 3, 50)
    logits = normals(3)(5, 50)
    together = chosen(logits, chunks, case)
    alone = [chosen(logits[i : i + 1], chunks[i : i + 1], case)[0] for i in range(5)]
    backwards = chosen(logits[::-1], chunks[::-1], case)[::-1]
    same_ids(together, alone, case)
    same_ids(together, backwards, case)


@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_task_3_rows_after_preemption(temp):
    """A preempted request that recomputes all its tokens samples the same next token."""
    case = f"temp {temp}, seed 5: 3 tokens are computed, or all 7 are recomputed"
    logits = normals(4)(1, 500)
    params = request.SamplingParams(temp=temp, seed=5)
    one = request.Request([1, 2, 3, 4], 9, params, output=[5, 6, 7], num_computed_tokens=6)
    first = chosen(logits, [request.next_chunk(one, 1)], case)
    one.num_computed_tokens = 0
    same_ids(chosen(logits, [request.next_chunk(one, 7)], case), first, case)


def test_task_3_rows_sample_anew_for_each_token():
    """Sixty samples from equal logits: they differ, and so do those of another seed."""
    case = "sixty sample indices of one request, logits 1 x 1,000, all equal, temp 1"
    drawn = {}
    for seed in (0, 1):
        one = request.Request([3], 99, request.SamplingParams(temp=1.0, seed=seed), num_computed_tokens=0)
        drawn[seed] = []
        for token in range(60):
            drawn[seed] += chosen(mx.zeros((1, 1000)), [request.next_chunk(one, one.num_uncomputed_tokens)], case)
            one.output.append(token)
    if len(set(drawn[0])) < 40:
        fail(
            Kind.VALUES,
            "many sample indices of a request give the same token",
            case,
            f"{len(set(drawn[0]))} distinct tokens of 60",
        )
    if drawn[0] == drawn[1]:
        fail(Kind.VALUES, "seed 0 and seed 1 sample the same tokens", case)


def test_task_3_rows_probabilities():
    """Two rows of logits, 1,000 seeds: each token's frequency must match its probability."""
    logits = mx.log(mx.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))
    counts = [Counter(), Counter()]
    case = "1,000 seeds, two rows of 3 logits, temp 1"
    for first in range(0, 1000, 250):
        params = [{"temp": 1.0, "seed": seed} for seed in range(first, first + 250) for _ in (0, 1)]
        tokens = chosen(mx.concatenate([logits] * 250), rows_of_params(params, 1, 3), case)
        for row in (0, 1):
            counts[row].update(tokens[row::2])
    for row, shares in enumerate(([0.5, 0.3, 0.2], [0.1, 0.1, 0.8])):
        found = [counts[row][token] / 1000 for token in range(3)]
        if max(abs(a - b) for a, b in zip(found, shares, strict=True)) > 5 * math.sqrt(0.25 / 1000):
            fail(
                Kind.VALUES,
                f"row {row}: the tokens' frequencies over 1,000 seeds do not match their probabilities",
                case,
                f"expected  tokens 0, 1, 2 with frequencies {shares}",
                f"got       frequencies {found}",
            )


def test_task_3_rows_without_a_seed():
    """Rows without a seed use MLX's global state, which greedy rows leave unchanged."""
    case = "three rows without a seed, temp 5, logits 3 x 1,000"
    chunks, logits = rows_of_params([{"temp": 5.0}] * 3, 6, 1000), mx.zeros((3, 1000))
    found = []
    for _ in range(2):
        mx.random.seed(12)
        found.append(chosen(logits, chunks, case))
    same_ids(found[1], found[0], case)
    if len({*found[0], *chosen(logits, chunks, case)}) < 4:
        fail(Kind.VALUES, "rows without a seed sample the same tokens", case, f"got       {found[0]}")
    mx.random.seed(12)
    unused = to_float64(mx.random.uniform(shape=(4,)))
    for params, rows in (({}, "greedy rows"), ({"temp": 1.0, "seed": 3}, "rows with temp 1 and seed 3")):
        mx.random.seed(12)
        chosen(logits, rows_of_params([params] * 3, 6, 1000), case=f"three {rows}, logits 3 x 1,000")
        state = mx.random.uniform(shape=(4,))
        compare(state, unused, mx.float32, 0.0, f"MLX's random state after three {rows}", 4)


@pytest.mark.parametrize("params", [{}, {"seed": 3}, {"top_k": 2, "repetition_penalty": 1.2, "seed": 4}], ids=str)
def test_task_3_rows_no_noise_if_all_are_greedy(monkeypatch, params):
    case, drawn, noise = f"three greedy rows, params {params}, logits 3 x 1,000", [], sampling.gumbel_noise

    def recorded(seeds, size):
        drawn.append(f"{len(seeds)} rows of {size}")
        return noise(seeds, size)

    monkeypatch.setattr(sampling, "gumbel_noise", recorded)
    chosen(normals(8)(3, 1000), rows_of_params([params] * 3, 8, 1000), case)
    if drawn:
        fail(Kind.VALUES, "gumbel_noise is called, although every row is greedy", case, f"got       {drawn[0]}")


def test_task_3_rows_leaves_the_logits():
    chunks, logits = rows_of_params(PARAMS, 7, 30), normals(7)(len(PARAMS), 30)
    before, case = to_float64(logits), f"float32, logits {len(PARAMS)} x 30, seed 7"
    chosen(logits, chunks, case)
    compare(logits, before, mx.float32, 0.0, f"the caller's logits after the call; {case}", logits.size)
