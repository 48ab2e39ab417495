"""Week 3, day 2, task 2: the fair queue.

The queue replays scripts, beside a plain implementation of the same rules.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.fairness import PlainRequest, PlainRules, Script, random_script, script_of
from tests.week3.fairness import in_words as script_in_words

from tiny_llm.serving import queue
from tiny_llm.serving.request import Request
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

SCRIPTS = {
    "one user, in order": "ann x3, in x4",
    "a greedy user and one request": "ann 6 x20, bob 6, in x8",
    "two users in turn": "ann x3, bob x3, in x6",
    "a tie goes to the older request": "bob, ann, bob, in x3",
    "a tie goes to the older request, not to the user who came first": "ann, bob, ann, cancel 0, in x2",
    "tokens count, not requests": (
        "ann 8 x2, bob 2 x4, in, run 0 8, finish 0, in, run 2 2, finish 2, in, run 3 2, finish 3, in, run 4 2, "
        "finish 4, in x2"
    ),
    "output tokens count": (
        "ann 2, bob 2, in x2, run 0 2, run 1 2, run 0 1 x2, finish 0, finish 1, ann 1, bob 1, in x2"
    ),
    "an admitted request is claimed": "ann 5 x2, bob 3 x3, in x5",
    "half of it is computed": "ann 8 x2, bob 3 x4, in, run 0 4, in x5",
    "a finished request is claimed no more": "ann 8 x2, bob 2 x2, in, run 0 1, finish 0, in x3",
    "a new user while others wait": "ann 4 x4, in, run 0 4, finish 0, bob 3 x3, in x6",
    "a returning user": (
        "ann 4 x4, bob 1, in x2, run 0 4, run 4 1, finish 0, finish 4, in, run 1 4, finish 1, bob 3 x4, in x6"
    ),
    "a returning user with the higher counter": (
        "ann 9, bob 2, in x2, run 0 9, run 1 2, finish 0, finish 1, bob 2 x3, ann 2, in x4"
    ),
    "a higher counter while another user waits": "ann 5, bob 1, in, run 0 5, ann 1, in x2",
    "the lowest of three counters": (
        "ann 9 x2, bob 4 x3, in x2, run 0 9, run 2 4, finish 0, finish 2, cleo 2 x5, in x8"
    ),
    "a new user while the queue is empty": "ann 6, in, run 0 6, finish 0, bob 2 x2, ann 2, in x3",
    "a new user after two others": (
        "ann 9, bob 3, in x2, run 0 9, run 1 3, finish 0, finish 1, cleo 2 x3, bob 1, ann 1, in x5"
    ),
    "a new user starts at a counter, not at a claim": "ann 4 x2, in, run 0 4, bob 2, in x2",
    "a user is idle when the only request is running": "bob 4, ann 9 x2, in x2, run 1 9, run 0 1, bob 2, in x2",
    "a preempted request is the first of its user": "ann 3 x3, in, run 0 3, requeue 0, in x3",
    "a user's only request is preempted": "ann 3, bob 3 x2, in, run 0 2, requeue 0, in x3",
    "a preempted request's user is not lifted": "ann 9 x2, bob 2, in x2, run 0 9, run 2 1, requeue 2, bob 2, in x3",
    "a preempted request is claimed no more": "ann 6 x2, bob 4 x2, in, requeue 0, in x4",
    "a request in the middle is cancelled": "ann 3 x3, cancel 1, in x3",
    "a cancelled request is not claimed": "ann 9 x2, bob 2 x2, cancel 0, in x4",
    "a user's only request is cancelled": (
        "bob 2, ann 5 x3, in x2, run 0 2, run 1 5, finish 0, finish 1, bob 2, cancel 4, in, run 2 5, bob 2, in x3"
    ),
}


def script_agrees(lines, words="", swept=False):
    """Check the order of admission, the number of waiting requests and all counters, after each line."""
    mine, plain = Script(queue.FairQueue(), Request), Script(PlainRules(), PlainRequest)
    for at, line in enumerate(lines):
        so_far = lines[: at + 1]
        case = words or script_in_words(so_far)
        with noted(case):
            mine.play(line)
            waiting, counters = len(mine.queue), dict(mine.queue.counters)
        plain.play(line)

        def told(headline, *lines, case=case, size=at):
            fail(Kind.VALUES, headline, case, *lines, size=size, swept=swept)

        if mine.told != plain.told:
            one, other = (
                f"request {n} of {script.requests[n].user}" if (n := script.told[-1]) >= 0 else "none"
                for script in (plain, mine)
            )
            told("the wrong request is next", f"expected  {one}", f"got       {other}")
        if waiting != len(plain.queue):
            told(
                "the wrong number of requests waits: len(queue)",
                f"expected  {len(plain.queue)}",
                f"got       {waiting}",
            )
        if counters != plain.queue.counters:
            told("wrong counters", f"expected  {plain.queue.counters}", f"got       {counters}")


@pytest.mark.parametrize("name", SCRIPTS)
def test_task_2_fair_scripts(name):
    script_agrees(script_of(SCRIPTS[name]))


def test_task_2_fair_starts_empty():
    case = "a new queue"
    with noted(case):
        made = queue.FairQueue()
        found = len(made), made.counters, bool(made)
    if found != (0, {}, False):
        fail(
            Kind.VALUES,
            "a new queue is not empty",
            case,
            "expected  len 0, counters {}",
            f"got       len {found[0]}, {found[1]}",
        )


def test_task_2_fair_two_queues():
    """One queue does not see the other's requests."""
    case = "two queues, a request in one of them"
    with noted(case):
        one, other = queue.FairQueue(), queue.FairQueue()
        one.add(Request([1], 1, user="ann", request_id=0))
        found = len(one), len(other), other.counters
    if found != (1, 0, {}):
        fail(
            Kind.VALUES,
            "two queues share state",
            case,
            "expected  len 1 and 0, the second's counters {}",
            "got       len {} and {}, the second's counters {}".format(*found),
        )


@pytest.mark.parametrize(
    "before",
    [
        [],
        [("come", "ann")],
        [("come", "bob")],
        [("come", "bob"), ("admit",)],
        [("come", "bob"), ("come", "bob"), ("admit",)],
    ],
    ids=str,
)
def test_task_2_fair_refuses_unknown_requests(before):
    script = Script(queue.FairQueue(), Request)
    with noted(script_in_words(before)):
        script.play(*before)
    stranger = script.requests[0] if before and before[-1] == ("admit",) else Request([1], 1, user="bob", request_id=9)
    with raises_value_error(f"{script_in_words(before) or 'a new queue'}, remove request {stranger.request_id} of bob"):
        script.queue.remove(stranger)


def test_task_2_fair_sweep():
    """Long scripts, of up to 65 users."""
    for n in sizes(U=65, S=300):
        lines = random_script(np.random.default_rng(n.seed), min(4 * n.S, 300), n.U)
        script_agrees(
            lines, f"a script of {len(lines)} lines, {n.U} users, seed {n.seed}" if n.S > 4 else "", swept=True
        )


@property_test
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40), users=st.integers(1, 4))
def test_task_2_fair_any_script(seed, length, users):
    script_agrees(random_script(np.random.default_rng(seed), length, users))


@property_test
@given(
    prompts=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    writes=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    slots=st.integers(1, 6),
)
def test_task_2_fair_two_always_waiting(prompts, writes, slots):
    """Of two users who always have a waiting request, neither gets ahead by more than all slots can hold."""
    case = f"ann and bob, prompts of {prompts}, {writes} output tokens, {slots} slots"
    longest = [prompt + count for prompt, count in zip(prompts, writes, strict=True)]
    with noted(case):
        script, running = Script(queue.FairQueue(), Request), []
        for _ in range(300):
            for number, user in enumerate(("ann", "bob")):
                for _ in range(2 - sum(one.user == user and not one.num_computed_tokens for one in script.requests)):
                    script.come(user, prompts[number])
            while len(running) < slots:
                running.append(script.requests[script.play(("admit",))[-1]])
            for request in list(running):
                script.run(request.request_id, request.num_uncomputed_tokens)
                if len(request.output) >= writes[request.user == "bob"]:
                    script.finish(request.request_id)
                    running.remove(request)
        counters = script.queue.counters
    if (apart := abs(counters["ann"] - counters["bob"])) > (bound := 2 * slots * max(longest)):
        fail(
            Kind.VALUES,
            "one user has had far more tokens than the other",
            case,
            f"at most   {bound} apart",
            f"got       {apart}",
        )
