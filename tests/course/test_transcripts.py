"""What a learner sees is what is recorded, and keeps to the rules for a screen."""

import re

import pytest

from tiny_llm_course.transcripts import FOLDER, Scenario, differences, scenarios

NAMES = [scenario.name for scenario in scenarios()]


@pytest.mark.parametrize("scenario", scenarios(), ids=NAMES)
def test_a_scenario_prints_what_is_recorded(scenario: Scenario):
    assert differences(scenario) == []


def test_every_transcript_has_its_scenario():
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(NAMES)


@pytest.mark.parametrize("scenario", scenarios(), ids=NAMES)
def test_a_transcript_fits_the_screen(scenario: Scenario):
    """At most 60 lines a run, 25 lines a task, no traceback; wrong use is one line and what to type, exit code 2."""
    for run in scenario.file.read_text(encoding="utf-8").split("\n\n$ "):
        lines = run.splitlines()[1:]
        assert len(lines) <= 60
        assert "Traceback" not in run
        tasks = re.split(r"^[✓✗○⇢~] ", run, flags=re.MULTILINE)[1:]
        assert all(len(task.splitlines()) <= 25 for task in tasks)
        if lines[-1] == "[exit code 2]":
            assert not lines[0].startswith(" ")
            assert all(line.startswith("    ") for line in lines[1:-1])


def test_no_scenario_but_a_solved_one_passes():
    """Nothing that is wrong ends with exit code 0."""
    passing = {
        s.name
        for s in scenarios()
        if "[exit code 0]" in s.file.read_text(encoding="utf-8") and s.typed[0].startswith("test")
    }
    assert passing == {"solution", "one-solved"}
