"""A file that cannot be imported and a task that does not end: told once, and not held against what they keep waiting.

Mean, variance and the scores of day 2 are written; line and windows are stubs.
"""

import json
import re

import pytest
from tests.course.checkouts import fixture
from tests.course.terminal import Terminal

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.source.code import holds_stub

pytestmark = pytest.mark.maintainers
WRITTEN = ("1.1.1", "1.1.2", "1.2.1")
MEAN, VARIANCE, LINE, SCORES = "1.1.1 Mean", "1.1.2 Variance", "1.1.3 Line", "1.2.1 Standard scores"
IN_MEAN = "    total ="


def module_level(code, file="basics.py"):
    return Edit(file, f"\n\n{code}\n")


def in_mean(code):
    return Edit("basics.py", f"    {code}\n{IN_MEAN}", IN_MEAN)


FILE = "src/tiny_llm/basics.py"
# What is done to basics.py, and what the file is said to suffer from.
AT_IMPORT = {
    "a syntax error": (module_level("x = ("), f"{FILE}:{{line}} is not Python: '(' was never closed"),
    "an error": (module_level("1 / 0"), f"{FILE} cannot be imported: ZeroDivisionError: division by zero"),
    "an endless loop": (module_level("while True: pass"), f"{FILE} cannot be imported: still running after 2 s"),
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
    "an endless loop": (in_mean("while True: pass"), "did not end"),
    "an exit": (in_mean("import os; os._exit(0)"), "ended the tests"),
    "a segfault": (in_mean("import ctypes; ctypes.string_at(0)"), "ended the tests"),
    "too much memory": (in_mean("hoard = [bytearray(b'x') * 10_000_000 for _ in range(10_000)]"), "did not end"),
}


def played(name, edit):
    """What grading both days prints, the board, and what is remembered. Loops alone are waited for."""
    seconds = 2 if "loop" in name else 60
    with fixture(*WRITTEN, edits=(edit,)) as checkout:
        screen = run(f"test 1.1 1.2 --time-limit {seconds} --memory-limit 1", checkout).stdout
        remembered = json.loads((checkout / ".tiny-llm" / "progress.json").read_text(encoding="utf-8"))["tasks"]
        return screen, run("status --all", checkout).stdout, remembered


def days(screen):
    return re.split(r"^Week 1, day \d.*(?:\nhttps.*)?$", screen, flags=re.MULTILINE)[1:]


def marks(text):
    return {task: mark for mark, task in re.findall(r"^ *([✓✗○~⇢]) (\d\.\d\.\d) ", text, re.MULTILINE)}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_file_that_cannot_be_imported_is_told_once_and_stubs_are_not_started(name):
    edit, what = AT_IMPORT[name]
    screen, board, remembered = played(name, edit)
    day1, day2 = days(screen)
    line = re.search(rf"Next: fix ({re.escape(FILE)}:\d+)\.\n$", screen)
    assert line, screen
    told = what.format(line=line[1].rpartition(":")[2])
    assert day1.lstrip().startswith(f"✗ {told}"), screen
    assert screen.count(told) == 1
    assert f"✗ {MEAN}: failed, {FILE} cannot be imported\n" in day1
    assert f"~ {VARIANCE}: not run, {FILE} cannot be imported\n" in day1
    assert f"○ {LINE}: not started\n    code " in day1
    assert marks(day2) == {"1.2.1": "~", "1.2.2": "○"}
    assert remembered.keys() == {"1.1.1"}
    assert marks(board) == {"1.1.1": "✗", "1.1.2": "~", "1.1.3": "○", "1.2.1": "~", "1.2.2": "○"}


@pytest.mark.parametrize("name", WHEN_CALLED)
def test_a_task_that_does_not_end_is_told_once_and_stubs_are_not_started(name):
    edit, did = WHEN_CALLED[name]
    screen, board, remembered = played(name, edit)
    day1, day2 = days(screen)
    assert f"✗ {MEAN}: failed, stopped after 0 of 5 checks (" in day1
    assert "      check     test_task_1_mean_formula[" in day1
    assert f"~ {VARIANCE}: not run, it uses 1.1.1, which {did}\n" in day1
    assert f"○ {LINE}: not started\n    code " in day1
    assert f"~ {SCORES}: not run, it uses 1.1.1, which {did}\n" in day2, "and its day takes no time"
    assert marks(day2) == {"1.2.1": "~", "1.2.2": "○"}
    assert screen.count(f"Next: {MEAN}.") == 1
    assert remembered.keys() == {"1.1.1"}
    assert marks(board)["1.2.2"] == "○"


def test_what_is_exported_says_the_same():
    with fixture(*WRITTEN, edits=(module_level("x = ("),)) as checkout:
        done = run("export --format json 1.1", checkout).stdout
        tasks = {task["id"]: task for task in json.loads(done[: done.rindex("}") + 1])["tasks"]}
    assert [task["status"] for task in tasks.values()] == ["failed", "not run", "not started"]
    assert "is not Python: '(' was never closed" in tasks["1.1.1"]["message"]
    assert re.fullmatch(rf"not run: {FILE}:\d+ is not Python: .*", tasks["1.1.2"]["message"])


def test_where_nothing_is_written_the_file_is_told_all_the_same():
    with fixture(edits=(module_level("x = ("),)) as checkout:
        done = run("test", checkout)
    assert done.returncode == 1
    told = rf"\n✗ {FILE}:\d+ is not Python.*\n .*\n\nNothing is written yet. Next: fix {FILE}:\d+\.\n"
    assert re.search(told, done.stdout)


@pytest.mark.parametrize("file", ["__init__.py", "mine.py"])
@pytest.mark.parametrize("code", ["x = (", "import os; os._exit(0)"], ids=["syntax error", "exit"])
def test_a_file_without_a_task(file, code):
    """The package's own file, and one that a task's file imports."""
    edits = (module_level(code, file), module_level(f"import tiny_llm.{file[:4]}" * (file == "mine.py"), "windows.py"))
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1", edits=edits) as checkout:
        screen = run("test 1.2", checkout).stdout
    assert screen.count("\n✗ src/tiny_llm/" + file) == 1, screen


def test_watch_shows_the_file_and_what_is_not_started():
    with (
        fixture(*WRITTEN, edits=(module_level("while True: pass"),)) as checkout,
        Terminal("watch", "1.1", "--time-limit", "2", checkout=checkout) as terminal,
    ):
        terminal.wait_for("Graded 1.1.1, 1.1.2, 1.1.3 in")
        page = terminal.wait_for("grades all again\n")
        assert f"✗ {FILE} cannot be imported: still running after 2 s" in page
        assert "while True: pass" in page
        terminal.type("l")
        page = terminal.wait_for("grades all again\n")
        assert f"○ {LINE}: not started" in page
        assert f"~ {VARIANCE}: not run, {FILE} cannot be imported" in " ".join(page.split())
        basics = checkout / FILE
        basics.write_text(basics.read_text(encoding="utf-8").replace("while True: pass", ""), encoding="utf-8")
        assert "Graded 1.1.1, 1.1.2, 1.1.3 in" in (page := terminal.wait_for("grades all again\n"))
        assert "cannot be imported" not in page
        terminal.type("q")
        assert terminal.end() == 0


def test_a_name_that_is_gone_is_its_own_tasks_fault():
    renamed = Edit("basics.py", "def average(", "def mean(")
    with fixture(*WRITTEN, edits=(renamed,)) as checkout:
        screen = run("test 1.1 1.2", checkout).stdout
    assert f"✗ {MEAN}: 5 of 5 checks failed\n    {FILE} defines no mean\n" in screen
    assert f"~ {VARIANCE}: not run, {FILE} defines no mean\n" in screen
    assert marks(screen) == {"1.1.1": "✗", "1.1.2": "~", "1.1.3": "○", "1.2.1": "~", "1.2.2": "○"}
    assert f"Next: {MEAN}." in screen


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
    assert holds_stub(load_course().task("1.1.1"), tmp_path) == is_stub


def test_a_stub_that_was_left_behind_a_return_is_graded():
    stub = f'    raise NotImplementedError("{MEAN}")'
    with fixture(edits=(Edit("basics.py", f"    return mx.exp(x)\n{stub}", stub),)) as checkout:
        assert f"~ {MEAN}: written, not graded yet" in run("status", checkout).stdout
        assert f"✗ {MEAN}: 5 of 5 checks failed" in run("test", checkout).stdout
        assert f"✗ {MEAN}: failing" in run("status", checkout).stdout
