"""The tour runs what it shows, and ends well only if all of it went as it should."""

import subprocess
import sys

import pytest
from tests.course.terminal import CTRL_C, Terminal

from tiny_llm_course.dev.transcripts import Scenario, checkout_for, environment, run
from tiny_llm_course.paths import ROOT

pytestmark = pytest.mark.maintainers


@pytest.fixture(scope="module")
def toured():
    files = {file: file.read_bytes() for file in (ROOT / "src" / "tiny_llm").glob("*.py")}
    with checkout_for(Scenario("tour", ())) as checkout:
        done = run("tour", checkout)
        assert not (checkout / ".tiny-llm" / "progress.json").exists(), "the mistake is not the learner's"
    assert {file: file.read_bytes() for file in (ROOT / "src" / "tiny_llm").glob("*.py")} == files
    return done


def test_it_ends_well(toured):
    assert toured.returncode == 0, toured.stdout
    assert "Traceback" not in toured.stdout


@pytest.mark.parametrize(
    "line",
    [
        "$ pdm run status",
        "Next: write 1.1.1 Softmax",
        "Your output equals what you get when the default scale 1/sqrt(D) is missing.",
        "4 of 4 tasks passed.",
        '$ pdm run generate "Once upon a time" --solution --seed 6 --max-tokens 36',
        "Once upon a time, there was",
        "pdm run test --week 1 --day 1",
    ],
)
def test_it_shows(toured, line):
    assert line in toured.stdout


def test_it_fails_if_something_is_not_as_it_should_be():
    with checkout_for(Scenario("tour", ())) as checkout:
        (checkout / "models").unlink()
        done = subprocess.run(
            [sys.executable, "-m", "tiny_llm_course", "tour"],
            cwd=checkout,
            env=environment(checkout),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert "models/tiny-qwen3 is missing" in done.stderr


def test_ctrl_c_is_told_once():
    with Terminal("tour") as terminal:
        terminal.wait_for("$ pdm run test 1.1.2\n")
        terminal.wait_for("Week 1, day 1")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert terminal.screen.count("interrupted") == 1
    assert "Traceback" not in terminal.screen
