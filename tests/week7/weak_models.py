"""A small suite in memory, and models with a weakness each, for week 7's open task."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

OPTIONAL = {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}}
SCHEMA = {"type": "object", "properties": {**OPTIONAL, "command": {"type": "array"}}}


class Case(NamedTuple):
    """A function with a bug: attempts at its fix, of which the last one is right, and two kinds of tests."""

    name: str
    bug: str
    attempts: tuple[str, ...]  # what `bug` is replaced by, one after the other
    visible: str  # an expression, of the function f
    hidden: str


CASES = (
    Case("sum", "a - b", ("a * b", "b - a", "a + b"), "f(2, 2) == 4 and f(1, 2) == 3", "f(-1, 5) == 4"),
    Case("larger", "min(a, b)", ("a", "b", "max(a, b)"), "f(1, 2) == 2 and f(2, 1) == 2", "f(7, 7) == 7"),
    Case("power", "a * b", ("a + b", "b ** a", "a ** b"), "f(2, 3) == 8 and f(3, 1) == 3", "f(5, 0) == 1"),
    Case("rest", "a // b", ("a / b", "b % a", "a % b"), "f(7, 4) == 3 and f(9, 5) == 4", "f(-1, 3) == 2"),
)


class Tool(NamedTuple):
    """A tool of the workspace in memory."""

    name: str
    call: Callable[[dict[str, Any]], str]
    description: str = "as in day 4"
    parameters: dict[str, Any] = SCHEMA


class Workspace:
    """One file in memory, with the tools of day 4 as far as the models here use them."""

    def __init__(self, case: Case) -> None:
        self.case, self.text, self.tested = case, f"def f(a, b):\n    return {case.bug}\n", 0
        self.tools = [
            Tool("read_file", lambda _: self.text),
            Tool("edit_file", self._edit),
            Tool("run_command", self._run),
        ]

    def _edit(self, arguments: dict[str, Any]) -> str:
        if self.text.count(arguments["old"]) != 1:
            raise ValueError("the old text does not occur exactly once")
        self.text = self.text.replace(arguments["old"], arguments["new"])
        return f"-{arguments['old']}\n+{arguments['new']}"

    def _run(self, arguments: dict[str, Any]) -> str:
        if arguments.get("command") != ["python3", "-m", "unittest"]:
            raise ValueError("run: the user refused")
        self.tested += 1
        passed = self.holds(self.case.visible)
        return "OK\n[exit code 0]" if passed else f"FAILED: {self.case.visible}\n[exit code 1]"

    def holds(self, expression: str) -> bool:
        """Return whether an expression is true of the function."""
        names: dict[str, Any] = {}
        try:
            exec(self.text, names)
            return bool(eval(expression, names))
        except Exception:
            return False

    @property
    def solved(self) -> bool:
        """Whether the hidden test passes, and the visible one."""
        return self.holds(self.case.hidden) and self.holds(self.case.visible)


# What a model says next: the names of its actions. An action follows once the conversation allows it.
ANNOUNCES = "I will read the code and then fix the bug. Shall I?"
CLAIMS = "The bug is fixed, and all tests pass."


class Weak:
    """A model that works on a case: it makes attempt after attempt, each only when something tells it to."""

    def __init__(self, case: Case, kind: str, make: Any) -> None:
        self.case, self.kind, self.make = case, kind, make
        self.asked = self.done = 0
        self.current = case.bug
        self.attempts = list(case.attempts if kind == "three attempts" else case.attempts[-2:])
        if kind in ("announces", "needs no help"):
            self.attempts = [case.attempts[-1]]
        if kind == "never":
            self.attempts = [*case.attempts[:-1]] * 40

    def __call__(self, messages: Sequence[dict[str, Any]], schemas: Sequence[Any]) -> Any:
        """Return the next answer."""
        self.asked += 1
        last = messages[-1]
        text = str(last.get("content"))
        if last["role"] == "tool" and "exit code" not in text:  # its own edit, or what it has read
            return self._answer("run_command") if self.kind == "needs no help" and self.done else self._next(text)
        if last["role"] == "tool":
            return self._answer(CLAIMS)
        if self.kind == "announces" and self.asked == 1:
            return self._answer(ANNOUNCES)
        if self.done and "FAILED" not in text:
            return self._answer(CLAIMS)  # nothing new was said
        if not any(message["role"] == "tool" for message in messages):  # a conversation without memory begins anew
            return self._answer("read_file")
        return self._edit()

    def _next(self, text: str) -> Any:
        return self._edit() if text.startswith("def f") else self._answer(CLAIMS)

    def _edit(self) -> Any:
        if not self.attempts:
            return self._answer(CLAIMS)
        new = self.attempts.pop(0)
        old, self.current, self.done = self.current, new, self.done + 1
        return self._answer("edit_file", {"path": "f.py", "old": f"return {old}", "new": f"return {new}"})

    def _answer(self, what: str, arguments: dict[str, Any] | None = None) -> Any:
        if what not in ("read_file", "edit_file", "run_command"):
            return self.make({"role": "assistant", "content": what}, "stop", 50)
        given = arguments or ({"command": ["python3", "-m", "unittest"]} if what == "run_command" else {"path": "f.py"})
        function = {"name": what, "arguments": json.dumps(given)}
        call = {"id": f"call_{self.asked}", "type": "function", "function": function}
        return self.make({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls", 50)


KINDS = ("announces", "wrong at first", "three attempts", "needs no help", "never")
START = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": "Fix f in f.py."}]


class Worked(NamedTuple):
    """What came of an agent's work on a case."""

    solved: bool
    reason: str
    asked: int
    told: bool  # whether the outcome has the model's numbers of steps and tokens
    recorded: bool  # whether the record is the conversation, with one stop at its end
    begins: bool  # whether the messages begin with the given ones, which stay as they are
    rounds: int  # messages of the agent's own


def worked(work: Any, case: Case, kind: str, make: Any, limits: Any, steps: int = 20) -> Worked:
    """Run an agent on a case with one of the models."""
    workspace, record, start = Workspace(case), list[dict[str, Any]](), [dict(message) for message in START]
    model = Weak(case, kind, make)
    found = work(model, start, workspace.tools, limits(steps=steps), record=record.append)
    messages = [entry["message"] for entry in record if "message" in entry]
    stop = {"stop": found.reason, "detail": found.detail, "steps": found.steps, "tokens": found.tokens}
    return Worked(
        workspace.solved,
        found.reason,
        model.asked,
        (found.steps, found.tokens) == (model.asked, 50 * model.asked),
        messages == found.messages[2:] and record[len(messages) :] == [stop],
        found.messages[:2] == START and start == START,
        sum(message["role"] == "user" for message in messages),
    )
