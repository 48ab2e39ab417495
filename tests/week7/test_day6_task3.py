"""Task 7.6.3, the causes of failures: a transcript for each cause, for each order of two, and random ones."""

import copy

import pytest
from tests.week7.transcripts import SCENES, Scene, entries, random_scene

from tiny_llm.outcomes import causes
from tiny_llm.outcomes.grade import Grade
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different


def said(scene, name=""):
    calls = ", ".join(f"{call.tool} {call.path or ''}: {call.result.splitlines()[-1]}" for call in scene.calls)
    grade = f"verdict {scene.verdict!r}" + (f", failed {', '.join(scene.failed)}" if scene.failed else "")
    return f"{name + ': ' if name else ''}{calls or 'no calls'}; stop {scene.stop}; {grade}"


def check(scene, case):
    given = entries(scene.calls, scene.stop, scene.together)
    before = copy.deepcopy(given)
    with noted(case):
        found = causes.cause_of(given, Grade(scene.verdict, scene.failed))
    if given != before:
        fail(Kind.VALUES, "the transcript was changed", case)
    fail_if_different("the cause is wrong", scene.cause, found, case, size=len(scene.calls))


@pytest.mark.parametrize("name", SCENES)
def test_task_3_causes_scene(name):
    check(SCENES[name], said(SCENES[name], name))


def test_task_3_causes_arguments_that_are_no_object():
    """A model may write arguments that are no JSON object: their path is none."""
    scene = Scene([], "wrong fix")
    case = "an edit whose arguments are a JSON list, and tests"
    given = entries([*SCENES["all seems well"].calls], "done")
    given[3]["message"]["tool_calls"][0]["function"]["arguments"] = '["test_x.py"]'
    with noted(case):
        found = causes.cause_of(given, Grade("failed", ("test_new",)))
    fail_if_different("the cause is wrong", scene.cause, found, case)


def test_task_3_causes_sweep():
    """Random transcripts, the shortest of those that differ is shown."""
    for scene in sorted(map(random_scene, range(600)), key=lambda scene: len(scene.calls)):
        check(scene, said(scene))
