"""Week 3, day 2, task 1: chunked prefill.

The policy is checked against its rules, and then serves requests to their ends.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.chunking import (
    ANY_SPECS,
    check_policy,
    counts_by_rule,
    counts_in_words,
    drawn_specs,
    in_words,
    prompts_of,
    requests_of,
    served,
    texts_alone,
)

from tiny_llm.serving import policies
from tiny_llm.serving.request import Chunk, Request
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

# requests as (prompt tokens, output tokens, computed tokens): three that decode, and prompts
WRITERS = [(5, 4, 8), (3, 1, 3), (2, 2, 3)]
NAMES = {
    "prompts": ([(10, 0, 0), (4, 0, 0), (7, 0, 0)], 16),
    "a long prompt": ([(40, 0, 0), (4, 0, 0)], 8),
    "the rest of a prompt": ([(10, 0, 6), (9, 0, 0)], 8),
    "the last token of a prompt": ([(10, 0, 9), (9, 0, 0)], 8),
    "writers": (WRITERS, 16),
    "as many decoding as tokens": ([*WRITERS, (9, 0, 0)], 3),
    "decoding and a long prompt": ([*WRITERS, (40, 0, 0)], 8),
    "decoding after a long prompt": ([(40, 0, 0), *WRITERS], 8),
    "decoding between prompts": ([(6, 0, 0), WRITERS[0], (40, 0, 3), WRITERS[1], (5, 0, 0)], 12),
    "a prompt of one token after a long one": ([(40, 0, 0), (1, 0, 0), WRITERS[0]], 8),
    "one that was preempted": ([WRITERS[0], (6, 5, 0), (6, 0, 0)], 8),
    "one that has recomputed": ([WRITERS[0], (6, 5, 9), (6, 0, 0)], 6),
    "a budget that fits": ([WRITERS[0], (7, 0, 0)], 8),
    "a budget of one": ([(5, 0, 0), WRITERS[0]], 1),
    "more decoding with equal output than tokens": ([(5, 3, 7), (3, 3, 5), (9, 3, 11)], 2),
    "more decoding than tokens, the longest prompt with the least output": ([(20, 1, 20), (3, 5, 7), (2, 3, 4)], 1),
    "more decoding than tokens": ([(5, 4, 8), (3, 2, 4), (9, 0, 0), (2, 7, 8), (3, 2, 4)], 2),
}


def plan_agrees(specs, budget, *words, **how):
    def call(running):
        return policies.chunked_prefill(running, budget)

    check_policy(call, counts_by_rule, (Request, Chunk), specs, budget, *words, **how)


@pytest.mark.parametrize("name", NAMES)
def test_task_1_chunked_rules(name):
    plan_agrees(*NAMES[name])


def test_task_1_chunked_no_requests():
    plan_agrees([], 5)


def test_task_1_chunked_a_prompt_step_by_step():
    """Ten prompt tokens beside a decoding request, five tokens per step: 4, 4 and 2 of them, the last with logits."""
    for read in (0, 4, 8):
        plan_agrees([(5, 1 + read, 5 + read), (10, 0, read)], 5)


@pytest.mark.parametrize("budget", [0, -3])
@pytest.mark.parametrize("specs", [[], WRITERS, [(5, 0, 0)]], ids=["nobody", "writers", "prompt"])
def test_task_1_chunked_refuses_no_budget(specs, budget):
    with raises_value_error(f"budget {budget}; {in_words(specs)}", str(budget)):
        policies.chunked_prefill(requests_of(Request, specs), budget)


def test_task_1_chunked_sweep():
    """Up to 65 requests, each of which decodes, prefills, or recomputes after a preemption."""
    for n in sizes(R=65, B=1100, P=300):
        words = "" if n.R < 5 else f"{n.R} requests, seed {n.seed}"
        specs = drawn_specs(np.random.default_rng(n.seed), n.R, n.P)
        plan_agrees(specs, n.B, words, size=n.R * n.P, swept=True)


@property_test
@given(specs=ANY_SPECS, budget=st.integers(1, 12))
def test_task_1_chunked_any_requests(specs, budget):
    plan_agrees(specs, budget)


@property_test
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=7),
    most=st.integers(1, 6),
    budget=st.integers(1, 20),
    slots=st.integers(1, 5),
)
def test_task_1_chunked_any_budget(lengths, most, budget, slots):
    """Outputs are unchanged, all requests finish, no step exceeds the budget, and none leaves budget unused."""
    prompts, counts = prompts_of(lengths), [most + number % 3 for number in range(len(lengths))]
    case = f"prompts of {lengths}, {counts} tokens each, budget {budget}, {slots} slots"
    with noted(case):
        texts, steps = served(policies.chunked_prefill, Request, prompts, counts, budget, slots, steps=400)
    if any(sum(step.values()) > budget for step in steps):
        at = next(i for i, step in enumerate(steps) if sum(step.values()) > budget)
        lines = f"at most   {budget}", f"got       {sum(steps[at].values())}"
        fail(Kind.VALUES, f"step {at} computes more tokens than the budget", case, *lines)
    expected = texts_alone(prompts, counts)
    for number, (text, wanted) in enumerate(zip(texts, expected, strict=True)):
        if text != wanted:
            lines = f"expected  {wanted}", f"got       {text}"
            fail(Kind.VALUES, f"request {number} has another output than alone", case, *lines)
    total = sum(lengths) + sum(counts) - len(counts)
    if (read := sum(sum(step.values()) for step in steps)) != total:
        fail(
            Kind.VALUES,
            "each token must be computed exactly once",
            case,
            f"expected  {total} tokens computed",
            f"got       {read}",
        )


@pytest.mark.parametrize("budget", [4, 8, 32])
def test_task_1_chunked_decodes_never_stall(budget):
    """While a prompt of 200 tokens is prefilled, each of three decoding requests gets a token in every step."""
    case = f"three prompts of 1, 30 tokens each, and then a prompt of 200, budget {budget}, 4 slots"
    with noted(case):
        _, steps = served(policies.chunked_prefill, Request, prompts_of([1, 1, 1, 200]), [30, 30, 30, 2], budget, 4)
    for at, step in enumerate(steps[1:30], 1):
        if any(step.get(number) != 1 for number in range(3)):
            lines = "expected  1 of each of 0, 1 and 2", f"got       {counts_in_words(step)}"
            fail(Kind.VALUES, f"in step {at} a decoding request gets no token", case, *lines)
