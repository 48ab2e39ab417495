"""Thousands of characters that a loop reads: with whole results, and with results cut to 2,000 characters."""

import json
from collections.abc import Sequence
from typing import Any

from tiny_llm.agent.loop import Limits, run_agent
from tiny_llm.agent.model import Answer
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = ("lines", "thousand characters read by the model", ("whole results", "cut results", "appended only"))

LINE = "test_dog.py::test_blue PASSED\n"
RESULT = 12_000  # characters of each result
CUT = 2_000


class RunTests:
    """A tool with a long output."""

    name, description = "run_tests", "Run the tests."
    parameters: dict[str, Any] = {"type": "object", "properties": {"number": {"type": "integer"}}}  # noqa: RUF012

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def call(self, arguments: dict[str, Any]) -> str:
        """Return the output, cut to `longest` characters."""
        return (LINE * (RESULT // len(LINE)))[: self.longest]


def measure(quick: bool = False) -> Table:
    """Count the characters of all prompts of a run, for runs of more and more steps."""
    rows = []
    for steps in (2, 4) if quick else (2, 4, 8, 16, 32):
        whole, new = _read(steps, RESULT)
        cut, _ = _read(steps, CUT)
        rows.append((steps, whole / 1e3, cut / 1e3, new / 1e3, whole / new))
    return Table(
        ("steps", "whole results", "cut results", "appended only", "ratio"),
        tuple(rows),
        f"In {rows[-1][0]} steps the model reads {rows[-1][4]:.0f} times what the conversation contains in the end.",
    )


def _read(steps: int, longest: int) -> tuple[int, int]:
    """Return the characters of all prompts, and those of the last one."""
    lengths = list[int]()

    def model(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Answer:
        lengths.append(len(json.dumps(list(messages))))
        if len(lengths) > steps:
            return Answer({"role": "assistant", "content": "All tests pass."}, "stop", 0)
        function = {"name": "run_tests", "arguments": json.dumps({"number": len(lengths)})}
        call = {"id": f"call_{len(lengths)}", "type": "function", "function": function}
        return Answer({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls", 0)

    run_agent(model, [{"role": "user", "content": "Run the tests."}], [RunTests(longest)], Limits(steps=steps + 1))
    return sum(lengths), lengths[-1]
