"""Why a run failed: one cause of a fixed list, the first that holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..workspace.tools import CHANGES
from .called import Called, calls_of
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
    calls = calls_of(entries)
    stop = next((entry["stop"] for entry in entries if "stop" in entry), "interrupted")
    changes = [call for call in calls if call.tool in CHANGES]
    made = [call for call in changes if not call.failed]
    commands = [call for call in calls if call.tool == COMMAND]
    last = next((call for call in reversed(calls) if call.tool in (*CHANGES, COMMAND)), None)
    last_change = max((i for i, call in enumerate(calls) if call.tool in CHANGES and not call.failed), default=-1)
    holds = {
        "solved": grade.solved,
        "refused": last is not None and last.result.endswith("the user refused"),
        "failing calls": 2 * sum(call.failed for call in calls) > len(calls),
        "edit refused": bool(changes) and not made,
        "no change": not changes,
        "edited tests": all(_is_test(call) for call in made),
        "hangs": grade.verdict == "limit",
        "no report": grade.verdict == "no report",
        "broke another test": any(name.startswith(KEPT) for name in grade.failed),
        "ignored failure": bool(commands) and not commands[-1].result.endswith("[exit code 0]"),
        "untested": not any(call.tool == COMMAND for call in calls[last_change + 1 :]),
        "wrong fix": True,
    }
    return next(cause for cause in CAUSES if holds.get(cause, cause == stop))


def _is_test(call: Called) -> bool:
    path = call.arguments.get("path")
    return isinstance(path, str) and path.rpartition("/")[2].startswith("test_")
