"""Run one command with limits: on time, memory, output, the environment, and every process that it leaves running."""

from collections.abc import Sequence
from pathlib import Path

from .limits import Finished, Limits

LAUNCHER = Path(__file__).with_name("launcher.py")
LOOK_EVERY = 0.25  # seconds between two looks at the memory
NO_LIMITS = Limits()


def run_limited(command: Sequence[str], folder: int, limits: Limits = NO_LIMITS, keep: Sequence[str] = ()) -> Finished:
    """Run a command, without a shell, until it ends or passes a limit, and kill what is left of it.

    The command is started by LAUNCHER, `[sys.executable, "-I", "-S", LAUNCHER, folder, cpu_seconds, memory_mib,
    *command]`, which sets the limits that the system enforces. It runs in a session, and so a process group, of its
    own. The standard input is empty; standard output and standard error are one pipe; of our descriptors, it gets
    `folder` alone. Its environment has PATH from ours, HOME and TMPDIR, both a new folder that is deleted at the end,
    LANG=C.UTF-8, TERM=dumb, and those variables named in `keep` that exist.

    When the command itself has ended, every process in its group is killed, so that nothing runs on and a background
    process that holds the pipe is not waited for. The same happens when a limit is passed, or when this function is
    interrupted. A process that moves to a session of its own escapes: that needs a sandbox of the operating system.

    Args:
        command: the program and its arguments.
        folder: descriptor of the working folder.
        limits: `memory_of_group` is called every LOOK_EVERY seconds. Output that is over the limit is read and dropped,
            as `ClippedOutput` does; the memory that this function needs does not grow with it.
        keep: names of further variables.

    Returns:
        `code` as `subprocess` has it, 127 if the program cannot be run; `output`, the kept part; and `stopped`, the
        limit that ended it: "N seconds", "N seconds of CPU time", "N MiB of memory", or "".

    Raises:
        ValueError: the command is empty, or has a zero byte.
    """
    raise NotImplementedError("7.4.4 Run a command with limits")
