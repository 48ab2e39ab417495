"""Real ranks for a graded check: processes over MLX's ring, which a check starts and which never outlive it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..paths import ROOT
from ..ranks import RanksFailed, launch
from .errors import Kind, fail

TIMEOUT = 5.0  # seconds without a call of any rank


def run_processes(module: str, ranks: int, *arguments: str, case: str, package: Sequence[Path] = ()) -> list[str]:
    """Run `python -m MODULE ARGUMENTS` on ranks, and return what each printed; a rank that dies fails the check.

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
            [sys.executable, "-P", "-m", module, *arguments],
            ranks,
            timeout=TIMEOUT,
            environment={"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        )
    except RanksFailed as failed:
        what, *lines = str(failed).splitlines()
        fail(Kind.RAISED, what, case, *(line.strip() for line in lines))
