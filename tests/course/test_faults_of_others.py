"""A file that cannot be imported and a task that does not end: told once, and not held against what they keep waiting.

Softmax, attention and the grouped attention of day 3 are written; linear and multi-head attention are stubs.
"""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.course.terminal import Terminal

from tiny_llm_course import functions
from tiny_llm_course.registry import load_course
from tiny_llm_course.transcripts import Edit, Scenario, checkout_for, run

WRITTEN = ("1.1.1", "1.1.2", "1.3.2")
SOFTMAX, ATTENTION = "1.1.1 Softmax", "1.1.2 Scaled dot-product attention"
LINEAR, HEADS = "1.1.3 Linear", "1.1.4 Multi-head attention"
IN_SOFTMAX = "    # The largest score becomes"


def module_level(code, file="basics.py"):
    return Edit(file, f"\n\n{code}\n")


def in_softmax(code):
    return Edit("basics.py", f"    {code}\n{IN_SOFTMAX}", IN_SOFTMAX)


FILE = "src/tiny_llm/basics.py"
# What is done to basics.py, and what the file is said to suffer from.
AT_IMPORT = {
    "a syntax error": (module_level("x = ("), f"{FILE}:{{line}} is not Python: '(' was never closed"),
    "an error": (module_level("1 / 0"), f"{FILE} cannot be imported: ZeroDivisionError: division by zero"),
    "an endless loop": (module_level("while True: pass"), f"{FILE} cannot be imported: still running after 6 s"),
    "an exit": (module_level("import os; os._exit(0)"), f"{FILE} cannot be imported: your code ended the tests"),
    "a segfault": (
        module_level("import ctypes; ctypes.string_at(0)"),
        f"{FILE} cannot be imported: the process crashed: SIG",
    ),
    "too much memory": (
        module_level("hoard = [bytearray(b'x') * 10_000_000 for _ in range(10_000)]"),
        f"{FILE} cannot be imported: used more than 1 GB",
    ),
}
WHEN_CALLED = {
    "an endless loop": (in_softmax("while True: pass"), "did not end"),
    "an exit": (in_softmax("import os; os._exit(0)"), "ended the tests"),
    "a segfault": (in_softmax("import ctypes; ctypes.string_at(0)"), "ended the tests"),
    "too much memory": (in_softmax("hoard = [bytearray(b'x') * 10_000_000 for _ in range(10_000)]"), "did not end"),
}


def played(edit):
    """What grading days 1 and 3 prints, the board, the verdicts as JSON, and what is remembered."""
    with checkout_for(Scenario("others", (), WRITTEN, (edit,))) as checkout:
        screen = run("test 1.1 1.3 --time-limit 6 --memory-limit 1", checkout).stdout
        remembered = json.loads((checkout / ".tiny-llm" / "progress.json").read_text(encoding="utf-8"))["tasks"]
        return screen, run("status --all", checkout).stdout, remembered


@pytest.fixture(scope="module")
def outcomes():
    cases = [edit for edit, _ in [*AT_IMPORT.values(), *WHEN_CALLED.values()]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(cases, pool.map(played, cases), strict=True))


def days(screen):
    return re.split(r"^Week 1, day \d.*$", screen, flags=re.MULTILINE)[1:]


def marks(text):
    return {task: mark for mark, task in re.findall(r"^ *([✓✗○~⇢]) (\d\.\d\.\d) ", text, re.MULTILINE)}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_file_that_cannot_be_imported_is_told_once_and_stubs_are_not_started(outcomes, name):
    edit, what = AT_IMPORT[name]
    screen, board, remembered = outcomes[edit]
    day1, day3 = days(screen)
    line = re.search(rf"Next: mend ({re.escape(FILE)}:\d+)\.\n$", screen)
    assert line, screen
    told = what.format(line=line[1].rpartition(":")[2])
    assert day1.lstrip().startswith(f"✗ {told}"), screen
    assert screen.count(told) == 1
    assert f"✗ {SOFTMAX}: failed, {FILE} cannot be imported\n" in day1
    assert f"~ {ATTENTION}: not run, {FILE} cannot be imported\n" in day1
    for stub in (LINEAR, HEADS):
        assert f"○ {stub}: not started\n    code " in day1
    assert marks(day3) == {"1.3.1": "○", "1.3.2": "~", "1.3.3": "○"}
    assert remembered.keys() == {"1.1.1"}
    seen = marks(board)
    assert [seen[task] for task in ("1.1.1", "1.1.2", "1.1.3", "1.1.4", "1.3.1")] == ["✗", "~", "○", "○", "○"]


@pytest.mark.parametrize("name", WHEN_CALLED)
def test_a_task_that_does_not_end_is_told_once_and_stubs_are_not_started(outcomes, name):
    edit, did = WHEN_CALLED[name]
    screen, board, remembered = outcomes[edit]
    day1, day3 = days(screen)
    assert f"✗ {SOFTMAX}: failed\n" in day1
    assert "      check     test_task_1_softmax_formula[" in day1
    assert f"~ {ATTENTION}: not run, it uses 1.1.1, which {did}\n" in day1
    assert f"○ {LINEAR}: not started\n    code " in day1
    assert f"○ {HEADS}: not started\n    code " in day1
    assert f"~ 1.3.2 Grouped attention: not run, it uses 1.1.1, which {did}\n" in day3, "and its day takes no time"
    assert marks(day3) == {"1.3.1": "○", "1.3.2": "~", "1.3.3": "○"}
    assert screen.count("Next: 1.1.1 Softmax.") == 1
    assert remembered.keys() == {"1.1.1"}
    assert marks(board)["1.1.4"] == "○"


def test_what_is_exported_says_the_same():
    with checkout_for(Scenario("others", (), WRITTEN, (module_level("x = ("),))) as checkout:
        done = run("export --format json 1.1", checkout).stdout
        tasks = {task["id"]: task for task in json.loads(done[: done.rindex("}") + 1])["tasks"]}
    assert [task["status"] for task in tasks.values()] == ["failed", "not run", "not started", "not started"]
    assert "is not Python: '(' was never closed" in tasks["1.1.1"]["message"]
    assert re.fullmatch(rf"not run: {FILE}:\d+ is not Python: .*", tasks["1.1.2"]["message"])


def test_where_nothing_is_written_the_file_is_told_all_the_same():
    with checkout_for(Scenario("others", (), (), (module_level("x = ("),))) as checkout:
        done = run("test", checkout)
    assert done.returncode == 1
    told = rf"\n✗ {FILE}:\d+ is not Python.*\n .*\n\nNothing is written yet. Next: mend {FILE}:\d+\.\n"
    assert re.search(told, done.stdout)


@pytest.mark.parametrize("file", ["__init__.py", "config.py"])
@pytest.mark.parametrize("code", ["x = (", "import os; os._exit(0)"], ids=["syntax error", "exit"])
def test_a_file_without_a_task(file, code):
    """The package's own file, and one that the tests themselves import."""
    solved = tuple(task.id for task in load_course().tasks() if task.id != "1.5.2")
    with checkout_for(Scenario("others", (), solved, (module_level(code, file),))) as checkout:
        screen = run("test 1.5", checkout).stdout
    assert screen.startswith("Week 1, day 5: The model  (src/tiny_llm)\n\n✗ src/tiny_llm/" + file), screen
    assert marks(screen) == {"1.5.1": "~", "1.5.2": "○", "1.5.3": "~"}


def test_watch_shows_the_file_and_what_is_not_started():
    looping = Scenario("others", (), WRITTEN, (module_level("while True: pass"),))
    with (
        checkout_for(looping) as checkout,
        Terminal("watch", "1.1", "--time-limit", "3", checkout=checkout) as terminal,
    ):
        terminal.wait_for("Graded 1.1.1, 1.1.2, 1.1.3, 1.1.4 in")
        page = terminal.wait_for("runs all again\n")
        assert f"✗ {FILE} cannot be imported: still running after 3 s" in page
        assert "while True: pass" in page
        terminal.type("l")
        page = terminal.wait_for("runs all again\n")
        assert f"○ {LINEAR}: not started" in page
        assert f"~ {ATTENTION}: not run, {FILE} cannot be imported" in " ".join(page.split())
        basics = checkout / FILE
        basics.write_text(basics.read_text(encoding="utf-8").replace("while True: pass", ""), encoding="utf-8")
        assert "Graded 1.1.1, 1.1.2, 1.1.3, 1.1.4 in" in (page := terminal.wait_for("runs all again\n"))
        assert "cannot be imported" not in page
        terminal.type("q")
        assert terminal.end() == 0


def test_a_name_that_is_gone_is_its_own_tasks_fault():
    renamed = Edit("basics.py", "def soft_max(", "def softmax(")
    with checkout_for(Scenario("others", (), WRITTEN, (renamed,))) as checkout:
        screen = run("test 1.1 1.3", checkout).stdout
    assert f"✗ {SOFTMAX}: failed, 19 of 19 checks\n    {FILE} defines no softmax\n" in screen
    assert f"~ {ATTENTION}: not run, {FILE} defines no softmax\n" in screen
    assert marks(screen) == {
        "1.1.1": "✗", "1.1.2": "~", "1.1.3": "○", "1.1.4": "○", "1.3.1": "○", "1.3.2": "~", "1.3.3": "○",
    }  # fmt: skip
    assert "Next: 1.1.1 Softmax." in screen


STUB = 'raise NotImplementedError("1.1.1 Softmax")'


@pytest.mark.parametrize(
    ("body", "is_stub"),
    [
        (f"    {STUB}", True),
        (f"    x = x - 1\n    {STUB}", True),
        (f"    if axis:\n        return x\n    {STUB}", True),
        (f"    # {STUB}\n    return x", False),
        (f"    return x\n    {STUB}", False),
        (f"    return mx.exp(\n        x,\n    )\n\n    # the stub\n    {STUB}", False),
        (f"    x = (\n    {STUB}", True),
        ("    return x", False),
    ],
)
def test_what_is_left_of_a_stub_does_not_make_one(tmp_path, body, is_stub):
    (tmp_path / "basics.py").write_text(f"def softmax(x, axis):\n{body}\n", encoding="utf-8")
    assert functions.holds_stub(load_course().task("1.1.1"), tmp_path) == is_stub


def test_a_stub_that_was_left_behind_a_return_is_graded():
    left = f"    return mx.exp(x)\n    {STUB}"
    with checkout_for(Scenario("others", (), (), (Edit("basics.py", left, f"    {STUB}"),))) as checkout:
        assert "~ 1.1.1 Softmax: written, not graded yet" in run("status", checkout).stdout
        assert f"✗ {SOFTMAX}: failed, " in run("test", checkout).stdout
        assert "✗ 1.1.1 Softmax: failing" in run("status", checkout).stdout
