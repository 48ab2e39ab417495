"""A newcomer's first drafts, with two or three mistakes at once: what is told of them, and that it is true."""

import tomllib
from pathlib import Path

import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, run
from tiny_llm_course.testkit.variants import load_variants

pytestmark = pytest.mark.maintainers
COURSE = load_course()
TABLE = tomllib.loads(Path(__file__).with_name("first_drafts.toml").read_text(encoding="utf-8"))
DRAFTS = {draft["task"]: draft for draft in TABLE["drafts"]}


def apart() -> list[list[str]]:
    """The drafts' tasks in a few groups, none of which has a task and one that it uses."""
    groups: list[list[str]] = []
    for task in DRAFTS:
        free = [g for g in groups if not any(task in COURSE.needs(one) or one in COURSE.needs(task) for one in g)]
        if free:
            free[0].append(task)
        else:
            groups.append([task])
    return groups


@pytest.fixture(scope="module")
def reports() -> dict[str, str]:
    """What is told of each draft, all else being solved."""
    found: dict[str, str] = {}
    solved = tuple(task.id for task in COURSE.tasks())
    for group in apart():
        edits = tuple(Edit(COURSE.task(task).target.file, f"\n\n{DRAFTS[task]['code']}") for task in group)
        with checkout_for(Scenario("first drafts", (), solved, edits)) as checkout:
            found |= {task: run(f"test {task} --time-limit 200", checkout).stdout for task in group}
    return found


@pytest.mark.parametrize("task", DRAFTS)
def test_a_first_draft_is_told_what_is_true_of_it(reports, task):
    draft, report = DRAFTS[task], reports[task]
    for words in draft["told"]:
        assert words in report
    named = {known.fact for known in load_variants(COURSE.task(task)).wrong_programs if known.fact in report}
    assert named == set(draft["facts"]), report


def test_every_draft_has_some_mistakes_and_is_told_of_one():
    assert len(DRAFTS) >= 8
    assert all(len(draft["mistakes"]) >= 2 for draft in DRAFTS.values())
    assert all(draft["told"] or draft["facts"] for draft in DRAFTS.values())
