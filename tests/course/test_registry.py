"""The registry: what it holds, what it answers to a wrong question, and what it refuses."""

import re
import time
from pathlib import Path

import pytest

from tiny_llm_course.registry import Course, Target, UsageError, load_course, resolve

TASK = """
[[weeks.days.tasks]]
id = "{id}"
title = "Title of {id}"
targets = ["module:function_{id_}"]
tests = "task"
needs = []
minutes = 10
difficulty = 1
forbidden = []
hints = ["one", "two", "three"]
"""


def task(task_id: str) -> str:
    return TASK.format(id=task_id, id_=task_id.replace(".", "_"))


def day(number: int) -> str:
    return f'[[weeks.days]]\nnumber = {number}\ntitle = "Day"\nchapter = "day.md"\n'


def week(number: int) -> str:
    return f'[[weeks]]\nnumber = {number}\ntitle = "Week"\n'


REGISTRY = week(1) + day(1) + task("1.1.1") + task("1.1.2") + day(2) + task("1.2.1") + week(2) + day(1) + task("2.1.1")


def load(tmp_path: Path, text: str) -> Course:
    path = tmp_path / "tasks.toml"
    path.write_text(text, encoding="utf-8")
    return load_course(path)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load(tmp_path, REGISTRY)


def ids(course: Course, selector: str) -> list[str]:
    return [task.id for task in resolve(course, selector)]


def test_a_task_has_what_its_table_says(tmp_path: Path) -> None:
    text = REGISTRY.replace(
        'targets = ["module:function_1_2_1"]\ntests = "task"\nneeds = []',
        'targets = ["a.b:C.__call__", "m:f"]\ntests = "task_1"\nneeds = ["1.1.1"]',
    )
    task = load(tmp_path, text).task("1.2.1")
    assert (task.id, task.title, task.label, task.week, task.day) == (
        "1.2.1",
        "Title of 1.2.1",
        "1.2.1 Title of 1.2.1",
        1,
        2,
    )
    assert task.targets == (Target("a.b", "C.__call__"), Target("m", "f"))
    assert str(task.targets[0]) == "a.b:C.__call__"
    assert (task.tests, task.needs, task.minutes, task.difficulty) == ("task_1", ("1.1.1",), 10, 1)
    assert (task.forbidden, task.hints) == ((), ("one", "two", "three"))


def test_lookups(course: Course) -> None:
    assert course.week(2).number == 2
    assert course.day(1, 2).number == 2
    assert course.day(1, 2).week == 1
    assert course.day(1, 2).chapter == "day.md"
    assert [task.id for task in course.tasks()] == ["1.1.1", "1.1.2", "1.2.1", "2.1.1"]


def test_a_selector_stands_for_a_task_a_day_or_a_week(course: Course) -> None:
    assert ids(course, "1.1.2") == ["1.1.2"]
    assert ids(course, "1.1") == ["1.1.1", "1.1.2"]
    assert ids(course, "1") == ["1.1.1", "1.1.2", "1.2.1"]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("9", "There is no week 9; there are weeks 1 and 2."),
        ("9.1.1", "There is no week 9; there are weeks 1 and 2."),
        ("1.8", "There is no day 8 in week 1; there are days 1 and 2."),
        ("1.8.1", "There is no day 8 in week 1; there are days 1 and 2."),
        ("1.1.9", "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2."),
        ("banana", "'banana' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."),
        ("", "'' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."),
        ("1.1.1.1", "'1.1.1.1' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."),
        (
            "1.\n1",
            r"'1.\n1' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1. Did you mean 1.1?",
        ),
        ("-1", "'-1' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1. Did you mean 1?"),
        (
            "\u0661",
            "'\u0661' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1. Did you mean 1?",
        ),
    ],
)
def test_what_does_not_exist_is_told_in_one_line(course: Course, selector: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(course, selector)
    assert str(caught.value) == message


def test_a_day_is_not_a_task(course: Course) -> None:
    with pytest.raises(UsageError, match=r"'1\.1' is not a task"):
        course.task("1.1")


def test_an_empty_course_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no week 1; there is no week yet\."):
        load(tmp_path, "weeks = []").week(1)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "Title of 1.1.2"\n', "", "task 1.1.2: the key 'title' is missing"),
        ('id = "1.1.2"\n', "", "task 2 of day 1.1: the key 'id' is missing"),
        ('title = "Title of 1.1.2"\n', 'title = ""\nminuets = 3\n', "task 1.1.2: there is no key 'minuets'"),
        ('title = "Title of 1.1.2"\n', "title = 3\n", "task 1.1.2: 'title' must be a string, not 3"),
        ('["module:function_1_1_2"]', '"module:f"', "task 1.1.2: 'targets' must be a list of strings"),
        ('["module:function_1_1_2"]', "[3]", "task 1.1.2: 'targets' must be a list of strings"),
        ('["module:function_1_1_2"]', "[]", "task 1.1.2: 'targets' is empty"),
        ('["module:function_1_1_2"]', '["softmax"]', "task 1.1.2: 'targets' names 'softmax', which is not module:name"),
        ('["module:function_1_1_2"]', '["m:f."]', "task 1.1.2: 'targets' names 'm:f.', which is not module:name"),
        (
            '["module:function_1_1_2"]',
            '["module:function_1_1_1"]',
            "task 1.1.2: 'targets' names module:function_1_1_1, a target of 1.1.1 already",
        ),
        ("minutes = 10", "minutes = true", "task 1.1.1: 'minutes' must be a whole number, not True"),
        ('id = "1.1.2"', 'id = "1.1.1"', "task 1.1.1 is there twice"),
        ('id = "1.1.2"', 'id = "1.2.2"', "task 1.2.2: its id does not match its place, day 1.1"),
        ('id = "1.1.2"', 'id = "1.1.02"', "task 1.1.02: its id does not match its place, day 1.1"),
        ("needs = []", 'needs = ["1.2.1"]', "task 1.1.1: 'needs' names 1.2.1, which does not come before it"),
        ("needs = []", 'needs = ["1.1.1"]', "task 1.1.1: 'needs' names 1.1.1, which does not come before it"),
        ("needs = []", 'needs = ["1.7.7"]', "task 1.1.1: 'needs' names 1.7.7, which does not exist"),
        ('chapter = "day.md"\n', "", "day 1.1: the key 'chapter' is missing"),
        (day(2) + task("1.2.1"), day(1) + "tasks = []\n", "week 1: day 1 is there twice"),
        (week(2) + day(1) + task("2.1.1"), week(1) + "days = []\n", "week 1 is there twice"),
        ('title = "Week"\n', "", "week 1: the key 'title' is missing"),
        ("[[weeks]]\nnumber = 1", "years = 1\n[[weeks]]\nnumber = 1", "the registry: there is no key 'years'"),
        ("[[weeks]]\nnumber = 1", "[[weeks]\nnumber = 1", "at line 1"),
    ],
)
def test_a_malformed_registry_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in REGISTRY
    with pytest.raises(ValueError, match="^tasks.toml: .*" + re.escape(complaint)):
        load(tmp_path, REGISTRY.replace(old, new, 1))


def test_the_course_s_own_registry_loads_once_and_fast() -> None:
    began = time.perf_counter()
    course = load_course()
    assert time.perf_counter() - began < 0.5
    assert load_course() is course
    assert course.task("1.1.2").title == "Scaled dot-product attention"
