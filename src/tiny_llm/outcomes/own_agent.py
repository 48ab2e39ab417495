"""An agent of your own: the loop of day 3, and what you put around it so that more runs succeed."""

from collections.abc import Callable, Sequence
from typing import Any

from ..agent.loop import Limits, Outcome, run_agent
from ..agent.model import Message, Model
from ..tools.tool import Tool

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
    raise NotImplementedError("7.C Write an agent that solves more")
