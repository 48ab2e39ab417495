"""A run that survives its process: answers, intents and results go to a write-ahead log, and the loop replays them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..tools.tool import Tool
from ..workspace.changes import Changes
from .model import Model

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
        raise NotImplementedError("7.5.1 Checkpoint and resume")

    def model(self, model: Model) -> Model:
        """Return a model that replays recorded answers, then asks `model` and records each answer before returning it.

        An error of `model` is not recorded.

        Raises (when called):
            Diverged: the next recorded entry is no answer.
        """
        raise NotImplementedError("7.5.1 Checkpoint and resume")

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
        raise NotImplementedError("7.5.1 Checkpoint and resume")
