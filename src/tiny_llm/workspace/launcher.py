"""The program that a limited command starts as: it sets the limits of its own process, and becomes the command.

Arguments: the descriptor of the working folder, seconds of CPU time, MiB of memory, and the command. It runs with
`python -I -S`, so nothing of the workspace is imported. Limits are inherited by everything that the command starts.
"""

import os
import resource
import sys


def main() -> None:
    """Set the limits, enter the folder, and replace this process."""
    folder, cpu_seconds, memory_mib = map(int, sys.argv[1:4])
    os.fchdir(folder)
    os.close(folder)
    # At the soft limit the kernel sends SIGXCPU, at the hard one SIGKILL.
    _limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1)
    _limit(resource.RLIMIT_CORE, 0, 0)
    if sys.platform == "linux":  # macOS does not enforce it: there, and for the sum over processes, the parent looks
        _limit(resource.RLIMIT_AS, memory_mib * 2**20, memory_mib * 2**20)
    try:
        os.execvp(sys.argv[4], sys.argv[4:])
    except OSError as error:
        print(f"{sys.argv[4]}: {error.strerror}", flush=True)
        os._exit(127)


def _limit(which: int, soft: int, hard: int) -> None:
    """Set a limit, or the one that is in force if that is lower."""
    most = resource.getrlimit(which)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))


if __name__ == "__main__":
    main()
