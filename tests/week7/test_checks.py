"""Week 7's open task: an agent is measured by how many cases of a small suite it solves, with models that are weak."""

from tests.week7.weak_models import CASES, KINDS, worked

from tiny_llm.agent.loop import Limits
from tiny_llm.agent.model import Answer
from tiny_llm.outcomes import own_agent
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

HELPED = KINDS[:-1]  # all models but the one that never finds the bug


def done(kind, case, steps=20):
    words = f"the model {kind!r}, case {case.name!r}, at most {steps} steps"
    with noted(words):
        return worked(own_agent.work, case, kind, Answer, Limits, steps), words


def test_checks_needs_no_help():
    """A model that works well is left alone."""
    for case in CASES:
        found, words = done("needs no help", case)
        fail_if_different("the case is not solved", True, found.solved, words)
        fail_if_different("the agent interrupts: the number of its own messages is wrong", 0, found.rounds, words)
        fail_if_different("`reason` is wrong", "done", found.reason, words)


def test_checks_within_the_limits():
    """The limits hold for the whole work, however often the agent asks again."""
    for case in CASES:
        for steps in (1, 2, 7, 20):
            found, words = done("never", case, steps)
            if found.asked > steps:
                fail(Kind.VALUES, f"the model was asked {found.asked} times", words)
            fail_if_different("`reason` is wrong", "steps", found.reason, words)


def test_checks_outcome_and_record():
    """Steps, tokens, messages and record are those of the whole work."""
    for kind in KINDS:
        found, words = done(kind, CASES[0])
        fail_if_different("steps or tokens are not those of the whole work", True, found.told, words)
        fail_if_different("the given messages were changed, or are missing", True, found.begins, words)
        fail_if_different("the record is not the conversation and one stop", True, found.recorded, words)


def test_checks_score():
    """The small suite: 16 cases that can be solved."""
    results = {kind: [done(kind, case)[0].solved for case in CASES] for kind in HELPED}
    solved = sum(map(sum, results.values()))
    if solved < 14:
        table = [f"{kind}: {sum(each)} of {len(each)}" for kind, each in results.items()]
        fail(Kind.VALUES, f"{solved} of 16 cases are solved, at least 14 are needed", "all models", *table)
