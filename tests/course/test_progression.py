"""`pdm run bench --progression`: all stages in turns, others beside them, and what cannot run here."""

import dataclasses
import json
import math
from xml.etree import ElementTree

import pytest
from llama_engine import LlamaCpp
from tests.course.checkpoint_folders import small, write_checkpoint

from tiny_llm_course.course.registry import Course, load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.dev.book.measured import PROGRESSION
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.engine import stages
from tiny_llm_course.learner import progress
from tiny_llm_course.measuring import progression
from tiny_llm_course.measuring.engine_process import Obeying, Process
from tiny_llm_course.measuring.progression_text import about, extent, lines_of, times
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import LearnerError

pytestmark = pytest.mark.maintainers
STAGES = load_course().stages()
HERE = [stage.name for stage in STAGES if not (missing(stage.requires) or stages.simulated(stage))]
RECORD = json.loads(progression.RECORD.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a small random model."""
    return write_checkpoint(
        tmp_path_factory.mktemp("model") / "small", small(intermediate_size=192, num_hidden_layers=2)
    )


def row_of(found, name):
    return next(row for row in found["rows"] if row["name"] == name)


def test_all_that_runs_here_is_measured(model):
    found = progression.measure(str(model), solution=True, quick=True)
    assert [row["name"] for row in found["rows"] if row["kind"] == "stage"] == [stage.name for stage in STAGES]
    assert found["title"] == "small: 3 tokens, each the likeliest"
    assert found["package"] == "solutions/tiny_llm"
    for name in HERE:
        row = row_of(found, name)
        assert row["tokens/s"] > 0, row
        assert (row["tokens"], row["turns"]) == (3, 1)
    limit = row_of(found, "memory, 32 bits")
    assert limit["tokens/s"] == pytest.approx(found["bandwidth"] / limit["bytes"], rel=1e-5)


# Turns, with a clock that only the writers move


class Clock:
    def __init__(self):
        self.now = 0.0

    def writer(self, seconds_a_token, order, name):
        """Writes so fast; notes when it was its turn."""

        def write(count, limit):
            order.append(name)
            written = next((n for n in range(1, count + 1) if n * seconds_a_token > limit), count)
            self.now += written * seconds_a_token
            return written, written * seconds_a_token

        return write


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progression.time, "perf_counter", lambda: clock.now)
    return clock


def test_all_take_turns_the_last_first_and_every_other_turn_backwards(clock):
    order = []
    writers = {name: clock.writer(0.01, order, name) for name in "ab"}
    found = progression.in_turns(writers, 10, 3, 100.0)
    assert "".join(order) == "bbaa" + "ab" + "ba"  # before its first turn each warms up
    assert found == {name: [pytest.approx((10, 0.1))] * 3 for name in "ab"}


def test_what_is_slow_has_one_turn_and_what_is_too_slow_a_part_of_it(clock):
    order = []
    writers = {"slow": clock.writer(1.0, order, "slow"), "fast": clock.writer(0.01, order, "fast")}
    found = progression.in_turns(writers, 100, 5, 20.0)
    assert [len(each) for each in found.values()] == [1, 1]  # the slow one has used up what was left
    assert found["slow"][0][0] < 20
    found = progression.in_turns({"slow": writers["slow"]}, 5, 3, math.inf)
    assert found == {"slow": [(5, 5.0)]}


def test_what_fails_is_told_and_does_not_stop_the_others(clock):
    def fails(count, limit):
        raise LearnerError("src/tiny_llm: it broke\n    pdm run test")

    found = progression.in_turns({"a": clock.writer(0.01, [], "a"), "b": fails}, 4, 2, 10.0)
    assert found["b"] == "src/tiny_llm: it broke"
    assert len(found["a"]) == 2


# What is not there


@pytest.fixture
def bare(monkeypatch):
    """A machine without a compiler, a learner of some passed tasks and no optional ones, and no other engines."""
    passed = set()
    monkeypatch.setattr(stages, "missing", lambda words: tuple(words))
    monkeypatch.setattr(progress, "done", lambda task: task.id in passed)
    monkeypatch.setattr(progress, "skipped", lambda task: task.optional)
    monkeypatch.setattr(progression, "find_spec", lambda name: None)
    return passed


def test_a_stage_says_what_it_needs(bare):
    bare.update({"1.5.3", "1.6.6", "2.1.3"})
    assert [stages.lacking(stage, False) for stage in STAGES[:2]] == ["", "2.1.4"]
    assert stages.lacking(STAGES[2], False) == "2.1.4 and 2.3.6 and 2.3.7"  # 2.3.5 is optional
    assert "a C++ compiler" in stages.lacking(STAGES[3], True)
    assert stages.lacking(STAGES[2], True) == ""


def test_with_nothing_written_the_next_step_is_said(bare, model):
    with pytest.raises(LearnerError, match=r"^None of your stages runs yet .*\n    pdm run test 1\.5\.3$"):
        progression.measure(str(model), solution=False)


def test_what_does_not_run_is_a_row_that_says_so(bare, model, monkeypatch):
    week = dataclasses.replace(load_course().weeks[0], stages=(STAGES[0], STAGES[3]))
    monkeypatch.setattr(progression, "load_course", lambda: Course((week,)))
    found = progression.measure(str(model), solution=True, quick=True)
    assert [row["name"] for row in found["rows"]] == ["week1", "cpu-kernel", "mlx-lm", "llama.cpp", "memory, 32 bits"]
    lines = lines_of(found, 80)
    told = {line.split()[0]: line.partition("not run here: ")[2] for line in lines if "not run here" in line}
    assert told["cpu-kernel"].startswith("needs a C++ compiler")
    assert told["mlx-lm"] == "needs mlx-lm (pdm run pip install mlx-lm)"
    assert told["llama.cpp"] == "needs llama-cpp-python and gguf" or row_of(found, "llama.cpp")["turns"]
    drawn = PROGRESSION.in_a_file(found)
    assert "week1" in drawn
    assert "cpu-kernel" not in drawn


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (
            "bench engine --progression",
            "--progression covers all stages and cannot be combined with engine:",
        ),
        ("bench --progression --stage fused", "and cannot be combined with --stage fused: pdm run bench --progression"),
        ("bench --progression --model /nowhere", "/nowhere is neither a checkpoint folder nor a Hub id."),
        ("bench --progression --svg pyproject.toml", "pyproject.toml exists and is not an earlier drawing"),
        ("bench --progression --json pyproject.toml", "pyproject.toml exists and is not an earlier record"),
    ],
)
def test_wrong_use_is_one_line(typed, words):
    done = run(f"{typed} --solution", ROOT)
    assert done.returncode == 2
    assert words in done.stdout


def test_the_command_prints_writes_and_draws(model, tmp_path):
    record, drawing = tmp_path / "found.json", tmp_path / "week.svg"
    done = run(f"bench --progression --solution --quick --model {model} --json {record} --svg {drawing}", ROOT)
    assert done.returncode == 0, done.stdout
    found = json.loads(record.read_text(encoding="utf-8"))
    assert f"{found['title']}  (solutions/tiny_llm)\n" in done.stdout
    assert "too small for meaningful numbers" in done.stdout
    assert drawing.read_text(encoding="utf-8") == PROGRESSION.in_a_file(found)
    ElementTree.parse(drawing)


# Engines in processes of their own


class Counting(Obeying):
    def __init__(self):
        self.appended = []

    def forget(self):
        self.appended.append("new")

    def append(self, tokens):
        self.appended.append(len(tokens))


def test_an_engine_writes_as_many_as_it_is_told():
    engine = Counting()
    assert engine.write(4, 7, math.inf)[0] == 4
    assert engine.appended == ["new", 7, 1, 1, 1]
    assert engine.write(4, 7, 0.0)[0] == 1
    engine.decode(3, context=7)
    assert engine.appended[-3:] == [1, 1, 1]


def test_a_process_that_ends_is_an_error():
    with pytest.raises(RuntimeError, match="an engine process exited"):
        Process(["false"])
    assert issubclass(LlamaCpp, Obeying)


# The picture


def rows(*paces):
    return [{"name": f"n{i}", "kind": "stage", "about": "it", "tokens/s": pace} for i, pace in enumerate(paces)]


@pytest.mark.parametrize(
    ("paces", "ends"), [((17, 600), (1, 3)), ((10, 100), (0, 2)), ((0.3, 5), (-1, 1)), ((7,), (0, 1))]
)
def test_the_scale_holds_all_and_leaves_the_slowest_a_bar(paces, ends):
    assert extent(rows(*paces)) == ends


def test_a_bar_is_as_long_as_its_logarithm():
    found = RECORD | {"rows": [*rows(10.0, 100.0, 1000.0), {"name": "n3", "kind": "stage", "not run": "needs Metal"}]}
    lines = lines_of(found, 80)
    assert [line.count("█") for line in lines[1:4]] == [20, 39, 59]
    assert [line.rstrip().rpartition("  ")[2].strip() for line in lines[2:4]] == ["10 x", "100 x"]
    assert lines[4] == "n3  not run here: needs Metal"
    axis = lines[6]
    assert [axis.index(f" {mark}") + 1 for mark in ("10 ", "100", "1,000")] == [24, 43, 63]


def test_what_was_recorded_says_where_and_when(model):
    row = rows(5.0)[0] | {
        "tokens": 44,
        "recorded": {"date": "2026-11-22", "machine": {"processor": "AMD EPYC, 2 cores"}},
    }
    assert about(row, 200) == "it (recorded on 22 November 2026, AMD EPYC, 2 cores; its first 44 tokens)"
    assert times(row, [row]) == ""


def test_another_engine_that_is_not_here_is_told_from_the_record():
    checkpoint = type("C", (), {"folder": progression.EMBEDDED_MODEL})()
    kept = progression._recorded("llama.cpp", checkpoint)
    assert kept["tokens/s"] == row_of(RECORD, "llama.cpp")["tokens/s"]
    assert kept["recorded"]["machine"]["processor"]
    assert progression._recorded("other", checkpoint) == {}


def test_the_record_is_whole_and_ours():
    assert RECORD["package"] == "solutions/tiny_llm"
    assert not RECORD["quick"]
    assert RECORD["title"].startswith("models/tiny-qwen3: 200 tokens")
    assert {row["name"] for row in RECORD["rows"] if row["kind"] == "stage"} <= {stage.name for stage in STAGES}
    assert all("tokens/s" in row for row in RECORD["rows"])
    assert max(map(len, lines_of(RECORD, 80)[: len(RECORD["rows"]) + 3])) <= 80
