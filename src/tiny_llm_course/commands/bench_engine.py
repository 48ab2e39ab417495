"""`pdm run bench engine`: how near a whole engine comes to what this machine allows."""

import json
import sys
from pathlib import Path
from typing import Any

from ..measuring.engine_speed import measure
from ..measuring.roofline_text import lines_of
from ..terminal.screen import USUAL, columns, say
from . import out_file
from .waiting import waiting


def bench_engine(which: dict[str, Any], quick: bool, file: Path | None, svg: Path | None) -> int:
    """Measure an engine, `which` names it as `load_engine` does; print it, and write the files that are asked for."""
    from ..engine.engine import load_engine

    if file:
        out_file.must_be_writable(file, "record", _is_record)
    if svg:
        out_file.must_be_writable(svg, "drawing", lambda contents: contents.startswith(b"<svg "))
    engine = load_engine(**which)
    with waiting("measuring, up to 20 seconds"):
        found = measure(engine, quick)
    say(f"{found['title']}, {found['storage']}  ({found['package']})", bold=True)
    say()
    for line in lines_of(found, columns(sys.stdout) or USUAL):
        say(line, cut=True)
    if quick:
        say("Measured with --quick: the sizes are too small to say anything.", colour="yellow")
    if file:
        out_file.write(file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if svg:
        from ..dev.book.rooflines import in_a_file

        out_file.write(svg, in_a_file(found))
    return 0


def _is_record(contents: bytes) -> bool:
    try:
        found = json.loads(contents)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= {"limits", "ridge", "rows", "machine"}
