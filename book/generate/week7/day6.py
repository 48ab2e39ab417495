"""Day 6's figure, tables and widget: scripted agents on the suite, the list of causes, and two agents' reliability."""

import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tiny_llm_course.agent_suite.cases import load_cases
from tiny_llm_course.agent_suite.running import NEEDS, TEST_COMMAND, run_case
from tiny_llm_course.agent_suite.scripted import DONE, scripted
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.engine.package import Package
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.outcomes.called import calls_of  # noqa: E402
from tiny_llm_solution.outcomes.causes import CAUSES, LIMITS  # noqa: E402
from tiny_llm_solution.outcomes.scores import Run, Scores  # noqa: E402

SHOWN = ("fixes", "gives up", "edits the tests", "loops", "quotes badly", "exits", "breaks")
PAGES, TESTS = "pages", ("test_full_last_page", "test_kept_nothing", "test_kept_partial_page")  # the chapter's example
CASES, TIMES = 12, 8  # of the simulated agents
AREAS = {
    "numbers, ranges": ("bookings", "invoice", "pages", "ratings", "search-sorted"),
    "dates, times": ("durations", "leap-year", "offsets", "subscription"),
    "defaults": ("backoff", "discount", "settings", "tags"),
    "state": ("board", "menu", "price-cache", "readings", "recent-files"),
    "text": ("log-tail", "message-length", "names", "slug", "versions", "wrap"),
    "formats, paths": ("attributes", "csv-export", "ignore", "query", "roman", "upload-path"),
}
# The probability that a run of each case is solved.
AGENTS = {
    "steady": [1.0] * 7 + [0.0] * 5,
    "moody": [0.6] * CASES,
    "mixed": [1.0, 1.0, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2, 0.1, 0.0],
}


def generated_parts() -> Parts:
    """Return the figure, the lists of cases and causes, and the widget."""
    return {"agents": agents(), "cases": cases(), "causes": causes(), "pass-power": pass_power()}


class Left(NamedTuple):
    """What a scripted agent left of the case PAGES."""

    agent: str
    change: str  # the first line that it added, or what it did instead
    claims: bool
    exit_code: int  # of the visible tests
    hidden: list[bool]  # whether each test passed; none if none ran
    cause: str


def left_by(package: Package, agent: str) -> Left:
    """Run an agent on PAGES, then the visible tests in the files that it left."""
    case = next(each for each in load_cases() if each.name == PAGES)
    found = run_case(package, case, scripted(package, agent)(case))
    files = dict(case.files)
    calls = calls_of(found.entries)
    for call in (call for call in calls if not call.failed and call.tool in {"edit_file", "write_file"}):
        path, given = call.arguments["path"], call.arguments
        files[path] = given["text"] if "text" in given else files[path].replace(given["old"], given["new"])
    changed = [path for path in files if files[path] != case.files[path]]
    added = [
        line.strip()
        for path in changed
        for line in files[path].splitlines()
        if line not in case.files[path].splitlines()
    ]
    change = added[0] if added else "an edit that is refused" if any(call.failed for call in calls) else "no change"
    if changed and changed[0].startswith("test_"):
        change = "an empty test in test_pages.py"
    with tempfile.TemporaryDirectory() as name:
        for path, text in files.items():
            Path(name, path).write_text(text, encoding="utf-8")
        command = [sys.executable, "-B", *TEST_COMMAND[1:]]
        visible = subprocess.run(command, cwd=name, capture_output=True, check=False)
    tests = re.findall(r"^def (test_\w+)", case.hidden, re.MULTILINE)
    ran = found.grade.verdict == "passed" or set(found.grade.failed) & set(tests)
    claims = any(DONE in str(each.get("message", {}).get("content")) for each in found.entries)
    hidden = [test not in found.grade.failed for test in tests] if ran else []
    return Left(agent, change, claims, visible.returncode, hidden, found.cause)


def agents() -> str:
    """Draw for each scripted agent its claim, the visible tests and the hidden tests, on the case PAGES."""
    package = Package(True, NEEDS)
    rows = [left_by(package, agent) for agent in SHOWN]

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        cell, claim = (28, 330) if wide else (20, 100)
        visible, first = claim + (56 if wide else 46), claim + (122 if wide else 94)
        right = first + 3 * cell + 8
        heads = [(0, "agent", "start"), (visible + cell / 2, "visible", "middle"), (right, "result", "start")]
        heads += [(claim + cell / 2, "claim", "middle"), (first + 3 * cell / 2, "hidden", "middle")]
        for x, words, anchor in heads + ([(108, "its change", "start")] if wide else []):
            canvas.text(x, 14, words, "small strong", anchor)
        y = 22.0
        for row in rows:
            strong = " strong" if row.cause == "solved" else ""
            canvas.path([(0, y), (canvas.width - 4, y)], "grid")
            canvas.text(0, y + 19, row.agent, strong.strip())
            change = "small mono" if re.search(r"\W\W|[A-Z]", row.change) else "small"
            canvas.text(*((108, y + 19) if wide else (0, y + 36)), row.change, change)
            boxes = [(claim, row.claims), (visible, row.exit_code == 0)]
            boxes += [(first + i * cell, passed) for i, passed in enumerate(row.hidden)]
            for x, good in boxes:
                canvas.rect(x + 2, y + 5, cell - 4, 17, "fill" if good else "hollow", 2)
            if not row.hidden:
                canvas.text(first + 3 * cell / 2, y + 19, "none ran", "small", "middle")
            canvas.text(right, y + 19, row.cause, f"small{strong}")
            y += 28 if wide else 44

    about = "; ".join(
        f"{row.agent}: {row.change}; {'claims success' if row.claims else 'claims nothing'}, visible tests exit with "
        f"{row.exit_code}, {sum(row.hidden)} of {len(row.hidden)} hidden tests passed, {row.cause}"
        for row in rows
    )
    caption = (
        f"Recorded runs on <code>{PAGES}</code>. A filled cell: the agent says that the bug is fixed; the visible "
        "tests exit with code 0; a hidden test passes, from the left "
        f"{', '.join(f'<code>{name}</code>' for name in TESTS)}. "
        f"Of {len(rows)} agents, {sum(row.claims for row in rows)} claim success, the visible tests of "
        f"{sum(not row.exit_code for row in rows)} pass, and {sum(row.cause == 'solved' for row in rows)} has fixed "
        "the bug. The models are scripted; the workspaces, the tools and the grades are real."
    )
    return at_both_widths(draw).figure("agents-7-6", "Claims, visible tests and hidden tests", about, caption)


def cases() -> str:
    """List the cases, an area in each row, and a bug's kind where the area does not say it."""
    kinds = {case.name: case.kind for case in load_cases()}
    listed = [name for names in AREAS.values() for name in names]
    if sorted(listed) != sorted(kinds):
        raise ValueError(f"AREAS does not list each case once: {sorted(kinds.keys() ^ set(listed))}")
    rows = []
    for area, names in AREAS.items():
        shown = [f"`{name}`" + f" ({kinds[name]})" * (kinds[name] not in area) for name in names]
        rows.append(f"| {area} | {', '.join(shown)} |")
    return "\n".join(["| Area | Case (bug) |", "|---|---|", *rows, ""])


def causes() -> str:
    """List the causes in their order, those of the stops at a limit in one row."""
    rows, stops = [], f"{', '.join(LIMITS)} | stopped at this limit; *cut*: on an answer's length |"
    for number, (cause, words) in enumerate(CAUSES.items(), 1):
        if cause == LIMITS[0]:
            rows.append(f"| {number} to {number + len(LIMITS) - 1} | {stops}")
        elif cause not in LIMITS:
            rows.append(f"| {number} | {cause} | {words} |")
    return "\n".join(["| Rank | Cause | Condition |", "|---|---|---|", *rows, ""])


def simulated(name: str) -> list[list[bool]]:
    """Return the results of an agent: of each case, TIMES runs."""
    draw = random.Random(f"{name} 7.6")
    return [[draw.random() < chance for _ in range(TIMES)] for chance in AGENTS[name]]


def scores_of(results: Sequence[Sequence[bool]]) -> Any:
    """Return the scores of such results."""
    return Scores(Run(f"case {i}", solved, 1, 1) for i, row in enumerate(results) for solved in row)


def pass_power() -> str:
    """Return the widget, and a table of the same numbers."""
    data, rows = [], []
    for name in AGENTS:
        results = simulated(name)
        scores = scores_of(results)
        at = [round(scores.pass_at(k), 4) for k in range(1, TIMES + 1)]
        every = [round(scores.pass_all(k), 4) for k in range(1, TIMES + 1)]
        success = scores.success()
        interval = [round(success.low, 4), round(success.high, 4)]
        data.append({"name": name, "runs": [[int(s) for s in row] for row in results], "at": at, "every": every})
        data[-1]["interval"] = interval
        rows.append([name, *(f"{100 * x:.0f} %" for x in (at[0], *interval, at[-1], every[-1]))])
    heads = ["agent", "pass@1", "95 % interval: from", "to", f"pass@{TIMES}", f"pass^{TIMES}"]
    return element("pass-power", {"agents": data}, table(f"{CASES} cases, {TIMES} runs each", heads, rows))
