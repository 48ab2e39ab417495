"""The known mistakes that can be put into an engine: of which tasks, by which names, and for whom."""

from collections.abc import Callable

from ..course.guesses import nearest
from ..course.nouns import Stage, Target, Task
from ..course.registry import UsageError, load_course, with_commands
from ..course.selection import one_task
from ..learner import progress
from ..programs.packages import LearnerError
from ..testkit.variants import Variant, Variants, load_variants
from . import stages

# What every engine has besides its stage's model and the function that generates.
ENCODE = Target("tokenizer", "ByteLevelBPE.encode")
SHOW, CHOOSE = Target("tokenizer", "StreamingDetokenizer"), Target("sampler", "make_sampler")

Again = Callable[[str], str]  # from what stands behind --mistake to the whole line to type


def in_engine(stage: Stage) -> frozenset[str]:
    """The ids of the tasks whose code an engine of this stage runs."""
    return _in_model(stage) | _behind(stage.generate, ENCODE, SHOW, CHOOSE)


def in_bits(stage: Stage) -> frozenset[str]:
    """Those that have a part in what a text costs: not the choice of tokens, and not what shows them."""
    return in_engine(stage) - (_behind(stage.generate, SHOW, CHOOSE) - _in_model(stage) - _behind(ENCODE))


def in_sampler() -> frozenset[str]:
    """Those that choose tokens, as the options for that say."""
    return _behind(CHOOSE)


def _in_model(stage: Stage) -> frozenset[str]:
    """Those that its model uses. The model need not be a task itself: what a stage needs else, its model needs."""
    course = load_course()
    own = [id for id in stage.needs if course.task(id).program != stage.generate]
    return _behind(stage.model).union(own, *map(course.needs, own))


def _behind(*targets: Target) -> frozenset[str]:
    """The tasks with these targets, and all that they use."""
    course = load_course()
    own = [task.id for task in course.tasks() if task.program in targets]
    return frozenset(own).union(*map(course.needs, own))


def chosen(
    wanted: str, solution: bool, stage: str | None, again: Again, asked: str = ""
) -> tuple[Task, Stage, Variants, Variant | None]:
    """The task of "1.1.2" or "1.1.2:no-scale", its known programs, and the mistake; None if it is not named.

    The stage is the one that was typed, or else the first that uses the task: its story stays when faster ones come.
    Where the checkpoint asks for what no stage has, in the words of `asked`, it is the engine that takes it.

    Raises:
        LearnerError: the task has not passed, and it is the learner's engine.
        UsageError: there is no such task or mistake, or the engine does not use the task.
    """
    id, _, name = wanted.partition(":")
    possible = [stages.choose(stage, solution, asked)] if stage or asked else stages.runnable(solution)
    used = frozenset[str]().union(*map(in_engine, possible))
    task = one_task([id] if id else [], "generate --mistake", lambda task: task.id in used)
    if task.id not in used:
        proposed = next(other for other in load_course().tasks() if other.id in used)
        what = f"{task.label}: the engine does without it, so there is nothing to break. A task that it uses:"
        raise UsageError(what, again(proposed.id))
    if not task.target.is_python:
        raise UsageError(f"{task.label} is in C++, and known mistakes are put into an engine only where it is Python.")
    if not solution and progress.status_of(task.id) != "passed":
        raise LearnerError(
            with_commands(
                f"{task.label} has not passed yet, and your engine is broken on purpose only where it is right. First:",
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
