"""Week 3, day 2, task 4: the budget divided between the oldest prompt and the shortest.

The policy is checked against its rules, and then serves requests to their ends.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.chunking import (
    ANY_SPECS,
    check_policy,
    counts_in_words,
    drawn_specs,
    in_words,
    prompts_of,
    requests_of,
    served,
    shared_counts_by_rule,
    texts_alone,
)

from tiny_llm.serving import policies
from tiny_llm.serving.request import Chunk, Request
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

# requests as (prompt tokens, output tokens, computed tokens)
WRITERS = [(5, 4, 8), (3, 1, 3), (2, 2, 3)]
NAMES = {
    "one prompt": ([(40, 0, 0)], 8),
    "two long prompts": ([(40, 0, 0), (30, 0, 0)], 8),
    "a short prompt after two long ones": ([(40, 0, 0), (30, 0, 0), (3, 0, 0)], 8),
    "an odd budget": ([(40, 0, 0), (30, 0, 0), (3, 0, 0)], 9),
    "the oldest needs less than half": ([(2, 0, 0), (30, 0, 0), (40, 0, 0)], 8),
    "the others need less than half": ([(40, 0, 0), (1, 0, 0), (2, 0, 0)], 12),
    "all fit": ([(4, 0, 0), (3, 0, 0), (5, 0, 0)], 16),
    "the shortest is the oldest": ([(3, 0, 0), (9, 0, 0), (7, 0, 0)], 8),
    "equally short": ([(40, 0, 0), (6, 0, 0), (6, 0, 0), (6, 0, 0)], 14),
    "shortest by what is left": ([(40, 0, 0), (6, 0, 0), (30, 0, 28)], 8),
    "decoding and prompts": ([*WRITERS, (40, 0, 0), (20, 0, 0), (4, 0, 0)], 12),
    "decoding between prompts": ([(40, 0, 3), WRITERS[0], (9, 0, 0), WRITERS[1], (5, 0, 0)], 10),
    "one token for prompts": ([*WRITERS, (40, 0, 0), (4, 0, 0)], 4),
    "no token for prompts": ([*WRITERS, (40, 0, 0), (4, 0, 0)], 3),
    "more decoding than tokens": ([(5, 4, 8), (3, 2, 4), (9, 0, 0), (2, 7, 8), (3, 2, 4)], 2),
    "one that was preempted": ([(40, 0, 0), (6, 5, 0), (9, 0, 0)], 10),
    "only decoding": (WRITERS, 16),
    "none": ([], 5),
}


def plan_agrees(specs, budget, *words, **how):
    def call(running):
        return policies.shared_prefill(running, budget)

    check_policy(call, shared_counts_by_rule, (Request, Chunk), specs, budget, *words, **how)


@pytest.mark.parametrize("name", NAMES)
def test_task_4_shared_rules(name):
    plan_agrees(*NAMES[name])


@pytest.mark.parametrize("budget", [0, -3])
@pytest.mark.parametrize("specs", [[], WRITERS, [(5, 0, 0)]], ids=["none", "writers", "prompt"])
def test_task_4_shared_refuses_no_budget(specs, budget):
    with raises_value_error(f"budget {budget}; {in_words(specs)}", str(budget)):
        policies.shared_prefill(requests_of(Request, specs), budget)


def test_task_4_shared_sweep():
    """Up to 65 requests, each of which decodes, prefills, or recomputes after a preemption."""
    for n in sizes(R=65, B=1100, P=300):
        words = "" if n.R < 5 else f"{n.R} requests, seed {n.seed}"
        specs = drawn_specs(np.random.default_rng(n.seed), n.R, n.P)
        plan_agrees(specs, n.B, words, size=n.R * n.P, swept=True)


@property_test
@given(specs=ANY_SPECS, budget=st.integers(1, 12))
def test_task_4_shared_any_requests(specs, budget):
    plan_agrees(specs, budget)


@property_test
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=7), budget=st.integers(1, 20))
def test_task_4_shared_any_budget(lengths, budget):
    """Outputs are unchanged, whatever the budget, and all requests finish."""
    prompts, counts = prompts_of(lengths), [1 + number % 3 for number in range(len(lengths))]
    case = f"prompts of {lengths}, {counts} tokens each, budget {budget}, 4 slots"
    with noted(case):
        texts, _ = served(policies.shared_prefill, Request, prompts, counts, budget, 4, steps=400)
    for number, (text, wanted) in enumerate(zip(texts, texts_alone(prompts, counts), strict=True)):
        if text != wanted:
            lines = f"expected  {wanted}", f"got       {text}"
            fail(Kind.VALUES, f"request {number} has another output than alone", case, *lines)


@pytest.mark.parametrize("budget", [8, 32])
def test_task_4_shared_short_prompts_do_not_wait(budget):
    """A prompt of 4 tokens after six of 200 is prefilled in the first step."""
    case = f"six prompts of 200 tokens and one of 4, budget {budget}, 7 slots"
    with noted(case):
        _, steps = served(policies.shared_prefill, Request, prompts_of([200] * 6 + [4]), [2] * 7, budget, 7)
    if steps[0].get(6) != 4:
        lines = "expected  4 of request 6", f"got       {counts_in_words(steps[0])}"
        fail(Kind.VALUES, "the short prompt waits for longer ones", case, *lines)


def test_task_4_shared_short_prompts_do_not_starve_a_long_one():
    """A prompt of 60 tokens gets 4 of 8 tokens in each step, although short prompts keep coming."""
    case = "a prompt of 60 tokens, then thirty of 4, budget 8, 4 slots"
    with noted(case):
        _, steps = served(policies.shared_prefill, Request, prompts_of([60] + [4] * 30), [2] + [1] * 30, 8, 4)
    for at, step in enumerate(steps[:15]):
        if step.get(0, 0) < 4:
            lines = "expected  at least 4 of request 0", f"got       {counts_in_words(step)}"
            fail(Kind.VALUES, f"in step {at} the oldest prompt gets less than half of the budget", case, *lines)
