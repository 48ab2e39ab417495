"""Processes that a graded check starts, such as real ranks over MLX's ring, which never outlive it.

`python -m tiny_llm_course.testkit.processes MODULE ARGUMENTS` runs a module with the tasks borrowed that the grading
process has borrowed.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from ..course.registry import load_course
from ..paths import ROOT
from ..programs import borrowing
from ..ranks import RanksFailed, launch
from .errors import Kind, fail

BORROWED = "TINY_LLM_BORROWED"  # the variable with the tasks that the grading process has borrowed
TIMEOUT = 5.0  # seconds without a call of any rank


def run_processes(module: str, ranks: int, *arguments: str, case: str, package: Sequence[Path] = ()) -> list[str]:
    """Run a module on ranks, as this file says, and return what each printed; a rank that dies fails the check.

    Args:
        module: as `tests.week6.ringing`.
        ranks: how many.
        arguments: for all.
        case: in words.
        package: folders from which the ranks import first.
    """
    path = os.pathsep.join(map(str, (*package, ROOT, ROOT / "src")))
    try:
        return launch(
            [sys.executable, "-P", "-m", __name__, module, *arguments],
            ranks,
            timeout=TIMEOUT,
            environment={"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        )
    except RanksFailed as failed:
        what, *lines = str(failed).splitlines()
        fail(Kind.RAISED, what, case, *(line.strip() for line in lines))


def main(module: str, *arguments: str) -> None:
    """Borrow what the grading process has borrowed, and run a module as a program."""
    borrowing.install(map(load_course().task, os.environ.get(BORROWED, "").split()))
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
