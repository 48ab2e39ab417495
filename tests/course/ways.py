"""Grades many ways to write a task in one process: what `test_unearned.py` runs in a checkout where all is solved.

Standard input is JSON: a list of ways, each with a task, code that is put at the end of the task's file, and further
files of the package. A way is graded as a learner's file is, by the task's own checks up to the first that fails.
Standard output is a list of verdicts: what the check says, or "passed".
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tiny_llm_course.course.file_paths import tests_paths
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading.plugin import CLOSED, FINDING, TASK
from tiny_llm_course.grading.processes import OWN_SETTINGS
from tiny_llm_course.grading.traps import nothing_compiled
from tiny_llm_course.paths import LEARNER
from tiny_llm_course.programs.packages import load_solution

COURSE = load_course()
LIBRARIES = Path(sys.argv[1])  # where those of `unearned_libraries.py` are


class Grader:
    """The pytest plugin that takes the place of the loop over the checks."""

    def __init__(self, ways: list[dict[str, Any]]) -> None:
        self.ways = ways
        self.verdicts: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for way in self.ways:
            items = [item for item in session.items if item.stash[TASK].id == way["task"]]
            assert items, way
            self.verdicts.append(self.graded(way, items, session.config))
        return True

    def graded(self, way: dict[str, Any], items: list[pytest.Item], config: pytest.Config) -> str:
        target = COURSE.task(way["task"]).target
        further = way.get("files", {})
        solved = (LEARNER / target.file).read_text(encoding="utf-8")
        files = {target.file: f"{solved}\n\n{way['code']}\n", **further}
        try:
            for file, text in files.items():
                (LEARNER / file).write_text(text, encoding="utf-8")
            config.stash[CLOSED].forget()
            try:
                imported(target.module)
            except Exception as error:
                return f"cannot be imported: {type(error).__name__}: {error}"
            return next((verdict for item in items if (verdict := failure(item))), "passed")
        finally:
            (LEARNER / target.file).write_text(solved, encoding="utf-8")
            mine = [LEARNER / file for file in further]
            for file in mine:
                file.unlink()
            for name, module in list(sys.modules.items()):
                if (getattr(module, "__file__", None) or "").startswith((str(LIBRARIES), *map(str, mine))):
                    del sys.modules[name]


def imported(module: str) -> None:
    """Import a file anew as what the tests have: a module is the same object as long as they run."""
    held = importlib.import_module(f"tiny_llm.{module}")
    for name in [name for name in vars(held) if not name.startswith("__")]:
        delattr(held, name)
    importlib.invalidate_caches()
    with nothing_compiled():
        importlib.reload(held)


def failure(item: pytest.Item) -> str:
    """What is wrong by a check; "" if it passes."""
    item._initrequest()  # type: ignore[attr-defined]
    reports = runtestprotocol(item, log=False, nextitem=None)
    if not any(report.failed for report in reports):
        return ""
    return item.stash[FINDING].text() if FINDING in item.stash else str(reports[-1].longrepr)


def main() -> None:
    ways = json.load(sys.stdin)
    load_solution()  # as a borrowed task or a diagnosis does
    sys.dont_write_bytecode = True
    files = [*map(str, tests_paths(COURSE.task(way["task"]) for way in sorted(ways, key=lambda way: way["task"])))]
    grader = Grader(ways)
    screen, sys.stdout = sys.stdout, sys.stderr
    pytest.main([*files, *OWN_SETTINGS, "-s", "-q", "-p", "no:cacheprovider"], plugins=[grader])
    json.dump(grader.verdicts, screen)


if __name__ == "__main__":
    main()
