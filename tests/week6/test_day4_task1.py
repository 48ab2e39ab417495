"""Week 6, day 4, task 1: the choice of a replica."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.replicas import chosen, chosen_by_formula, fleet, prompt_of, random_fleet

from tiny_llm.router import choice
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

# the fleet, the prompt's blocks, and the choice
CASES = {
    "the least loaded": ("ready 3/16 *, ready 1/16 *, ready 2/16 *", 6, "r1"),
    "all idle": ("ready 0/16 *, ready 0/16 *, ready 0/16 *", 6, "r0"),
    "a tie of load": ("ready 2/16 *, ready 1/16 *, ready 1/16 *", 6, "r1"),
    "a cached prefix": ("ready 0/16 *, ready 2/16 +6, ready 0/16 *", 6, "r1"),
    "the longer prefix": ("ready 4/16 +4, ready 7/16 +6, ready 4/16 *", 6, "r1"),
    "equal prefixes": ("ready 2/16 +4, ready 1/16 +4, ready 1/16 +4", 6, "r1"),
    "the margin exactly": ("ready 1/16 *, ready 5/16 +6", 6, "r1"),
    "above the margin, and a shorter prefix within it": ("ready 0/16 *, ready 5/16 +6, ready 2/16 +4", 6, "r0"),
    "one above the margin": ("ready 1/16 *, ready 6/16 +6", 6, "r0"),
    "all are busy, one above the margin": ("ready 3/16 *, ready 8/16 +6", 6, "r0"),
    "half of the blocks": ("ready 0/16 *, ready 1/16 +3", 6, "r1"),
    "less than half": ("ready 0/16 *, ready 1/16 +2", 6, "r0"),
    "half of an odd number": ("ready 0/16 *, ready 1/16 +4", 7, "r1"),
    "less than half of an odd number": ("ready 0/16 *, ready 1/16 +3", 7, "r0"),
    "blocks without the first": ("ready 0/16 *, ready 1/16 -5", 6, "r0"),
    "a prompt without whole blocks": ("ready 1/16 *, ready 0/16 *", 0, "r1"),
    "the cached one is full": ("ready 2/16 *, ready 3/3 +6", 6, "r0"),
    "the cached one is draining": ("ready 2/16 *, draining 0/16 +6", 6, "r0"),
    "the idle one is dead": ("ready 9/16 +6, dead 0/16 *, ready 5/16 *", 6, "r0"),
    "the idle one is full": ("ready 9/16 +6, ready 1/1 *, ready 5/16 *", 6, "r0"),
    "the idle one is starting": ("ready 1/16 *, starting 0/16 *", 6, "r0"),
    "the last place": ("ready 15/16 *, ready 16/16 *", 6, "r0"),
    "all full": ("ready 4/4 +6, ready 16/16 *", 6, "none"),
    "a limit that was lowered": ("ready 5/3 *, ready 6/16 *", 6, "r1"),
    "none ready": ("starting 0/16 *, draining 1/16 +6, dead 0/16 *", 6, "none"),
    "no replicas": ("", 6, "none"),
    "limits differ": ("ready 3/64 *, ready 2/4 *", 6, "r1"),
}


def said(text, count):
    return f"{text or 'no replicas'}; a prompt of {count} blocks"


@pytest.mark.parametrize("name", CASES)
def test_task_1_choose_case(name):
    text, count, expected = CASES[name]
    with noted(said(text, count)):
        found = chosen(choice.choose, text, count)
    fail_if_different(f"{name}: another replica was chosen", expected, found, said(text, count))


def test_task_1_choose_sweep():
    for n in sizes(R=12, B=20):
        text = random_fleet(n.seed, n.R, n.B)
        with noted(said(text, n.B)):
            found = chosen(choice.choose, text, n.B)
        headline = "another replica was chosen"
        fail_if_different(headline, chosen_by_formula(text, n.B), found, said(text, n.B)[:400])


@property_test
@given(seed=st.integers(0, 10_000), replicas=st.integers(1, 6), count=st.integers(0, 9))
def test_task_1_choose_changes_nothing(seed, replicas, count):
    """The counts and the prefixes belong to the caller."""
    blocks = prompt_of(count)
    given_ones = fleet(random_fleet(seed, replicas, max(1, count)), blocks)
    before = [(r.name, r.state, r.running, r.limit, list(r.prefixes.seen)) for r in given_ones]
    choice.choose(tuple(given_ones), tuple(blocks))
    after = [(r.name, r.state, r.running, r.limit, list(r.prefixes.seen)) for r in given_ones]
    if before != after:
        fail(Kind.VALUES, "choose has changed a replica", "", f"before    {before}", f"after     {after}")
