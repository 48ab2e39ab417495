"""Print the result of grading for the learner: one screen, what to fix first comes first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from ..course.entities import Day, Task
from ..course.file_paths import chapter
from ..course.findings import Finding, Kind, few
from ..course.registry import load_course
from ..course.requirements import missing
from ..course.results import SETTLED, TaskResult, verdict
from ..learner import progress
from ..learner.board import State, next_task, standings
from ..paths import LEARNER, ROOT
from ..source.code import where
from ..terminal.screen import say

Line = partial[None]  # a call that prints one line
Faults = Mapping[str, Finding]  # the files that cannot be imported, by their places
MARKS = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "not started": ("○", "yellow"),
    "waiting": ("~", "yellow"),
    "not run": ("~", "yellow"),
    "not run here": ("-", "yellow"),
    "borrowed": ("⇢", "yellow"),
}

SCREEN = 60  # rows of a run at most, unless one task alone takes more
MOST = 3  # other failing checks that are named
LEARNERS = LEARNER.relative_to(ROOT).as_posix()
HEADING, SUM = 2, 3  # rows, including an empty one


def report_heading(day: Day, package: str, gap: bool = False) -> None:
    """Print the day and the address of its chapter, before grading; `gap` separates it from the day before."""
    if gap:  # one address is enough for a screen
        say()
    say(f"Week {day.week}, {day.called}: {day.title}  ({package})", bold=True)
    if not gap:
        say(chapter(day.tasks[0]))
    say()


def faults(results: Iterable[TaskResult]) -> dict[str, Finding]:
    """Return the files that cannot be imported, for which some of these tasks could not be run, by their places."""
    found = [r.finding for r in results if not r.borrowed and r.finding and r.finding.place]
    return {finding.place: finding for finding in found}


def report_fault(fault: Finding) -> None:
    """Print why a file cannot be imported."""
    say(f"✗ {fault.headline}", color="red", bold=True)
    for line in facts(fault):
        line()


@dataclass
class ScreenBudget:
    """The rows left for details beyond one line per task, so that a run fits on one screen."""

    rows: int
    several: bool  # days, of which those with nothing to fix have one line each
    used: bool = False

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> "ScreenBudget":
        """Return the budget for a run of these tasks."""
        ids = [(task.week, task.day) for task in tasks]
        days = len(set(ids))
        return cls(SCREEN - len(ids) - (HEADING + 1) * days - SUM, days > 1)

    def takes(self, rows: int) -> bool:
        """Take the rows if that many are left, and return whether they were. The first request is always granted."""
        fits = rows <= self.rows or not self.used
        if fits:
            self.rows -= rows
            self.used = True
        return fits


def report_results(
    results: Sequence[TaskResult], package: str, broken: Faults, budget: ScreenBudget, printed: Collection[str] = ()
) -> None:
    """Print the verdicts of a day except those `printed`, after the `faults` that have not been reported yet."""
    for fault in broken.values():
        report_fault(fault)
    statuses = {result.status for result in results}
    alike = len(results) > 1 and len({result.left_out for result in results}) == 1
    alike = alike and statuses in ({"passed"}, {"not started"}, {"borrowed"})
    if budget.several and not broken and alike and not any(result.road for result in results):
        _report_alike(results)
        budget.rows += len(results) - 1
        return
    left = [result for result in results if result.task.id not in printed]
    for _, group in groupby(left, lambda r: _in_one_line(r) if budget.several else r.task.id):
        members = list(group)
        if len(members) > 1:
            mark, color = MARKS[members[0].status]
            ids = ", ".join(result.task.id for result in members)
            say(f"{mark} {ids}: {verdict(members[0])}", color=color, bold=members[0].status == "failed")
            budget.rows += len(members) - 1
        else:
            report_task(members[0], package, budget)
    budget.rows -= sum(1 + len(facts(fault)) for fault in broken.values())
    if not budget.several:
        _report_references(results)
        _report_day(results, package, broken)


def _in_one_line(result: TaskResult) -> str:
    """Return what one line says about several tasks, or the id if each needs its own."""
    words = verdict(result)
    several = result.status == "not run here" or words.endswith(("cannot be imported", "cannot be built"))
    return words if several else result.task.id


def _report_references(results: Iterable[TaskResult]) -> None:
    if used := {need for result in results if not result.borrowed for need in result.on_reference}:
        in_order = [task.id for task in load_course().tasks() if task.id in used]
        why = progress.why_on_reference(used)
        say(f"⇢ on the reference, as you have {why} them: {', '.join(in_order)}", color="yellow")


def _report_day(results: Sequence[TaskResult], package: str, broken: Faults) -> None:
    say()
    passed = sum(r.status == "passed" for r in results)
    counted = f"{passed} of {len(results)} task{'s' * (len(results) > 1)} passed{_besides(results)}."
    line = counted if results else "Nothing is written yet."
    if results and all(result.borrowed for result in results):
        line += f" Next: pdm run return {' '.join(r.task.id for r in results)}"
    else:
        line += _next_step(results, broken, package)
    good = passed and all(r.left_out or r.status in ("passed", "not run here") for r in results)
    say(line, color="green" if good else None)


def _besides(results: Iterable[TaskResult]) -> str:
    """Return how many of some tasks are not run here or optional."""
    results = list(results)
    absent = sum(result.status == "not run here" for result in results)
    optional = sum(result.left_out for result in results)
    return f", {absent} not run here" * bool(absent) + f", {optional} optional" * bool(optional)


def report_sum(results: Sequence[TaskResult], package: str) -> None:
    """Print the totals of several days."""
    say()
    _report_references(results)
    borrowed = sum(result.borrowed for result in results)
    line = f"{sum(r.status == 'passed' for r in results)} of {len(results)} tasks passed in all{_besides(results)}"
    line += f", {borrowed} borrowed" * bool(borrowed)
    say(f"{line}.{_next_step(results, {}, package)}", bold=True)


def _next_step(results: Sequence[TaskResult], broken: Faults, package: str) -> str:
    """Return the first thing to do, as the end of a line; if all has passed, the next task of the course."""
    left = sorted((r for r in results if r.status not in SETTLED), key=lambda r: r.task.optional)
    unfinished = [load_course().task(r.first) for r in left if not r.left_out or len(results) == 1]
    labels = [task.label for task in unfinished if not missing(task.requires)]
    for step in [*(f"fix {place}" for place in {**broken, **faults(results)}), *labels]:
        return f" Next: {step}."
    if package != LEARNERS:
        return ""
    task = next_task(board := standings())
    return f" Next: {task.label}." if task and board[task.id].state is not State.BORROWED else " Next: pdm run status"


def _report_alike(results: Sequence[TaskResult]) -> None:
    """Print one line for adjacent tasks that have all passed, or are borrowed, or not started."""
    first, last = results[0], results[-1]
    mark, color = MARKS[first.status]
    day = load_course().day_of(first.task)
    whole = len(results) == len(day.tasks) > 1
    which = f"{first.task.id} to {last.task.id}" if whole else ", ".join(result.task.id for result in results)
    if first.status == "passed":
        count = {key: sum(getattr(result, key) for result in results) for key in ("checks", "passed", "absent")}
        words = tuple(dict.fromkeys(word for result in results for word in result.missing))
        say(f"{mark} {which}: {verdict(TaskResult(first.task, missing=words, **count))}", color=color)
    elif first.status == "borrowed":
        named = day.name if whole else " ".join(result.task.id for result in results)
        say(f"{mark} {which}: borrowed (pdm run return {named} to write them yourself)", color=color)
    else:
        say(f"{mark} {which}: {verdict(first)}", color=color)


def report_task(result: TaskResult, package: str, budget: ScreenBudget | None = None) -> None:
    """Print the verdict of a task, and its details if the budget allows."""
    mark, color = MARKS[result.status]
    line, details = f"{mark} {result.task.label}: {verdict(result)}", _details(result, package)
    if budget and details and not budget.takes(len(details)):
        line, details = f"{line} · pdm run test {result.task.id}", []
    say(line, color=color, bold=result.status == "failed")
    for detail in details:
        detail()
    if result.road and (budget is None or budget.takes(1)):
        say(f"    {result.road} · pdm run history {result.task.id}")


def _details(result: TaskResult, package: str) -> list[Line]:
    task, finding = result.task, result.finding
    lines = []
    if result.breakpoint and result.status in ("passed", "failed"):
        opened = f"pdm run case {task.id}" if result.status == "failed" else "pdm run python"
        said = f"    breakpoint() at {result.breakpoint} does not stop under test; it does in: {opened}"
        lines = [partial(say, said)]
    if result.status not in ("failed", "not started") or (result.suffers and not result.culprits):
        return lines
    if finding and result.status == "failed":
        need = f"    {result.failing_need}, which this uses, fails: fix it first"
        others = [name for name in result.failing if name and name != finding.named]
        if others and not any(claim.facts and not claim.here for claim in result.claims):
            more = f"; {len(others) - MOST} more" * (len(others) > MOST)
            lines[:0] = [partial(say, f"      also      {'; '.join(others[:MOST])}{more}")]
        lines = [partial(say, f"    {finding.headline}"), *facts(finding), *lines]
        lines[:0] = [partial(say, need, bold=True)] * bool(result.failing_need)
        if finding.kind != Kind.FORBIDDEN:
            for claim in result.claims:
                lines.append(partial(say, f"    {claim.said(finding.kind)}", bold=True))
                lines += [partial(say, f"    {question}") for question in claim.questions]
        (count, printed), checks = result.prints, result.passed + result.failed
        first = f", the first {len(printed)}" * (count > len(printed))
        head = f"    your code printed {count} line{'s' * (count > 1)} in {checks} check{'s' * (checks != 1)}{first}:"
        shown = [partial(say, head), *(partial(say, f"      | {line}", cut=True) for line in printed)]
        lines += shown if count else []
    task = load_course().task(result.first) if result.culprits and lines else task  # where the mistake is
    place, hint = f"code {where(task.target, package)}", f"hint: pdm run hint {task.id}"
    if package == LEARNERS and result.status == "failed" and finding and finding.check:
        return [*lines, partial(say, f"    {place}"), partial(say, f"    look: pdm run case {result.task.id} · {hint}")]
    return [*lines, partial(say, f"    {place} · {hint}")]


def facts(finding: Finding) -> list[Line]:
    """Return the evidence of a finding, below its headline."""
    code = finding.kind in (Kind.NOT_BUILT, Kind.NO_IMPORT)
    lines = [partial(say, f"      {line}", cut=code) for line in finding.lines]
    if finding.case:
        lines.append(partial(say, f"      case      {finding.case}"))
    if (about := ": ".join(filter(None, (finding.named, finding.about)))) and not code:
        lines.append(partial(say, f"      check     {about}"))
    return lines + [partial(say, f"      {frame}", cut=True) for frame in few(finding.frames)]
