"""What a learner has tried: which verdicts are attempts, how they are told, and what a damaged memory costs."""

import dataclasses
import json
import re
import threading

import pytest
from tests.course.checkouts import fixture, replace

from tiny_llm_course.course.findings import Claim, Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.learner import attempts, progress
from tiny_llm_course.learner.attempts import Attempt, Mistake
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.source.code import fingerprint
from tiny_llm_course.testkit.variants import load_variants

pytestmark = pytest.mark.maintainers

TASK = load_course().tasks()[0]
SOFTMAX = "def softmax(x, axis):\n    return {}\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A learner's package and memory in a folder of their own."""
    monkeypatch.setattr(progress, "FILE", tmp_path / "memory" / "progress.json")
    monkeypatch.setattr(progress, "LEARNER", tmp_path)
    monkeypatch.setattr(attempts, "LEARNER", tmp_path)
    return tmp_path


def graded(package, body, *names, passed=False, here=False, place="", **known):
    """The result of grading a program of the first task, in which these mistakes are named."""
    (package / "basics.py").write_text(SOFTMAX.format(body), encoding="utf-8")
    finding = None if passed else Finding(Kind.VALUES, "values differ", place=place)
    claims = (Claim([f"{name} is there" for name in names], ["Why?"] * len(names), here, [*names]),) if names else ()
    counts = {"checks": 1, "passed": int(passed), "failed": int(not passed)}
    code = fingerprint(TASK, package) or ""
    return TaskResult(TASK, finding=finding, claims=claims, code=code, **counts, **known)


def tried(package, *args, **known):
    result = graded(package, *args, **known)
    assert attempts.record([result])
    return result


def test_an_attempt_is_a_verdict_on_other_code(package):
    tried(package, "x", "no-scale")
    tried(package, "x", "no-scale")
    tried(package, "x  # a remark", "no-scale")
    tried(package, "2 * x", "one", "two")
    first, second = attempts.of_task(TASK)
    assert (first.status, first.headline, first.code) == ("failed", "values differ", SOFTMAX.format("x"))
    assert first.mistakes == (Mistake("no-scale", "no-scale is there"),)
    assert [mistake.name for mistake in second.mistakes] == ["one", "two"]
    assert attempts.difference(first, second) == [" def softmax(x, axis):", "-    return x", "+    return 2 * x"]
    assert attempts.tasks_tried() == {TASK: [first, second]}


def test_another_verdict_on_the_same_code_takes_its_place(package):
    """It has failed by an earlier task, say, which is mended now."""
    tried(package, "x")
    assert tried(package, "x", passed=True).road == ""
    assert [attempt.status for attempt in attempts.of_task(TASK)] == ["passed"]


def test_a_pass_is_not_forgotten_when_what_the_task_uses_breaks(package):
    def statuses():
        return [attempt.status for attempt in attempts.of_task(TASK)]

    tried(package, "1")
    assert tried(package, "2", passed=True).road == "2 attempts"
    tried(package, "2", "one")
    tried(package, "2", "two")
    assert statuses() == ["failed", "passed", "failed"]
    assert [mistake.name for mistake in attempts.of_task(TASK)[-1].mistakes] == ["one"]
    assert tried(package, "2", passed=True).road == ""
    assert statuses() == ["failed", "passed"]
    tried(package, "1")
    tried(package, "2")
    assert statuses() == ["failed", "passed", "failed", "failed"]


@pytest.mark.parametrize("known", [{"place": "src/tiny_llm/basics.py:1"}, {"borrowed": True}])
def test_what_was_not_tried_is_no_attempt(package, known):
    tried(package, "x", **known)
    assert attempts.of_task(TASK) == []


def test_code_that_changed_meanwhile_and_a_part_of_the_checks_are_no_attempt(package):
    attempts.record([dataclasses.replace(graded(package, "x"), code="")])
    result = graded(package, "x")
    graded(package, "2 * x")
    attempts.record([result])
    assert attempts.of_task(TASK) == []


def test_the_road_is_told_once_when_a_task_turns_to_passed(package):
    assert tried(package, "1", passed=True).road == ""
    assert tried(package, "2", "one").road == ""
    assert tried(package, "3", "not-this", here=True).road == ""
    assert tried(package, "4", passed=True).road == '3 attempts: "one" first'
    assert tried(package, "4", passed=True).road == ""
    assert tried(package, "5", passed=True).road == ""
    tried(package, "6", "two")
    assert tried(package, "7", passed=True).road == '2 attempts: "two" first'


@pytest.mark.parametrize(
    ("named", "road"),
    [
        ([[]], "2 attempts"),
        ([["no-scale"]], '2 attempts: "no scale" first'),
        ([["no-scale"], [], ["no-scale"], ["mask-dtype"]], '5 attempts: "no scale" first, then "mask dtype"'),
        ([["a", "b"], ["c"]], '3 attempts: "a" first, then "b" and "c"'),
        ([["a"], ["b"], ["c"], ["d"], ["e"]], '6 attempts: "a" first, then "b", "c" and 2 more'),
        ([["eps-fixed-at-1e-5"]], '2 attempts: "eps fixed at 1e-5" first'),
        ([["a"]] * (attempts.KEPT - 1), f'{attempts.KEPT} or more attempts: "a" first'),
    ],
)
def test_a_road_is_made_of_the_mistakes_that_were_named(named, road):
    failed = [attempt(str(number), *names) for number, names in enumerate(named)]
    assert attempts.road([*failed, attempt("last", status="passed")]) == road


def attempt(code, *names, status="failed", headline=""):
    mistakes = tuple(Mistake(name, "") for name in names)
    return Attempt("2026-01-01T00:00:00+00:00", status, headline, mistakes, code, code)


def test_every_name_of_a_mistake_reads_as_words_and_a_road_of_them_fits_a_line():
    names = [known.name for task in load_course().tasks() for known in load_variants(task).wrong_programs]
    assert len(names) > 100
    words = [Mistake(name, "").words for name in names]
    assert not [text for text in words if not re.fullmatch(r"[\w'-]+( [\w'-]+)*", text)]
    assert not [text for text in words if re.search(r"-(?!\d)", text)]
    assert max(map(len, words)) <= 40


def test_the_memory_is_small(package):
    for number in range(attempts.KEPT + 20):
        tried(package, number)
    kept = attempts.of_task(TASK)
    assert [each.code for each in kept] == [SOFTMAX.format(n) for n in range(20, attempts.KEPT + 20)]
    for number in range(30):
        tried(package, f"'{number} {'€' * attempts.LONGEST}'")
        assert attempts._file(TASK).stat().st_size <= attempts.LARGEST
    assert len(attempts.of_task(TASK)[-1].code) == attempts.LONGEST
    assert len(attempts.of_task(TASK)) > 1
    assert [file.name for file in attempts._file(TASK).parent.iterdir()] == [f"{TASK.id}.jsonl"]


@pytest.mark.parametrize(
    "damage",
    [
        *(b"{", b"\xff\0", b"[1]\n", b"{}\n", b"[" * 10_000, b'{"time": '),
        *(json.dumps({**dataclasses.asdict(attempt("x")), key: value}).encode() for key, value in [
            ("status", "won"), ("time", "then"), ("time", 3), ("code", None), ("mistakes", [{}]), ("mistakes", 3),
            ("mistakes", [{"name": 1, "fact": ""}]), ("hash", []), ("more", 1),
        ]),
    ],
)  # fmt: skip
def test_a_damaged_line_costs_only_itself(package, damage):
    tried(package, "x", "one")
    with attempts._file(TASK).open("ab") as file:
        file.write(damage)
    tried(package, "2 * x")
    assert [each.status for each in attempts.of_task(TASK)] == ["failed", "failed"]


def test_graders_at_once_lose_nothing(package):
    tried(package, "x")
    ours = [attempt(f"{who} {number}") for who in range(4) for number in range(10)]
    threads = [
        threading.Thread(target=lambda who=who: [attempts._add(TASK, each, [each]) for each in ours[who::4]])
        for who in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.code for each in attempts.of_task(TASK)} == {SOFTMAX.format("x"), *(each.code for each in ours)}


def test_a_folder_that_cannot_be_written_to_remembers_nothing(package):
    progress.FILE.parent.write_bytes(b"")
    result = graded(package, "x")
    assert not attempts.record([result])
    assert attempts.of_task(TASK) == []


@pytest.fixture(scope="module")
def checkout():
    """1.1.2 has failed once, and then passed; 1.1.1 passed at once, and 1.1.3 was never tried."""
    with fixture("1.1.1", "1.1.2") as folder:
        replace(folder / "src/tiny_llm/spread.py", "centered * centered", "mx.abs(centered)")
        run("test 1.1", folder)
        replace(folder / "src/tiny_llm/spread.py", "mx.abs(centered)", "centered * centered")
        folder.joinpath("told").write_text(run("test", folder).stdout, encoding="utf-8")
        yield folder


def test_a_run_of_several_days_tells_the_road(checkout):
    told = checkout.joinpath("told").read_text(encoding="utf-8")
    assert '✓ 1.1.2 Variance: passed, 5 checks\n    2 attempts: "not squared" first · pdm run history 1.1.2\n' in told


def test_tasks_are_listed_and_one_is_shown(checkout):
    listed = run("history", checkout).stdout
    assert re.sub(r"[\d-]{10} [\d:]{5}", "THEN", listed).splitlines() == [
        "✓ 1.1.1 Mean: 1 attempt, passed THEN",
        "✓ 1.1.2 Variance: 2 attempts, passed THEN",
        "To see one: pdm run history 1.1.2",
    ]
    shown = run("history 1.1.2", checkout).stdout
    assert "    named: the distances from the mean are not squared (not-squared)\n" in shown
    assert "    -    return mean(mx.abs(centered), axis)\n    +    return mean(centered * centered, axis)\n" in shown
    nothing = run("history 1.1.3", checkout)
    assert nothing.stdout == "No attempt at 1.1.3 Line is recorded. To make one: pdm run test 1.1.3\n"
    assert nothing.returncode == 0


def test_a_long_difference_is_cut_unless_somebody_wants_it_whole(checkout, tmp_path):
    body = "\n".join(f"    # {number}\n    y = x * {number}" for number in range(30))
    with fixture("1.1.1") as folder:
        replace(
            folder / "src/tiny_llm/spread.py",
            '    raise NotImplementedError("1.1.2 Variance")',
            f"{body}\n    return y",
        )
        run("test 1.1.2", folder)
        short, full = run("history 1.1.2", folder).stdout, run("history 1.1.2 --full", folder).stdout
    assert len(short.splitlines()) <= 24
    assert short.endswith(" more lines: pdm run history 1.1.2 --full\n")
    assert full.splitlines()[-1] == "    +    return y"


def test_a_reset_keeps_it(checkout):
    before = run("history 1.1.2", checkout).stdout
    assert run("reset 1.1.2 --yes", checkout).returncode == 0
    run("test 1.1.2", checkout)
    assert run("history 1.1.2", checkout).stdout == before


def test_an_export_has_it_only_if_it_is_asked_for(checkout):
    assert "mx.abs(centered)" not in run("export --format json 1.1.2", checkout).stdout
    refused = run("export --format junit --history", checkout)
    assert (refused.returncode, refused.stdout) == (
        2,
        "junit cannot hold attempts; json can:\n    pdm run export --format json --history\n",
    )
    assert run("export --format json --out history.json --history 1.1.2 1.1.3", checkout).returncode == 0
    with_history, never_tried = json.loads((checkout / "history.json").read_text(encoding="utf-8"))["tasks"]
    first, second = with_history["attempts"]
    assert first["mistakes"] == [{"name": "not-squared", "fact": "the distances from the mean are not squared"}]
    assert (first["status"], second["status"]) == ("failed", "passed")
    assert "mx.abs(centered)" in first["code"]
    assert never_tried["attempts"] == []


def test_no_code_of_the_course_is_too_long_to_be_kept():
    assert all(len((SOLUTION / task.target.file).read_bytes()) < attempts.LONGEST for task in load_course().tasks())
