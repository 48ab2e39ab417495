"""Which of the engines runs that the days have built: the one that is named, or the furthest that is there."""

from collections.abc import Sequence

from ..course.nouns import Mode, Stage, Task
from ..course.registry import UsageError, load_course
from ..course.requirements import in_words, missing
from ..learner import progress


def choose(name: str | None, solution: bool, beyond: str = "") -> Stage:
    """The stage of a name; without one the last that this machine runs and, for the learner, whose tasks have passed.

    A borrowed task counts as passed. Where none has got so far, it is the first: running it says what is missing.

    Args:
        name: what was typed, also that of an engine for what no stage takes; None for nothing.
        solution: whether it is ours.
        beyond: what the checkpoint asks for that no stage has, in words: then it is an engine that takes it.

    Raises:
        UsageError: there is no such stage, it does not take the checkpoint, or this machine has not what it needs.
    """
    stages, engines = load_course().stages(), load_course().engines()
    known = {stage.name: stage for stage in (*stages, *engines)}
    if name is not None and name not in known:
        listed = ", ".join(f"{stage.name} ({stage.title})" for stage in known.values())
        raise UsageError(f"There is no stage {name!r}. There is: {listed}.")
    if beyond and not engines:
        raise UsageError(f"The checkpoint asks for {beyond}, but no stage has that yet.")
    if beyond and name in {stage.name for stage in stages}:
        raise UsageError(f"The checkpoint asks for {beyond}, which the stage {name} has not got. Leave --stage out.")
    if name is None and not beyond:
        return runnable(solution)[-1]
    chosen = known[name] if name is not None else engines[0]
    if absent := missing(chosen.requires):
        raise UsageError(f"The stage {chosen.name} cannot run here: it needs {in_words(absent)}.")
    return chosen


def runnable(solution: bool) -> list[Stage]:
    """The first stage, and the others that this machine runs and, for the learner, whose tasks have passed."""
    first, *others = load_course().stages()
    return [first, *(stage for stage in others if not lacking(stage, solution))]


def lacking(stage: Stage | Mode, solution: bool) -> str:
    """What it cannot run without and is not there, completing "needs ...": "" if nothing.

    That is what this machine has not, or else the tasks that the learner has not done.
    """
    if absent := missing(stage.requires):
        return in_words(absent)
    return " and ".join(undone(stage, solution))


def undone(stage: Stage | Mode, solution: bool) -> list[str]:
    """The ids of the tasks that it stands on and that have not passed; the solution has done them all."""
    return [task for task in stage.needs if not solution and not progress.done(load_course().task(task))]


def unproven(needs: Sequence[str]) -> tuple[Task, ...]:
    """Of what stands on some tasks, the learner's parts that are not Python and have not passed.

    What they do wrong no exception says.
    """
    course = load_course()
    used = {task for need in needs for task in (*course.needs(need), need)}
    tasks = (task for task in course.tasks() if task.id in used and not task.target.is_python)
    return tuple(task for task in tasks if not progress.done(task))
