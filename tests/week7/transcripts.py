"""Transcripts of runs and the causes of their failures, for task 7.6.3."""

import json
import random
from typing import Any, NamedTuple

OK, ERROR, REFUSED = "--- a/x", "Error: the old text does not occur", "Error: edit x.py: the user refused"
NO_COMMAND = "Error: run: the user refused"
GOOD_TESTS, BAD_TESTS = "OK\n[exit code 0]", "FAILED (failures=1)\n[exit code 1]"
STOPPED = "[stopped at its limit of 5 seconds]"


class Call(NamedTuple):
    """A call and its result."""

    tool: str
    result: str
    path: str | None = "x.py"


def read(result: str = "     1  x = 1") -> Call:
    return Call("read_file", result)


def edit(result: str = OK, path: str | None = "x.py") -> Call:
    return Call("edit_file", result, path)


def write(result: str = OK, path: str | None = "x.py") -> Call:
    return Call("write_file", result, path)


def run_tests(result: str = GOOD_TESTS) -> Call:
    return Call("run_command", result, None)


def entries(calls: list[Call], stop: str | None = "done", together: int = 1) -> list[dict[str, Any]]:
    """Return a transcript with `together` calls in each step."""
    found: list[dict[str, Any]] = [{"message": {"role": "user", "content": "Error: fix it. the user refused"}}]
    for at in range(0, len(calls), together):
        step = [(f"call_{i}", calls[i]) for i in range(at, min(at + together, len(calls)))]
        messages = list[dict[str, Any]]()
        for name, (tool, _, path) in step:
            arguments: dict[str, Any] = {"command": ["python3"]} if path is None else {"path": path}
            messages.append({"id": name, "type": "function",
                             "function": {"name": tool, "arguments": json.dumps(arguments)}})  # fmt: skip
        found.append({"message": {"role": "assistant", "content": None, "tool_calls": messages}})
        found += [{"message": {"role": "tool", "tool_call_id": name, "content": call.result}} for name, call in step]
    if stop == "done":
        found.append({"message": {"role": "assistant", "content": "All tests pass."}})
    return found if stop is None else [*found, {"stop": stop, "detail": "", "steps": len(calls), "tokens": 9}]


class Scene(NamedTuple):
    """A transcript, the verdict of its grade, the tests that failed, and the cause."""

    calls: list[Call]
    cause: str
    stop: str | None = "done"
    verdict: str = "failed"
    failed: tuple[str, ...] = ("test_new",)
    together: int = 1


KEPT = ("test_new", "test_kept_old")
SCENES = {
    # One for each cause
    "all is well": Scene([read(), edit(), run_tests()], "solved", verdict="passed", failed=()),
    "killed": Scene([read(), edit(), run_tests()], "interrupted", stop=None),
    "Ctrl-C": Scene([read(), edit()], "interrupted", stop="interrupted"),
    "no server": Scene([read(), edit()], "model", stop="model"),
    "an edit is not approved": Scene([read(), edit(REFUSED)], "refused"),
    "a command is not approved": Scene([edit(), run_tests(NO_COMMAND)], "refused"),
    "again and again": Scene([edit(), read(), read(), read()], "repeats", stop="repeats"),
    "no such tool": Scene([read(), Call("read", ERROR), Call("cat", ERROR)], "failing calls"),
    "the old text does not occur": Scene([read(), read(), edit(ERROR), run_tests()], "edit refused"),
    "too many steps": Scene([read(), edit(), run_tests(BAD_TESTS)], "steps", stop="steps"),
    "too many tokens": Scene([read(), edit(), run_tests(BAD_TESTS)], "tokens", stop="tokens"),
    "too late": Scene([read(), edit(), run_tests(BAD_TESTS)], "time", stop="time"),
    "cut off": Scene([read(), edit(), run_tests(BAD_TESTS)], "cut", stop="cut"),
    "only reads": Scene([read(), run_tests()], "no change"),
    "no calls at all": Scene([], "no change"),
    "changes the tests": Scene([read(), edit(path="test_x.py"), run_tests()], "edited tests"),
    "an endless loop": Scene([read(), edit(), run_tests()], "hangs", verdict="limit", failed=()),
    "exits": Scene([read(), edit(), run_tests()], "no report", verdict="no report", failed=()),
    "something else breaks": Scene([read(), edit(), run_tests()], "broke another test", failed=KEPT),
    "claims what is not so": Scene([read(), edit(), run_tests(BAD_TESTS)], "ignored failure"),
    "the tests did not end": Scene([read(), edit(), run_tests(STOPPED)], "ignored failure"),
    "nothing was run": Scene([read(), edit()], "untested"),
    "all seems well": Scene([read(), edit(), run_tests()], "wrong fix"),
    # Which comes first
    "solved, and cut off": Scene([read(), edit()], "solved", stop="steps", verdict="passed", failed=()),
    "solved, and killed": Scene([], "solved", stop=None, verdict="passed", failed=()),
    "no server after a refusal": Scene([edit(REFUSED)], "model", stop="model"),
    "refused again and again": Scene([edit(REFUSED)] * 3, "refused", stop="repeats"),
    "the same error again and again": Scene([edit(ERROR)] * 3, "repeats", stop="repeats"),
    "errors up to the last step": Scene([read(), edit(ERROR), edit(ERROR)], "failing calls", stop="steps"),
    "no edit up to the last step": Scene([read(), read(), edit(ERROR)], "edit refused", stop="steps"),
    "reads up to the last step": Scene([read(), read()], "steps", stop="steps"),
    "tests changed up to the last step": Scene([edit(path="test_x.py")], "steps", stop="steps"),
    "tests changed, and a loop": Scene(
        [edit(path="test_x.py"), run_tests()], "edited tests", verdict="limit", failed=()
    ),
    "a loop, and nothing was run": Scene([edit()], "hangs", verdict="limit", failed=()),
    "broken, and seen": Scene([edit(), run_tests(BAD_TESTS)], "broke another test", failed=KEPT),
    "failed, and then changed": Scene([edit(), run_tests(BAD_TESTS), edit()], "ignored failure"),
    # The conditions
    "refused, then another way": Scene([edit(REFUSED), edit(), run_tests()], "wrong fix"),
    "a file that says so": Scene([read("the user refused"), edit(), run_tests()], "wrong fix"),
    "a command that prints it": Scene([edit(), run_tests("the user refused\nOK\n[exit code 0]")], "wrong fix"),
    "reading after a refusal": Scene([edit(), edit(REFUSED), read()], "refused"),
    "half of the calls fail": Scene([read(ERROR), edit(), run_tests(), read(ERROR)], "wrong fix"),
    "one more than half": Scene([read(ERROR), edit(), run_tests(), read(ERROR), read(ERROR)], "failing calls"),
    "one edit of two": Scene([read(), edit(ERROR), edit(), run_tests()], "wrong fix"),
    "a new file": Scene([read(), write(path="y.py"), run_tests()], "wrong fix"),
    "tests in a folder": Scene([edit(path="tests/deep/test_x.py"), run_tests()], "edited tests"),
    "a module in a folder of tests": Scene([edit(path="test_data/x.py"), run_tests()], "wrong fix"),
    "a module named after a test": Scene([edit(path="contest_x.py"), run_tests()], "wrong fix"),
    "tests and the module": Scene([edit(path="test_x.py"), edit(), run_tests()], "wrong fix"),
    "tests, and the module in vain": Scene([edit(path="test_x.py"), edit(ERROR), run_tests(), read()], "edited tests"),
    "failed first, then passed": Scene([run_tests(BAD_TESTS), edit(), run_tests()], "wrong fix"),
    "passed first, then failed": Scene([run_tests(), edit(), run_tests(BAD_TESTS)], "ignored failure"),
    "run before the change": Scene([run_tests(), edit()], "untested"),
    "run before a change in vain": Scene([edit(), run_tests(), edit(ERROR), read()], "wrong fix"),
    "another test's name": Scene([edit(), run_tests()], "wrong fix", failed=("test_not_kept_old",)),
    "a skipped test": Scene([edit(), run_tests()], "wrong fix", verdict="skipped"),
    "no tests": Scene([edit(), run_tests()], "wrong fix", verdict="no tests", failed=()),
    "several calls in a step": Scene([read(), edit(), run_tests(BAD_TESTS)], "ignored failure", together=3),
    "run before the change, in one step": Scene([run_tests(), edit()], "untested", together=2),
}
STOPS = ("done", "done", "done", "done", "steps", "time", "repeats", "model", None)


def random_scene(seed: int) -> Scene:
    """Return a random transcript with its cause, by conditions that are written in another way than the solution's."""
    draw = random.Random(seed)
    kinds = [read(), read(ERROR), edit(), edit(ERROR), edit(REFUSED), edit(path="test_x.py"), write(path="a/test_y.py"),
             write(ERROR), run_tests(), run_tests(BAD_TESTS), run_tests(NO_COMMAND)]  # fmt: skip
    calls = draw.choices(kinds, weights=[4, 1, 4, 1, 1, 2, 1, 1, 4, 2, 1], k=draw.randint(0, 6))
    stop, verdict = draw.choice(STOPS), draw.choice(["failed", "failed", "failed", "passed", "limit", "no report"])
    failed = draw.choice([("test_new",), KEPT]) if verdict == "failed" else ()
    return Scene(calls, _cause(calls, stop, verdict, failed), stop, verdict, failed, draw.randint(1, 3))


def _cause(calls: list[Call], stop: str | None, verdict: str, failed: tuple[str, ...]) -> str:
    acts = [call for call in calls if call.tool != "read_file"]
    errors = [call for call in calls if call.result.startswith("Error: ")]
    done = [call.tool if call in errors else call.tool + " done" for call in calls]
    written = [i for i, what in enumerate(done) if what in ("edit_file done", "write_file done")]
    ran = [i for i, call in enumerate(calls) if call.tool == "run_command"]
    if verdict == "passed":
        return "solved"
    if stop in (None, "model"):
        return stop or "interrupted"
    if acts and "refused" in acts[-1].result:
        return "refused"
    if stop == "repeats":
        return stop
    if len(errors) > len(calls) - len(errors):
        return "failing calls"
    if not written and any(call.tool != "run_command" for call in acts):
        return "edit refused"
    if stop != "done":
        return str(stop)
    if not written:
        return "no change"
    if not any(calls[i].path == "x.py" for i in written):
        return "edited tests"
    if verdict != "failed":
        return {"limit": "hangs"}.get(verdict, verdict)
    if failed == KEPT:
        return "broke another test"
    if ran and calls[ran[-1]].result != GOOD_TESTS:
        return "ignored failure"
    return "wrong fix" if ran and ran[-1] > written[-1] else "untested"
