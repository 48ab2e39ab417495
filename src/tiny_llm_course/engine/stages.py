"""Choose the engine to run: the named stage, or the latest available."""

from collections.abc import Sequence

import mlx.core as mx

from ..course.entities import Mode, Stage, Task
from ..course.registry import UsageError, load_course
from ..course.requirements import in_words, missing
from ..learner import progress


def choose(name: str | None, solution: bool, unsupported: str = "", packs: bool = True) -> Stage:
    """Return the stage of a name, or the latest that this machine runs and, for the learner, whose tasks have passed.

    If none is available, it is the first: running it says what is missing. A checkpoint with `unsupported` features, in
    words, needs an engine beyond the stages. Without `packs`, the latest is one that quantizes nothing. Raise
    UsageError if it is unknown, cannot run, or does not support the checkpoint.
    """
    stages, engines = load_course().stages(), load_course().engines()
    known = {stage.name: stage for stage in (*stages, *engines)}
    if name is not None and name not in known:
        listed = ", ".join(f"{stage.name} ({stage.title})" for stage in known.values())
        raise UsageError(f"There is no stage {name!r}. Stages: {listed}.")
    if unsupported and not engines:
        raise UsageError(f"The checkpoint needs {unsupported}, but no stage supports that yet.")
    if unsupported and name in {stage.name for stage in stages}:
        raise UsageError(f"The checkpoint needs {unsupported}, which the stage {name} does not support. Omit --stage.")
    if name is None and not unsupported:
        return [stage for stage in runnable(solution) if packs or not stage.packed][-1]
    chosen = known[name] if name is not None else engines[0]
    if absent := missing(chosen.requires):
        raise UsageError(f"The stage {chosen.name} cannot run here: it needs {in_words(absent)}.")
    return chosen


def runnable(solution: bool) -> list[Stage]:
    """Return the first stage, and those that run here and whose tasks have passed; none that run only if asked for."""
    first, *others = load_course().stages()
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
    """Return the ids of the tasks that it needs and that have not passed; the solution has all."""
    return [task for task in stage.needs if not solution and not progress.done(load_course().task(task))]


def unproven(needs: Sequence[str]) -> tuple[Task, ...]:
    """Return the learner's non-Python tasks among some needs that have not passed: their faults raise no exception."""
    course = load_course()
    used = {task for need in needs for task in (*course.needs(need), need)}
    tasks = (task for task in course.tasks() if task.id in used and not task.target.is_python)
    return tuple(task for task in tasks if not progress.done(task))
