"""An agent of your own: the loop of day 3, and what you put around it so that more runs succeed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..agent.loop import Limits, Outcome, run_agent
from ..agent.model import Message, Model
from ..tools.tool import Tool
from ..workspace.tools import CHANGES

TESTS = {"command": ["python3", "-m", "unittest"]}
USUAL_LIMITS = Limits()


def work(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    limits: Limits = USUAL_LIMITS,
    *,
    record: Callable[[dict[str, Any]], object] = lambda entry: None,
) -> Outcome:
    """Let a model fix a bug with the tools of a workspace, and do not take its word for it.

    It is called as `run_agent` is, and returns what that returns: the outcome's messages begin with the given ones, and
    `steps` and `tokens` are those of the whole work. The limits hold for the whole work, too. `record` is called with
    each message that is appended, the agent's own included, and with one stop, at the very end.

    How the agent works is up to you. It is measured by how many cases of a small suite are solved, by hidden tests,
    with models that have a weakness each:

    - one announces what it will do, and waits for an answer before it does anything;
    - one says that it is done after a first attempt that is wrong, without a look at the tests;
    - one needs three attempts, each with the output of the tests;
    - one never finds the bug, and must not keep the agent busy for ever;
    - one needs no help, and should get none: after tests that pass, its work is done.

    A tool is called with `tool.call(arguments)`. `run_command` with TESTS runs the tests, and returns their output and
    a last line, "[exit code 0]" if they pass.

    A KeyboardInterrupt, or any other error of the model, is not caught.
    """
    start, history, steps, tokens = time.monotonic(), list(messages), 0, 0
    stops = list[dict[str, Any]]()

    def note(entry: dict[str, Any]) -> None:
        stops.append(entry) if "stop" in entry else record(entry)

    while True:
        left = max(0.0, limits.seconds - (time.monotonic() - start))
        bounds = replace(limits, steps=limits.steps - steps, tokens=limits.tokens - tokens, seconds=left)
        outcome = run_agent(model, history, tools, bounds, record=note)
        steps, tokens = steps + outcome.steps, tokens + outcome.tokens
        objection = _objection(outcome.messages[len(messages) :], tools) if outcome.reason == "done" else ""
        if not objection:
            record(stops[-1] | {"steps": steps, "tokens": tokens})
            return replace(outcome, steps=steps, tokens=tokens)
        answer = {"role": "user", "content": objection}
        record({"message": answer})
        history = [*outcome.messages, answer]


def _objection(new: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Return why the work is not done, or "" if it is."""
    calls = [call["function"]["name"] for message in new for call in message.get("tool_calls") or ()]
    if not any(name in CHANGES for name in calls):
        return "Nothing has changed yet. Do not wait for an answer: change the code, then run the tests."
    output = next(tool for tool in tools if tool.name == "run_command").call(TESTS)
    if output.endswith("[exit code 0]"):
        return ""
    return f"I have run the tests, and they fail:\n{output}\nFind out why, change the code, and run the tests again."
