"""What the book shows of the measurements: our own run of each, from the record beside it."""

import datetime
import json
from typing import Any

from .benchmarks import measurements
from .machine import in_words
from .measuring import number
from .registry import Course


def generated_files(course: Course) -> dict[str, str]:
    """`1.1-measured.md`, a table and where it comes from, for each measurement that is recorded."""
    recorded = [measurement for measurement in measurements(course) if measurement.record.is_file()]
    return {f"{m.name}-measured.md": _page(json.loads(m.record.read_text(encoding="utf-8"))) for m in recorded}


def _page(found: dict[str, Any]) -> str:
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    sides = [":--" if isinstance(cell, str) and not i else "--:" for i, cell in enumerate(found["rows"][0])]
    lines = [found["columns"], sides, *rows]
    day = datetime.date.fromisoformat(found["date"])
    where = f"*Our solution on {day.day} {day:%B} {day.year}: {in_words(found['machine'])}.*"
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", where, ""])
