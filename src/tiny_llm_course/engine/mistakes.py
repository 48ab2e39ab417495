"""The known mistakes that can be put into an engine: of which tasks, by which names, and for which package."""

from collections.abc import Callable
from functools import partial

from ..course.entities import Stage, Target, Task
from ..course.registry import UsageError, load_course, with_commands
from ..course.selection import one_task
from ..course.suggestions import nearest
from ..learner import progress
from ..programs.packages import LearnerError
from ..testkit.variants import Variant, Variants, load_variants
from . import stages

# What every engine has besides its stage's model and generate function.
ENCODE = Target("tokenizer", "ByteLevelBPE.encode")
SHOW, CHOOSE = Target("tokenizer", "StreamingDetokenizer"), Target("sampler", "make_sampler")

Again = Callable[[str], str]  # from the argument of --mistake to the whole command


def in_engine(stage: Stage) -> frozenset[str]:
    """Return the ids of the tasks whose code an engine of this stage runs."""
    return _in_model(stage) | _behind(stage.generate, ENCODE, SHOW, CHOOSE)


def in_bits(stage: Stage) -> frozenset[str]:
    """Return those that affect bits per byte: not the choice of tokens, nor detokenization."""
    return in_engine(stage) - (_behind(stage.generate, SHOW, CHOOSE) - _in_model(stage) - _behind(ENCODE))


def _in_model(stage: Stage) -> frozenset[str]:
    """Return those that the stage's model uses. The model may be no task itself: the stage's other needs are its."""
    course = load_course()
    own = [id for id in stage.needs if course.task(id).program != stage.generate]
    return _behind(stage.model).union(own, *map(course.needs, own))


def _behind(*targets: Target) -> frozenset[str]:
    """Return the tasks with these targets, and all that they use."""
    course = load_course()
    own = [task.id for task in course.tasks() if task.program in targets]
    return frozenset(own).union(*map(course.needs, own))


in_sampler = partial(_behind, CHOOSE)  # the tasks that choose tokens


def chosen(
    wanted: str, solution: bool, stage: str | None, again: Again, unsupported: str = ""
) -> tuple[Task, Stage, Variants, Variant | None]:
    """Return the task of "1.1.2" or "1.1.2:no-scale", its stage, its known programs, and the mistake if named.

    The stage is the one that was typed, or else the first that uses the task, so that its story does not change with
    new stages; for `unsupported` features it is the engine that has them. Raise LearnerError if the learner's task has
    not passed, UsageError if there is no such task or mistake, or the engine does not use it.
    """
    id, _, name = wanted.partition(":")
    possible = (
        [stages.choose(stage, solution, unsupported)]
        if stage or unsupported
        else stages.runnable(load_course().stages(), solution)
    )
    if any(map(stages.simulated, possible)):
        raise UsageError(f"The stage {stage} runs on the simulator here, which is too slow for --mistake.")
    used = frozenset[str]().union(*map(in_engine, possible))
    task = one_task([id] if id else [], "generate --mistake", lambda task: task.id in used)
    if task.id not in used:
        proposed = next(other for other in load_course().tasks() if other.id in used)
        what = f"{task.label}: the engine does not use it, so there is nothing to break. A task that it uses:"
        raise UsageError(what, again(proposed.id))
    if not task.target.is_python:
        raise UsageError(f"{task.label} is in C++, and known mistakes can be put only into an engine's Python.")
    if not solution and progress.status_of(task.id) != "passed":
        raise LearnerError(
            with_commands(
                f"{task.label} has not passed yet, and a mistake can be put only into right code. First:",
                f"pdm run test {task.id}",
                "To break ours:",
                f"{again(wanted)} --solution",
            )
        )
    known = load_variants(task)
    names = [variant.name for variant in known.wrong_programs]
    if name and name not in names:
        guess = nearest(name, names)
        which = f"Did you mean {guess}?" if guess else "All of them:"
        raise UsageError(f"{task.id} has no known mistake {name!r}. {which}", again(f"{task.id}:{guess}".rstrip(":")))
    stage_of_it = next(each for each in possible if task.id in in_engine(each))
    return task, stage_of_it, known, known.wrong_programs[names.index(name)] if name else None
