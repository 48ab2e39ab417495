"""The child process: grades one day with pytest and tells the harness what happens, one JSON object a line.

Started as `python -m tiny_llm_course.grading.child`, with the JSON of a `Job` on stdin. A crash writes the Python lines
it happened on to the job's second pipe.
"""

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

# What the tests of most days import: a process that is started ahead has it when its job comes.
READY = ("hypothesis", "mlx.nn", "numpy")


def main() -> int:
    """Wait for the job, grade, and tell."""
    for name in READY:
        import_module(name)
    words = sys.stdin.read()  # which is at its end then, as if it were closed
    if not words:
        return 0  # whoever started it has no job for it, or has gone
    job = Job(**json.loads(words))
    for pipe in (job.events, job.trace):
        os.set_inheritable(pipe, False)
    faulthandler.enable(file=job.trace)
    # The harness asks for the current line before it ends a child that takes too long or too much.
    faulthandler.register(signal.SIGUSR1, file=job.trace)
    leave, own = os._exit, os.getpid()

    def recorded_exit(status: int) -> None:
        if os.getpid() == own:  # and not a process that the learner's code has forked
            faulthandler.dump_traceback(file=job.trace)
        leave(status)

    os._exit = recorded_exit  # type: ignore[assignment]
    signal_no_others()
    reporter = Reporter(job)
    # Our own prints stay apart from pytest's: `-s` switches its capturing off, faulthandler is set up above.
    # Nobody reads its tracebacks, which it would lay out for seconds if a message is long, nor what it finds when it
    # collects all garbage at the end, which takes as long as a day's quickest checks.
    left_out = ("-p", "no:faulthandler", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
    ours = (*OWN_SETTINGS, "-s", "--tb=native", *left_out)
    args = [*job.test_files, *ours, *job.pytest_args]
    status = int(pytest.main(args, plugins=[reporter]))
    reporter.send("end", status=status)
    return status


if __name__ == "__main__":
    sys.exit(main())
