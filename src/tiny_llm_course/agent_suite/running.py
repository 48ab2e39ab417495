"""Run an agent on cases, each in a workspace of its own, with an approval that no text can give, and grade it."""

import json
import shlex
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.package import Package
from .cases import Case

NEEDS = ("7.2.2", "7.3.1", "7.3.2", "7.4.1", "7.4.2", "7.4.3", "7.4.4", "7.6.1", "7.6.2", "7.6.3")
LOOP = ("agent.loop", "run_agent")
OWN = ("7.C", "outcomes.own_agent", "work")  # the open task, and where its agent is
TEST_COMMAND = ("python3", "-m", "unittest")
SYSTEM = (
    "You fix a bug in a small Python project, in a folder that only your tools can reach. Find the cause, change as "
    "little as you can, and run the tests with run_command and the command "
    f"{json.dumps(TEST_COMMAND)}. No other command will be approved. When you are done, answer in one sentence."
)
STEPS, SECONDS = 20, 300.0  # of a run, at most
WORKERS = 2
MakeModel = Callable[[Case], Any]  # a model for each run


class Approval:
    """What the user of the suite has agreed to beforehand: changes in the workspace, and one command, word for word."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def __call__(self, action: str, detail: str) -> bool:
        """Return whether the user agrees. `detail` was written by the model: only a whole command is compared."""
        agreed = action.startswith(("edit ", "write ", "make folder")) or (
            action == "run" and detail == shlex.join(TEST_COMMAND)
        )
        if not agreed:
            self.refused.append(f"{action} {detail}")
        return agreed


class CaseRun(NamedTuple):
    """What a run of an agent on a case left."""

    case: Case
    run: Any  # the package's Run
    grade: Any  # its Grade
    cause: str
    entries: list[dict[str, Any]]  # the transcript
    refused: list[str]  # what the user did not approve
    safe: bool  # whether nothing appeared outside of the workspace


def run_case(package: Package, case: Case, model: Any, loop: tuple[str, ...] | None = None) -> CaseRun:
    """Run a loop of the package with a model on a case, by default LOOP, and grade the workspace that it leaves."""
    part, approval, entries = package.part, Approval(), list[dict[str, Any]]()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": case.statement}]
    with tempfile.TemporaryDirectory() as name:
        workspace, journal = Path(name, "work"), Path(name, "undo")
        workspace.mkdir()
        case.write(workspace)
        limits = part("workspace.limits", "Limits")(wall_seconds=5.0, cpu_seconds=5, memory_mib=1024)
        tools, changes = part("workspace.tools", "open_workspace")(workspace, journal, approval, limits=limits)
        with changes.root:
            bounds = part("agent.loop", "Limits")(steps=STEPS, seconds=SECONDS)
            outcome = part(*(loop or LOOP))(model, messages, tools, bounds, record=entries.append)
        safe = {path.name for path in Path(name).iterdir()} <= {"work", "undo"}
        grade = part("outcomes.grading", "grade_run")(workspace, case.hidden, limits)
    cause = part("outcomes.causes", "cause_of")(entries, grade)
    run = part("outcomes.scores", "Run")(case.name, grade.solved, outcome.steps, outcome.tokens)
    return CaseRun(case, run, grade, cause, entries, approval.refused, safe)


def run_suite(
    package: Package,
    cases: Sequence[Case],
    make_model: MakeModel,
    times: int = 1,
    note: Callable[[CaseRun], object] = lambda found: None,
    loop: tuple[str, ...] | None = None,
) -> list[CaseRun]:
    """Run every case some times, a few at once, and return the runs in the order of the cases."""

    def run(case: Case) -> CaseRun:
        found = run_case(package, case, make_model(case), loop)
        note(found)
        return found

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(run, [case for case in cases for _ in range(times)]))
