"""A run that survives its process: answers, intents and results go to a write-ahead log, and the loop replays them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ..tools.tool import Tool, ToolError
from ..workspace.changes import MAX_BYTES, Changes
from ..workspace.diff import unified
from ..workspace.journal import digest
from ..workspace.leftovers import remove_leftovers
from ..workspace.searching import content_at
from .model import Answer, Message, Model

Entry = dict[str, Any]
Recovery = Literal["repeat", "compare", "report"]
INTERRUPTED = "the process was killed during this call: it may have run in part. Look at what it changed"


class Diverged(BaseException):
    """The run is not the one that was recorded. No Exception: the loop must not return it to the model as a result."""


@dataclass
class WrappedTool:
    """A tool with another `call`."""

    name: str
    description: str
    parameters: dict[str, Any]
    call: Callable[[dict[str, Any]], str]


class DurableRun:
    """Wraps a model and tools, so that another process can run the same loop again from its start.

    The log has an entry for each thing that must not happen twice:

    - `{"answer": message, "finish_reason": ..., "tokens": ...}`: an answer of the model.
    - `{"call": name, "arguments": {...}, "steps": ...}`: the intent of a call, on disk before the tool is called.
      `steps` is the length of the undo journal then if the tool's recovery is "compare", else None.
    - `{"result": text}` or `{"error": message}`: how the call ended.

    A resumed run gets these entries and **replays** them, in order: the loop asks the wrapped model and calls the
    wrapped tools as the first time, and they return what was recorded. Nothing that was recorded happens again, and
    replaying appends nothing. After the last entry, the run is live.
    """

    def __init__(
        self, entries: Sequence[Entry], append: Callable[[Entry], object], changes: Changes | None = None
    ) -> None:
        """Keep what a run needs.

        Args:
            entries: what earlier processes have recorded; empty for a new run. The list is not changed.
            append: writes an entry, and returns when it is on disk.
            changes: of the workspace; needed for tools whose recovery is "compare".
        """
        self._entries, self._at, self.append, self.changes = list(entries), 0, append, changes

    def model(self, model: Model) -> Model:
        """Return a model that replays recorded answers, then asks `model` and records each answer before returning it.

        An error of `model` is not recorded.

        Raises (when called):
            Diverged: the next recorded entry is no answer.
        """

        def ask(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer:
            if entry := self._replayed("answer"):
                return Answer(entry["answer"], entry["finish_reason"], entry["tokens"])
            answer = model(messages, tools)
            self.append({"answer": answer.message, "finish_reason": answer.finish_reason, "tokens": answer.tokens})
            return answer

        return ask

    def tool(self, tool: Tool, recovery: Recovery = "report") -> Tool:
        """Return a tool that replays recorded calls, then calls `tool` between an intent and a result.

        A recorded result is returned, and a recorded error is raised as a ToolError with its message. A live call that
        raises a ValueError is recorded with that error's message; one that raises another Exception with
        "TYPE: MESSAGE". Both are raised as a ToolError with what was recorded. Other BaseExceptions, such as Ctrl-C,
        are not recorded.

        An intent without a result is always the last entry: the process was killed during this call, and the log does
        not say how far it came. `recovery` says what happens. The outcome is recorded like any other, without a second
        intent.

        - "repeat": the tool has no side effects. Call it.
        - "compare": the tool changes one file through `changes`, which pushes the old content to the journal before it
          replaces the file. If the journal has `steps` steps, the change was not begun: call the tool. If it has one
          more, compare the file with that step. If the file has the new content, the call was completed: return
          `unified(path, before, new content)`. If it has the old content, call `remove_leftovers` for the file's place,
          pop the step, and call the tool. Otherwise, and for any other number of steps, raise a ToolError.
        - "report": do not call it. Raise a ToolError with the message INTERRUPTED.

        Raises (when called):
            Diverged: the next recorded entry is not the intent of this call: another tool's, or with other arguments;
                or the entry after that intent is neither a result nor an error.
        """

        def call(arguments: dict[str, Any]) -> str:
            intent = self._replayed("call", tool.name, arguments)
            if intent is None:
                steps = len(self._undo.journal) if recovery == "compare" else None
                self.append({"call": tool.name, "arguments": arguments, "steps": steps})
                return self._recorded(partial(tool.call, arguments))
            if end := self._replayed("result"):
                if "error" in end:
                    raise ToolError(end["error"])
                return str(end["result"])
            return self._recorded(partial(self._recover, tool, recovery, intent))

        return WrappedTool(tool.name, tool.description, tool.parameters, call)

    @property
    def _undo(self) -> Changes:
        if self.changes is None:
            raise ValueError("recovery by comparing needs the workspace's changes")
        return self.changes

    def _replayed(self, kind: str, name: str = "", arguments: dict[str, Any] | None = None) -> Entry | None:
        """Return the next recorded entry, or None if there is none left; raise Diverged if it does not fit."""
        if self._at == len(self._entries):
            return None
        entry = self._entries[self._at]
        fits = kind in entry or (kind == "result" and "error" in entry)
        if kind == "call" and fits:  # as texts, because a NaN does not equal itself
            fits = json.dumps([entry["call"], entry["arguments"]]) == json.dumps([name, arguments])
        if not fits:
            wanted = f"the call {name} {json.dumps(arguments)}" if kind == "call" else f"its {kind}"
            raise Diverged(f"entry {self._at + 1} of the log is {json.dumps(entry)[:80]}, but the run needs {wanted}")
        self._at += 1
        return entry

    def _recorded(self, run: Callable[[], str]) -> str:
        """Run a call, and record how it ends."""
        try:
            result = run()
        except Exception as error:
            message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            self.append({"error": message})
            raise ToolError(message) from error
        self.append({"result": result})
        return result

    def _recover(self, tool: Tool, recovery: Recovery, intent: Entry) -> str:
        """Return the result of a call that was interrupted, or raise ToolError."""
        if recovery == "report":
            raise ToolError(INTERRUPTED)
        made = self._made(intent["steps"]) if recovery == "compare" else None
        return tool.call(intent["arguments"]) if made is None else made

    def _made(self, steps: int) -> str | None:
        """Return the diff of a change that was made before the process was killed, or None if it was not made."""
        root, journal = self._undo.root, self._undo.journal
        if len(journal) == steps:
            return None
        if len(journal) != steps + 1:
            raise ToolError("the undo journal was changed while the run was interrupted: read the file again")
        entry = journal.last()[0]
        with root.locate(entry.path) as place:
            content = content_at(root, place, MAX_BYTES)
            if content is not None and digest(content) == entry.after:
                return unified(entry.path, None if entry.before is None else entry.before.decode(), content.decode())
            if content != entry.before:
                raise ToolError(f"{entry.path!r} was changed while the run was interrupted: read it again")
            remove_leftovers(place)
        journal.pop()
        return None
