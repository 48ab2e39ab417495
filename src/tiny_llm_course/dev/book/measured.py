"""What the book shows of the measurements: our own run of each, from the record beside it."""

import datetime
import json
from typing import Any

from ...course.registry import Course
from ...measuring.benches import measurements
from ...measuring.clock import number
from ...measuring.machine import in_words
from .parts import Parts


def measured_parts(course: Course) -> Parts:
    """A table and where it comes from, for each measurement that is recorded."""
    recorded = [measurement for measurement in measurements(course) if measurement.record.is_file()]
    return {(m.name, "measured"): _page(json.loads(m.record.read_text(encoding="utf-8"))) for m in recorded}


def _page(found: dict[str, Any]) -> str:
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    sides = [":--" if isinstance(cell, str) and not i else "--:" for i, cell in enumerate(found["rows"][0])]
    lines = [found["columns"], sides, *rows]
    day = datetime.date.fromisoformat(found["date"])
    where = f"*Our solution on {day.day} {day:%B} {day.year}: {in_words(found['machine'])}.*"
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", where, ""])
