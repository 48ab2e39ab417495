"""Day 6's figure, tables and widget: scripted agents on the suite, the list of causes, and two agents' reliability."""

import random
from collections.abc import Sequence
from typing import Any

from tiny_llm_course.agent_suite.cases import load_cases
from tiny_llm_course.agent_suite.running import NEEDS, run_suite
from tiny_llm_course.agent_suite.scripted import scripted
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.engine.package import Package
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.outcomes.causes import CAUSES, LIMITS  # noqa: E402
from tiny_llm_solution.outcomes.scores import Run, Scores  # noqa: E402

SHOWN = ("fixes", "gives up", "edits the tests", "loops", "quotes badly", "exits", "breaks")
LEFT, ROW = 118, 21  # pixels
DOT = "\N{BULLET}"  # marks the cells whose cause is not the row's most frequent one
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


def agents() -> str:
    """Draw what scripted agents make of every third case: a filled cell is solved; the cause is at the right."""
    package, some = Package(True, NEEDS), load_cases()[::3]
    found = {name: [each.cause for each in run_suite(package, some, scripted(package, name))] for name in SHOWN}

    def draw(canvas: Canvas) -> None:
        cell = 28 if canvas.width > WIDEST else 12
        right, y = LEFT + len(some) * cell + 8, ROW
        for x, words, anchor in (
            (LEFT - 8, "agent", "end"),
            (LEFT, f"{len(some)} cases", "start"),
            (right, "result", "start"),
        ):
            canvas.text(x, 14, words, "small strong", anchor)
        for name, ends in found.items():
            canvas.text(LEFT - 8, y + 15, name, anchor="end")
            most, *others = sorted(set(ends), key=ends.count, reverse=True)
            for column, cause in enumerate(ends):
                x = LEFT + column * cell
                canvas.rect(x, y + 1, cell - 3, ROW - 3, "query fill" if cause == "solved" else "frame", 2)
                if cause != most:
                    canvas.text(x + (cell - 3) / 2, y + 15, DOT, anchor="middle")
            for line, words in enumerate([most, *(f"{DOT} {other}" for other in others)]):
                canvas.text(right, y + 15 + 16 * line, words, "small")
            y += ROW + 16 * len(others)

    about = "; ".join(f"{name}: {', '.join(sorted(set(ends)))}" for name, ends in found.items())
    caption = (
        f"Recorded runs of {len(found)} scripted agents (rows) on {len(some)} of the 30 cases (columns). A filled cell "
        "is a solved case; the cause of the failures is at the right of each row. The models are scripted; the "
        "workspaces, the tools and the grades are real."
    )
    return at_both_widths(draw).figure("agents-7-6", "Scripted agents on the suite", about, caption)


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
