"""What is remembered: verdicts for the code that they were given for; and a damaged memory costs only the memory."""

import json
import os
import shutil
import threading

import pytest
from tests.course.checkouts import fixture, replace

from tiny_llm_course.course.findings import Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.learner import progress
from tiny_llm_course.paths import LEARNER, SOLUTION
from tiny_llm_course.source.code import fingerprint

FILE = ".tiny-llm/progress.json"


def task(name):
    return load_course().task(name)


@pytest.fixture(scope="module")
def checkout():
    """Two tasks of the first day are solved, one is wrong."""
    with fixture("1.1.1", "1.1.2") as folder:
        replace(folder / "src/tiny_llm/basics.py", 'raise NotImplementedError("1.1.3 Line")', "return x * slope")
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
    code = fingerprint(task(name), package)
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
    assert sorted(file.name for file in (fresh / ".tiny-llm").iterdir()) == ["attempts", "progress.json"]


@pytest.mark.parametrize("typed", ["test 1.1.1 --solution", "test 1.1 -- -k mean_mlx", "test 1.1.1 -- -x"])
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
    assert "0 of 5 tasks done" in board.stdout
    assert "1.1.1 Mean: passed, 5 checks" in run("test 1.1.1", fresh).stdout
    assert remembered(fresh)["1.1.1"] == "passed"


def test_a_checkout_that_cannot_be_written_to_grades_as_ever(fresh):
    folder = fresh / ".tiny-llm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_bytes(b"")  # a file where the folder would be: not even root can write below it
    try:
        graded = run("test 1.1", fresh)
        assert graded.stdout.splitlines()[-1] == progress.FORGOTTEN
        assert graded.stdout.count("saved") == 1
        board = run("status", fresh)
        assert (board.returncode, "~ 1.1.1 Mean: written, not graded yet" in board.stdout) == (0, True)
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


# --- the code of a task


def softmax_file(folder, *lines):
    (folder / "basics.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return fingerprint(task("1.1.1"), folder)


def test_a_helper_belongs_to_the_code_that_uses_it(tmp_path):
    """Else a task would stay done when its helper, which does the work, has been broken."""
    code = ("LIMIT = 3", "def _helper(x): return _other(x)", "def _other(x): return LIMIT")
    uses = "def softmax(x, axis): return _helper(x)"
    known = softmax_file(tmp_path, *code, uses)
    assert softmax_file(tmp_path, *code, "def _third(x): return 1", uses) == known
    assert softmax_file(tmp_path, *code, "def linear(x, w): return 1", uses) == known
    for i, change in enumerate(["LIMIT = 4", "def _helper(x): return x", "def _other(x): return 1"]):
        assert softmax_file(tmp_path, *[change if i == j else line for j, line in enumerate(code)], uses) != known


USES = "def softmax(x, axis): return f(x)"
OWN = {"own.py": "from .more import *\ndef f(x): return x\n", "more.py": "ONE = 1\n", "apart.py": "ONE = 1\n"}


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ((USES,), (USES, "softmax = mx.softmax"), True),
        ((USES,), (USES, "linear = mx.linear"), False),
        ((USES,), ("softmax = None", USES), True),
        ((USES,), (USES, "mx.exp = abs"), True),
        ((USES,), (USES, "if x: linear = 1"), True),
        ((USES,), (USES, 'if __name__ == "__main__": print(softmax(1, 2))'), False),
        ((USES,), ("import os, sys", USES), False),
        (("from a import f", USES), ("from b import f", USES), True),
        (("import a as f, b", USES), ("import a as f", "import b", USES), False),
        (("from a import f, g", USES), ("from a import (f,\n  h)", USES), False),
        (("x, f = 1, 2", USES), ("x, f = 1, 3", USES), True),
        (("f = 1", USES), ("f = 1", "f += 1", USES), True),
        ((USES,), ("from .own import f", USES), True),
        ((USES,), ("from .layer_norm import RMSNorm as f", USES), True),
        ((USES,), ("from .layer_norm import RMSNorm", USES), False),
    ],
)
def test_what_its_file_does_when_it_is_imported_counts(tmp_path, before, after, counts):
    assert (softmax_file(tmp_path, *before) != softmax_file(tmp_path, *after)) == counts


@pytest.mark.parametrize(
    "uses",
    [
        ("from .own import f", USES),
        ("from tiny_llm.own import f", USES),
        ("from . import own", USES),
        ("import tiny_llm.own", USES),
        ("def softmax(x, axis):", "    from .own import f", "    return f(x)"),
        ("if x:", "    from .own import f", USES),
        ("from .own import softmax",),
    ],
)
def test_files_of_the_learners_own_count_and_what_they_import(tmp_path, uses):
    for name, text in OWN.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    known = softmax_file(tmp_path, *uses)
    for name, text in OWN.items():
        (tmp_path / name).write_text(f"# a remark\n{text}", encoding="utf-8")
        assert softmax_file(tmp_path, *uses) == known
        (tmp_path / name).write_text(f"{text}\nTWO = 2\n", encoding="utf-8")
        assert (softmax_file(tmp_path, *uses) == known) == (name == "apart.py")
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "__init__.py").write_text("import os\n", encoding="utf-8")
    assert softmax_file(tmp_path, *uses) != known


def test_no_other_task_s_code_counts_in_whatever_file(tmp_path):
    """A file of the course's own has targets, too: theirs is the code of other tasks."""
    target = "class RMSNorm:\n    def __init__(self): self.size = {}\n"
    (tmp_path / "layer_norm.py").write_text(f"{target.format(1)}\n\ndef f(x): return 1\n", encoding="utf-8")
    uses = ("from .layer_norm import RMSNorm, f", USES)
    known = softmax_file(tmp_path, *uses)
    (tmp_path / "layer_norm.py").write_text(f"{target.format(2)}\n\ndef f(x): return 1\n", encoding="utf-8")
    assert softmax_file(tmp_path, *uses) == known
    (tmp_path / "layer_norm.py").write_text(f"{target.format(1)}\n\ndef f(x): return 2\n", encoding="utf-8")
    assert softmax_file(tmp_path, *uses) != known


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return 1", "return 3", {"1.6.3"}),
        ("return 2", "return 3", {"1.6.4"}),
        ("self.n = 4", "self.n = 5", {"1.6.3", "1.6.4"}),
        ("SIZE = 6", "SIZE = 7", {"1.6.3", "1.6.4"}),
        ("def decode(self)", "@cache\n    def decode(self)", {"1.6.4"}),
    ],
)
def test_the_methods_of_one_class_are_tasks_of_their_own(tmp_path, old, new, changed):
    text = (
        "class ByteLevelBPE:\n    SIZE = 6\n    def __init__(self): self.n = 4\n    def encode(self): return 1\n"
        "    def decode(self): return self._two()\n    def _two(self): return 2\n"
    )
    found = []
    for content in (text, text.replace(old, new)):
        (tmp_path / "tokenizer.py").write_text(content, encoding="utf-8")
        found.append({name: fingerprint(task(name), tmp_path) for name in ("1.6.3", "1.6.4")})
    assert {name for name in found[0] if found[0][name] != found[1][name]} == changed


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
    first = before.index('"""', before.index("def mean")) + 3
    try:
        file.write_text(f"{before[:first]}By sync: {before[first:]}", encoding="utf-8")
        assert "✓ 1.1.1 Mean: done" in run("status 1.1", fresh).stdout
        file.write_text(before.replace("mx.sum(x,", "mx.sum(x + 0,"), encoding="utf-8")
        assert "~ 1.1.1 Mean: changed since it passed" in run("status 1.1", fresh).stdout
    finally:
        file.write_text(before, encoding="utf-8")


def test_another_target_does_not(tmp_path):
    uses = "def softmax(x, axis): return linear(x, x)"
    assert softmax_file(tmp_path, uses, "def linear(x, w): return 1") == softmax_file(
        tmp_path, uses, "def linear(x, w): return 2"
    )


def test_every_task_has_a_fingerprint_that_its_stub_has_not():
    for each in load_course().tasks():
        solved, stub = (fingerprint(each, folder) for folder in (SOLUTION, LEARNER))
        assert solved
        assert solved != stub


def test_what_is_written_in_another_way_is_its_file(tmp_path):
    assert softmax_file(tmp_path, "from mine import softmax", "x = 1") != softmax_file(
        tmp_path, "from mine import softmax", "x = 2"
    )
    assert softmax_file(tmp_path, "softmax = f(1)", "x = 1") == softmax_file(tmp_path, "softmax = f(1)", "x = 2")
    assert softmax_file(tmp_path, "def (") is not None
    (tmp_path / "basics.py").unlink()
    assert fingerprint(task("1.1.1"), tmp_path) is None
