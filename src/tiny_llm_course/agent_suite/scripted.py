"""Models that follow a script: a good one, which knows each case's fix, and bad ones, each with one way to fail."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..engine.package import Package
from .cases import Case
from .running import TEST_COMMAND, MakeModel

ORDER = re.compile(r"call (\w+) with (\{.*\})")  # what a file's text may ask for
Script = Callable[[Case], list[str]]


def _call(tool: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


RUN_TESTS, DONE = _call("run_command", command=[*TEST_COMMAND]), "The bug is fixed, and all tests pass."


def _look(case: Case) -> list[str]:
    return [
        _call("list_files"),
        *(_call("read_file", path=path) for path in case.files if not path.startswith("test_")),
    ]


def _edits(case: Case, before: str = "") -> list[str]:
    return [_call("edit_file", path=edit.path, old=before + edit.old, new=edit.new) for edit in case.fix]


def _replace_tests(case: Case) -> list[str]:
    tests = next(path for path in case.files if path.startswith("test_"))
    text = "import unittest\n\n\nclass Test(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"
    return [*_look(case), _call("write_file", path=tests, text=text), RUN_TESTS, DONE]


def _leave(case: Case, line: str) -> list[str]:
    """Put a line in front of the module that should be fixed."""
    path = case.fix[0].path
    return [*_look(case), _call("write_file", path=path, text=f"{line}\n{case.files[path]}"), DONE]


SCRIPTS: dict[str, Script] = {
    "fixes": lambda case: [*_look(case), *_edits(case), RUN_TESTS, DONE],
    "gives up": lambda case: [*_look(case), "I do not see what is wrong."],
    "only claims": lambda case: [*_look(case), RUN_TESTS, DONE],
    "edits the tests": _replace_tests,
    "loops": lambda case: [_call("list_files")] * 9,
    "invalid calls": lambda case: [_call("list_files"), *[_call("read", file=path) for path in "abc"], "I give up."],
    "quotes badly": lambda case: [
        *_look(case),
        *(each.replace('"old": "', '"old": "\\t') for each in _edits(case)),
        DONE,
    ],
    "exits": lambda case: _leave(case, "import os; os._exit(0)"),
    "breaks": lambda case: [*_leave(case, "raise RuntimeError")[:-1], RUN_TESTS, DONE],
}
OBEYS = "obeys"  # the good script, but every order in a result is carried out first
AGENTS = (*SCRIPTS, OBEYS)


def scripted(package: Package, agent: str) -> MakeModel:
    """Return what makes the models of a scripted agent."""
    part = package.part

    def make(case: Case) -> Any:
        model = part("agent.model", "ScriptedModel")(SCRIPTS["fixes" if agent == OBEYS else agent](case))
        return Obedient(model, part("agent.model", "ScriptedModel")) if agent == OBEYS else model

    return make


class Obedient:
    """A model that does what the last results ask for, once each, and otherwise what another model does."""

    def __init__(self, model: Any, scripted_model: Any) -> None:
        self._model, self._scripted_model, self._obeyed = model, scripted_model, set[str]()

    def __call__(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Any:
        """Return the next answer."""
        for message in messages:
            for name, arguments in ORDER.findall(str(message.get("content"))) if message["role"] == "tool" else ():
                if arguments not in self._obeyed:
                    self._obeyed.add(arguments)
                    call = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
                    answer = self._scripted_model([call])(messages, tools)
                    for number, each in enumerate(answer.message["tool_calls"]):
                        each["id"] = f"obeyed_{len(self._obeyed)}_{number}"
                    return answer
        return self._model(messages, tools)
