"""Runs that are killed and resumed, for task 7.5.1: a model, tools and a log that know what has really happened."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.week7.scripted import asks, says

QUESTION = [{"role": "user", "content": "Make the test pass."}]


class Killed(BaseException):
    """Stands for kill -9: no code of the process runs afterwards."""


class Disk:
    """A log, as a file would keep it. `kill` is the number of an append, from 0, and whether it is done before."""

    def __init__(self, entries: Iterable[dict[str, Any]] = (), kill: tuple[int, bool] | None = None) -> None:
        self.lines = [json.dumps(entry) for entry in entries]
        self.appended, self.kill = 0, kill

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What another process reads."""
        return [json.loads(line) for line in self.lines]

    def append(self, entry: dict[str, Any]) -> None:
        """Write an entry, unless the process is killed before."""
        number, self.appended = self.appended, self.appended + 1
        if self.kill == (number, False):
            raise Killed
        self.lines.append(json.dumps(entry))
        if self.kill == (number, True):
            raise Killed


def raising(error: BaseException) -> Callable[[], str]:
    """Return a function that raises an error."""

    def run() -> str:
        raise error

    return run


class Effect:
    """A tool that notes each of its calls in a list that all processes share."""

    def __init__(self, name: str, done: list[str], does: Callable[[], str] | None = None) -> None:
        self.name, self.description, self.done, self.does = name, f"Do {name}.", done, does
        self.parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def call(self, arguments: dict[str, Any]) -> str:
        """Note the call, and return its number."""
        self.done.append(f"{self.name} {arguments.get('n')}")
        return self.does() if self.does else f"{self.name} {len(self.done)}"


# How the tools of the scenes recover.
RECOVERY = {"look": "repeat", "post": "report", "refuse": "repeat", "break": "repeat"}
LOOK, POST, POST2, REFUSE, BREAK = (
    (name, json.dumps({"n": n})) for name, n in (("look", 1), ("post", 1), ("post", 2), ("refuse", 1), ("break", 1))
)
SCRIPTS: dict[str, Sequence[Any]] = {
    "an answer": [says("Done.")],
    "a call that only reads": [asks(LOOK), says("Done.")],
    "a call with a side effect": [asks(POST), says("Done.")],
    "two calls in a step": [asks(LOOK, POST), says("Done.")],
    "the same call in two steps": [asks(POST), asks(POST), says("Done.")],
    "four calls": [asks(POST, LOOK), asks(LOOK, POST2), says("Done.")],
    "calls that fail": [asks(REFUSE, BREAK), says("Done.")],
    "calls that are not run": [asks(("none", "{}"), POST), asks(("post", "{"), LOOK), says("Done.")],
}


class Process(NamedTuple):
    """What became of one process."""

    log: list[dict[str, Any]]
    asked: int  # how often the model was asked
    lines: list[str]  # the conversation; empty if it was killed


class Program(NamedTuple):
    """The program, and the modules around it, of the learner or the solution."""

    durable: Any
    run_agent: Any
    answer: Any
    tool_error: Any


def run_process(
    program: Program,
    script: Sequence[Any],
    log: Sequence[dict[str, Any]],
    done: list[str],
    kill: tuple[int, bool] | None = None,
) -> Process:
    """Run one process on a log, until it ends or is killed. `done` gets the real calls of tools."""
    disk, asked = Disk(log, kill), [0]

    def model(messages: Any, _schemas: Any) -> Any:
        asked[0] += 1
        text, calls, tokens, finish = script[sum(message["role"] == "assistant" for message in messages)]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": f"{len(messages)}_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for i, (name, arguments) in enumerate(calls)
            ]
        return program.answer(message, finish, tokens)

    tools = [
        Effect("look", done),
        Effect("post", done),
        Effect("refuse", done, raising(program.tool_error("no such file"))),
        Effect("break", done, raising(KeyError("encoding"))),
    ]
    given = disk.entries
    run = program.durable(given, disk.append)
    wrapped = [run.tool(tool, RECOVERY[tool.name]) for tool in tools]
    try:
        found = program.run_agent(run.model(model), QUESTION, wrapped)
    except Killed:
        return Process(disk.entries, asked[0], [])
    lines = [line_of(message) for message in found.messages] + [f"{found.reason}, {found.tokens} tokens"]
    return Process(disk.entries, asked[0], lines + ["the list of entries was changed"] * (given != [*log]))


def line_of(message: dict[str, Any]) -> str:
    """Return a message as a line."""
    calls = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return " ".join([message["role"], str(message.get("content")), *calls])


def kills(program: Program, script: Sequence[Any]) -> list[tuple[int, bool]]:
    """Return every moment at which a run without a crash can be killed."""
    length = len(run_process(program, script, [], []).log)
    return [(number, after) for number in range(length) for after in (False, True)]


def kind_of(entry: dict[str, Any]) -> str:
    """Return what an entry is, for a line: with the call's name, or the result."""
    if "answer" in entry:
        return "answer"
    if "call" in entry:
        return f"call {entry['call']} {entry['arguments'].get('n')}"
    return f"result {entry['result']}" if "result" in entry else f"error {entry.get('error')}"
