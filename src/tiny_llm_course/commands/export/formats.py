"""The export formats: JUnit XML, Gradescope's results.json, and our own JSON."""

import dataclasses
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import jinja2

from ...course.file_paths import day_files, name_of
from ...learner.attempts import Attempt
from .provenance import Provenance, warnings
from .verdicts import GradedDay, Verdict, clean

NAME = "tiny-llm"
JUNIT = Path(__file__).with_name("junit.xml")
JSON_VERSION = 1  # incremented when a key is removed or changes its meaning


def as_json(days: Sequence[GradedDay], source: Provenance) -> str:
    """Return our own format, which has everything."""
    verdicts = [verdict for graded in days for verdict in graded.verdicts]
    data = {
        "format": "tiny-llm-export",
        "version": JSON_VERSION,
        "points": sum(v.points for v in verdicts),
        "max_points": sum(v.max_points for v in verdicts),
        "seconds": round(sum(graded.seconds for graded in days), 3),
        "tasks": [_task(verdict) for verdict in verdicts],
        "source": dataclasses.asdict(source),
    }
    return json.dumps(data, indent=1) + "\n"


def as_gradescope(days: Sequence[GradedDay], source: Provenance) -> str:
    """Return results/results.json for Gradescope's autograder (gradescope-autograders.readthedocs.io, specs)."""
    verdicts = [verdict for graded in days for verdict in graded.verdicts]
    output = [f"{counted(verdicts)}.", *warnings(source)]
    tests = [
        {
            "name": verdict.task.label,
            "number": verdict.task.id,
            **_graded(verdict),
            "output": "; ".join(filter(None, ("passed" if verdict.status == "passed" else "", _explained(verdict)))),
            "tags": [f"week{verdict.task.week}", verdict.status, *["optional"] * verdict.task.optional],
            "visibility": "visible",
        }
        for verdict in verdicts
    ]
    data = {
        "score": sum(v.points for v in verdicts),
        "execution_time": round(sum(graded.seconds for graded in days)),
        "output": clean("\n".join(output)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "tests": tests,
        "extra_data": dataclasses.asdict(source),
    }
    return json.dumps(data, indent=1) + "\n"


def as_junit(days: Sequence[GradedDay], source: Provenance) -> str:
    """Return JUnit XML with pytest's structure: a suite per day, a case per task."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"attribute": quoteattr, "text": escape, "kind": _kind, "explained": _explained}
    template = environment.from_string(JUNIT.read_text(encoding="utf-8"))
    shared = {"NAME": NAME, "points_of": _points, "properties_of": partial(_suite, source)}
    return template.render(days=days, source=source, **shared).strip() + "\n"


FORMATS = {"junit": as_junit, "json": as_json, "gradescope": as_gradescope}


def counted(verdicts: Sequence[Verdict]) -> str:
    """Return how many tasks passed: "3 of 7 tasks passed, 1 not run here"."""
    passed, absent = (sum(v.status == status for v in verdicts) for status in ("passed", "not run here"))
    not_run = f", {absent} not run here" if absent else ""
    return f"{passed} of {len(verdicts)} task{'s' * (len(verdicts) != 1)} passed{not_run}"


def is_export(contents: bytes) -> bool:
    """Return whether a file with these contents was written in one of the three formats."""
    try:
        if contents.startswith(b"<?xml"):
            root = ElementTree.fromstring(contents)
            return (root.tag, root.get("name")) == ("testsuites", NAME)
        data = json.loads(contents)
    except (ElementTree.ParseError, ValueError, RecursionError):
        return False
    source = data.get("source", data.get("extra_data")) if isinstance(data, dict) else None
    return isinstance(source, dict) and source.keys() >= {"graded", "grader_hash"}


def _task(verdict: Verdict) -> dict[str, Any]:
    own = verdict._asdict()
    task, attempts = own.pop("task"), own.pop("attempts")
    known = {"id": task.id, "title": task.title, "optional": task.optional, "borrowed": verdict.status == "borrowed"}
    return known | own | ({} if attempts is None else {"attempts": [_attempt(attempt) for attempt in attempts]})


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "time": attempt.time,
        "status": attempt.status,
        "message": clean(attempt.headline),
        "mistakes": [dataclasses.asdict(mistake) for mistake in attempt.mistakes],
        "code": clean(attempt.code),
    }


def _graded(verdict: Verdict) -> dict[str, Any]:
    """Return score and status for Gradescope; a task that cannot run here has neither, and is shown as a remark."""
    if verdict.status == "not run here":
        return {}
    status = "passed" if verdict.status == "passed" else "failed"
    return {"score": verdict.points, "max_score": verdict.max_points, "status": status}


def _kind(verdict: Verdict) -> str:
    """Return JUnit's word for a verdict; "" for a task that has passed."""
    return {"passed": "", "failed": "failure", "not run": "error"}.get(verdict.status, "skipped")


def _suite(source: Provenance, graded: GradedDay) -> dict[str, Any]:
    """Return the properties of a day's suite in JUnit."""
    its_own = {name_of(file) for file in day_files(graded.day)}
    names = {**source.graded, **{name: digest for name, digest in source.grader.items() if name in its_own}}
    values = {
        "points": sum(v.points for v in graded.verdicts),
        "max_points": sum(v.max_points for v in graded.verdicts),
        "platform": source.platform,
        **{f"version:{name}": number for name, number in source.versions.items()},
        **{f"sha256:{name}": digest for name, digest in names.items()},
        "sha256:grader": source.grader_hash,
    }
    if source.not_used:
        values["given:not-used"] = clean(" ".join(source.not_used))
    if source.git:
        values |= {"git:commit": source.git.commit, "git:changed": clean(" ".join(source.git.changed))}
    return values


def _points(verdict: Verdict) -> dict[str, Any]:
    """Return the properties of a task's case in JUnit."""
    values = {"points": verdict.points, "max_points": verdict.max_points, "status": verdict.status}
    values |= {"optional": "true"} if verdict.task.optional else {}
    return values | ({"checks_not_run_here": absent} if (absent := verdict.checks_not_run_here) else {})


def _explained(verdict: Verdict) -> str:
    printed = f"your code printed:\n{verdict.prints}" if verdict.prints and verdict.status == "failed" else ""
    return "\n".join(part for part in (verdict.details or verdict.message, printed) if part)
