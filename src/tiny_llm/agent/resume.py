"""Start a run with a log, or resume it: the file of a `DurableRun`. Nothing here is yours to write."""

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..tools.tool import Tool
from ..workspace.changes import Changes
from .durable import Diverged, DurableRun, Entry, Recovery
from .loop import Limits, Outcome, run_agent
from .model import Message, Model
from .transcript import Transcript

DEFAULT = Limits()
# How the tools of `files` and of the workspace recover; every other tool reports.
RECOVERY: dict[str, Recovery] = {
    "list_files": "repeat",
    "read_file": "repeat",
    "search_files": "repeat",
    "edit_file": "compare",
    "write_file": "compare",
}


def run_durably(
    path: Path,
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    limits: Limits = DEFAULT,
    *,
    changes: Changes | None = None,
    recovery: Mapping[str, Recovery] = RECOVERY,
    about: Mapping[str, str] = MappingProxyType({}),
    clock: Callable[[], float] = time.monotonic,
    record: Callable[[dict[str, Any]], object] = lambda entry: None,
) -> Outcome:
    """Run the loop with a log, from where the log ends.

    Steps, tokens and repeats count over all processes, the time since this one began. `record` gets replayed messages,
    too. Each entry is on disk, by fsync, before the run continues.

    Args:
        path: of the log. It is created if it does not exist.
        messages: the conversation at the start. Of a resumed run, they must be the same.
        changes: of the workspace, if its tools are among `tools`.
        about: what else must be the same for a resumed run, such as the workspace.
        recovery: by the names of tools, what is to be done with a call that was interrupted; by default, report it.
        model, tools, limits, clock, record: as for `run_agent`.

    Raises:
        Diverged: the log is of another run.
        ValueError: a line of the log is damaged.
        BlockingIOError: another process has the log open.
    """
    with path.open("ab") as disk:
        fcntl.flock(disk, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the process ends, however it ends
        file = Transcript(path)

        def append(entry: Entry) -> None:
            file.append(entry)
            os.fsync(disk.fileno())

        entries = Transcript.read(path)
        begun = {"messages": list(messages), **about}
        if not entries:
            append(begun)
        elif entries[0] != begun:
            raise Diverged(f"{path} is the log of another conversation or workspace")
        run = DurableRun(entries[1:], append, changes)
        wrapped = [run.tool(tool, recovery.get(tool.name, "report")) for tool in tools]
        try:
            return run_agent(run.model(model), messages, wrapped, limits, clock=clock, record=record)
        finally:
            file.close()
