"""Task 7.6.1, grading a run: workspaces of honest and of other agents, and the traces of a grade."""

import tempfile

import pytest
from tests.week7.graded import BOTH, EXITS, HIDDEN, RIGHT, SCENES, SKIPS, WRONG, Scene, laid_out, listing, mixed

from tiny_llm.outcomes import grading
from tiny_llm.workspace.limits import Limits
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_error


def graded(scene, parent, case):
    folder = laid_out(scene, parent)
    with noted(case):
        return grading.grade_run(folder, scene.tests, Limits(scene.seconds, 10, 1024)), folder


def check(scene, parent, case):
    found, folder = graded(scene, parent, case)
    fail_if_different("`verdict` is wrong", scene.verdict, found.verdict, case)
    fail_if_different("`failed` is wrong", scene.failed, found.failed, case)
    return found, folder


@pytest.mark.parametrize("name", SCENES)
def test_task_1_grade_scene(tmp_path, name):
    check(SCENES[name], tmp_path, f"a workspace: {name}")


def test_task_1_grade_output(tmp_path):
    """What the tests print is kept, without the report."""
    tests = HIDDEN.replace("def test_small():", 'def test_small():\n    print("in a test")')
    stopped = "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)\n"  # as at the limit of CPU time
    scenes = (
        (Scene({"add.py": RIGHT}, tests, "passed"), "before\nin a test"),
        (Scene({"add.py": SKIPS}, tests, "skipped", BOTH), "before\nin a test" + "\nSkipTest: not today" * 2),
        (Scene({"add.py": EXITS}, tests, "no report"), "before"),
        (Scene({"add.py": stopped}, tests, "limit"), "before"),
        (Scene({"add.py": RIGHT}, "", "no tests"), "before"),
    )
    for number, (scene, output) in enumerate(scenes):
        (tmp_path / str(number)).mkdir()
        case = f"tests that print lines, verdict {scene.verdict!r}"
        scene = scene._replace(tests='print("before", flush=True)\n' + scene.tests)
        found, _ = graded(scene, tmp_path / str(number), case)
        fail_if_different("`output` is wrong", output, found.output, case)


@pytest.mark.parametrize("name", ["tests that write", "links", "bytecode of another source", "an endless loop"])
def test_task_1_grade_leaves_no_trace(tmp_path, name, monkeypatch):
    """The workspace is as it was, and temporary folders are gone."""
    case = f"a workspace: {name}"
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = laid_out(SCENES[name], tmp_path)
    before = listing(folder)
    with noted(case):
        grading.grade_run(folder, SCENES[name].tests, Limits(SCENES[name].seconds, 10, 1024))
    fail_if_different("the workspace has changed", sorted(before), sorted(listing(folder)), case)
    fail_if_different("the workspace's files have changed", before, listing(folder), case)
    if left := sorted(path.name for path in (tmp_path / "temporary").iterdir()):
        fail(Kind.VALUES, "temporary files are left over", case, f"got       {left}")


def test_task_1_grade_cut_report(tmp_path):
    """A report that does not fit into the output that is kept is none, and no error."""
    tests, _, _ = mixed("p" * 60)
    folder, case = laid_out(Scene({"add.py": RIGHT}, tests, "no report"), tmp_path), "60 tests, output_bytes 300"
    with noted(case):
        found = grading.grade_run(folder, tests, Limits(10.0, 10, 1024, 300))
    fail_if_different("`verdict` is wrong", "no report", found.verdict, case)


def test_task_1_grade_twice(tmp_path):
    """A workspace is graded as it is now, whatever an earlier grade has read."""
    folder = laid_out(SCENES["all wrong"], tmp_path)
    case = "a wrong module, then a right one of the same length"
    with noted(case):
        first = grading.grade_run(folder, HIDDEN)
        (folder / "add.py").write_text(WRONG.replace("-", "+"), encoding="utf-8")
        second = grading.grade_run(folder, HIDDEN)
    fail_if_different("the verdicts are wrong", ["failed", "passed"], [first.verdict, second.verdict], case)


def test_task_1_grade_no_workspace(tmp_path):
    case = "a workspace that does not exist"
    with raises_error(OSError, case):
        grading.grade_run(tmp_path / "nothing", HIDDEN)


def test_task_1_grade_sweep(tmp_path):
    """Any number of tests, of which each passes, fails, is skipped or raises an error."""
    for number, letters in enumerate(("p", "s", "pspp", "sp" * 20, "e", "pppf", "fsp", "p" * 60)):
        tests, verdict, failed = mixed(letters)
        (tmp_path / str(number)).mkdir()
        words = f"{len(letters)} tests: {letters[:20]} (p passes, f fails, s is skipped, e raises KeyError)"
        check(Scene({"add.py": RIGHT}, tests, verdict, failed), tmp_path / str(number), words)
