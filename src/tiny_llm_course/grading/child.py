"""Child process: grade one day with pytest; the Job comes as JSON on stdin, events leave as JSON lines on a pipe."""

import faulthandler
import json
import os
import signal
import sys
from importlib import import_module

import pytest

from .guard import signal_no_others
from .processes import OWN_SETTINGS
from .reporter import Job, Reporter

# What the tests of most days import: a process that is started ahead has imported it when its job arrives.
READY = ("hypothesis", "mlx.nn", "numpy")


def main() -> int:
    """Wait for the job, grade it, and report."""
    for name in READY:
        import_module(name)
    if not (words := sys.stdin.read()):  # it is at its end then, as if it were closed
        return 0  # the parent has no job, or has ended
    job = Job(**json.loads(words))
    for pipe in (job.events, job.trace):
        os.set_inheritable(pipe, False)
    faulthandler.enable(file=job.trace)
    # The harness asks for the current line before it ends a child that exceeds a limit.
    faulthandler.register(signal.SIGUSR1, file=job.trace)
    leave, own = os._exit, os.getpid()

    def recorded_exit(status: int) -> None:
        if os.getpid() == own:  # not in a process that the learner's code has forked
            faulthandler.dump_traceback(file=job.trace)
        leave(status)

    os._exit = recorded_exit  # type: ignore[assignment]
    signal_no_others()
    reporter = Reporter(job)
    # `-s` and no faulthandler plugin: both are done here. Native tracebacks, as formatting a long message takes pytest
    # seconds; no unraisableexception, whose final garbage collections take as long as a day's quickest checks.
    left_out = ("-p", "no:faulthandler", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
    args = [*job.test_files, *OWN_SETTINGS, "-s", "--tb=native", *left_out, *job.pytest_args]
    status = int(pytest.main(args, plugins=[reporter]))
    reporter.send("end", status=status)
    return status


if __name__ == "__main__":
    sys.exit(main())
