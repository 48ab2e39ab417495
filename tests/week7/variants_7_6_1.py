"""Known programs of task 7.6.1, grading a run."""

import json
import os
import secrets
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import mlx.core as mx
from tests.week7.graded import SCENES, laid_out, listing
from tests.week7.probing import told
from tiny_llm_solution.outcomes.grade import Grade
from tiny_llm_solution.outcomes.grading import GRADE_LIMITS, RUNNER
from tiny_llm_solution.workspace.commands import run_limited
from tiny_llm_solution.workspace.limits import Limits

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.6.1")


def graded(program, name):
    """Return a scene's grade, and whether the workspace is as it was."""
    with tempfile.TemporaryDirectory() as parent:
        folder = laid_out(SCENES[name], Path(parent))
        before = listing(folder)
        limits = Limits(min(SCENES[name].seconds, 3.0), 10, 1024)

        def verdict():
            found = program(folder, SCENES[name].tests, limits)
            return found.verdict, found.failed

        return told(verdict), mx.array(listing(folder) == before)


for each in (
    "one wrong",
    "os._exit(0)",
    "a report of its own",
    "no tests",
    "all skipped",
    "one skipped, one wrong",
    "an endless loop",
    "links",
    "bytecode of another source",
    "tests that write",
    "tests of the same name",
):
    known.probe()(partial(lambda program, name: graded(program, name), name=each))


@known.probe()
def a_cut_report(program):
    with tempfile.TemporaryDirectory() as parent:
        folder = laid_out(SCENES["all right"], Path(parent))
        tests = "".join(f"def test_{number}():\n    pass\n" for number in range(60))
        return told(lambda: program(folder, tests, Limits(3.0, 10, 1024, 300)).verdict)


@known.probe()
def no_workspace(program):
    with tempfile.TemporaryDirectory() as parent:
        return told(lambda: program(Path(parent) / "gone", SCENES["all right"].tests, Limits(3.0, 10, 1024)).verdict)


known.not_timed("a process takes longer to start than everything else")

known.change(
    "in-place",
    ("shutil.copytree(workspace, copy, ignore=_left_out)", "copy = workspace"),
    fact="the tests run in the workspace itself, which they may change",
    question="The tests write a file. Is the run that you grade a second time the run that you graded first?",
)
known.change(
    "exit-code-counts",
    (
        'return Grade("no report", output=printed)',
        'return Grade("no report" if finished.code else "passed", output=printed)',
    ),
    fact="a process that ends with exit code 0 and without a report counts as a success",
    question="What does os._exit(0) in a module do, and what does it say about the tests?",
)
known.change(
    "any-line-is-a-report",
    ('finished.output.partition(f"\\n{token} ")', 'finished.output.partition(" {")'),
    ('rest.partition("\\n")[0] if found', '"{" + rest.partition("\\n")[0] if found'),
    fact="a report that the code under test has printed counts",
    question="Who can write to the output that you read the report in? What does only the runner know?",
)
known.change(
    "nothing-failed",
    ("if not report:", "if False:"),
    fact="an empty report counts as a success, because no test failed",
    question="What is all([])? How many tests have shown that the fix works?",
)
known.change(
    "skipped-is-passed",
    ('if result != "passed")', 'if result == "failed")'),
    fact="a skipped test counts as one that passed",
    question="The code under test raises SkipTest. What has been tested?",
)
known.change(
    "skipped-not-listed",
    ('if result != "passed")', 'if result == "failed")'),
    ("if not failed:", 'if {*report.values()} == {"passed"}:'),
    fact="`failed` lists only the tests that failed, not those that were skipped",
    question="Which tests did not pass, if one has failed and one was skipped?",
)
known.change(
    "cut-report-raises",
    ("except ValueError:", "except ValueError:\n    if found:\n        raise"),
    fact="a report that the limit on the output has cut raises an error",
    question="The line with the token is incomplete. What does json.loads make of it?",
)
known.change(
    "missing-workspace-is-empty",
    (
        "shutil.copytree(workspace, copy, ignore=_left_out)",
        "shutil.copytree(workspace, copy, ignore=_left_out) if workspace.exists() else copy.mkdir()",
    ),
    fact="a workspace that does not exist is graded like an empty one",
    question="What do os.walk and Path.rglob return for a folder that does not exist?",
)
known.change(
    "skipped-is-failed",
    ('"failed" if "failed" in report.values() else "skipped"', '"failed"'),
    fact="tests that were only skipped have the verdict of tests that failed",
    question="Which verdicts does the docstring tell apart, when no test has failed?",
)
known.change(
    "limit-not-noticed",
    ("if finished.stopped:", "if False:"),
    fact="a process that was stopped at a limit is not told apart from one that ended without a report",
    question="Which field of Finished says that the process did not end by itself?",
)
known.change(
    "links-followed",
    (
        "modes = [os.lstat(os.path.join(folder, name)).st_mode for name in names]",
        "modes = [os.stat(p).st_mode if os.path.exists(p := os.path.join(folder, name)) else 0 for name in names]",
    ),
    fact="symbolic links are followed, and their targets are copied",
    question="The agent has left a link to your home folder. How much do you copy?",
)
known.change(
    "copied-by-default",
    ("ignore=_left_out", 'ignore=shutil.ignore_patterns("__pycache__")'),
    fact="links and special files are copied as copytree does by default: it follows links, or raises an error",
    question="What does the docstring say about links, and what does copytree do with one unless told otherwise?",
)
known.change(
    "bytecode-copied",
    (' or name == "__pycache__"', ""),
    fact="bytecode is copied with the sources, and Python may run it in their place",
    question="Which file does Python run for `import add`, if `__pycache__` has one, too?",
)
known.change(
    "tests-in-the-copy",
    ("shutil.copytree(workspace, copy, ignore=_left_out)\n", ""),
    (
        'hidden.write_text(tests, encoding="utf-8")\n',
        'copy.mkdir()\nhidden = copy / "hidden_tests.py"\nhidden.write_text(tests, encoding="utf-8")\n'
        "shutil.copytree(workspace, copy, ignore=_left_out, dirs_exist_ok=True)\n",
    ),
    fact="the tests are in the copy, where a file of the workspace replaces them",
    question="The agent has written a file with the name of your tests. Which of the two runs?",
)


@known.accepted("file by file")
def file_by_file(workspace, tests, limits=GRADE_LIMITS):
    if not workspace.is_dir():
        raise NotADirectoryError(str(workspace))
    place, token = Path(tempfile.mkdtemp()), secrets.token_urlsafe(20)
    try:
        (place / "tests.txt").write_text(tests, encoding="utf-8")
        copy = place / "inner"
        copy.mkdir()
        for at, folders, names in os.walk(workspace):
            folders[:] = [f for f in folders if f != "__pycache__" and not Path(at, f).is_symlink()]
            inside = copy / Path(at).relative_to(workspace)
            inside.mkdir(exist_ok=True)
            for name in names:
                if Path(at, name).is_file() and not Path(at, name).is_symlink():
                    shutil.copy(Path(at, name), inside / name)
        folder = os.open(copy, os.O_RDONLY)
        try:
            words = [sys.executable, "-I", "-S", "-B", str(RUNNER), str(place / "tests.txt"), token]
            done = run_limited(words, folder, limits)
        finally:
            os.close(folder)
    finally:
        shutil.rmtree(place)
    lines = done.output.split("\n")
    found = [i for i, line in enumerate(lines) if line.startswith(token)]
    printed = "\n".join(lines[: found[0]] if found else lines).rstrip()
    if done.stopped:
        return Grade("limit", (), printed)
    if not found:
        return Grade("no report", (), printed)
    try:
        table = json.loads(lines[found[0]][len(token) :])
    except ValueError:
        return Grade("no report", (), printed)
    bad = tuple(name for name in table if table[name] != "passed")
    kinds = set(table.values())
    verdict = "no tests" if not kinds else "failed" if "failed" in kinds else "skipped" if bad else "passed"
    return Grade(verdict, bad, printed)
