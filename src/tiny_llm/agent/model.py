"""What a loop needs of a model, and a model that follows a script."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..tools.parser import ToolCallParser

Message = dict[str, Any]  # in OpenAI's form


@dataclass(frozen=True)
class Answer:
    """An answer to a conversation."""

    message: Message  # of role assistant, with content and perhaps tool_calls
    finish_reason: str  # "stop", "tool_calls", or "length" if the answer was cut
    tokens: int  # of the prompt and the answer


# The conversation and the tools, in OpenAI's form, to an answer. Raises OSError if the model cannot be reached.
Model = Callable[[Sequence[Message], Sequence[dict[str, Any]]], Answer]


class ScriptedModel:
    """A model that gives prepared answers, whatever it is asked: for tests, and for examples that never change."""

    def __init__(self, answers: Iterable[str]) -> None:
        """Store the answers, as a model of Qwen3's format writes them: text, perhaps with `<tool_call>` blocks."""
        self._answers, self._given = list(answers), 0

    def __call__(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer:
        """Return the next answer, its tokens being words; raise ConnectionError if there is none."""
        if self._given == len(self._answers):
            raise ConnectionError("the script has no more answers")
        text, self._given = self._answers[self._given], self._given + 1
        parser = ToolCallParser()
        events = [*parser.add(text.encode()), *parser.finish()]
        message: Message = {"role": "assistant", "content": "".join(e.text for e in events if e.kind == "text") or None}
        calls = []
        for number, call in enumerate(parser.calls):
            function = {"name": call.name, "arguments": call.arguments}
            calls.append({"id": f"call_{self._given}_{number}", "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        words = sum(len(str(each.get("content") or "").split()) for each in messages) + len(text.split())
        return Answer(message, "tool_calls" if calls else "stop", words)
