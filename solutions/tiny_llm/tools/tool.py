"""What a tool is, and how a model's request to call one is represented."""

import json
from dataclasses import dataclass
from typing import Any, Protocol


class ToolError(ValueError):
    """A call that failed for a reason the model should read, such as a file that does not exist."""


class Tool(Protocol):
    """A function that a model may call."""

    name: str
    description: str  # for the model: what the tool does
    parameters: dict[str, Any]  # a JSON schema of type object

    def call(self, arguments: dict[str, Any]) -> str:
        """Return the result as text; raise ToolError if there is none."""


@dataclass(frozen=True)
class ToolCall:
    """A call as a model wrote it."""

    name: str
    arguments: str  # JSON, as written: it may be invalid
    error: str = ""  # why the call cannot be executed, "" if it may be
    id: str = ""  # what the result refers to; the server's, or the agent's


def arguments_of(text: str) -> dict[str, Any]:
    """Return a call's arguments as an object; an empty one if the text is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def function_schema(tool: Tool) -> dict[str, Any]:
    """Return a tool as the `tools` of a request list it, in OpenAI's form."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
