"""The calls of a transcript, each with its result."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..tools.tool import arguments_of


class Called(NamedTuple):
    """A call that an agent made."""

    tool: str
    arguments: dict[str, Any]  # empty if they are no JSON object
    result: str  # what the model read; "" if the transcript ends before it

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return self.result.startswith("Error: ")


def calls_of(entries: Iterable[Mapping[str, Any]]) -> list[Called]:
    """Return the calls of a transcript in order; `entries` as `run_agent` records them."""
    messages = [entry["message"] for entry in entries if "message" in entry]
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    found = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            found.append(Called(function["name"], arguments_of(function["arguments"]), results.get(call["id"], "")))
    return found
