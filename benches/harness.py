"""Measure a learner's waiting time: one graded day, untouched and solved, as whole commands.

    pdm run python benches/harness.py [--runs 7] [--json FILE]

Prints the median wall time of each command, its ratio to the import of PyTorch (where there is one), and
how many lines it prints. The runs of the commands take turns, so that a busy moment of the machine hits them all.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Scenario, checkout_for, run
from tiny_llm_course.measuring.clock import in_turns
from tiny_llm_course.measuring.machine import in_words, machine

DAY = "test --week 1 --day 1"


def main() -> None:
    """Measure, print the table, and write the JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="how often each command runs (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")

    every_task = tuple(task.id for task in load_course().tasks())
    untouched, solved = Scenario("untouched", (DAY,)), Scenario("solved", (DAY,), every_task)
    with checkout_for(untouched) as empty, checkout_for(solved) as full:
        commands: dict[str, Callable[[], str]] = {
            "an untouched day": lambda: run(DAY, empty).stdout,
            "a solved day": lambda: run(DAY, full).stdout,
            "python -c pass": lambda: output(sys.executable, "-c", "pass"),
        }
        if shutil.which("pdm"):  # what typing `pdm run` adds to the first two
            commands["pdm run python -c pass"] = lambda: output("pdm", "run", "python", "-c", "pass")
        if find_spec("torch"):
            commands["python -c 'import torch'"] = lambda: output(sys.executable, "-c", "import torch")
        measured = measure(commands, options.runs)

    figures = {"machine": in_words(machine()), "runs": options.runs, "commands": measured}
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def measure(commands: dict[str, Callable[[], str]], runs: int) -> dict[str, dict[str, float]]:
    """Seconds (median) and printed lines of each command, after one run to fill the caches."""
    lines = {name: len(command().splitlines()) for name, command in commands.items()}
    seconds = in_turns(list(commands.values()), runs)
    return {
        name: {"seconds": statistics.median(taken), "lines": lines[name]}
        for name, taken in zip(commands, seconds, strict=True)
    }


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def show(figures: dict[str, Any]) -> None:
    """Print the table."""
    print(f"{figures['machine']}; median of {figures['runs']} runs")
    measured = figures["commands"]
    torch = measured.get("python -c 'import torch'")
    print(f"{'':26} {'seconds':>8} {'lines':>6}  {'x torch':>8}")
    for name, row in measured.items():
        ratio = f"{row['seconds'] / torch['seconds']:8.2f}" if torch else f"{'-':>8}"
        print(f"{name:26} {row['seconds']:8.2f} {row['lines']:6d}  {ratio}")


if __name__ == "__main__":
    main()
