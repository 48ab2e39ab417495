"""Week 3, day 2, task 2: the fair queue.

The queue plays scripts, beside the same rules written down without any cleverness.
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
    "tokens count, not requests": (
        "ann 8 x2, bob 2 x4, in, read 0 8, finish 0, in, read 2 2, finish 2, in, read 3 2, finish 3, in, read 4 2, "
        "finish 4, in x2"
    ),
    "what is written counts": (
        "ann 2, bob 2, in x2, read 0 2, read 1 2, read 0 1 x2, finish 0, finish 1, ann 1, bob 1, in x2"
    ),
    "what was let in is claimed": "ann 5 x2, bob 3 x3, in x5",
    "half of it is read": "ann 8 x2, bob 3 x4, in, read 0 4, in x5",
    "what was finished is claimed no more": "ann 8 x2, bob 2 x2, in, read 0 1, finish 0, in x3",
    "a new user while others wait": "ann 4 x4, in, read 0 4, finish 0, bob 3 x3, in x6",
    "one who comes back": (
        "ann 4 x4, bob 1, in x2, read 0 4, read 4 1, finish 0, finish 4, in, read 1 4, finish 1, bob 3 x4, in x6"
    ),
    "one who comes back having had more": (
        "ann 9, bob 2, in x2, read 0 9, read 1 2, finish 0, finish 1, bob 2 x3, ann 2, in x4"
    ),
    "the least of three counters": (
        "ann 9 x2, bob 4 x3, in x2, read 0 9, read 2 4, finish 0, finish 2, cleo 2 x5, in x8"
    ),
    "a new user while nobody waits": "ann 6, in, read 0 6, finish 0, bob 2 x2, ann 2, in x3",
    "a new user after two others": (
        "ann 9, bob 3, in x2, read 0 9, read 1 3, finish 0, finish 1, cleo 2 x3, bob 1, ann 1, in x5"
    ),
    "one who is put back is the first of its user": "ann 3 x3, in, read 0 3, put back 0, in x3",
    "the last of a user is put back": "ann 3, bob 3 x2, in, read 0 2, put back 0, in x3",
    "one who is put back is not lifted": "ann 9 x2, bob 2, in x2, read 0 9, read 2 1, put back 2, bob 2, in x3",
    "what was put back is claimed no more": "ann 6 x2, bob 4 x2, in, put back 0, in x4",
    "one in the middle is cancelled": "ann 3 x3, cancel 1, in x3",
    "what was cancelled is not claimed": "ann 9 x2, bob 2 x2, cancel 0, in x4",
    "the only one of a user is cancelled": (
        "bob 2, ann 5 x3, in x2, read 0 2, read 1 5, finish 0, finish 1, bob 2, cancel 4, in, read 2 5, bob 2, in x3"
    ),
}


def script_agrees(lines, words="", swept=False):
    """Who is let in, in what order; how many wait, and all counters, after each line."""
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
                f"request {n} of {script.requests[n].user}" if (n := script.told[-1]) >= 0 else "nobody"
                for script in (plain, mine)
            )
            told("another request is the next one", f"expected  {one}", f"got       {other}")
        if waiting != len(plain.queue):
            told("another number waits: len(queue)", f"expected  {len(plain.queue)}", f"got       {waiting}")
        if counters != plain.queue.counters:
            told("wrong counters", f"expected  {plain.queue.counters}", f"got       {counters}")


@pytest.mark.parametrize("name", SCRIPTS)
def test_task_2_fair_scripts(name):
    script_agrees(script_of(SCRIPTS[name]))


def test_task_2_fair_begins_empty():
    case = "a new queue"
    with noted(case):
        made = queue.FairQueue()
        found = len(made), made.counters, bool(made)
    if found != (0, {}, False):
        fail(
            Kind.VALUES,
            "it is not empty",
            case,
            "expected  len 0, counters {}",
            f"got       len {found[0]}, {found[1]}",
        )


def test_task_2_fair_two_queues():
    """What one is told, the other does not know."""
    case = "two queues, a request in one of them"
    with noted(case):
        one, other = queue.FairQueue(), queue.FairQueue()
        one.add(Request([1], 1, user="ann", number=0))
        found = len(one), len(other), other.counters
    if found != (1, 0, {}):
        fail(Kind.VALUES, "they share what they know", case, "expected  (1, 0, {})", f"got       {found}")


@pytest.mark.parametrize("before", [[], [("come", "ann")], [("come", "bob"), ("let in",)]], ids=str)
def test_task_2_fair_refuses_who_is_not_here(before):
    script = Script(queue.FairQueue(), Request)
    with noted(script_in_words(before)):
        script.play(*before)
    stranger = script.requests[0] if before and before[-1] == ("let in",) else Request([1], 1, user="bob", number=9)
    with raises_value_error(f"{script_in_words(before) or 'a new queue'}, remove request {stranger.number} of bob"):
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
def test_task_2_fair_two_who_never_stop(prompts, writes, slots):
    """Of two users who always have a request waiting, none gets far ahead: no more than what all slots can hold."""
    case = f"ann and bob, prompts of {prompts}, {writes} tokens written, {slots} slots"
    longest = [prompt + count for prompt, count in zip(prompts, writes, strict=True)]
    with noted(case):
        script, running = Script(queue.FairQueue(), Request), []
        for _ in range(300):
            for number, user in enumerate(("ann", "bob")):
                for _ in range(2 - sum(one.user == user and not one.read for one in script.requests)):
                    script.come(user, prompts[number])
            while len(running) < slots:
                running.append(script.requests[script.play(("let in",))[-1]])
            for request in list(running):
                script.read(request.number, request.unread)
                if len(request.output) >= writes[request.user == "bob"]:
                    script.finish(request.number)
                    running.remove(request)
        counters = script.queue.counters
    if (apart := abs(counters["ann"] - counters["bob"])) > (bound := 2 * slots * max(longest)):
        fail(
            Kind.VALUES, "one has had much more than the other", case, f"at most   {bound} apart", f"got       {apart}"
        )
