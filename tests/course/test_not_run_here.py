"""What a machine has not is neither passed nor failed: on every screen, in every export, and for the exit code."""

import dataclasses
import json
from types import SimpleNamespace
from xml.etree import ElementTree

import mlx.core as mx
import pytest
from click.testing import CliRunner
from tests.course.native_course import run, write_course

from tiny_llm_course.commands import compare
from tiny_llm_course.commands.bench import bench
from tiny_llm_course.commands.export import formats
from tiny_llm_course.commands.export.provenance import Provenance
from tiny_llm_course.commands.export.verdicts import GradedDay, verdict_of
from tiny_llm_course.commands.watch import page as watch_page
from tiny_llm_course.commands.watch.session import Session
from tiny_llm_course.course import requirements
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.course.requirements import REQUIREMENTS, Requirement, in_words, missing
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.dev.check import _not_proven
from tiny_llm_course.dev.proof import Proof
from tiny_llm_course.grading import report
from tiny_llm_course.grading.supervisor import Limits
from tiny_llm_course.learner import board, progress
from tiny_llm_course.measuring import benches
from tiny_llm_course.programs.packages import LearnerError
from tiny_llm_course.testkit.marks import needs, on

# A compiler that is named and is not there: nothing compiles.
NO_COMPILER = {"CXX": "no-such-compiler"}
COMMANDS = ("test 1", "test --solution", "test 1.1.2", "status", "watch", "dev check 1")
MISSING = f"a C++ compiler{REQUIREMENTS['compiler'].text.removeprefix(REQUIREMENTS['compiler'].name)}"
NEEDS = f"not run here: needs {MISSING}"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the commands say where there is no compiler: 1.1.1 is solved, 1.1.2 a stub that requires one."""
    root = write_course(tmp_path_factory.mktemp("without") / "course", "double")
    return dict(zip(COMMANDS, run(root, *COMMANDS, **NO_COMPILER), strict=True))


def test_a_task_has_passed_with_what_can_be_run_and_says_what_cannot(said):
    for command in ("test 1", "test --solution"):
        status, text = said[command]
        assert status == 0
        assert f"\n✓ 1.1.1 Double: passed, 1 check; 1 check {NEEDS}\n- 1.1.2 Sum: {NEEDS}\n" in text
        assert "\n1 of 2 tasks passed, 1 not run here." in text
    assert said["test 1"][1].endswith(" Next: pdm run status\n")


def test_a_task_alone_that_cannot_be_run_has_not_failed(said):
    assert said["test 1.1.2"][0] == 0
    assert "\n0 of 1 task passed, 1 not run here. Next: pdm run status\n" in said["test 1.1.2"][1]


def test_the_board_has_a_mark_for_it_and_never_proposes_it(said):
    text = said["status"][1]
    assert f"    - 1.1.2 Sum: {NEEDS}\n" in text
    assert "\n✓ done  - not run here\n" in text
    assert "1 of 2 tasks done\n" in text, "and no minutes to go"
    assert "\nNext: everything that can run here is done, " in text


def test_nothing_is_left_to_watch(said):
    assert said["watch"][1].startswith("Every task that can run here is done or borrowed.")


def test_dev_check_counts_what_it_cannot_prove(said):
    problems, text = said["dev check 1"]
    assert problems, "there are no chapter and too few known programs"
    assert f"; 2 checks not proven here: need {MISSING}; " in text
    assert "1.1.2: " not in text.replace("1.1.2: no sweep", "")
    proofs = [Proof("1.1.1", absent=1, missing=["metal"], uncaught=2), Proof("1.1.2")]
    assert _not_proven(proofs) == "1 check and 2 wrong programs not proven here: need Metal; "


@pytest.fixture
def nowhere(monkeypatch):
    """A requirement that no machine meets, and a task of the course that has it."""
    monkeypatch.setitem(REQUIREMENTS, "cuda", Requirement("CUDA", lambda: False))
    requirements.is_here.cache_clear()
    yield dataclasses.replace(load_course().task("1.1.2"), requires=("cuda",))
    requirements.is_here.cache_clear()


def test_what_comes_with_another_is_not_said():
    """Whoever has Metal has a GPU: a check that needs both is not said to need "Metal and Metal or CUDA"."""
    assert in_words(("gpu",)) == "Metal or CUDA"
    assert in_words(("metal", "gpu")) == in_words(("gpu", "metal", "gpu")) == in_words(("kernels", "metal")) == "Metal"
    assert in_words(("port", "gpu")) == "a TCP port of this machine and Metal or CUDA"


def test_days_of_several_are_told_in_few_lines(nowhere, capsys, monkeypatch):
    monkeypatch.setattr(report, "next_task", lambda board: None)
    passed = TaskResult(load_course().task("1.1.1"), checks=3, passed=3, absent=2, missing=("cuda",))
    other = TaskResult(dataclasses.replace(nowhere, id="1.1.3"), absent=1, missing=("cuda",))
    absent = TaskResult(nowhere, absent=4, missing=("cuda",))
    room = report.ScreenBudget(60, several=True)
    report.report_results([passed, absent, other], "src/tiny_llm", {}, room)
    report.report_results([passed, passed], "src/tiny_llm", {}, room)
    report.report_sum([passed, absent, other], "src/tiny_llm")
    assert capsys.readouterr().out.splitlines() == [
        "✓ 1.1.1 Softmax: passed, 3 checks; 2 checks not run here: need CUDA",
        "- 1.1.2, 1.1.3: not run here: needs CUDA",
        "✓ 1.1.1, 1.1.1: passed, 6 checks; 4 checks not run here: need CUDA",
        "",
        "1 of 3 tasks passed in all, 2 not run here. Next: pdm run status",
    ]


def test_exports_count_it_neither_for_nor_against(nowhere):
    results = [
        TaskResult(load_course().task("1.1.1"), checks=1, passed=1, absent=2, missing=("cuda",)),
        TaskResult(nowhere, absent=1, missing=("cuda",)),
    ]
    day = GradedDay(load_course().day(1, 1), tuple(verdict_of(result, 3, False, "") for result in results), 0.5)
    source = Provenance("2026-01-01T00:00:00+00:00", {}, {}, "", None, (), {}, "linux")
    exported = json.loads(formats.as_json([day], source))
    passed, absent = exported["tasks"]
    assert (exported["points"], exported["max_points"]) == (3, 3)
    assert (absent["status"], absent["points"], absent["max_points"]) == ("not run here", 0, 0)
    assert absent["message"] == "not run here: needs CUDA"
    assert (passed["checks"], passed["checks_passed"], passed["checks_not_run_here"]) == (1, 1, 2)
    suite = ElementTree.fromstring(formats.as_junit([day], source).encode())[0]
    assert [suite.get(key) for key in ("failures", "errors", "skipped")] == ["0", "0", "1"]
    assert [skipped.get("message") for skipped in suite.iter("skipped")] == ["not run here: needs CUDA"]
    graded = json.loads(formats.as_gradescope([day], source))
    assert (graded["score"], graded["output"]) == (3, "1 of 2 tasks passed, 1 not run here.")
    assert [test["output"] for test in graded["tests"]] == [
        "passed; 2 checks not run here: need CUDA",
        "not run here: needs CUDA",
    ]
    assert not {"score", "max_score", "status"} & graded["tests"][1].keys()


def test_compare_says_why_it_has_nothing_to_show(nowhere, monkeypatch):
    monkeypatch.setattr(compare, "grade_day", lambda *_, **__: [TaskResult(nowhere, absent=1, missing=("cuda",))])
    with pytest.raises(LearnerError, match=r"^1[.]1[.]2 .*: not run here: needs CUDA; "):
        compare._must_pass(nowhere)


def test_what_it_computes_is_not_measured(nowhere, monkeypatch):
    monkeypatch.setattr(benches, "find", lambda name: SimpleNamespace(uses=(nowhere,)))
    with pytest.raises(UsageError, match=r"^1[.]1 cannot be measured here: needs CUDA[.]$"):
        CliRunner().invoke(bench, ["1.1", "--solution"], standalone_mode=False, catch_exceptions=False)


def test_watch_lists_it(nowhere, capsys):
    results = {nowhere.id: TaskResult(nowhere, absent=4, missing=("cuda",))}
    watch_page.overview([nowhere], results)
    watch_page.board([nowhere], results)
    assert capsys.readouterr().out.splitlines() == [
        "- 1.1.2 not run here",
        "- 1.1.2 Scaled dot-product attention: not run here: needs CUDA",
    ]


def test_when_the_rest_has_passed_watch_says_what_has_not_been_run(nowhere, monkeypatch, capsys):
    other = load_course().task("1.1.1")
    session = Session([other, nowhere], Limits(), poll=True)
    session.work.results = {
        other.id: TaskResult(other, checks=1, passed=1),
        nowhere.id: TaskResult(nowhere, absent=4, missing=("cuda",)),
    }
    session._body()
    assert capsys.readouterr().out.startswith(
        "- 1.1.2 Scaled dot-product attention: not run here: needs CUDA\nThe rest has passed.\n"
    )


def test_what_fails_here_fails_although_more_cannot_be_run(nowhere):
    assert TaskResult(nowhere, checks=1, failed=1, absent=2, missing=("cuda",)).status != "not run here"
    assert TaskResult(nowhere, borrowed=True, missing=("cuda",)).status == "borrowed"


def test_it_is_not_remembered_and_nothing_is_left_to_do(nowhere, monkeypatch):
    saved = []
    monkeypatch.setattr(progress, "load", lambda: {"tasks": {nowhere.id: {"status": "passed", "code": "earlier"}}})
    monkeypatch.setattr(progress, "save", lambda data: saved.append(data))
    monkeypatch.setattr(progress, "fingerprint", lambda task, package: "now")
    assert progress.record([TaskResult(nowhere, absent=1, missing=("cuda",), code="now")])
    assert not saved
    assert progress.settled(nowhere)
    assert not progress.done(nowhere)


def test_a_task_that_waits_for_it_is_not_the_next_step(nowhere, monkeypatch):
    waits = board.Standing(board.State.TO_GRADE, "written, waits for 1.1.2", "1.1.2")
    standings = dict.fromkeys((task.id for task in load_course().tasks()), board.Standing(board.State.DONE, "done"))
    standings |= {"1.1.2": board.Standing(board.State.NOT_HERE, "not run here"), "1.1.4": waits}
    assert board.next_task(standings) is None


def test_words_that_nobody_knows_are_refused_with_those_that_there_are():
    with pytest.raises(
        ValueError, match=r"'metall' is not a requirement; the requirements are compiler, simulator, .*port"
    ):
        needs("metal", "metall")
    assert in_words(["metal", "cuda", "metal"]) == "Metal and CUDA"
    assert missing(["port"]) == ()


@on("cpu")
def test_a_check_is_called_on_the_device_that_it_names():
    assert mx.default_device() == mx.cpu


@on("gpu")
def test_a_check_on_the_gpu_is_run_only_where_there_is_one():
    assert mx.default_device() == mx.gpu


def test_the_device_is_put_back():
    assert mx.default_device() == mx.cpu
