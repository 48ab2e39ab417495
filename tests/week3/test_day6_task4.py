"""Week 3, day 6, task 4: drafts in the scheduler's loop.

Expected is what the target model would generate alone: token for token if it is greedy, else in the same distribution.
"""

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day6 import accept64, pick64, probabilities64
from tests.week3.speculating import (
    SETTINGS,
    Notes,
    Scripted,
    Told,
    greedy_text,
    mixed,
    random_logits,
    setting_words,
)

from tiny_llm.serving.policies import unchunked_prefill
from tiny_llm.serving.request import Request, SamplingParams, next_chunk
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.speculative import scheduling
from tiny_llm.speculative.drafter import Draft
from tiny_llm.speculative.probabilities import VERIFY, uniforms
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def guesses(logits, *, sampled=False, off=0, fewer=0):
    """A drafter's proposal: the argmax of logits shifted by `off`, one-hot; or sampled, with its own rows."""

    def propose(text, count):
        tokens, rows = [], []
        for _ in range(max(0, count - fewer)):
            numbers = logits([*text, *tokens])
            e = np.exp(numbers - numbers.max())
            rows.append(e / e.sum())
            chance = np.random.default_rng([len(text), len(tokens), *text[-2:]]).random()
            token = pick64(rows[-1], chance) if sampled else (int(np.argmax(numbers)) + off) % len(numbers)
            tokens.append(token)
        return tokens, rows if sampled and rows else None

    return propose


def request_of(prompt, output, settings, most=50):
    made = Request(list(prompt), most, SamplingParams(**settings))
    made.output, made.num_computed_tokens = list(output), len(prompt) + len(output) - 1
    return made


def in_pieces(running, budget):
    """A policy of chunks of at most three tokens."""
    return [next_chunk(request, min(3, request.num_uncomputed_tokens)) for request in running]


def without_the_first(running, budget):
    """A policy that schedules nothing for the first request."""
    return [next_chunk(request, request.num_uncomputed_tokens) for request in running[1:]]


def shown(chunks):
    return [(chunk.start, chunk.tokens, chunk.num_logits) for chunk in chunks]


def plan_agrees(budget, most, *, count=3, fewer=0, prompt=1, inner=None):
    """Check the chunks of a policy for three requests: two decode, one has a prompt to prefill."""
    requests = [
        request_of([1, 2], [3], {}, most[0]),
        request_of([4], [5, 6], {}, most[1]),
        request_of([2, 5, 1, 1][:prompt], [], {}, most[2]),
    ]
    requests[2].num_computed_tokens = 0
    case = f"budget {budget}, count {count}, max_tokens {most} with outputs of 1, 2 and 0, a prompt of {prompt}"
    if inner:
        case += f", an inner policy {inner.__name__.replace('_', ' ')}"
    propose, budgets = guesses(random_logits(1), fewer=fewer), []
    drafter = Scripted(Draft, propose)

    def noting(running, budget):
        budgets.append(budget)
        return inner(running, budget)

    with noted(case):
        speculation = scheduling.Speculation(drafter, count, *([noting] if inner else []))
        chunks = speculation.plan(requests, budget)
    plain = (inner or unchunked_prefill)(requests, budget)
    left, asked, expected = budget - sum(len(chunk.tokens) for chunk in plain), [], []
    for chunk in plain:
        request = chunk.request
        share = max(0, min(left, count, request.max_tokens - len(request.output) - 1)) if chunk.num_logits else 0
        asked += [share] * bool(share)
        left -= share
        tokens = propose([*request.prompt, *request.output], share)[0]
        expected.append((chunk.start, [*chunk.tokens, *tokens], chunk.num_logits + len(tokens)))
    if [chunk.request for chunk in chunks] != [chunk.request for chunk in plain]:
        fail(Kind.VALUES, "the chunks are not those of the inner policy, in its order", case)
    fail_if_different("the chunks (start, tokens, num_logits) are wrong", expected, shown(chunks), case)
    fail_if_different("the drafter's propose gets wrong arguments", [asked] * bool(asked), drafter.asked, case)
    fail_if_different("the drafter's retain gets wrong requests", [3], drafter.kept, case)
    fail_if_different(
        "the drafter's methods are called in the wrong order", ["keep", *["draft"] * bool(asked)], drafter.order, case
    )
    fail_if_different("the inner policy gets the wrong budget", [budget] * len(budgets), budgets, case)


@pytest.mark.parametrize("budget", [100, 12, 11, 9, 6, 5, 4, 3, 2, 1])
def test_task_4_loop_policy_budget(budget):
    """The budget includes draft tokens; the first chunk is first."""
    plan_agrees(budget, (50, 50, 50))


@pytest.mark.parametrize("most", [(2, 50, 50), (3, 4, 1), (2, 3, 2)], ids=str)
def test_task_4_loop_policy_max_tokens(most):
    """The last of max_tokens is never a draft token."""
    plan_agrees(100, most)


def test_task_4_loop_policy_fewer():
    """A drafter may return fewer tokens than requested, or none."""
    for fewer in (1, 2, 3):
        plan_agrees(100, (50, 50, 50), fewer=fewer)


def test_task_4_loop_policy_prompts():
    """No draft after a chunk inside a prompt, but one after the prompt's end."""
    for prompt in (1, 3, 4):
        plan_agrees(100, (50, 50, 50), prompt=prompt, inner=in_pieces)
        plan_agrees(8, (50, 50, 50), prompt=prompt, inner=in_pieces)


@pytest.mark.parametrize("budget", [1000, 8, 4])
def test_task_4_loop_policy_left_out(budget):
    """A request without a chunk in this step still runs: the drafter keeps its state."""
    plan_agrees(budget, (50, 50, 50), inner=without_the_first)


def test_task_4_loop_policy_again():
    """An earlier step's draft is forgotten."""
    case, requests = (
        "two requests; a policy with budget 100, one with budget 2",
        [request_of([i], [3], {}) for i in (1, 2)],
    )
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(random_logits(1))), 3)
        long, short = speculation.plan(requests, 100), speculation.plan(requests, 2)
    fail_if_different("the first call's num_logits are wrong", [4, 4], [chunk.num_logits for chunk in long], case)
    fail_if_different("the second call's chunks are wrong", [(1, [3], 1)] * 2, shown(short), case)


def choice_agrees(settings, seed, *, sampled=True, missing=(), count=3, vocab=7, size=0):
    """Check what is sampled after scheduling, for logits that are close to the drafter's."""
    small = random_logits(seed, vocab, spread=0.7)
    large = mixed(small, random_logits(seed + 50, vocab))
    requests = [request_of([1 % vocab, 0, i % vocab], [i % vocab, 0], each) for i, each in enumerate(settings)]
    words = "; ".join(map(setting_words, settings[:2]))
    case = f"{len(settings)} requests, {words}, {count} drafted, V {vocab}, seed {seed}"
    propose = guesses(small, sampled=sampled)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, propose), count)
        chunks = [chunk for i, chunk in enumerate(speculation.plan(requests, 10000)) if i not in missing]
    fail_if_different(
        "num_logits is wrong", [count + 1] * len(chunks), [chunk.num_logits for chunk in chunks], case, size
    )
    texts = [
        [[*each.prompt, *each.output, *chunk.tokens[1 : i + 1]] for i in range(count + 1)]
        for chunk in chunks
        for each in [chunk.request]
    ]
    logits = np.array([large(text) for own in texts for text in own], np.float32)
    with noted(case):
        found = speculation.sample(mx.array(logits), chunks)
    expected, stood = [], 0
    for chunk, own in zip(chunks, texts, strict=True):
        setting = settings[requests.index(chunk.request)]
        params = {name: each for name, each in setting.items() if name != "seed"}
        target = np.array([probabilities64(large(text), text, **params) for text in own])
        drafted, rows = propose(own[0], count)
        rows = np.eye(vocab)[drafted] if rows is None else np.array(rows)
        draws = uniforms(setting.get("seed"), len(chunk.request.output), count + 1, VERIFY)
        accepted, token = accept64(target, rows.reshape(count, vocab), drafted, draws)
        expected.append([*drafted[:accepted], token])
        stood += accepted
    fail_if_different("the new tokens of the chunks are wrong", expected, found, case, size)
    counted = [speculation.num_draft_tokens, speculation.num_accepted_tokens]
    fail_if_different(
        "num_draft_tokens and num_accepted_tokens are wrong", [count * len(chunks), stood], counted, case, size
    )


SEEDED = [{**each, "seed": 11 + i} for i, each in enumerate(SETTINGS.values())]


@pytest.mark.parametrize("settings", SEEDED, ids=SETTINGS.keys())
def test_task_4_loop_sample(settings):
    for seed in range(6):
        choice_agrees([settings], seed)
        choice_agrees([settings], seed, sampled=False)


def test_task_4_loop_sample_several():
    """Each with its own params and seed; a chunk may be missing, because its request was preempted."""
    for seed in range(3):
        choice_agrees(SEEDED, seed)
        choice_agrees(SEEDED, seed, missing=(0, 2))


def test_task_4_loop_sample_nothing():
    """Prefill chunks only: no rows, no tokens."""
    case, request = "one request in the middle of its prompt", Request([1, 2, 3, 4, 5], 9)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(random_logits(1))), 3, in_pieces)
        found = speculation.sample(mx.zeros((0, 7)), speculation.plan([request], 100))
    fail_if_different("the new tokens of the chunks are wrong", [[]], found, case)


def serve(
    prompts, settings, *, large, propose, count=3, budget=40, limit=9, eos=(), stops=None, inner=None, slots=3, case=""
):
    """Serve all requests; after each step, all of each sequence is cached except its last token."""
    kv_cache, drafter = Notes(case=case), Scripted(Draft, propose)
    with noted(case):
        speculation = scheduling.Speculation(drafter, count, *([inner] if inner else []))
        loop = Scheduler(
            Told(large),
            kv_cache,
            max_num_seqs=slots,
            max_num_batched_tokens=budget,
            policy=speculation.plan,
            sampler=speculation.sample,
        )
        requests = [
            Request(list(prompt), limit, SamplingParams(**own), eos, stop)
            for prompt, own, stop in zip(prompts, settings, stops or [None] * len(prompts), strict=True)
        ]
        for request in requests:
            loop.submit(request)
        for _ in range(40 * len(prompts)):
            if not loop.running and not loop.waiting:
                break
            step = loop.step()
            for chunk in step.chunks:
                request = chunk.request
                if request in kv_cache.held and kv_cache.held[request] != request.tokens(
                    0, request.num_computed_tokens
                ):
                    got = f"got       {kv_cache.held[request]}"
                    fail(
                        Kind.VALUES,
                        "the KV cache has other tokens than the request",
                        case,
                        f"expected  {request.tokens(0, request.num_computed_tokens)}",
                        got,
                    )
                if chunk.num_logits and request in kv_cache.held and request.num_uncomputed_tokens != 1:
                    fail(
                        Kind.VALUES,
                        f"after a step {request.num_uncomputed_tokens} tokens of a request are uncomputed, expected 1",
                        case,
                    )
    if kv_cache.held or any(not request.finish_reason for request in requests):
        fail(Kind.VALUES, "not all requests have finished", case)
    return requests, speculation, loop


DRAFTERS = {
    "always right": lambda large: guesses(large),
    "always wrong": lambda large: guesses(large, off=1),
    "often right": lambda large: guesses(mixed(large, random_logits(99))),
    "at random": lambda large: guesses(random_logits(98), sampled=True),
    "nothing": lambda large: guesses(large, fewer=9),
}
by_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


@by_drafter
def test_task_4_loop_greedy(drafter):
    """The output is the greedy one, whatever the drafter."""
    large, prompts = random_logits(5), [[1, 2], [3], [4, 5, 6, 0, 1], [2, 2]]  # the third is prefilled in two pieces
    for inner, budget in ((None, 40), (in_pieces, 40), (None, 7)):
        case = f"4 greedy requests, 3 slots, budget {budget}, a drafter that is {drafter}, count 3"
        served = serve(
            prompts, [{}] * 4, large=large, propose=DRAFTERS[drafter](large), inner=inner, budget=budget, case=case
        )
        expected = [greedy_text(large, prompt, 9) for prompt in prompts]
        fail_if_different("the outputs are not the greedy ones", expected, [each.output for each in served[0]], case)


def test_task_4_loop_always_right():
    """Nine tokens at four per step: three steps."""
    large = random_logits(5)
    case = "1 greedy request, a drafter that is always right, count 3, max_tokens 9"
    kv_cache = Notes(case=case)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(large)), 3)
        loop = Scheduler(Told(large), kv_cache, policy=speculation.plan, sampler=speculation.sample)
        loop.submit(Request([1, 2], 9))
        steps = [loop.step().new for _ in range(3)]
    fail_if_different("wrong number of new tokens per step", [4, 4, 1], [len(new[0]) for new in steps], case)
    fail_if_different(
        "num_draft_tokens and num_accepted_tokens are wrong",
        (6, 6),
        (speculation.num_draft_tokens, speculation.num_accepted_tokens),
        case,
    )


@by_drafter
def test_task_4_loop_ends(drafter):
    """A request ends within a run of accepted tokens: at an EOS token, which is not output, or where `stop` is True."""
    large, prompt = random_logits(5), [1, 2]
    text = greedy_text(large, prompt, 9)
    end = next(token for token in text[2:] if token not in text[:2])
    at = text.index(end)
    for eos, stop, expected in (((end,), None, text[:at]), ((), lambda token: token == end, text[: at + 1])):
        how = "eos_ids" if eos else "stop"
        case = f"1 greedy request that ends with token {end}, by {how}, a drafter that is {drafter}"
        served = serve([prompt], [{}], large=large, propose=DRAFTERS[drafter](large), eos=eos, stops=[stop], case=case)
        fail_if_different("the output is wrong", expected, served[0][0].output, case)
        fail_if_different("wrong `finish_reason`", "stop", served[0][0].finish_reason, case)


def test_task_4_loop_seeds():
    """With a seed, the output is the same alone and with others."""
    large = random_logits(6)
    propose = guesses(mixed(large, random_logits(60)), sampled=True)
    prompts, settings = [[1, 2], [3], [4, 5]], [SEEDED[1], SEEDED[2], SEEDED[3]]
    case = f"3 requests, {'; '.join(map(setting_words, settings[:2]))}; together, and each alone"
    together = serve(prompts, settings, large=large, propose=propose, case=case)[0]
    alone = [
        serve([p], [s], large=large, propose=propose, case=case)[0][0] for p, s in zip(prompts, settings, strict=True)
    ]
    fail_if_different(
        "the outputs together are not those of each alone",
        [r.output for r in alone],
        [r.output for r in together],
        case,
    )


@pytest.mark.parametrize("settings", [{"temp": 1.0}, {"temp": 1.0, "repetition_penalty": 1.6}], ids=setting_words)
def test_task_4_loop_distribution(settings):
    """1,200 outputs of two tokens, twelve at a time, each with its own seed: pairs are as frequent as without drafts.

    The statistic is the sum of (found - expected)^2 / expected over 16 pairs. By chance it would exceed 55 less than
    once in 100,000 times.
    """
    large, small, texts = random_logits(3, 4, 2, 1.0), random_logits(4, 4, 2, 1.0), 1200
    likely = probabilities64(small([0]), [], temp=1.0)
    case = f"{texts} outputs of 2 tokens, {setting_words(settings)}, seeds 0 to {texts - 1}, V 4, 2 drafted"

    def propose(text, count):
        rows = [likely] * count
        chances = next(drawn)
        return [pick64(row, chance) for row, chance in zip(rows, chances, strict=True)], rows

    found, drawn = Counter(), iter(np.random.default_rng(9).random((2 * texts, 1)).tolist())
    with noted(case):
        for start in range(0, texts, 12):
            requests = [Request([1, 2], 2, SamplingParams(**settings, seed=start + row)) for row in range(12)]
            drafter = Scripted(Draft, propose)
            speculation = scheduling.Speculation(drafter, 2)
            loop = Scheduler(Told(large), Notes(case=case), policy=speculation.plan, sampler=speculation.sample)
            for request in requests:
                loop.submit(request)
            while not all(request.finish_reason for request in requests):
                loop.step()
            found.update(tuple(request.output) for request in requests)
    first = probabilities64(large([1, 2]), [1, 2], **settings)
    expected = {
        (a, b): texts * first[a] * second
        for a in range(4)
        for b, second in enumerate(probabilities64(large([1, 2, a]), [1, 2, a], **settings))
    }
    statistic = sum((found[pair] - each) ** 2 / each for pair, each in expected.items())
    if statistic > 55:
        pair = max(expected, key=lambda pair: abs(found[pair] - expected[pair]) / expected[pair] ** 0.5)
        lines = (f"expected  tokens {pair} in about {expected[pair]:.0f} outputs", f"got       {found[pair]}")
        fail(Kind.VALUES, f"chi-square is {statistic:.0f}; up to 55 could be chance", case, *lines)


def test_task_4_loop_sweep():
    for n in sizes(N=8, K=9, V=140):
        settings = [n.turn(*SEEDED), *SEEDED, *SEEDED][: n.N]
        choice_agrees(settings, n.seed, count=n.K, vocab=n.V + 1, sampled=n.turn(True, False), size=n.N * n.K * n.V)


@property_test
@given(
    count=st.integers(1, 5),
    budget=st.integers(4, 14),
    prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=4),
    limit=st.integers(1, 8),
    drafter=st.sampled_from(sorted(DRAFTERS)),
)
def test_task_4_loop_any_requests(count, budget, prompts, limit, drafter):
    large = random_logits(12)
    case = f"prompts {prompts}, count {count}, budget {budget}, max_tokens {limit}, a drafter that is {drafter}"
    propose = DRAFTERS[drafter](large)
    served = serve(
        prompts, [{}] * len(prompts), large=large, propose=propose, count=count, budget=budget, limit=limit, case=case
    )
    expected = [greedy_text(large, prompt, limit) for prompt in prompts]
    fail_if_different("the outputs are not the greedy ones", expected, [each.output for each in served[0]], case)
