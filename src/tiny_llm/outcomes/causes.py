"""Why a run failed: one cause of a fixed list, the first that holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from .grade import Grade

COMMAND = "run_command"
LIMITS = ("steps", "tokens", "time", "cut")  # the stops at a limit
KEPT = "test_kept_"  # hidden tests that passed before the run begin with it
CAUSES = {
    "solved": "the grade is a success",
    "interrupted": "the transcript has no stop",
    "model": "the model could not be reached",
    "refused": "the user refused the last change or command",
    "repeats": "the same calls with the same results, again and again",
    "failing calls": "more than half of the calls are errors",
    "edit refused": "there are changes, and all of them are errors",
    "steps": "stopped at the limit of steps",
    "tokens": "stopped at the limit of tokens",
    "time": "stopped at the limit of time",
    "cut": "the last answer was cut at the limit of its length",
    "no change": "no call changes a file",
    "edited tests": "only test files were changed",
    "hangs": "the hidden tests were stopped at a limit",
    "no report": "the hidden tests did not get to their end",
    "broke another test": "a test fails that passed before the run",
    "ignored failure": "the last command failed, and the model said that it was done",
    "untested": "no command after the last change",
    "wrong fix": "none of the above",
}


def cause_of(entries: Sequence[Mapping[str, Any]], grade: Grade) -> str:
    """Return the first cause of CAUSES, in its order, that holds for a run.

    - "solved": `grade.solved`.
    - "interrupted": no entry has a "stop", as after a kill, or its reason is "interrupted", as after Ctrl-C.
    - "model", "repeats", "steps", "tokens", "time", "cut": the reason of the stop.
    - "refused": of the calls of tools in CHANGES and of COMMAND, the last one has a result that ends with "the user
      refused".
    - "failing calls": of all calls, more than half have `failed`.
    - "edit refused": at least one call is of a tool in CHANGES, and all of these have `failed`.
    - "no change": no call is of a tool in CHANGES.
    - "edited tests": of the calls in CHANGES that have not failed, all have a path whose last component begins with
      "test_".
    - "hangs": the verdict is "limit". "no report": the verdict is "no report".
    - "broke another test": a name in `grade.failed` begins with KEPT.
    - "ignored failure": there are calls of COMMAND, and the last one's result does not end with "[exit code 0]".
    - "untested": no call of COMMAND comes after the last call in CHANGES that has not failed.

    Args:
        entries: a transcript, as `run_agent` records it. `calls_of` returns its calls.
        grade: of the workspace that the run left.
    """
    raise NotImplementedError("7.6.3 Sort failures by cause")
