"""The registry: what it holds, what it answers to a wrong question, and what it refuses."""

import re
import time
from pathlib import Path

import pytest

from tiny_llm_course.course.entities import Target
from tiny_llm_course.course.registry import Course, UsageError, load_course, resolve

TASK = """
[[days.tasks]]
id = "{id}"
title = "Title of {id}"
target = "module:function_{id_}"
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
    return f'[[days]]\nnumber = {number}\ntitle = "Day"\nchapter = "day.md"\n'


def week(number: int) -> str:
    """A line that is no TOML begins the next week's file."""
    return f'---\nnumber = {number}\ntitle = "Week"\n'


def stage(model: str = '"m:M"', needs: str = '["1.1.1"]') -> str:
    return f'[[stages]]\nname = "s"\ntitle = "S"\nmodel = {model}\ngenerate = "m:g"\nneeds = {needs}\n'


def engine() -> str:
    return stage().replace("[[stages]]", "[[engines]]") + 'config = "c:C"\ncounts = "a:counted"\n'


def mode(kernels: str = "[]", make: str = '"engines.modes:m"') -> str:
    return f'[[modes]]\nname = "m"\ntitle = "M"\nmake = {make}\nneeds = ["1.1.1"]\nkernels = {kernels}\n'


def open_task(of: str = '"1.1.2"') -> str:
    keys = f'of = {of}\ntarget = "checks:check"\nchapter = "checks.md"\nminutes = 10\ndifficulty = 1\n'
    return f'[open]\ntitle = "Checks"\n{keys}hints = ["one", "two", "three"]\n'


REGISTRY = week(1) + day(1) + task("1.1.1") + task("1.1.2") + day(2) + task("1.2.1") + week(2) + day(1) + task("2.1.1")


def load(tmp_path: Path, text: str) -> Course:
    for number, week_text in enumerate(text.split("---\n")[1:], 1):
        (tmp_path / f"week{number}.toml").write_text(week_text, encoding="utf-8")
    return load_course(tmp_path)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load(tmp_path, REGISTRY)


def ids(course: Course, selector: str) -> list[str]:
    return [task.id for task in resolve(course, selector)]


def test_a_task_has_what_its_table_says(tmp_path: Path) -> None:
    text = REGISTRY.replace(
        'target = "module:function_1_2_1"\ntests = "task"\nneeds = []',
        'target = "a.b:C.__call__"\ntests = "task_1"\nneeds = ["1.1.1"]',
    )
    task = load(tmp_path, text).task("1.2.1")
    assert (task.id, task.title, task.label, task.week, task.day) == (
        "1.2.1",
        "Title of 1.2.1",
        "1.2.1 Title of 1.2.1",
        1,
        2,
    )
    assert task.target == Target("a.b", "C.__call__")
    assert str(task.target) == "a.b:C.__call__"
    assert (task.tests, task.needs, task.minutes, task.difficulty) == ("task_1", ("1.1.1",), 10, 1)
    assert (task.forbidden, task.hints) == ((), ("one", "two", "three"))
    assert (task.requires, task.seconds) == ((), 20)


def test_what_a_task_requires_and_may_take_and_what_a_week_builds(tmp_path: Path) -> None:
    text = REGISTRY.replace('title = "Week"\n', 'title = "Week"\nbuild = "extension/build.py"\n', 1)
    text = text.replace("minutes = 10\n", 'minutes = 10\nrequires = ["compiler", "port"]\nseconds = 90\n', 1)
    course = load(tmp_path, text)
    assert (course.task("1.1.1").requires, course.task("1.1.1").seconds) == (("compiler", "port"), 90)
    assert [week.build for week in course.weeks] == ["extension/build.py", ""]


def test_a_mode_may_have_kernels(tmp_path: Path) -> None:
    text = REGISTRY.replace(week(1), week(1) + mode() + mode('["1.1.1"]').replace('"m"', '"n"'))
    plain, fused = load(tmp_path, text).modes()
    assert (plain.name, plain.make, plain.needs) == ("m", Target("engines.modes", "m"), ("1.1.1",))
    assert (plain.kernels, fused.kernels) == ((), ("1.1.1",))


def test_an_engine_is_no_stage(tmp_path: Path) -> None:
    text = REGISTRY.replace(week(1), week(1) + stage().replace('"s"', '"slow"') + engine())
    course = load(tmp_path, text)
    assert [stage.name for stage in course.stages()] == ["slow"]
    (further,) = course.engines()
    assert (further.config, further.counts) == (Target("c", "C"), Target("a", "counted"))
    assert (course.stages()[0].config, course.stages()[0].counts) == (Target("config", "ModelConfig"), None)


METAL = 'target = "kernels/softmax.metal:softmax"\nprogram = "kernels.softmax:softmax"'


def test_a_target_in_a_folder_and_one_in_another_language(tmp_path: Path) -> None:
    text = REGISTRY.replace('target = "module:function_1_1_1"', 'target = "kernels.axpy:axpy"')
    course = load(tmp_path, text.replace('target = "module:function_1_1_2"', METAL))
    axpy, softmax = course.task("1.1.1"), course.task("1.1.2")
    assert (axpy.target.file, axpy.target.module, axpy.program) == ("kernels/axpy.py", "kernels.axpy", axpy.target)
    assert (softmax.target.file, str(softmax.target)) == ("kernels/softmax.metal", "kernels/softmax.metal:softmax")
    assert softmax.program == Target("kernels.softmax", "softmax")
    with pytest.raises(ValueError, match="is in no Python module"):
        _ = softmax.target.module


def test_lookups(course: Course) -> None:
    assert course.week(2).number == 2
    assert course.day(1, 2).number == 2
    assert course.day(1, 2).week == 1
    assert course.day(1, 2).chapter == "day.md"
    assert [task.id for task in course.tasks()] == ["1.1.1", "1.1.2", "1.2.1", "2.1.1"]


def test_an_open_task_is_the_last_of_its_week(tmp_path: Path) -> None:
    """Its place among the days is no name for it: a further day takes that place."""
    course = load(tmp_path, REGISTRY.replace(week(1), week(1) + open_task()))
    assert [day.name for day in course.days()] == ["1.1", "1.2", "1.C", "2.1"]
    assert ids(course, "1") == ["1.1.1", "1.1.2", "1.2.1", "1.C"]
    assert course.needs("1.C") == ("1.1.2",)
    with pytest.raises(UsageError, match="There is no day 3 in week 1; there are days 1 and 2"):
        resolve(course, "1.3")
    with pytest.raises(UsageError, match="Week 2 has no open task"):
        resolve(course, "2.C")


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
    with pytest.raises(ValueError, match=r"no week1\.toml is in "):
        load_course(tmp_path)
    with pytest.raises(UsageError, match=r"There is no week 1; there is no week yet\."):
        Course(()).week(1)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (week(1), week(1) + open_task('"2.1.1"'), "week 1: 'open': 'of' names 2.1.1, which is not a task of the week"),
        (week(1), week(1) + open_task("1"), "week 1: 'open': 'of' must be a string, not 1"),
        (week(1), week(1) + open_task() + 'id = "1.C"\n', "week 1: 'open': there is no key 'id'"),
        (week(1), week(1) + 'open = "1.1.2"\n', "week 1: 'open' must be a table, not '1.1.2'"),
        ('title = "Title of 1.1.2"\n', "", "task 1.1.2: the key 'title' is missing"),
        ('id = "1.1.2"\n', "", "task 2 of day 1.1: the key 'id' is missing"),
        ('title = "Title of 1.1.2"\n', 'title = ""\nminuets = 3\n', "task 1.1.2: there is no key 'minuets'"),
        ('title = "Title of 1.1.2"\n', "title = 3\n", "task 1.1.2: 'title' must be a string, not 3"),
        ('"module:function_1_1_2"', '["module:f"]', "task 1.1.2: 'target' must be a string"),
        ('"module:function_1_1_2"', '"softmax"', "task 1.1.2: 'target' is 'softmax', which is not module:name"),
        ('"module:function_1_1_2"', '"m:f."', "task 1.1.2: 'target' is 'm:f.', which is not module:name"),
        (
            '"module:function_1_1_2"',
            '"module:function_1_1_1"',
            "task 1.1.2: 'target' is module:function_1_1_1, the target of 1.1.1 already",
        ),
        ("minutes = 10", "minutes = 10\nseconds = 0", "task 1.1.1: 'seconds' must be at least 1, not 0"),
        ("minutes = 10", "minutes = 10\noptional = 1", "task 1.1.1: 'optional' must be true or false, not 1"),
        (week(1), week(1) + 'calls = "run"\n', "week 1: 'calls' is 'run', which is not module:name"),
        (
            "minutes = 10",
            'minutes = 10\nrequires = "cuda"',
            "task 1.1.1: 'requires' must be a list of strings, not 'cuda'",
        ),
        (
            "minutes = 10",
            'minutes = 10\nrequires = ["gcc"]',
            "task 1.1.1: 'requires': 'gcc' is not a requirement; the requirements are compiler, simulator, ",
        ),
        *(
            ('"module:function_1_1_2"', f'"{target}"', f"task 1.1.2: 'target' is {target!r}, which is not module:name")
            for target in ("a/b:f", "a/b.py:f", "../a.cpp:f", "/a.cpp:f", "a.cpp:", "a.cpp:f()")
        ),
        (
            '"module:function_1_1_2"',
            '"kernels/a.cpp:f"',
            "task 1.1.2: 'program' must be module:name, the function that runs kernels/a.cpp:f",
        ),
        (
            '"module:function_1_1_2"\n',
            '"m:f"\nprogram = "m:g"\n',
            "task 1.1.2: 'program' is for a target that is not Python; m:f is",
        ),
        (
            '"module:function_1_1_2"\n',
            '"a.cpp:f"\nprogram = "module:function_1_1_1"\n',
            "task 1.1.2: 'program' is module:function_1_1_1, the target of 1.1.1 already",
        ),
        ("minutes = 10", "minutes = true", "task 1.1.1: 'minutes' must be a whole number, not True"),
        ('id = "1.1.2"', 'id = "1.1.1"', "task 1.1.1 is listed twice"),
        ('id = "1.1.2"', 'id = "1.2.2"', "task 1.2.2: its id does not match its place, day 1.1"),
        ('id = "1.1.2"', 'id = "1.1.02"', "task 1.1.02: its id does not match its place, day 1.1"),
        ("needs = []", 'needs = ["1.2.1"]', "task 1.1.1: 'needs' names 1.2.1, which does not come before it"),
        ("needs = []", 'needs = ["1.1.1"]', "task 1.1.1: 'needs' names 1.1.1, which does not come before it"),
        ("needs = []", 'needs = ["1.7.7"]', "task 1.1.1: 'needs' names 1.7.7, which does not exist"),
        ('chapter = "day.md"\n', "", "day 1.1: the key 'chapter' is missing"),
        (day(2) + task("1.2.1"), day(1) + "tasks = []\n", "week 1: day 1 is listed twice"),
        (week(2) + day(1) + task("2.1.1"), week(1) + "days = []\n", "week 1 is listed twice"),
        ('title = "Week"\n', "", "week 1: the key 'title' is missing"),
        ("---\nnumber = 1", "---\nyears = 1\nnumber = 1", "week 1: there is no key 'years'"),
        ("---\nnumber = 1", "---\n[number = 1", "week1.toml: "),
        (
            'title = "Week"\n',
            'title = "Week"\n' + stage(needs='["1.1.9"]'),
            "stage s: 'needs' names 1.1.9, which does not",
        ),
        (
            'title = "Week"\n',
            'title = "Week"\n' + stage(model='"m"'),
            "stage s: 'model' is 'm', which is not module:name",
        ),
        ('title = "Week"\n', 'title = "Week"\n' + stage() + stage(), "stage s is listed twice"),
        ('title = "Week"\n', 'title = "Week"\n' + stage() + engine(), "stage s is listed twice"),
        ('title = "Week"\n', 'title = "Week"\n' + mode() + mode(), "mode m is listed twice"),
        ('title = "Week"\n', 'title = "Week"\n' + mode(make='"m"'), "mode m: 'make' is 'm', which is not module:name"),
        ('title = "Week"\n', 'title = "Week"\n' + mode('["1.1.9"]'), "mode m: 'kernels' names 1.1.9, which does not"),
        (
            'title = "Week"\n',
            'title = "Week"\n' + engine().replace('"c:C"', '"c"'),
            "stage s: 'config' is 'c', which is not module:name",
        ),
    ],
)
def test_a_malformed_registry_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in REGISTRY
    with pytest.raises(ValueError, match=re.escape(complaint)):
        load(tmp_path, REGISTRY.replace(old, new, 1))


def test_the_course_s_own_registry_loads_once_and_fast() -> None:
    began = time.perf_counter()
    course = load_course()
    assert time.perf_counter() - began < 0.5
    assert load_course() is course
    assert course.task("1.1.2").title == "Scaled dot-product attention"
