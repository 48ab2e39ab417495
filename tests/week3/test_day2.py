"""Week 3, day 2: chunked prefill, a fair queue, latencies.

A plan is held to its rules, and then left to serve texts to their ends. The queue plays scripts, beside the same rules
written down without any cleverness. Percentiles are held to fractions, which do not round, and to PyTorch's k-th value.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.counting import is_a
from tests.week3.chunking import counts_by_rule, in_words, requests_of, served, texts_alone
from tests.week3.fairness import PlainRequest, PlainRules, Script, random_script
from tests.week3.fairness import in_words as script_in_words

from tiny_llm.serving import latency, plans, queue
from tiny_llm.serving.request import Chunk, Request
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

# Task 1, chunked prefill

# Requests as (tokens of the prompt, of the output, how many are read). Three that write, and prompts.
WRITERS = [(5, 4, 8), (3, 1, 3), (2, 2, 3)]
NAMES = {
    "prompts": ([(10, 0, 0), (4, 0, 0), (7, 0, 0)], 16),
    "a long prompt": ([(40, 0, 0), (4, 0, 0)], 8),
    "the rest of a prompt": ([(10, 0, 6), (9, 0, 0)], 8),
    "the last token of a prompt": ([(10, 0, 9), (9, 0, 0)], 8),
    "writers": (WRITERS, 16),
    "as many writers as tokens": ([*WRITERS, (9, 0, 0)], 3),
    "writers and a long prompt": ([*WRITERS, (40, 0, 0)], 8),
    "writers behind a long prompt": ([(40, 0, 0), *WRITERS], 8),
    "writers between prompts": ([(6, 0, 0), WRITERS[0], (40, 0, 3), WRITERS[1], (5, 0, 0)], 12),
    "a prompt of one token behind a long one": ([(40, 0, 0), (1, 0, 0), WRITERS[0]], 8),
    "one that was preempted": ([WRITERS[0], (6, 5, 0), (6, 0, 0)], 8),
    "one that has read again": ([WRITERS[0], (6, 5, 9), (6, 0, 0)], 6),
    "a budget that fits": ([WRITERS[0], (7, 0, 0)], 8),
    "a budget of one": ([(5, 0, 0), WRITERS[0]], 1),
    "more writers of equal output than tokens": ([(5, 3, 7), (3, 3, 5), (9, 3, 11)], 2),
    "more writers than tokens": ([(5, 4, 8), (3, 2, 4), (9, 0, 0), (2, 7, 8), (3, 2, 4)], 2),
}


def plan_agrees(specs, budget, words="", size=0, swept=False):
    """The chunks, in any order, are those of the rules, twice; requests and list stay as they were."""
    case = f"budget {budget}; {words or in_words(specs)}"
    running = requests_of(Request, specs)
    given_list, size = list(running), size or len(specs)

    def told(kind, headline, *lines):
        fail(kind, headline, case, *lines, size=size, swept=swept)

    for turn in ("", "the second call: "):
        with noted(case):
            chunks = plans.chunked_prefill(running, budget)
        if not isinstance(chunks, list) or not all(is_a(chunk, Chunk) for chunk in chunks):
            odd = next((x for x in chunks if not is_a(x, Chunk)), None) if isinstance(chunks, list) else chunks
            told(
                Kind.TYPE,
                f"{turn}expected a list of Chunks, got {'one with ' * isinstance(chunks, list)}{type_words(odd)}",
            )
        if running != given_list:
            told(Kind.INPUT_CHANGED, f"{turn}the caller's list `running` was changed")
        for request, (prompt, output, read) in zip(running, specs, strict=True):
            if (len(request.prompt), len(request.output), request.read) != (prompt, output, read):
                told(
                    Kind.INPUT_CHANGED,
                    f"{turn}request {request.number} was changed: the scheduler moves it on, not the plan",
                )
        found = {}
        for chunk in chunks:
            request = chunk.request
            if request.number in found or not chunk.tokens:
                what = "two chunks" if request.number in found else "an empty chunk"
                told(Kind.VALUES, f"{turn}there {'are' if what[0] == 't' else 'is'} {what} of request {request.number}")
            found[request.number] = len(chunk.tokens)
        wanted = counts_by_rule(specs, budget)
        if found != wanted:
            lines = [f"{name:<10}{counts_in_words(counts)}" for name, counts in (("expected", wanted), ("got", found))]
            told(Kind.VALUES, f"{turn}other numbers of tokens are read", *lines)
        for chunk in chunks:
            request, end = chunk.request, chunk.request.read + len(chunk.tokens)
            due = Chunk(request, request.read, request.tokens(request.read, end), int(end == request.length))
            for name in ("start", "tokens", "scored"):
                one, other = getattr(due, name), getattr(chunk, name)
                if one != other:
                    lines = f"expected  {str(one)[:70]}", f"got       {str(other)[:70]}"
                    told(Kind.VALUES, f"{turn}wrong {name} in the chunk of request {request.number}", *lines)


def counts_in_words(counts):
    """`request 0: 1, request 3: 5`, cut to a line."""
    words = [f"{number}: {count}" for number, count in sorted(counts.items())]
    return ", ".join(words[:10] + ["..."] * (len(words) > 10)) or "nothing"


@pytest.mark.parametrize("name", NAMES)
def test_task_1_chunked_rules(name):
    plan_agrees(*NAMES[name])


def test_task_1_chunked_nobody_runs():
    plan_agrees([], 5)


def test_task_1_chunked_a_prompt_step_by_step():
    """Ten tokens of a prompt beside one that writes, five tokens a step: 4, 4 and 2 of them, the last scored."""
    for read in (0, 4, 8):
        plan_agrees([(5, 1 + read, 5 + read), (10, 0, read)], 5)


@pytest.mark.parametrize("budget", [0, -3])
@pytest.mark.parametrize("specs", [[], WRITERS, [(5, 0, 0)]], ids=["nobody", "writers", "prompt"])
def test_task_1_chunked_refuses_no_budget(specs, budget):
    with raises_value_error(f"budget {budget}; {in_words(specs)}", str(budget)):
        plans.chunked_prefill(requests_of(Request, specs), budget)


def test_task_1_chunked_sweep():
    """Up to 65 requests, each of which writes, reads a prompt, or reads again what it had written."""
    for n in sizes(R=65, B=1100, P=300):
        generator = np.random.default_rng(n.seed)
        specs = []
        for _ in range(n.R):
            prompt, output = int(generator.integers(1, n.P + 1)), int(generator.integers(0, 5))
            kind = generator.integers(4)
            read = prompt + output - 1 if kind < 2 and output else int(generator.integers(prompt + output))
            specs.append((prompt, output, read))
        words = "" if n.R < 5 else f"{n.R} requests, seed {n.seed}"
        plan_agrees(specs, n.B, words, n.R * n.P, swept=True)


@property_test
@given(
    specs=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 99)).map(
            lambda s: (s[0], s[1], s[2] % sum(s[:2]))
        ),
        max_size=6,
    ),
    budget=st.integers(1, 12),
)
def test_task_1_chunked_any_requests(specs, budget):
    plan_agrees(specs, budget)


def prompts_of(lengths):
    return [[(7 * i + number) % 89 for i in range(length)] for number, length in enumerate(lengths)]


@property_test
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=7),
    most=st.integers(1, 6),
    budget=st.integers(1, 20),
    slots=st.integers(1, 5),
)
def test_task_1_chunked_whatever_the_budget(lengths, most, budget, slots):
    """The texts are the same, everyone comes to an end, no step reads more, and none reads less while there is more."""
    prompts, counts = prompts_of(lengths), [most + number % 3 for number in range(len(lengths))]
    case = f"prompts of {lengths}, {counts} tokens each, budget {budget}, {slots} slots"
    with noted(case):
        texts, steps = served(plans.chunked_prefill, Request, prompts, counts, budget, slots, steps=400)
    if any(sum(step.values()) > budget for step in steps):
        at = next(i for i, step in enumerate(steps) if sum(step.values()) > budget)
        lines = f"at most   {budget}", f"got       {sum(steps[at].values())}"
        fail(Kind.VALUES, f"step {at} reads more tokens than the budget has", case, *lines)
    expected = texts_alone(prompts, counts)
    for number, (text, wanted) in enumerate(zip(texts, expected, strict=True)):
        if text != wanted:
            lines = f"expected  {wanted}", f"got       {text}"
            fail(Kind.VALUES, f"another text for request {number}, or none", case, *lines)
    total = sum(lengths) + sum(counts) - len(counts)
    if (read := sum(sum(step.values()) for step in steps)) != total:
        fail(Kind.VALUES, "each token is to be read once", case, f"expected  {total} reads", f"got       {read}")


@pytest.mark.parametrize("budget", [4, 8, 32])
def test_task_1_chunked_nobody_stops_writing(budget):
    """While a prompt of 200 tokens is read, each of three that write has a token in every step."""
    case = f"three prompts of 1, 30 tokens each, and then a prompt of 200, budget {budget}, 4 slots"
    with noted(case):
        _, steps = served(plans.chunked_prefill, Request, prompts_of([1, 1, 1, 200]), [30, 30, 30, 2], budget, 4)
    for at, step in enumerate(steps[1:30], 1):
        if any(step.get(number) != 1 for number in range(3)):
            lines = "expected  1 of each of 0, 1 and 2", f"got       {counts_in_words(step)}"
            fail(Kind.VALUES, f"in step {at} one that writes has to wait", case, *lines)


# Task 2, the fair queue

GREEDY = [("come", "ann", 6)] * 20 + [("come", "bob", 6)]
SCRIPTS = {
    "one user, in order": [("come", "ann")] * 3 + [("let in",)] * 4,
    "a greedy user and one request": [*GREEDY, *[("let in",)] * 8],
    "two users in turn": [*[("come", "ann")] * 3, *[("come", "bob")] * 3, *[("let in",)] * 6],
    "a tie goes to the older request": [("come", "bob"), ("come", "ann"), ("come", "bob"), *[("let in",)] * 3],
    "tokens count, not requests": [
        *[("come", "ann", 8)] * 2, *[("come", "bob", 2)] * 4, ("let in",), ("read", 0, 8), ("finish", 0), ("let in",),
        ("read", 2, 2), ("finish", 2), ("let in",), ("read", 3, 2), ("finish", 3), ("let in",), ("read", 4, 2),
        ("finish", 4), ("let in",), ("let in",),
    ],
    "what is written counts": [
        ("come", "ann", 2), ("come", "bob", 2), ("let in",), ("let in",), ("read", 0, 2), ("read", 1, 2),
        *[("read", 0, 1)] * 2, ("finish", 0), ("finish", 1), ("come", "ann", 1), ("come", "bob", 1), *[("let in",)] * 2,
    ],
    "what was let in is claimed": [*[("come", "ann", 5)] * 2, *[("come", "bob", 3)] * 3, *[("let in",)] * 5],
    "half of it is read": [
        *[("come", "ann", 8)] * 2, *[("come", "bob", 3)] * 4, ("let in",), ("read", 0, 4), *[("let in",)] * 5,
    ],
    "what was finished is claimed no more": [
        *[("come", "ann", 8)] * 2, *[("come", "bob", 2)] * 2, ("let in",), ("read", 0, 1), ("finish", 0),
        *[("let in",)] * 3,
    ],
    "a new user while others wait": [
        *[("come", "ann", 4)] * 4, ("let in",), ("read", 0, 4), ("finish", 0), *[("come", "bob", 3)] * 3,
        *[("let in",)] * 6,
    ],
    "one who comes back": [
        *[("come", "ann", 4)] * 4, ("come", "bob", 1), ("let in",), ("let in",), ("read", 0, 4), ("read", 4, 1),
        ("finish", 0), ("finish", 4), ("let in",), ("read", 1, 4), ("finish", 1), *[("come", "bob", 3)] * 4,
        *[("let in",)] * 6,
    ],
    "one who comes back having had more": [
        ("come", "ann", 9), ("come", "bob", 2), ("let in",), ("let in",), ("read", 0, 9), ("read", 1, 2), ("finish", 0),
        ("finish", 1), *[("come", "bob", 2)] * 3, ("come", "ann", 2), *[("let in",)] * 4,
    ],
    "the least of three counters": [
        *[("come", "ann", 9)] * 2, *[("come", "bob", 4)] * 3, ("let in",), ("let in",), ("read", 0, 9), ("read", 2, 4),
        ("finish", 0), ("finish", 2), *[("come", "cleo", 2)] * 5, *[("let in",)] * 8,
    ],
    "a new user while nobody waits": [
        ("come", "ann", 6), ("let in",), ("read", 0, 6), ("finish", 0), ("come", "bob", 2), ("come", "bob", 2),
        ("come", "ann", 2), *[("let in",)] * 3,
    ],
    "a new user after two others": [
        ("come", "ann", 9), ("come", "bob", 3), ("let in",), ("let in",), ("read", 0, 9), ("read", 1, 3), ("finish", 0),
        ("finish", 1), *[("come", "cleo", 2)] * 3, ("come", "bob", 1), ("come", "ann", 1), *[("let in",)] * 5,
    ],
    "one who is put back is the first of its user": [
        *[("come", "ann", 3)] * 3, ("let in",), ("read", 0, 3), ("put back", 0), *[("let in",)] * 3,
    ],
    "the last of a user is put back": [
        ("come", "ann", 3), *[("come", "bob", 3)] * 2, ("let in",), ("read", 0, 2), ("put back", 0), *[("let in",)] * 3,
    ],
    "one who is put back is not lifted": [
        *[("come", "ann", 9)] * 2, ("come", "bob", 2), ("let in",), ("let in",), ("read", 0, 9), ("read", 2, 1),
        ("put back", 2), ("come", "bob", 2), *[("let in",)] * 3,
    ],
    "what was put back is claimed no more": [
        *[("come", "ann", 6)] * 2, *[("come", "bob", 4)] * 2, ("let in",), ("put back", 0), *[("let in",)] * 4,
    ],
    "one in the middle is cancelled": [*[("come", "ann", 3)] * 3, ("cancel", 1), *[("let in",)] * 3],
    "what was cancelled is not claimed": [
        *[("come", "ann", 9)] * 2, *[("come", "bob", 2)] * 2, ("cancel", 0), *[("let in",)] * 4,
    ],
    "the only one of a user is cancelled": [
        ("come", "bob", 2), *[("come", "ann", 5)] * 3, ("let in",), ("let in",), ("read", 0, 2), ("read", 1, 5),
        ("finish", 0), ("finish", 1), ("come", "bob", 2), ("cancel", 4), ("let in",), ("read", 2, 5),
        ("come", "bob", 2), *[("let in",)] * 3,
    ],
}  # fmt: skip


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
    script_agrees(SCRIPTS[name])


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


# Task 3, latencies


def times_of(*rows):
    """Rows of (came, begun, tokens...)."""
    return [latency.Times(came, begun, tuple(tokens)) for came, begun, *tokens in rows]


ROWS = {
    "three tokens": [(10.0, 12.0, 13.0, 14.0, 18.0)],
    "one token": [(10.0, 12.0, 13.0)],
    "no token": [(10.0, 12.0)],
    "two at once": [(0.5, 0.5, 2.0, 2.0, 2.0, 5.0)],
    "several": [
        (0.0, 0.0, 1.0, 2.0),
        (0.5, 2.0, 4.0, 4.5, 6.0),
        (1.0, 3.0),
        (2.0, 3.0, 9.0),
        (3.0, 3.0, 4.0, 9.0, 9.5),
    ],
    "in another order": [(7.0, 8.0, 9.0, 11.0, 12.0), (1.0, 4.0, 20.0, 21.0), (2.0, 2.0, 2.5, 9.0)],
    "none": [],
}


def exact(rows):
    """TTFT and TPOT of each request that has them, as fractions."""
    ttft = [Fraction(tokens[0]) - Fraction(came) for came, _, *tokens in rows if tokens]
    gaps = [[Fraction(b) - Fraction(a) for a, b in pairwise(tokens)] for _, _, *tokens in rows]
    return ttft, [sum(some) / len(some) for some in gaps if some]


def nearest_rank(numbers, percent):
    """The first of them, in ascending order, that so many percent do not exceed."""
    return next(x for x in sorted(numbers) if 100 * sum(y <= x for y in numbers) >= percent * len(numbers))


def close_to(actual, expected):
    return isinstance(actual, float | int) and math.isclose(actual, float(expected), rel_tol=1e-9, abs_tol=1e-9)


def latency_agrees(rows, words="", swept=False):
    """Both lists, and the summary."""
    case = words or f"requests (came, begun, tokens): {str(rows)[1:-1][:150]}"

    def told(kind, headline, *lines):
        fail(kind, headline, case, *lines, size=sum(map(len, rows)), swept=swept)

    with noted(case):
        kept = latency.Latency()
        for times in times_of(*rows):
            kept.add(times)
        lists, summary = {"ttft": list(kept.ttft), "tpot": list(kept.tpot)}, kept.summary()
        afterwards = list(kept.ttft), list(kept.tpot)
    for (name, found), wanted in zip(lists.items(), exact(rows), strict=True):
        if len(found) != len(wanted):
            told(
                Kind.VALUES,
                f"another number of entries in `{name}`",
                f"expected  {len(wanted)}",
                f"got       {len(found)}",
            )
        for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if not close_to(one, other):
                lines = f"expected  {float(other):.6g}", f"got       {one}"
                told(Kind.VALUES, f"wrong {name}, entry {at}", *lines)
        if not isinstance(summary, dict) or set(summary) != {"ttft", "tpot"}:
            told(Kind.TYPE, f"summary() gave {str(summary)[:60]}, expected a dict of ttft and tpot")
        due = [nearest_rank(wanted, percent) for percent in (50, 95, 99)] if wanted else None
        got = summary[name]
        if due is None:
            if got is not None:
                told(Kind.VALUES, f"the summary of `{name}`, which is empty", "expected  None", f"got       {got}")
            continue
        if not is_a(got, latency.Percentiles):
            told(Kind.TYPE, f"the summary's {name} is {type_words(got)}, expected Percentiles")
        for part, one, other in zip(("p50", "p95", "p99"), (got.p50, got.p95, got.p99), due, strict=True):
            if not close_to(one, other):
                told(Kind.VALUES, f"wrong {part} of {name}", f"expected  {float(other):.6g}", f"got       {one}")
    for (name, found), later in zip(lists.items(), afterwards, strict=True):
        if found != later:
            lines = f"before    {str(found)[:70]}", f"after     {str(later)[:70]}"
            told(Kind.VALUES, f"summary() has changed `{name}`", *lines)


def percentile_agrees(numbers, percent, expected=None, words="", swept=False):
    """It is one of the numbers, so that there is nothing to round. The list stays as it is."""
    case = words or f"percentile {percent} of {str(numbers)[:90]}"
    given_list = list(numbers)
    with noted(case):
        found = latency.Latency.percentile(given_list, percent)
    wanted = nearest_rank(numbers, percent) if expected is None else expected
    if given_list != numbers:
        fail(Kind.INPUT_CHANGED, "the caller's `numbers` was changed", case, "sorted() makes a list of its own")
    if found != wanted:
        lines = f"expected  {wanted}", f"got       {found}"
        fail(Kind.VALUES, "another number", case, *lines, size=len(numbers), swept=swept)


@pytest.mark.parametrize("name", ROWS)
def test_task_3_latency_lists(name):
    latency_agrees(ROWS[name])


def test_task_3_latency_summary_of_many():
    many = [(float(i), i + 0.5, i + 1.0 + (i * 7 % 40) / 8, i + 30.0 + i % 3) for i in range(40)]
    latency_agrees(many, "40 requests")
    latency_agrees([(0.0, 0.0, i / 8, i / 8 + i * 37 % 200) for i in range(200)], "200 requests")


@pytest.mark.parametrize(
    ("numbers", "percent", "expected"),
    [
        ([4.0], 1, 4.0), ([4.0], 100, 4.0), ([3.0, 1.0, 2.0], 50, 2.0), ([4.0, 3.0, 1.0, 2.0], 50, 2.0),
        ([4.0, 3.0, 1.0, 2.0], 51, 3.0), ([4.0, 3.0, 1.0, 2.0], 75, 3.0), ([5.0, 5.0, 1.0], 34, 5.0),
        ([float(i) for i in range(100)], 95, 94.0), ([float(i) for i in range(20)], 95, 18.0),
        ([float(i) for i in range(21)], 95, 19.0), ([float(i) for i in range(100)], 7, 6.0),
        ([float(i) for i in range(100)], 100, 99.0), ([-1.0, -2.0, -3.0], 99, -1.0),
    ],
)  # fmt: skip
def test_task_3_latency_percentile(numbers, percent, expected):
    percentile_agrees(numbers, percent, expected)


@pytest.mark.parametrize("percent", [1, 25, 50, 90, 95, 99, 100])
def test_task_3_latency_pytorch(pytorch, percent):
    """PyTorch's k-th smallest number, k by whole numbers."""
    numbers = np.random.default_rng(percent).normal(size=37).astype(np.float32).tolist()

    def kth(torch, numbers, percent):
        k = (percent * len(numbers) + 99) // 100
        return torch.kthvalue(torch.tensor(numbers, dtype=torch.float64), k).values

    percentile_agrees(numbers, percent, float(pytorch(kth, numbers, percent)))


def test_task_3_latency_sweep():
    for n in sizes(R=300, T=70, P=100):
        generator = np.random.default_rng(n.seed)
        numbers = (generator.integers(-99, 99, n.R) / 8).tolist()
        percentile_agrees(numbers, n.P, words=f"percentile {n.P} of {n.R} numbers, seed {n.seed}", swept=True)
        rows = []
        for _ in range(min(n.R, 40)):
            came = float(generator.integers(0, 1000)) / 8
            later = np.cumsum(generator.integers(0, 9, int(generator.integers(0, n.T + 1)) + 1)) / 8
            rows.append((came, came + later[0].item(), *(came + later[0] + later[1:]).tolist()))
        latency_agrees(rows, f"{len(rows)} requests of up to {n.T} tokens, seed {n.seed}", swept=True)


@property_test
@given(
    numbers=st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=1, max_size=30), percent=st.integers(1, 100)
)
def test_task_3_latency_percentile_formula(numbers, percent):
    percentile_agrees(numbers, percent)


@property_test
@given(numbers=st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=20), percent=st.integers(1, 100))
def test_task_3_latency_percentile_of_all_of_them_twice(numbers, percent):
    """As many again of the same numbers change nothing."""
    case = f"percentile {percent} of {numbers}, and of the same numbers twice over"
    with noted(case):
        one, two = (latency.Latency.percentile(some, percent) for some in (numbers, numbers + numbers))
    if one != two:
        fail(Kind.VALUES, "two different percentiles", case, f"once      {one}", f"twice     {two}", size=len(numbers))
    percentile_agrees(numbers, percent)


@pytest.mark.parametrize(("numbers", "percent"), [([], 50), ([1.0], 0), ([1.0, 2.0], 101), ([1.0, 2.0], -5)])
def test_task_3_latency_refuses_what_is_no_percentile(numbers, percent):
    with raises_value_error(f"percentile {percent} of {numbers}", str(percent)):
        latency.Latency.percentile(numbers, percent)


def test_task_3_latency_two_at_a_time():
    """What is told to one is not told to the other, and a summary can be had at any time."""
    case = "two Latency objects; two requests for the first, none for the second"
    with noted(case):
        one, other = latency.Latency(), latency.Latency()
        first, second = times_of((0.0, 0.0, 1.0, 3.0), (0.0, 1.0, 5.0, 6.0))
        one.add(first)
        early = one.summary()["ttft"].p99
        one.add(second)
        found = early, one.summary()["ttft"].p99, len(other.ttft), other.summary()["tpot"]
    if found != (1.0, 5.0, 0, None):
        fail(Kind.VALUES, "they do not agree", case, "expected  (1.0, 5.0, 0, None)", f"got       {found}")
