"""Task 7.5.3, branches on a shared prefix, checked by when each request is submitted, and by what is computed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.branching import FAMILIES, STEM, FakeScheduler, blocked, pages

from tiny_llm.agent import branches
from tiny_llm.serving.request import Chunk, Request
from tiny_llm.serving.step import Step
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

PAGE = 4


def explored(prompts, case, *, tokens=3, page=PAGE, budget=1000, seqs=100, before=(), cached=(), lost=()):
    """Run explore, check every submission, and return what it returned and the scheduler."""
    scheduler = FakeScheduler(Request, Chunk, Step, page, budget, seqs, lost)
    for prompt in cached:
        scheduler.cached |= pages(prompt, page)
    for prompt in before:
        scheduler.submit(Request(prompt, 6))
    requests = [Request(list(prompt), tokens, user="branch") for prompt in prompts]
    given = list(requests)
    with noted(case):
        found = branches.explore(scheduler, requests, page)
    if [id(request) for request in requests] != [id(request) for request in given]:
        fail(Kind.VALUES, "the caller's list was changed", case)
    return found, scheduler, given


def check(prompts, case, **more):
    page = more.get("page", PAGE)
    found, scheduler, requests = explored(prompts, case, **more)
    fail_if_different("not every request has finished", ["length"] * len(prompts),
                      [request.finish_reason for request in requests], case)  # fmt: skip
    submitted = [line for line in scheduler.log if "submit" in line][len(more.get("before", ())) :]
    # What may be submitted at each step, in order, by the rule.
    limits = more.get("budget", 1000), more.get("seqs", 100), more.get("lost", ())
    wanted, reference = [], FakeScheduler(Request, Chunk, Step, page, *limits)
    for prompt in more.get("cached", ()):
        reference.cached |= pages(prompt, page)
    for prompt in more.get("before", ()):
        reference.submit(Request(prompt, 6))
    reference.log.clear()
    waiting = [Request(list(prompt), more.get("tokens", 3), user="branch") for prompt in prompts]
    sent, prefilled, steps = [], 0, 0
    while waiting or not all(request.finish_reason for request in sent):
        for request in list(waiting):
            if not blocked(request.prompt, sent, page):
                reference.submit(request)
                waiting.remove(request)
                sent.append(request)
        step = reference.step()
        steps += 1
        prefilled += sum(
            sum(position < len(chunk.request.prompt) for position in range(chunk.start, chunk.end))
            for chunk in step.chunks
            if chunk.request.user
        )
    wanted = [line for line in reference.log if "submit" in line]
    for number, (line, other) in enumerate(zip(wanted, submitted, strict=False)):
        if line != other:
            lines = (f"expected  {line}", f"got       {other}")
            fail(Kind.VALUES, f"submission {number + 1} is wrong", case, *lines, size=len(prompts))
    total = sum(map(len, prompts))
    fail_if_different("what was returned is wrong", (steps, total, prefilled),
                      (found.steps, found.prompt_tokens, found.prefilled_tokens), case)  # fmt: skip


def said(prompts):
    return ", ".join(" ".join(map(str, prompt[:7])) + " .." * (len(prompt) > 7) for prompt in prompts[:4])


@pytest.mark.parametrize("name", FAMILIES)
def test_task_3_explore_family(name):
    check(FAMILIES[name], f"{name}: {said(FAMILIES[name])}; pages of {PAGE}")


@pytest.mark.parametrize("budget", [1, 3, 5, 16])
def test_task_3_explore_in_chunks(budget):
    """A long prompt is prefilled in several steps: the others wait for its shared pages, and not for its end."""
    for name in ("three branches", "branches of branches", "a longer one first"):
        check(FAMILIES[name], f"{name}; {budget} tokens a step; pages of {PAGE}", budget=budget)


@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_task_3_explore_output(tokens):
    check(FAMILIES["three branches"], f"three branches, {tokens} new tokens each", tokens=tokens)


def test_task_3_explore_little_capacity():
    for seqs in (1, 2):
        check(FAMILIES["branches of branches"], f"branches of branches, {seqs} at a time", seqs=seqs)


def test_task_3_explore_others():
    """Requests of others run along; a branch that shares a prefix with one of them does not wait for it."""
    check(FAMILIES["three branches"], "three branches, while another request runs", before=[[*STEM, 7], [8] * 9])


def test_task_3_explore_cached_already():
    check(FAMILIES["three branches"], "three branches, whose prefix is cached already", cached=[STEM])


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_task_3_explore_after_preemption(lost):
    """The first request loses what it has computed: it is not computed any more, and later it is computed twice."""
    for name in ("three branches", "branches of branches"):
        for budget in (5, 1000):
            case = f"{name}, {budget} tokens a step, the first one preempted after step {lost}"
            check(FAMILIES[name], case, budget=budget, lost=(lost,))


def test_task_3_explore_saved():
    """Eight branches of a prefix of 12 tokens, each with two tokens of its own."""
    case = "eight branches of three pages"
    found, _, _ = explored([[*STEM, n, n] for n in range(8)], case)
    fail_if_different("the prefilled tokens are wrong", 14 + 7 * 2, found.prefilled_tokens, case)
    fail_if_different("`saved` is wrong", 0.75, round(found.saved, 6), case)


def test_task_3_explore_nothing():
    found, scheduler, _ = explored([], "no requests")
    fail_if_different("the result is wrong", (0, 0, 0), (found.steps, found.prompt_tokens, found.prefilled_tokens),
                      "no requests")  # fmt: skip
    fail_if_different("the scheduler was stepped", 0, scheduler.steps, "no requests")


def test_task_3_explore_refused():
    with raises_value_error("a request without a prompt", "0 tokens"):
        branches.explore(FakeScheduler(Request, Chunk, Step, PAGE), [Request([], 3)], PAGE)


def test_task_3_explore_refused_later():
    """What was submitted before the refused request stays in the scheduler, and no step has run."""
    case, scheduler = "three requests, the second one without a prompt", FakeScheduler(Request, Chunk, Step, PAGE)
    requests = [Request([1] * 9, 3), Request([], 3), Request([2] * 9, 3)]
    with raises_value_error(case, "0 tokens"):
        branches.explore(scheduler, requests, PAGE)
    found = [request.prompt for request in scheduler.waiting]
    fail_if_different("what waits in the scheduler is wrong", [[1] * 9], found, case)
    fail_if_different("the scheduler was stepped", 0, scheduler.steps, case)


def test_task_3_explore_sweep():
    for n in sizes(B=17, L=70, P=17):
        prompts = [[*range(100, 100 + n.L), i % 3, i] for i in range(n.B)]
        check(prompts, f"{n.B} branches of {n.L} tokens, pages of {n.P}", page=n.P, budget=n.L // 2 + 3)


@property_test
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), max_size=6),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_task_3_explore_any(prompts, page, budget, tokens):
    case = f"prompts {prompts}, pages of {page}, {budget} tokens a step, {tokens} new tokens each"
    check(prompts, case, page=page, budget=budget, tokens=tokens)
