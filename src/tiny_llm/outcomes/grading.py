"""Grade the workspace that an agent has left, by tests that the agent has never seen."""

from pathlib import Path

from ..workspace.commands import run_limited
from ..workspace.limits import Limits
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
    raise NotImplementedError("7.6.1 Grade a run")
