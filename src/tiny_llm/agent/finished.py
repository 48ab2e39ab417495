"""The finished calls of a conversation, in a form that rules can use. Nothing here is yours to write."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..tools.tool import arguments_of
from .model import Message


@dataclass(frozen=True)
class FinishedCall:
    """A call and its result."""

    name: str
    target: str  # the argument `path`, or the words of `command` as a shell would take them, or ""
    result: str

    @property
    def failed(self) -> bool:
        """Whether the result is an error, or that of a command whose exit code is not 0."""
        code = self.name == "run_command" and not self.result.endswith("[exit code 0]")
        return self.result.startswith("Error: ") or code

    @property
    def end(self) -> str:
        """The last two lines of the result that are not blank, joined by a space."""
        return " ".join([line for line in self.result.splitlines() if line.strip()][-2:])

    def __str__(self) -> str:
        """Return the name and the target."""
        return f"{self.name} {self.target}".rstrip()


def finished_calls(turn: Sequence[Message]) -> list[FinishedCall]:
    """Return the calls of a turn: a message, and then the results of its calls, in order."""
    calls = turn[0].get("tool_calls") or ()
    return [
        FinishedCall(call["function"]["name"], _target(call["function"]["arguments"]), result["content"])
        for call, result in zip(calls, turn[1:], strict=True)
    ]


def _target(arguments: str) -> str:
    found = arguments_of(arguments)
    path, command = found.get("path"), found.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return path if isinstance(path, str) else ""
