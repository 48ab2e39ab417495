"""`pdm run bench`: what it measures, what it refuses, and the record that the book shows."""

import importlib.util
import json
import math
import re

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.file_paths import chapter_path
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, run
from tiny_llm_course.measuring.benches import find, measurements
from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT

pytestmark = pytest.mark.maintainers
NAMES = [day.name for day in load_course().days() if not day.is_open]
KNOWN = {measurement.name: measurement for measurement in measurements(load_course())}


@pytest.fixture(scope="module")
def untouched():
    with fixture() as checkout:
        yield checkout


# Every day


@pytest.mark.parametrize("name", NAMES)
def test_every_day_has_a_measurement_a_record_and_its_section(name):
    measurement = KNOWN[name]
    assert measurement.uses, "it measures nothing that the learner writes"
    assert any((task.week, task.day) == (measurement.day.week, measurement.day.number) for task in measurement.uses)
    text = chapter_path(measurement.day).read_text(encoding="utf-8")
    section = text.partition("\n## Measure\n")[2].partition("\n## ")[0]
    assert f"pdm run bench {name}\n" in section
    assert f"{{{{#include ../generated/{name}.md:measured}}}}" in section
    assert text.index("\n## Measure\n") < text.index("\n## Checkpoint\n")
    assert 60 <= len(section.split(":measured}}")[1].split()) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_runs_and_its_record_has_the_same_form(name, tmp_path):
    done = run(f"bench {name} --solution --quick --json {tmp_path}/found.json", ROOT)
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    recorded = json.loads(KNOWN[name].record.read_text(encoding="utf-8"))
    assert (found["quick"], recorded["quick"]) == (True, False)
    assert found.keys() == recorded.keys()
    assert found["machine"].keys() >= recorded["machine"].keys() - {"blas"}
    for key in ("day", "title", "package"):
        assert found[key] == recorded[key], f"{key} has changed: pdm run dev bench {name}"
    assert in_form(found["columns"]) == in_form(recorded["columns"]), f"pdm run dev bench {name}"
    for table in (found, recorded):
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        numbers = [cell for row in table["rows"] for cell in row if not isinstance(cell, str)]
        assert all(map(math.isfinite, numbers))
    week, day = name.split(".")
    assert f"Week {week}, day {day}: {found['title']}  (solutions/tiny_llm)\n" in done.stdout
    assert "too small for meaningful numbers" in done.stdout
    assert found["see"] in done.stdout


def in_form(columns):
    return [re.sub(r"[\d,]+", "#", column) for column in columns]


def test_the_page_shows_the_record():
    page = present("1.6", "measured")
    recorded = json.loads(KNOWN["1.6"].record.read_text(encoding="utf-8"))
    assert page.count("\n| ") == len(recorded["rows"]) + 2, "a head and the line under it"
    assert f"MLX {recorded['machine']['mlx']} on the {recorded['machine']['device']}" in page
    assert recorded["date"][:4] in page


# What is measured


def test_what_a_measurement_uses_is_read_from_its_imports():
    assert [task.id for task in find("1.1").uses] == ["1.1.1", "1.1.2"]
    assert {"1.1.2", "1.5.3", "1.6.6"} <= {task.id for task in find("1.6").uses}
    assert "1.6.3" not in {task.id for task in find("1.6").uses}


def test_the_parts_of_the_model_have_all_its_weights():
    spec = importlib.util.spec_from_file_location("bench_parts", KNOWN["1.5"].file)
    parts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parts)
    checkpoint = load_checkpoint(EMBEDDED_MODEL)
    config = parts.ModelConfig.from_dict(checkpoint.config)
    counted = sum(weights for weights, _ in parts._counts(config, 1).values())
    assert counted == sum(weight.size for weight in checkpoint.weights.values())
    assert sum(weights for weights, _ in parts._counts(parts.QWEN3, 1).values()) == 596_049_920


SLOW = Edit(
    "spread.py",
    find="    centered = x - mean(x, axis)\n",
    put='    import time\n    print("here I am")\n    time.sleep(0.02)\n    centered = x - mean(x, axis)\n',
)


def test_it_is_the_learners_code_that_is_measured(tmp_path):
    """Slow code takes its time, what it prints is not shown, and the verdict that it passes is remembered."""
    with fixture("1.1.1", "1.1.2", edits=(SLOW,)) as checkout:
        done = run(f"bench 1.1 --quick --json {tmp_path}/found.json", checkout)
        assert done.returncode == 0, done.stdout
        assert "(src/tiny_llm)" in done.stdout
        assert "here I am" not in done.stdout
        found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
        slow, mlx = found["columns"].index("ms"), found["columns"].index("MLX: ms")
        assert all(row[slow] > 20 > row[mlx] for row in found["rows"])
        progress = json.loads((checkout / ".tiny-llm" / "progress.json").read_text(encoding="utf-8"))
        assert {task: verdict["status"] for task, verdict in progress["tasks"].items()} == {
            "1.1.1": "passed",
            "1.1.2": "passed",
        }


def test_what_is_borrowed_is_measured_and_named(untouched):
    assert run("borrow 1.1.1 1.1.2", untouched).returncode == 0
    done = run("bench 1.1 --quick", untouched)
    assert run("return 1.1.1 1.1.2", untouched).returncode == 0
    assert done.returncode == 0, done.stdout
    assert "⇢ ours, because borrowed: 1.1.1, 1.1.2\n" in done.stdout


@pytest.mark.parametrize(
    ("solved", "edits", "words", "command"),
    [
        ((), (), "1.1.1 Mean is not started", "pdm run test 1.1.1"),
        (
            ("1.1.1", "1.1.2"),
            (Edit("spread.py", find="centered * centered", put="centered"),),
            "1.1.2 Variance has not passed",
            "pdm run test 1.1.2",
        ),
        (
            ("1.1.1", "1.1.2"),
            (Edit("basics.py", put="\n(", find=""),),
            "1.1.1 Mean has not passed",
            "pdm run test 1.1.1",
        ),
    ],
    ids=["not started", "wrong", "not Python"],
)
def test_only_code_that_passes_is_measured(solved, edits, words, command):
    with fixture(*solved, edits=edits) as checkout:
        done = run("bench 1.1", checkout)
    line = f"{words} (--solution measures ours). Your next step:"
    assert (done.returncode, done.stdout) == (1, f"{line}\n    {command}\n")


def test_what_raises_in_the_measurement_is_told_without_a_traceback():
    """It passes its checks, whose inputs are smaller."""
    fussy = Edit(
        "spread.py",
        find="    centered = x - mean(x, axis)\n",
        put="    assert x.size < 40, 'too long'\n    centered = x - mean(x, axis)\n",
    )
    with fixture("1.1.1", "1.1.2", edits=(fussy,)) as checkout:
        done = run("bench 1.1 --quick", checkout)
    assert done.returncode == 1
    first, frame, *more = done.stdout.splitlines()
    assert first == "src/tiny_llm: raised AssertionError: too long"
    assert "src/tiny_llm/spread.py" in frame
    assert more == ["What the tests say:", "    pdm run test"]


# The command line


def test_alone_it_lists_what_there_is(untouched):
    done = run("bench", untouched)
    assert done.returncode == 0
    assert "  1.1  The variance of longer and longer rows\n" in done.stdout
    assert done.stdout.endswith("Your code: pdm run bench 1.1; ours: pdm run bench 1.1 --solution\n")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("bench 1.1.2", "1.1.2 is not a day; benchmarks are per day: pdm run bench 1.1"),
        ("bench 1", "1 is not a day; benchmarks are per day: pdm run bench 1.1"),
        ("bench 1.9", "There is no day 9 in week 1"),
        ("bench attention", "'attention' is not a task"),
        ("bench --json x.json", "--json needs a day: pdm run bench 1.1 --json FILE"),
        ("bench 1.1 --json nowhere/x.json", "nowhere/x.json cannot be written: nowhere is not a writable folder"),
        ("bench 1.1 --json src", "'src' is a directory"),
        ("bench 1.1 --json pyproject.toml", "pyproject.toml exists and is not an earlier record: name another"),
        ("dev bench 1.1.2", "1.1.2 is not a day"),
    ],
)
def test_wrong_use_is_one_line(typed, words, untouched):
    done = run(typed, untouched)
    assert done.returncode == 2
    line, *commands = done.stdout.splitlines()
    assert words in line
    assert all(command.startswith("    pdm run ") for command in commands)


def test_a_day_without_a_measurement(monkeypatch):
    monkeypatch.setattr("tiny_llm_course.measuring.benches.bench_path", lambda day: ROOT / "benches" / "none.py")
    with pytest.raises(UsageError, match=r"^Day 1\.1 has no benchmark yet\.$"):
        find("1.1")


def test_dev_bench_records_our_own_run():
    with checkout_for(Scenario("measured", ())) as checkout:
        record = checkout / KNOWN["1.2"].record.relative_to(ROOT)
        record.unlink()
        done = run("dev bench 1.2", checkout)
        assert done.returncode == 0, done.stdout
        found = json.loads(record.read_text(encoding="utf-8"))
    assert (found["day"], found["package"], found["quick"]) == ("1.2", "solutions/tiny_llm", False)
    assert f"1.2: {found['see']}\n" in done.stdout
    # The error of float32 angles is small, that of rounded ones is not, on any machine.
    assert all(row[1] < 0.1 < row[2] < row[3] or row[0] > 1000 for row in found["rows"])
