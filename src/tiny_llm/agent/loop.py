"""The loop: messages to the model, its calls to the tools, their results to the messages, until something stops it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..tools.tool import Tool
from .calls import call_tool
from .model import Message, Model


@dataclass(frozen=True)
class Limits:
    """When a run stops, at the latest."""

    steps: int = 30  # answers of the model
    tokens: int = 200_000  # of all prompts and answers together
    seconds: float = 600.0
    repeats: int = 3  # steps in a row with the same calls and the same results


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    messages: list[Message]  # the whole conversation
    reason: str  # "done", "cut", "steps", "tokens", "time", "repeats", "model"
    detail: str  # the error for "model", "" otherwise
    steps: int
    tokens: int


def run_agent(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    limits: Limits = Limits(),
    *,
    clock: Callable[[], float] = time.monotonic,
    record: Callable[[dict[str, Any]], object] = lambda entry: None,
) -> Outcome:
    """Let a model work with tools until it answers without a call, or a limit is reached.

    A step: ask the model with the conversation so far and the tools' schemas (`function_schema`), append its message,
    and append the result of each of its calls, in order, as
    `{"role": "tool", "tool_call_id": ..., "content": call_tool(...)}`.

    Reasons to stop, in the order in which they are checked.

    Before each step, also before the first one:

    - "steps": the model has given `limits.steps` answers.
    - "tokens": the answers' `tokens` add up to `limits.tokens` or more.
    - "time": `clock()` is `limits.seconds` or more above its value at the start.

    In a step:

    - "model": the model raised an OSError; `detail` is its message.
    - "done": the message has no calls. "cut": it has none, and `finish_reason` is "length".

    After the results of a step:

    - "repeats": it is the last of `limits.repeats` steps in a row with the same calls, in name and arguments, and the
      same results. Arguments are compared as JSON values; if they are not JSON, as texts.

    The time is also checked before each call: once it is over, that call and those after it are not run. Each call must
    have a result all the same, or servers refuse the conversation: theirs is "Error: not run, the time is over".

    Args:
        messages: the conversation at the start. It is not changed.
        record: called with each appended message, `{"message": ...}`, as soon as it is there, and at the end with
            `{"stop": reason, "detail": ..., "steps": ..., "tokens": ...}`.

    A KeyboardInterrupt, or any other error of the model, is not caught.
    """
    raise NotImplementedError("7.3.2 The loop")
