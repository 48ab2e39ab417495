"""Grade the workspace that an agent has left, by tests that the agent has never seen."""

import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from ..workspace.commands import run_limited
from ..workspace.limits import Finished, Limits
from .grade import Grade

RUNNER = Path(__file__).with_name("run_tests.py")
GRADE_LIMITS = Limits(wall_seconds=10.0, cpu_seconds=10, memory_mib=1024, output_bytes=1_000_000)


def grade_run(workspace: Path, tests: str, limits: Limits = GRADE_LIMITS) -> Grade:
    """Run hidden tests on a copy of a workspace, in a process of their own, and return the grade.

    1. Copy the workspace's folders and regular files to a new folder. Symbolic links and special files are left out,
       and no target of a link is read. Folders named `__pycache__` are left out, too: their bytecode may differ
       from the source.
    2. Write the tests to a file outside the copy, so that no file of the workspace can replace it.
    3. With `run_limited`, in the copy, run `[sys.executable, "-I", "-S", "-B", RUNNER, the file, a token]`. The token
       is random, new for each grade: code under test can print a report, but not with this token.
    4. Read the report in the output, and delete the copy and the tests.

    The workspace stays as it is, and no file is left over.

    Args:
        workspace: the folder of a finished run.
        tests: the text of a Python file, with functions `test_...` that raise if something is wrong.
        limits: of the process.

    Returns:
        The grade. "limit" comes first: if the process was stopped, no report counts. Without a line that begins with
        the token, or if the limit on the output has cut that line, it is "no report", whatever the exit code is.
        `failed` is empty in both cases. `output` is what was printed before the report, without white space at the end.

    Raises:
        OSError: the workspace is no folder, or cannot be read.
    """
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        copy, hidden = Path(folder, "copy"), Path(folder, "hidden_tests.py")
        shutil.copytree(workspace, copy, ignore=_left_out)
        hidden.write_text(tests, encoding="utf-8")
        opened = os.open(copy, os.O_RDONLY | os.O_DIRECTORY)
        try:
            command = [sys.executable, "-I", "-S", "-B", str(RUNNER), str(hidden), token]
            return _grade(run_limited(command, opened, limits), token)
        finally:
            os.close(opened)


def _left_out(folder: str, names: list[str]) -> list[str]:
    """Return the names that are not copied."""
    modes = [os.lstat(os.path.join(folder, name)).st_mode for name in names]
    plain = [stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes]
    return [name for name, copied in zip(names, plain, strict=True) if not copied or name == "__pycache__"]


def _grade(finished: Finished, token: str) -> Grade:
    printed, found, rest = finished.output.partition(f"\n{token} ")
    printed = printed.rstrip()
    if finished.stopped:
        return Grade("limit", output=printed)
    try:
        report: dict[str, str] = json.loads(rest.partition("\n")[0] if found else "")
    except ValueError:
        return Grade("no report", output=printed)
    failed = tuple(name for name, result in report.items() if result != "passed")
    if not report:
        return Grade("no tests", output=printed)
    if not failed:
        return Grade("passed", output=printed)
    return Grade("failed" if "failed" in report.values() else "skipped", failed, printed)
