"""What became of a process that somebody has started."""

import time

import psutil


def gone(pid: int) -> bool:
    """Whether a process has ended, or does so within two seconds; nobody may have asked for its exit code yet."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False
