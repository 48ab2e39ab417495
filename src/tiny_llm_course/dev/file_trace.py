"""Trace which files of the checkout this process opens: the actual inputs of a proof or a generated page."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from ..paths import ROOT

_collecting: list[set[str]] = []  # a set for each block that runs, the innermost last


@contextmanager
def traced_files(searched: bool = False) -> Iterator[set[Path]]:
    """Collect the checkout's files that this process opens for reading; the set is complete after the block.

    With `searched`, also listed folders and files that were not found. Bytecode counts as its source. Hidden folders,
    such as `.venv` and `.tiny-llm`, do not count. Only Python's own opens are seen: a file that a library opens in
    native code, such as safetensors, is missed.
    """
    _install()
    names: set[str] = set()
    found: set[Path] = set()
    _collecting.append(names)
    try:
        yield found
    finally:
        _collecting.pop()
        found |= {file for name in names if (file := _source(name)) and (searched or os.path.isfile(file))}


@cache
def _install() -> None:
    sys.addaudithook(_hook)  # which nothing removes again


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in ("open", "os.scandir") and _collecting and isinstance(args[0], str | bytes | os.PathLike):
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes:
            for names in _collecting:
                names.add(os.fsdecode(args[0]))


def _source(name: str) -> Path | None:
    """Return the source file or folder below the root that a name refers to, if any."""
    file = Path(name) if os.path.isabs(name) else Path.cwd() / name
    if file.parent.name == "__pycache__":
        try:
            file = Path(source_from_cache(str(file)))
        except ValueError:  # pytest's own bytecode of tests
            file = file.parent.parent / f"{file.name.partition('.')[0]}.py"
    file = file.resolve()
    if not file.is_relative_to(ROOT):
        return None
    return None if any(part.startswith(".") for part in file.relative_to(ROOT).parts) else file
