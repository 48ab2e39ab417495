"""What is remembered: verdicts for the code that they were given for; and a damaged memory costs only the memory."""

import json
import os
import threading

import pytest

from tiny_llm_course import functions, progress
from tiny_llm_course.findings import Finding, Kind
from tiny_llm_course.paths import LEARNER, SOLUTION
from tiny_llm_course.registry import Target, load_course
from tiny_llm_course.results import TaskResult
from tiny_llm_course.transcripts import Scenario, checkout_for, run

FILE = ".tiny-llm/progress.json"
SOFTMAX = Target("basics", "softmax")


def task(name):
    return load_course().task(name)


@pytest.fixture(scope="module")
def checkout():
    """Two tasks of the first day are solved, one is wrong."""
    with checkout_for(Scenario("progress", (), solved=("1.1.1", "1.1.2"))) as folder:
        file = folder / "src/tiny_llm/basics.py"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('raise NotImplementedError("1.1.3 Linear")', "return x @ w"), encoding="utf-8")
        yield folder


@pytest.fixture
def fresh(checkout):
    (checkout / FILE).unlink(missing_ok=True)
    return checkout


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A learner's package and memory in a folder of their own."""
    monkeypatch.setattr(progress, "FILE", tmp_path / "memory" / "progress.json")
    monkeypatch.setattr(progress, "LEARNER", tmp_path)
    (tmp_path / "basics.py").write_bytes((SOLUTION / "basics.py").read_bytes())
    return tmp_path


def graded(name, package, passed=True):
    code = functions.fingerprint(task(name), package)
    assert code
    finding = None if passed else Finding(Kind.VALUES, "values differ")
    return TaskResult(task(name), checks=1, passed=int(passed), failed=int(not passed), finding=finding, code=code)


def edit(package, old, new):
    file = package / "basics.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def remembered(checkout):
    data = json.loads((checkout / FILE).read_text(encoding="utf-8"))
    return {name: entry["status"] for name, entry in data["tasks"].items() if isinstance(entry, dict)}


def test_a_run_is_remembered(fresh):
    run("test 1.1", fresh)
    assert remembered(fresh) == {"1.1.1": "passed", "1.1.2": "passed", "1.1.3": "failed"}
    assert [file.name for file in (fresh / ".tiny-llm").iterdir()] == ["progress.json"]


@pytest.mark.parametrize("typed", ["test 1.1.1 --solution", "test 1.1 -- -k softmax_mlx", "test 1.1.1 -- -x"])
def test_the_solution_and_a_part_of_the_checks_are_not(fresh, typed):
    run(typed, fresh)
    assert not (fresh / FILE).exists()


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"{", b"[]", b"\0", b"\xff", b"[" * 100_000),
        b'{"tasks": 3, "hints": [], "borrowed": "1.1.1"}',
        b'{"tasks": {"1.1.1": {"status": "passed", "code": 7}, "9.9.9": [], "1.1.2": null}, "borrowed": [7, [], "x"]}',
        b'{"tasks": {"1.1.2": {"status": "failed", "code": "", "culprits": ["9.9.9", 3]}}}',
    ],
)
def test_a_damaged_file_costs_only_the_ticks(fresh, damage):
    (fresh / ".tiny-llm").mkdir(exist_ok=True)
    (fresh / FILE).write_bytes(damage)
    board = run("status", fresh)
    assert board.returncode == 0
    assert "0 of 27 tasks done" in board.stdout
    assert "1.1.1 Softmax: passed, 19 checks" in run("test 1.1.1", fresh).stdout
    assert remembered(fresh)["1.1.1"] == "passed"


def test_a_checkout_that_cannot_be_written_to_grades_as_ever(fresh):
    folder = fresh / ".tiny-llm"
    if folder.exists():
        folder.rmdir()
    folder.write_bytes(b"")  # a file where the folder would be: not even root can write below it
    try:
        graded = run("test 1.1", fresh)
        assert graded.stdout.splitlines()[-1] == progress.FORGOTTEN
        assert graded.stdout.count("remembered") == 1
        board = run("status", fresh)
        assert (board.returncode, "~ 1.1.1 Softmax: written, not graded yet" in board.stdout) == (0, True)
        lent = run("borrow 1.2", fresh)
        assert (lent.returncode, lent.stdout.splitlines()[1:]) == (2, ["    pdm run doctor"])
        assert "Fix: mv .tiny-llm tiny-llm.old" in run("doctor", fresh).stdout
    finally:
        folder.unlink()


def test_a_folder_in_the_place_of_the_file_is_left_alone(package):
    progress.FILE.mkdir(parents=True)
    assert not progress.save({"borrowed": []})
    assert list(progress.FILE.parent.iterdir()) == [progress.FILE]


def test_runs_at_once_leave_a_whole_file(package):
    """Each reader finds one of the files that were written, never a part."""
    contents = [{"hints": {f"1.1.{i}": 1}, "more": "x" * 100_000} for i in range(8)]
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            if progress.FILE.exists():
                seen.append(json.loads(progress.FILE.read_text(encoding="utf-8")))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=lambda c=c: [progress.save(c) for _ in range(20)]) for c in contents]
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert seen
    assert all(data in contents for data in seen)
    assert os.listdir(progress.FILE.parent) == ["progress.json"]


def test_what_else_is_in_the_file_stays(package):
    progress.save({"tasks": {"1.1.2": {"status": "passed", "code": "c"}}, "of another version": 1})
    progress.record([graded("1.1.1", package)])
    progress.hint_shown("1.1.1", 2)
    assert progress.remember_borrowed({"1.2.2", "1.2.1"})
    data = progress.load()
    assert (data["of another version"], data["borrowed"], data["hints"]) == (1, ["1.2.1", "1.2.2"], {"1.1.1": 2})
    assert data["tasks"].keys() == {"1.1.1", "1.1.2"}


def test_a_verdict_is_for_the_code_that_was_graded(package):
    progress.record([graded("1.1.1", package), graded("1.1.3", package, passed=False)])
    assert (progress.status_of("1.1.1"), progress.status_of("1.1.3")) == ("passed", "failed")
    assert progress.status_of("1.4.2") is None
    edit(package, "def silu", "def other():\n    pass\n\n\ndef silu")
    edit(package, "import mlx.core as mx", "import mlx.core as mx\n# a remark\n")
    assert progress.status_of("1.1.1") == "passed", "what else is in the file does not matter"
    edit(package, "def softmax(x: mx.array, axis: int)", "def softmax(x: mx.array, axis: int = -1)")
    assert (progress.status_of("1.1.1"), progress.status_of("1.1.3")) == (None, "failed")


def test_a_verdict_for_code_that_changed_meanwhile_is_dropped(package):
    result = graded("1.1.1", package)
    edit(package, "def softmax(x: mx.array, axis: int)", "def softmax(x: mx.array, axis: int = -1)")
    progress.record([result])
    assert progress.verdict("1.1.1") is None


def test_a_broken_file_takes_the_ticks_of_its_tasks_until_it_is_mended(package):
    progress.record([graded("1.1.1", package)])
    edit(package, "import mlx.core as mx", "import mlx.core as mx\ndef (\n")
    assert progress.status_of("1.1.1") is None
    edit(package, "def (\n", "")
    assert progress.status_of("1.1.1") == "passed"


# --- the text of a function


def test_the_source_of_a_function_and_of_a_method(tmp_path):
    text = (
        "import functools\r\n\r\n\r\n@functools.cache\r\ndef softmax(x):\r\n    return x  # ü\r\n\r\n\r\nclass A:\r\n"
    )
    (tmp_path / "basics.py").write_bytes(f"\ufeff{text}    def b(self):\r\n        return 1\r\n".encode())
    source = functions.function_source
    assert source(tmp_path, SOFTMAX) == "@functools.cache\ndef softmax(x):\n    return x  # ü"
    assert source(tmp_path, Target("basics", "A.b")) == "    def b(self):\n        return 1"
    assert source(tmp_path, Target("basics", "linear")) is None
    assert source(tmp_path, Target("no_such", "linear")) is None


def softmax_file(folder, *lines):
    (folder / "basics.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return functions.fingerprint(task("1.1.1"), folder)


def test_a_helper_belongs_to_the_code_that_uses_it(tmp_path):
    """Else a task would stay done when its helper, which does the work, has been broken."""
    code = ("LIMIT = 3", "def _helper(x): return _other(x)", "def _other(x): return LIMIT")
    uses = "def softmax(x, axis): return _helper(x)"
    known = softmax_file(tmp_path, *code, uses)
    assert softmax_file(tmp_path, *code, "def _third(x): return 1", uses) == known
    assert softmax_file(tmp_path, *code, "def linear(x, w): return 1", uses) == known
    for i, change in enumerate(["LIMIT = 4", "def _helper(x): return x", "def _other(x): return 1"]):
        assert softmax_file(tmp_path, *[change if i == j else line for j, line in enumerate(code)], uses) != known


def test_comments_docstrings_and_layout_are_no_code(tmp_path):
    """A sync that brings a better docstring takes nobody's tick."""
    code = [
        "def softmax(x, axis):",
        '    """Sum to one."""',
        "    for _ in range(2):",
        "        x = f(x, 'a  b')",
        "    return x",
    ]
    known = softmax_file(tmp_path, *code)

    def changed(old, new):
        text = "\n".join(code)
        assert old in text
        return softmax_file(tmp_path, text.replace(old, new)) != known

    assert not changed("Sum to one.", "Sum to one\n\n    along an axis.")
    assert not changed('    """Sum to one."""\n', "")
    assert not changed("    return x", "\n    # mine\n    return x  # done")
    assert not changed("f(x, 'a  b')", "f(\n            x,\n            'a  b',\n        )")
    assert changed("'a  b'", "'a b'")
    assert changed("return x", "return -x")
    assert changed("axis):", "axis=-1):")
    assert changed("    return x", "        return x")
    assert changed("    return x", "    return x\n    'a string that is no docstring'")
    assert changed("def softmax", "@cache\ndef softmax")


def test_a_better_docstring_keeps_the_tick_and_another_line_takes_it(fresh):
    run("test 1.1.1", fresh)
    file = fresh / "src/tiny_llm/basics.py"
    before = file.read_text(encoding="utf-8")
    first = before.index('"""', before.index("def softmax")) + 3
    try:
        file.write_text(f"{before[:first]}By sync: {before[first:]}", encoding="utf-8")
        assert "✓ 1.1.1 Softmax: done" in run("status 1.1", fresh).stdout
        file.write_text(before.replace("mx.exp(shifted)", "mx.exp(shifted + 0)"), encoding="utf-8")
        assert "~ 1.1.1 Softmax: changed since it passed" in run("status 1.1", fresh).stdout
    finally:
        file.write_text(before, encoding="utf-8")


def test_another_target_does_not(tmp_path):
    uses = "def softmax(x, axis): return linear(x, x)"
    assert softmax_file(tmp_path, uses, "def linear(x, w): return 1") == softmax_file(
        tmp_path, uses, "def linear(x, w): return 2"
    )


def test_every_task_has_a_fingerprint_that_its_stub_has_not():
    for each in load_course().tasks():
        solved, stub = (functions.fingerprint(each, folder) for folder in (SOLUTION, LEARNER))
        assert solved
        assert solved != stub


def test_what_is_written_in_another_way_is_its_file(tmp_path):
    assert softmax_file(tmp_path, "from mine import softmax", "x = 1") != softmax_file(
        tmp_path, "from mine import softmax", "x = 2"
    )
    assert softmax_file(tmp_path, "softmax = f(1)", "x = 1") == softmax_file(tmp_path, "softmax = f(1)", "x = 2")
    assert softmax_file(tmp_path, "def (") is not None
    (tmp_path / "basics.py").unlink()
    assert functions.fingerprint(task("1.1.1"), tmp_path) is None
