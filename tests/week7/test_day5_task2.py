"""Task 7.5.2, compaction, checked by its rules, and by questions about what was replaced."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.compacting import (
    GREEN,
    QUESTIONS,
    RED,
    REFUSED,
    SYSTEM,
    TASK,
    WORK,
    conversation,
    did,
    edit,
    expected,
    lines_of,
    one,
    read,
    run,
    said,
    user,
)
from tests.week7.lines import same_lines

from tiny_llm.agent import compaction
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def check(turns, budget, case, count=one, notes=None, head=(SYSTEM, TASK)):
    messages = conversation(turns, head)
    before = copy.deepcopy(messages)
    with noted(case):
        found = compaction.compact(messages, budget, count, notes and (lambda replaced: notes))
    if type(found) is not list:
        fail(Kind.TYPE, f"returned {type(found).__name__}, expected a list", case)
    fail_if_different("the caller's messages were changed", before, messages, case)
    if found is messages:
        fail(Kind.VALUES, "the caller's list was returned, not a new one", case)
    wanted = expected(turns, budget, count, notes, head)
    same_lines(lines_of(found), lines_of(wanted), case, "line")
    fail_if_different("a message has changed", wanted, found, case)


SMALL = [did(read("a.py")), did(edit("a.py")), did(run(RED))]
TURNS = {
    "nothing after the task": [],
    "one turn": SMALL[:1],
    "three turns of two messages": SMALL,
    "four calls in a turn": [*SMALL, did(*[read(f"{i}.py") for i in range(4)])],
    "a large turn first": [did(*[read(f"{i}.py") for i in range(5)]), *SMALL],
    "answers and questions": [said("Blue."), user("And the cat?"), said("Red."), user("Thanks."), said("Bye.")],
    "work": WORK,
}


@pytest.mark.parametrize("name", TURNS)
def test_task_2_compact_budget(name):
    """With every budget, a token for each message."""
    for budget in range(0, len(conversation(TURNS[name])) + 2):
        check(TURNS[name], budget, f"{name}, a budget of {budget} messages")


@pytest.mark.parametrize("question", QUESTIONS)
def test_task_2_compact_question(question):
    """Facts of the conversation can still be found in what is left of it."""
    words, wanted = QUESTIONS[question]
    case = f"{question} All turns but the last are replaced"
    with noted(case):
        found = compaction.compact(conversation(WORK), 6, one)
    text = "\n".join(str(message.get("content")) for message in found)
    if (words in text) != wanted:
        summary = next((m["content"] for m in found if str(m.get("content")).startswith("Summary")), "(no summary)")
        what = f"{words.strip()!r} is {'missing' if wanted else 'still'} in the compacted conversation"
        fail(Kind.VALUES, what, case, *[f"summary   {line}" for line in summary.split("\n")[:9]])


SUMMARIES = {
    "no call": [said("a"), said("b")],
    "a call that failed": [did(run(RED))],
    "then succeeded": [did(run(RED)), did(run(GREEN))],
    "then failed again": [did(run(RED)), did(run(GREEN)), did(run("4 failed\n[exit code 2]"))],
    "failed in two ways": [did(run(RED)), did(run("4 failed\n[exit code 2]"))],
    "two commands": [did(run(RED)), did(run(GREEN, "pytest", "-q", "dog"))],
    "two failures, the first one again": [did(run(RED)), did(edit("a.py", REFUSED)), did(run(RED))],
    "an edit that failed": [did(edit("a.py", REFUSED))],
    "an edit that failed, and one of another file": [did(edit("a.py", REFUSED)), did(edit("b.py"))],
    "an edit after a failed one": [did(edit("a.py", REFUSED), edit("a.py"))],
    "edits in turns": [did(edit("b.py")), did(edit("a.py")), did(edit("b.py"))],
    "a read that failed": [did(read("no.py", "Error: There is no 'no.py'."))],
    "a stopped command": [did(run("dog\n[stopped at its limit of 120 seconds]"))],
    "an output that says Error": [did(run("Error: 3\nError: 4\n[exit code 0]"))],
    "the exit code in the output": [did(run("[exit code 0]\n[exit code 1]"))],
    "a file with Error inside": [did(read("a.py", "x\nError: 5"))],
    "another tool with an exit code": [did(("fetch", {}, "[exit code 1]"))],
    "an empty result": [did(run("", "true"))],
    "the same ids in two turns": [did(edit("a.py")), did(edit("b.py", REFUSED))],
    "texts of the user": [user("a\nb"), user(""), user("a\nb")],
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_task_2_compact_summary(name):
    """Two turns that fill the budget follow, so that all before the last one are replaced."""
    turns = [*SUMMARIES[name], did(*[read("a.py")] * 3), said("So.")]
    check(turns, 4, f"{name}, and two more turns")


def test_task_2_compact_notes():
    case = "notes about the replaced messages"
    check(WORK, 8, case, notes="The cat is in b.py.")
    asked = []
    with noted(case):
        compaction.compact(conversation(WORK), 8, one, lambda messages: asked.append(list(messages)) or "x")
        compaction.compact(conversation(WORK), 1000, one, lambda messages: asked.append("too early") or "x")
    long = [did(read(f"{i}.py", "dog " * 200)) for i in range(6)]  # by tokens, long notes could move the boundary
    for budget in (800, 1500):
        check(
            long,
            budget,
            f"notes of 4,000 characters, a budget of {budget}",
            compaction.approximate_tokens,
            "cat " * 1000,
        )
    replaced = len(conversation(WORK)) - len(expected(WORK, 8)) + 1
    fail_if_different("what notes was called with is wrong", [conversation(WORK)[2 : 2 + replaced]], asked, case)


@pytest.mark.parametrize("head", [(TASK,), (SYSTEM, SYSTEM, TASK), (TASK, TASK)], ids=["task", "two systems", "twice"])
def test_task_2_compact_head(head):
    """The head ends with the first message of the user; a second one is a turn."""
    turns = WORK if head != (TASK, TASK) else [user(TASK["content"]), *WORK]
    head = head if head != (TASK, TASK) else (TASK,)
    for budget in (5, 9):
        check(turns, budget, f"a head of {len(head)} messages, a budget of {budget} messages", head=head)


def test_task_2_compact_tokens():
    """By default, tokens are counted by `approximate_tokens`."""
    long = [did(read(f"{i}.py", "dog " * 200)) for i in range(6)]
    asked = [turn for read_turn in long for turn in (read_turn, user("cat " * 100))]  # the summary grows with each
    for turns, words, budgets in (
        (long, "six results of 800 characters", (400, 800, 2000)),
        (asked, "six results of 800 characters, a question of 400 after each", (1250, 1400, 1500)),
    ):
        for budget in budgets:
            case = f"{words}, a budget of {budget} tokens"
            with noted(case):
                found = compaction.compact(conversation(turns), budget)
            wanted = expected(turns, budget, compaction.approximate_tokens)
            same_lines(lines_of(found), lines_of(wanted), case, "line")


def test_task_2_compact_stays_the_same():
    """From one step to the next, the beginning changes only when more turns must be replaced."""
    case, changes = "40 steps, one after the other, with a budget of 20 messages", 0
    before = []
    for steps in range(1, 41):
        with noted(case):
            found = compaction.compact(conversation([did(read(f"{i}.py")) for i in range(steps)]), 20, one)
        changes += found[: len(before)] != before
        before = found
    fail_if_different("how often the beginning changed is wrong", 8, changes, case)


def test_task_2_compact_sweep():
    for n in sizes(S=130, C=9):
        turns = [did(*[edit(f"{(i * n.C + j) % 7}.py") for j in range(n.C)]) for i in range(n.S)]
        for budget in (n.S, n.C + 5, 40):
            check(turns, budget, f"{n.S} turns of {n.C} calls, a budget of {budget} messages")


CALLS = [read("a.py"), edit("a.py"), edit("b.py"), edit("a.py", REFUSED), run(RED), run(GREEN), run(RED, "ruff")]


@property_test
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(CALLS), min_size=1, max_size=3).map(lambda calls: did(*calls)),
            st.sampled_from([said("Hm."), user("Go on."), user("Use tabs.")]),
        ),
        max_size=9,
    ),
    st.integers(0, 20),
    st.sampled_from([one, lambda message: 2 + len(str(message.get("content"))) % 5]),
)
def test_task_2_compact_any(turns, budget, count):
    words = "one token a message" if count is one else "2 to 6 tokens a message"
    check(turns, budget, f"{len(turns)} turns, a budget of {budget}, {words}", count)
