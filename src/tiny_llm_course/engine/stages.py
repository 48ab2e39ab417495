"""Choose the engine to run: the named stage, or the latest available."""

from collections.abc import Sequence
from typing import TypeVar

import mlx.core as mx

from ..course.entities import Mode, Stage, Task
from ..course.registry import UsageError, load_course
from ..course.requirements import in_words, missing
from ..learner import progress

Kind = TypeVar("Kind", Stage, Mode)


def choose(name: str | None, solution: bool, unsupported: str = "", packs: bool = True) -> Stage:
    """Return the stage of a name, or the latest that this machine runs and, for the learner, whose tasks have passed.

    If none is available, it is the first: running it says what is missing. A checkpoint with `unsupported` features, in
    words, needs an engine beyond the stages. Without `packs`, the latest is one that quantizes nothing. Raise
    UsageError if it is unknown, cannot run, or does not support the checkpoint.
    """
    stages, engines = load_course().stages(), load_course().engines()
    if name is None and not unsupported:
        return [stage for stage in runnable(stages, solution) if packs or not stage.packed][-1]
    if unsupported and not engines:
        raise UsageError(f"The checkpoint needs {unsupported}, but no stage supports that yet.")
    if unsupported and name in {stage.name for stage in stages}:
        raise UsageError(f"The checkpoint needs {unsupported}, which the stage {name} does not support. Omit --stage.")
    return named(engines[0].name if name is None else name, [*stages, *engines])


def named(name: str, stages: Sequence[Kind], of: str = "") -> Kind:
    """Return the stage of a name; raise UsageError if it is unknown or cannot run here."""
    chosen = next((stage for stage in stages if stage.name == name), None)
    if chosen is None:
        listed = ", ".join(f"{stage.name} ({stage.title})" for stage in stages)
        raise UsageError(f"There is no stage {name!r}{of}. Stages: {listed}.")
    if absent := missing(chosen.requires):
        raise UsageError(f"The stage {name} cannot run here: it needs {in_words(absent)}.")
    return chosen


def runnable(stages: Sequence[Kind], solution: bool) -> list[Kind]:
    """Return the first stage, and those that run here and whose tasks have passed; none that run only if asked for."""
    first, *others = stages
    return [first, *(stage for stage in others if not (stage.asked or lacking(stage, solution)))]


def simulated(stage: Stage | Mode) -> bool:
    """Return whether its Metal kernels run on the simulator here."""
    return "kernels" in stage.requires and mx.default_device() != mx.gpu


def lacking(stage: Stage | Mode, solution: bool) -> str:
    """Return what it needs and this machine lacks, or else the learner's missing tasks, completing "needs ..."."""
    if absent := missing(stage.requires):
        return in_words(absent)
    return " and ".join(undone(stage, solution))


def undone(stage: Stage | Mode, solution: bool) -> list[str]:
    """Return the ids of the tasks that it needs and that have not passed, unless skipped; the solution has all."""
    return [task for task in stage.needs if not solution and not progress.usable(load_course().task(task))]


def unproven(needs: Sequence[str]) -> tuple[Task, ...]:
    """Return the learner's non-Python tasks among some needs that have not passed: their faults raise no exception."""
    course = load_course()
    used = {task for need in needs for task in (*course.needs(need), need)}
    tasks = (task for task in course.tasks() if task.id in used and not task.target.is_python)
    return tuple(task for task in tasks if not progress.usable(task))
