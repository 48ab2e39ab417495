"""Task 6.2.4, sampling without all logits, against all logits in one array, and whole texts against one process."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import embedded_model, random_model
from tests.week6.sharded import (
    DIVISIBLE,
    SHARED,
    on_ranks,
    parts,
    same_on_all,
    vocabulary_of,
    words,
)
from tests.week6.two_processes import texts_of_ranks

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached.generate import generate_cached
from tiny_llm.qwen3_cached.model import Qwen3CachedModel
from tiny_llm.tensor_parallel import sampling
from tiny_llm.tensor_parallel.model import TensorParallelModel
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.inputs import drawn, token_ids
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

by_size = pytest.mark.parametrize("size", [1, 2, 3, 4])


def reference(logits, calls, temp=1.0, top_k=0, seed=0):
    """Return the tokens that each call chooses, from all logits."""
    key, chosen = mx.random.key(seed), []
    wide = np.array((logits / temp if temp else logits).astype(mx.float32))
    if temp and 0 < top_k < wide.shape[1]:
        threshold = np.sort(wide, axis=1)[:, -top_k][:, None]
        wide = np.where(wide >= threshold, wide, -np.inf)
    for _ in range(calls):
        key, now = mx.random.split(key)
        noise = np.array(mx.random.gumbel(logits.shape, key=now)) if temp else 0
        chosen.append(np.argmax(wide + noise, axis=1).tolist())
    return chosen


def check(logits, size, calls=1, ranges=None, **options):
    """Compare the tokens of every rank with those of one array, and count the exchanges and their numbers."""
    count, vocab_size = logits.shape
    ranges = ranges or [range(vocab_size * rank // size, vocab_size * (rank + 1) // size) for rank in range(size)]
    said = "" if logits.dtype == mx.float32 else f" in {str(logits.dtype).rpartition('.')[2]}"
    said += "".join(f", {name} {value:g}" for name, value in options.items())
    case = f"logits {count} x {vocab_size} over {[len(own) for own in ranges]} tokens{said}"
    case += f", {calls} calls" * (calls > 1)
    case += f", logits {logits.tolist()}" if logits.size <= 8 else ""

    def program(group):
        own = ranges[group.rank]
        sampler = sampling.make_parallel_sampler(group, own, vocab_size, **options)
        part = logits[:, own.start : own.stop]
        found = [sampler(part, [[1]] * count) for _ in range(calls)]
        for tokens in found:
            if not isinstance(tokens, mx.array) or tokens.shape != (count,):
                got = getattr(tokens, "shape", type(tokens).__name__)
                fail(Kind.SHAPE, f"the sampler returned {got}, expected {count} token ids", case)
            if not mx.issubdtype(tokens.dtype, mx.integer):
                fail(Kind.DTYPE, f"token ids are {tokens.dtype}, expected integers", case)
        return [tokens.tolist() for tokens in found]

    results, groups = on_ranks(program, size, case)
    temp, top_k = options.get("temp", 1.0), options.get("top_k", 0)
    expected = reference(logits, calls, temp, top_k, options.get("seed", 0))
    fail_if_different("the tokens are wrong", expected, same_on_all(results, case), case)
    most = calls * count * (2 + (top_k if temp and top_k < vocab_size else 0))
    for group in groups:
        numbers = sum(int(np.prod(call.shape)) for call in group.calls)
        if numbers > most:
            lines = (f"at most   {most}", f"got       {numbers}")
            fail(Kind.VALUES, f"rank {group.rank} gives more numbers to the others than needed", case, *lines)
        gathers = sum(call.name == "all_gather" for call in group.calls)
        needed = calls * (2 if temp and 0 < top_k < vocab_size else 1)
        if gathers > needed:
            lines = (f"at most   {needed}", f"got       {gathers}")
            fail(Kind.VALUES, f"rank {group.rank} calls all_gather more often than needed", case, *lines)


@by_size
def test_task_4_sampling_greedy(size):
    check(drawn(1, (5, 13))[0], size, temp=0)


@pytest.mark.parametrize("best", [0, 5, 6, 12])
def test_task_4_sampling_greedy_any_rank(best):
    logits = mx.where(mx.arange(13) == best, 3.0, drawn(2, (1, 13))[0] - 5)
    check(logits, 2, temp=0)


@pytest.mark.parametrize(
    "row",
    [[2, 7, 1, 7, 0, 7], [7, 7, 7, 7, 7, 7], [1, 2, 7, 7, 2, 1], [0, 1, 2, 7, 7, 3], [-1, -1, -2, -2, -1, -3]],
    ids=str,
)
@by_size
def test_task_4_sampling_ties(row, size):
    """The lowest id of equal logits, as in one process."""
    check(mx.array([row], mx.float32), size, temp=0)


@by_size
@pytest.mark.parametrize("temp", [1.0, 0.3, 2.5])
def test_task_4_sampling_temperature(temp, size):
    check(drawn(3, (4, 13))[0] * 2, size, calls=6, temp=temp, seed=5)


def test_task_4_sampling_defaults():
    check(drawn(4, (3, 11))[0], 2, calls=4)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_task_4_sampling_seeds(seed):
    check(mx.zeros((2, 9)), 2, calls=5, seed=seed)


@by_size
@pytest.mark.parametrize("top_k", [1, 2, 3, 5, 12, 13, 40])
def test_task_4_sampling_top_k(top_k, size):
    """Also with more than a rank has, and with more than there are."""
    check(drawn(5, (3, 13))[0] * 0.2, size, calls=8, top_k=top_k, seed=7)


def test_task_4_sampling_top_k_greedy():
    """With temp = 0, top-k changes nothing, so nothing is exchanged for it."""
    check(drawn(6, (3, 13))[0], 2, temp=0, top_k=3)


@pytest.mark.parametrize("top_k", [1, 2, 3, 4])
def test_task_4_sampling_top_k_ties(top_k):
    """All that equal the k-th stay."""
    check(mx.array([[1.0, 3, 2, 2, 2, 0, 3, 1]]), 2, calls=30, top_k=top_k, seed=3)


def test_task_4_sampling_forbidden_tokens():
    """A rank may have only -inf."""
    logits = mx.where(mx.arange(12) < 8, -mx.inf, drawn(7, (2, 12))[0])
    check(logits, 3, calls=5, temp=0)
    check(logits, 3, calls=5, top_k=2)
    check(logits[:, ::-1], 3, calls=5)


@pytest.mark.parametrize("lengths", [(1, 7), (5, 1, 2), (2, 3, 4, 1)], ids=str)
def test_task_4_sampling_uneven_parts(lengths):
    ends = np.cumsum([0, *lengths]).tolist()
    ranges = [range(a, b) for a, b in itertools.pairwise(ends)]
    for options in ({"temp": 0}, {"temp": 0.8}, {"top_k": 3}):
        check(drawn(8, (3, ends[-1]))[0], len(lengths), 3, ranges, **options)


def test_task_4_sampling_large_ids():
    """Ids of a vocabulary of 151,936 are exact."""
    logits = mx.where(mx.arange(151936) == 151933, 9.0, drawn(9, (1, 151936))[0])
    check(logits, 2, temp=0)
    check(logits * 3, 4, temp=1.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_task_4_sampling_half_precision(dtype):
    """Ids are exact even if the logits' dtype has no such numbers."""
    logits = mx.where(mx.arange(5000) == mx.array([[4099], [2051], [301]]), 9.0, drawn(10, (3, 5000))[0])
    check(logits.astype(getattr(mx, dtype)), 2, temp=0)


@property_test
@given(size=st.integers(1, 4), rows=st.integers(1, 3), top_k=st.integers(0, 6), seed=st.integers(0, 99))
def test_task_4_sampling_any(size, rows, top_k, seed):
    """Few distinct logits, so that many are equal."""
    logits = mx.array(np.random.default_rng(seed).integers(0, 4, (rows, 4 + size)).astype(np.float32))
    check(logits, size, 2, temp=0 if seed % 2 else 0.9, top_k=top_k, seed=seed)


def test_task_4_sampling_sweep():
    for n in sizes(N=9, V=4200):
        size, vocab_size = n.turn(2, 1, 3, 4), n.V + 4
        logits = drawn(n.seed, (n.N, vocab_size))[0] * n.turn(1.0, 0.1, 4.0)
        check(logits, size, 2, temp=n.turn(0, 0.7, 1.3), top_k=n.turn(0, 1, 4, 20), seed=n.seed)


def generated(model, size, prompt, count, **options):
    """Check the tokens that a model generates on simulated ranks, and return those of one process by the same rule."""
    case = f"{count} tokens after {prompt}, {options}, {words(model.config, size)}"
    config = ModelConfig.from_dict(model.config)

    def program(group):
        weights = parts(model.weights, model.config, group.rank, size)
        own = vocabulary_of(model.config, group.rank, size)
        sampler = sampling.make_parallel_sampler(group, own, config.vocab_size, **options)
        return list(generate_cached(TensorParallelModel(config, weights, group), prompt, count, sampler=sampler))

    results, groups = on_ranks(program, size, case)
    sums = (2 * config.num_hidden_layers + 1) * count
    for group in groups:
        if (found := sum(call.name == "all_sum" for call in group.calls)) != sums:
            fail(Kind.VALUES, f"rank {group.rank} calls all_sum {found} times, expected {sums} times", case)
    one = generate_cached(Qwen3CachedModel(config, model.weights), prompt, count, sampler=in_one_process(**options))
    expected = list(one)
    fail_if_different("the tokens are wrong", expected, same_on_all(results, case), case)
    return expected


def in_one_process(temp=1.0, top_k=0, seed=0):
    """Return a sampler over all logits."""
    count = 0

    def sampler(logits, tokens):
        nonlocal count
        count += 1
        return mx.array(reference(logits, count, temp, top_k, seed)[-1])

    return sampler


@pytest.mark.parametrize(("config", "size"), DIVISIBLE, ids=lambda v: v if isinstance(v, int) else "")
def test_task_4_sampling_greedy_text(config, size):
    """2 all_sums per layer and 1 for the embedding, per token."""
    generated(random_model(config, 10), size, token_ids(10, config["vocab_size"], 4), 8, temp=0)


@pytest.mark.parametrize("options", [{"temp": 0.8, "seed": 3}, {"temp": 1.2, "top_k": 5, "seed": 4}], ids=str)
def test_task_4_sampling_sampled_text(options):
    generated(random_model(SHARED, 11), 4, token_ids(11, SHARED["vocab_size"], 3), 8, **options)


@pytest.mark.parametrize("size", [2, 6])
def test_task_4_sampling_text_of_the_embedded_model(size):
    generated(embedded_model(), size, [430, 561, 266, 383], 6, temp=0)


@needs("port")
def test_task_4_sampling_two_processes():
    """On the ring of `mx.distributed`, with each process's own part of the weights."""
    model = random_model(SHARED, 12)
    prompt = token_ids(12, SHARED["vocab_size"], 3)
    expected = generated(model, 2, prompt, 6, temp=0)
    case = f"6 tokens after {prompt}, two processes, {words(SHARED, 2)}"
    for rank, tokens in enumerate(texts_of_ranks(model, prompt, 6, case)):
        fail_if_different(f"the tokens of rank {rank} are wrong", expected, tokens, case)
