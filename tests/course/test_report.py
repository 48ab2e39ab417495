"""A run is told on one screen, however much there is to mend."""

import re
from types import SimpleNamespace

import mlx.core as mx
import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.commands import test as grade
from tiny_llm_course.course.entities import Target
from tiny_llm_course.course.findings import Claim, Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, run
from tiny_llm_course.grading.plugin import TASK
from tiny_llm_course.grading.report import ScreenBudget, report_task
from tiny_llm_course.grading.reporter import _about, _named
from tiny_llm_course.grading.returns import asked, idle, nothing
from tiny_llm_course.learner import attempts

pytestmark = pytest.mark.maintainers
ROWS = 60


def begun(checkout):
    """Every task is begun, and raises; the day before a task never hides that, as constructors are left alone."""
    for file in (checkout / "src/tiny_llm").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r"raise NotImplementedError\(.*\)", "raise ValueError('no')", text), encoding="utf-8")
    return checkout


@pytest.fixture
def one_day():
    """Day 1 is done, day 2 not."""
    with fixture("1.1.1", "1.1.2", "1.1.3") as checkout:
        yield checkout


def test_when_everything_is_wrong_it_is_told_in_full_where_there_is_room():
    with fixture() as checkout:
        done = run("test 1", begun(checkout))
    assert done.returncode == 1
    assert re.findall(r"hint: pdm run hint (\S+)", done.stdout) == re.findall(r"✗ (\S+) .*failed", done.stdout)


def test_a_week_of_mistakes_fits_the_screen():
    """Of the course itself: the first is told in full; files that cannot be imported and loans, once each."""
    with checkout_for(Scenario("all-wrong", ())) as checkout:
        begun(checkout)
        for name, line in (("tokenizer", "def oops(:"), ("sampler", "import nothing_such")):
            with (checkout / f"src/tiny_llm/{name}.py").open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        run("borrow 1.1.1 1.2.1", checkout)
        screen = run("test 1", checkout).stdout
    assert len(screen.splitlines()) <= ROWS
    in_full = re.findall(r"hint: pdm run hint (\S+)", screen)
    short = re.findall(r"✗ (?P<id>\S+) .*failed.* · pdm run test (?P=id)\n", screen)
    assert in_full
    assert short
    assert in_full + short == re.findall(r"✗ ([\d.C]+) .*failed", screen)
    assert "✗ 1.6.1, 1.6.2, 1.6.3, 1.6.4, 1.6.5: failed, src/tiny_llm/tokenizer.py cannot be imported\n" in screen
    assert screen.count("tokenizer.py:") == 2, "told once, and to be mended next"
    assert screen.count("⇢ on the reference") == 1
    assert "\n⇢ on the reference, as you have borrowed them: 1.1.1, 1.2.1\n0 of 28 tasks passed in all" in screen


FORGOTTEN = (
    ("positional_encoding.py", "return mx.arange(seq_len", "got = mx.arange(seq_len"),  # MLX refuses the None
    ("tokenizer.py", "return {byte: chr(byte)", "got = {byte: chr(byte)"),  # the check asks for the type
    ("serving/kv_cache.py", "return mx.concatenate(attended)", "got = mx.concatenate(attended)"),  # the check uses it
    ("paged/pool.py", "return len(self._free)", "got = len(self._free)"),  # the learner's code uses it
)


def test_a_forgotten_return_is_asked_for():
    """Of the course itself: wherever the None is noticed, the course is not blamed, nor the signature."""
    solved = tuple(task.id for task in load_course().tasks())
    edits = tuple(Edit(file, put, find) for file, find, put in FORGOTTEN)
    with checkout_for(Scenario("no-return", (), solved, edits)) as checkout:
        screen = run("test 1.2.1 1.6.1 3.1.1 3.3.1", checkout).stdout
    assert screen.count("gave None where the check needs a value: is a `return` missing?\n") == 2
    assert screen.count("got None, expected a dict: is a `return` missing?\n") == 1
    assert screen.count("`PagePool.num_free` can return None: is a `return` missing?\n") == 1
    assert "broken" not in screen
    assert "signature" not in screen


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("x + 1", True),
        ("mx.sum(x)", True),
        ("mx.eval(x)", False),
        ("mx.broadcast_shapes(x, y)", False),
        ("'Words.'", False),
    ],
)
def test_a_line_without_effect_is_asked_about(line, asked, tmp_path):
    """Where no None is noticed: the function goes on after the line."""
    (tmp_path / "made.py").write_text(f"def made(x):\n    while x:\n        {line}\n    return x\n", encoding="utf-8")
    lines = idle(Finding(Kind.VALUES, "values differ"), Target("made", "made"), tmp_path).lines
    assert lines == (f"line 3, `{line}`, has no effect: is a `return` missing?",) * asked


def test_no_return_is_asked_for_where_an_error_is_due():
    due = Finding(Kind.VALUES, "the result is wrong", ("expected  a ValueError", "got       None"))
    value = Finding(Kind.VALUES, "the result is wrong", ("expected  3", "got       None"))
    assert asked(due) == due
    assert asked(value).lines[1] == "got       None: is a `return` missing?"


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("def made(x):\n    if x:\n        return x\n", True),
        ("def made(x) -> int:\n    x\n", True),
        ("def made(x):\n    if x:\n        return None\n    return x\n", False),
        ("class made:\n    def get(self) -> int | None:\n        if self.x:\n            return 1\n", False),
    ],
)
def test_no_return_is_asked_for_where_none_is_returned_on_purpose(code, kept, tmp_path):
    (tmp_path / "made.py").write_text(code, encoding="utf-8")
    finding = asked(Finding(Kind.VALUES, "the result is wrong", ("expected  3", "got       None")))
    assert (idle(finding, Target("made", "made"), tmp_path) == finding) == kept


def test_days_with_nothing_to_mend_have_one_line_each(one_day):
    screen = run("test 1.1 1.2", one_day).stdout
    assert "\n✓ 1.1.1 to 1.1.3: passed, 18 checks\n" in screen
    assert "\n○ 1.2.1 to 1.2.2: not started\n" in screen
    assert screen.endswith("\n3 of 5 tasks passed in all. Next: 1.2.1 Standard scores.\n")


def test_tasks_that_are_no_whole_day_are_named(one_day):
    screen = run("test 1.1.1 1.1.3 1.2", one_day).stdout
    assert "\n✓ 1.1.1, 1.1.3: passed, 13 checks\n" in screen


def test_a_borrowed_day_is_one_line_and_not_what_to_do_next(one_day):
    run("borrow 1.2", one_day)
    run("borrow 1.1.3", one_day)
    everything = run("test", one_day)
    assert "⇢ 1.2.1 to 1.2.2: borrowed (pdm run return 1.2 to write them yourself)\n" in everything.stdout
    assert everything.stdout.endswith("\n2 of 5 tasks passed in all, 3 borrowed. Next: pdm run status\n")
    assert len(re.findall("tasks? passed", everything.stdout)) == 1
    named = run("test 1.2", one_day).stdout
    assert named.endswith("\n0 of 2 tasks passed. Next: pdm run return 1.2.1 1.2.2\n")


def test_when_all_has_passed_the_next_task_is_named_to_the_learner_alone(one_day):
    assert run("test 1.1", one_day).stdout.endswith("\n3 of 3 tasks passed. Next: 1.2.1 Standard scores.\n")
    assert run("test 1.1 --solution", one_day).stdout.endswith("\n3 of 3 tasks passed.\n")


def test_our_solution_is_told_in_one_sum_however_much_is_written(one_day):
    done = run("test --solution -- -k formula", one_day)
    assert done.returncode == 0
    assert len(re.findall("tasks? passed", done.stdout)) == 1


def result(name, **more):
    return TaskResult(load_course().task(name), checks=2, **more)


@pytest.fixture
def unsaved(monkeypatch):
    """Verdicts go nowhere; those stored are listed."""
    stored = []
    monkeypatch.setattr(attempts, "record", lambda results: stored.extend(results) or True)
    return stored


def test_a_verdict_is_stored_and_printed_as_soon_as_the_task_has_ended(unsaved, capsys):
    first, second = load_course().days()[0].tasks[:2]
    report = grade.Report("src/tiny_llm", ScreenBudget.of([first, second]), False)
    report.day = load_course().days()[0]
    report.head()
    report.ended(passed := result(first.id, passed=2))
    assert f"✓ {first.label}: passed, 2 checks\n" in capsys.readouterr().out
    assert unsaved == [passed]
    report.complete([passed, result(second.id, passed=2)])
    rest = capsys.readouterr().out
    assert f"{first.label}: passed" not in rest
    assert f"✓ {second.label}: passed, 2 checks\n" in rest
    assert "2 of 2 tasks passed." in rest
    assert len(unsaved) == 2


def test_of_several_days_each_is_printed_once_it_is_complete(unsaved, capsys):
    days = load_course().days()[:2]
    report = grade.Report("src/tiny_llm", ScreenBudget.of([*days[0].tasks, *days[1].tasks]), False)
    report.day = days[0]
    results = [result(task.id, passed=2) for task in days[0].tasks]
    report.ended(results[0])
    assert not capsys.readouterr().out
    report.complete(results)
    assert f"✓ {results[0].task.id} to {results[-1].task.id}: passed" in capsys.readouterr().out
    assert unsaved == results


def test_a_task_that_is_used_and_fails_is_told_first(capsys):
    failed = result("1.1.2", failed=2, finding=Finding(Kind.RAISED, "raised ValueError"), failing_need="1.1.1")
    report_task(failed, "src/tiny_llm")
    told = capsys.readouterr().out.splitlines()
    assert told[1:3] == ["    1.1.1, which this uses, fails: fix it first", "    raised ValueError"]
    assert failed.first == "1.1.1"


def test_a_none_among_arrays_is_no_fault_of_the_course():
    with pytest.raises(TypeError) as caught:
        mx.concatenate([mx.ones(2), None], axis=0)
    assert nothing(caught.value) == "gave no array where the check joins arrays: is a `return` missing?"


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("test_task_2_line_refuses_other_shapes[case0]", "refuses other shapes"),
        ("test_task_2_line_sweep[float32-1]", ""),
        ("test_task_2_line_gradient_formula", ""),
        ("test_task_2_line_as_mlx", ""),
        ("test_task_2_line_any_split", ""),
        ("test_task_2_line_heads", ""),
        ("test_task_2_line_scale[0.5]", "different values of `scale`"),
    ],
)
def test_a_check_s_name_is_said_in_words_unless_it_says_how_cases_are_chosen(name, about):
    values = SimpleNamespace(params={"scale": 0.5})
    item = SimpleNamespace(name=name, stash={TASK: SimpleNamespace(tests="task_2_line")}, callspec=values)
    assert _named(item) == about


def test_a_check_s_docstring_says_what_it_is_about():
    item = object.__new__(pytest.Function)
    vars(item).update(_obj=test_no_return_is_asked_for_where_an_error_is_due)
    assert not _about(item)
    vars(item).update(_obj=TaskResult.add)
    assert _about(item) == TaskResult.add.__doc__


def failed_in(*names: str, claims: tuple[Claim, ...] = ()) -> TaskResult:
    result = TaskResult(load_course().task("1.1.1"), checks=9, failed=len(names), claims=claims)
    for name in names:
        result.add(Finding(Kind.VALUES, "values differ", case="x 3", named=name, about="They are."))
    return result


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["large scores"], "check     large scores: They are.\n"),
        ([""], "check     They are.\n"),
        (["a b", "", "c d", "a b", "e f"], "check     a b: They are.\n      also      c d; e f\n"),
        (["a b", "c d", "e f", "g h", "i j", "k l"], "      also      c d; e f; g h; 2 more\n"),
    ],
)
def test_what_failing_checks_are_about_is_told_below_the_case(names, shown, capsys):
    report_task(failed_in(*names), "src/tiny_llm")
    screen = capsys.readouterr().out
    assert "      case      x 3\n      check     " in screen
    assert shown in screen
    assert ("also" in screen) == ("also" in shown)


def test_a_mistake_that_is_named_needs_no_other_checks(capsys):
    report_task(failed_in("a b", "c d", claims=(Claim(["it is so"], ["Is it?"]),)), "src/tiny_llm")
    assert "also" not in capsys.readouterr().out
