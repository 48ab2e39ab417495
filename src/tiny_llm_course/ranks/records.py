"""What each rank does, read from the file that its group writes (`tiny_llm/distributed/group.py`)."""

import os
import re
import signal
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

COLLECTIVES = ("all_sum", "all_max", "all_gather")  # lazy: a rank waits when it evaluates their result
PATIENCE = 0.5  # seconds for a rank to write where it is


def waits(record: str) -> bool:
    """Return whether a rank with this record may wait for another."""
    return record.startswith(("in ", *(f"computing, after {name} " for name in COLLECTIVES)))


def read(file: Path) -> str:
    """Return a rank's record: `in receive from rank 1 (4, float32) at ring.py:12`; "" before its first call."""
    return file.read_text(encoding="utf-8", errors="replace").strip()


def places(files: Sequence[Path], pids: Sequence[int]) -> list[str]:
    """Return where each of these processes is, `work.py:7`, as it says itself when it gets SIGUSR1; "" if unknown."""
    stacks = [stack_file(file) for file in files]
    asked = []
    for stack, pid in zip(stacks, pids, strict=True):
        if stack.exists():  # only a process that has a group handles the signal
            os.kill(pid, signal.SIGUSR1)
            asked.append(stack)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not all(stack.stat().st_size for stack in asked):
        time.sleep(0.01)
    if asked:
        time.sleep(0.02)  # the rest of the last one's text
    return [_innermost(stack.read_text(encoding="utf-8")) if stack.exists() else "" for stack in stacks]


def stack_file(file: Path) -> Path:
    """Return the file into which a rank writes its stack."""
    return file.with_name(f"{file.name}.stack")


def _innermost(text: str) -> str:
    """Return the innermost line outside libraries of the main thread, which faulthandler writes last."""
    main = re.split(r"^(?:Current thread|Thread) ", text, flags=re.MULTILINE)[-1]
    libraries = ("site-packages", sysconfig.get_path("stdlib"), os.path.join("distributed", "group.py"), "<")
    for file, line in re.findall(r'^  File "(.*)", line (\d+)', main, re.MULTILINE):
        if not any(part in file for part in libraries):
            return f"{Path(file).name}:{line}"
    return ""


def in_words(record: str, place: str = "", status: int | None = None) -> str:
    """Return what a rank was doing, for a message; `status` is its exit status if it had ended."""
    if status is not None:
        return f"had ended with exit status {status}, {record.removeprefix('computing, ') or 'without a call'}"
    if not record:
        return f"had made no call{f'; it was at {place}' if place else ''}"
    return f"was {record.replace('computing,', f'computing at {place},', 1) if place else record}"
