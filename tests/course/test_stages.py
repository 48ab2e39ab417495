"""Which engine is run: by name, or the furthest that is there."""

import dataclasses
import importlib
import typing

import mlx.core as mx
import pytest

from tiny_llm_course.course.entities import Stage, Target
from tiny_llm_course.course.registry import Course, UsageError, load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.course.selection import in_brief
from tiny_llm_course.engine import stages
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.learner import progress
from tiny_llm_course.programs.packages import SOLUTION_NAME, LearnerError, program

pytestmark = pytest.mark.maintainers
FIRST = load_course().stages()[0]
QUICK = Stage(
    "quick", "keeps what it has read", Target("twice", "Model"), Target("twice", "tokens"), ("1.5.3", "1.7.1")
)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A course of two stages; the ids of the tasks that have passed."""
    week = dataclasses.replace(load_course().weeks[0], stages=(FIRST, QUICK))
    monkeypatch.setattr(stages, "load_course", lambda: Course((week,)))
    passed: set[str] = set()
    monkeypatch.setattr(progress, "done", lambda task: task.id in passed)
    return passed


@pytest.mark.parametrize(
    ("passed", "chosen"),
    [
        ([], FIRST),
        (["1.5.3", "1.6.6"], FIRST),
        (["1.5.3", "1.7.1"], QUICK),
        (["1.5.3", "1.6.6", "1.7.1"], QUICK),
    ],
)
def test_a_learner_runs_the_furthest_whose_tasks_have_passed(two: set[str], passed: list[str], chosen: Stage) -> None:
    two.update(passed)
    assert stages.choose(None, solution=False) == chosen
    assert stages.choose("week1", solution=False) == FIRST
    assert stages.choose("quick", solution=False) == QUICK


def test_the_solution_runs_the_last(two: set[str]) -> None:
    assert stages.choose(None, solution=True) == QUICK
    assert stages.choose("week1", solution=True) == FIRST


def test_what_this_machine_cannot_run_is_never_chosen_and_refused_by_name(
    two: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "missing", lambda words: words)
    week = dataclasses.replace(load_course().weeks[0], stages=(FIRST, dataclasses.replace(QUICK, requires=("metal",))))
    monkeypatch.setattr(stages, "load_course", lambda: Course((week,)))
    assert stages.choose(None, solution=True) == FIRST
    with pytest.raises(UsageError, match=r"^The stage quick cannot run here: it needs Metal\.$"):
        stages.choose("quick", solution=True)


def test_an_unknown_one_is_refused_with_those_that_there_are(two: set[str]) -> None:
    with pytest.raises(UsageError) as refused:
        stages.choose("fast", solution=False)
    listed = "week1 (recomputes the whole sequence for every token), quick (keeps what it has read)"
    assert str(refused.value) == f"There is no stage 'fast'. Stages: {listed}."


def test_its_own_class_and_function_are_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in load_course().stages():
        engine = load_engine(None, solution=True, dtype="float32", stage=stage.name)
        made_by = vars(importlib.import_module(f"{SOLUTION_NAME}.{stage.model.module}"))[stage.model.name]
        assert isinstance(engine.model, typing.get_type_hints(made_by).get("return", made_by))
    missing = dataclasses.replace(FIRST, model=Target("qwen3", "Quick"))
    monkeypatch.setattr(stages, "choose", lambda *typed: missing)
    with pytest.raises(LearnerError, match=r"qwen3\.py defines no Quick"):
        load_engine(None, solution=True, dtype="float32")


def test_a_kernel_that_is_not_started_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stub in C++ throws would end the process."""
    monkeypatch.setattr(stages, "missing", lambda words: ())
    monkeypatch.setattr(progress, "borrowed_tasks", tuple)
    with pytest.raises(LearnerError, match=r"^not started: 2\.4\.2 .*, src/tiny_llm/kernels/matvec\.cpp:\d+ \(with"):
        load_engine(None, solution=False, dtype="float32", stage="cpu-kernel")


def test_what_is_borrowed_is_named_in_brief() -> None:
    tasks = load_course().tasks()
    assert in_brief(tasks[:3]) == "1.1.1, 1.1.2, 1.1.3"
    assert in_brief(tasks[:5]) == "1.1, 1.2.1"
    assert in_brief(tasks) == ", ".join(str(week.number) for week in load_course().weeks)


HERE = [each for each in load_course().stages() if not (missing(each.requires) or stages.simulated(each))]


@pytest.mark.parametrize("stage", HERE, ids=lambda stage: stage.name)
def test_each_of_them_tells_the_same_story(stage: Stage) -> None:
    """Through the engine, as `generate` and `chat` run it: prompt, tokens, text."""
    engine = load_engine(None, solution=True, dtype="float32", stage=stage.name)
    answer = engine.answer(engine.encode("Once upon a time"), 12, engine.sampler(Sampling(temp=0)))
    assert "".join(answer.pieces) == ", there was a little girl named Lily. She loved to"


@pytest.mark.parametrize("stage", [stage for stage in HERE[1:] if not stage.packed], ids=lambda stage: stage.name)
def test_two_hundred_likeliest_tokens_are_those_of_the_first(stage: Stage) -> None:
    """The first would take minutes to write them. Read at once, each is what it would have said in its place."""
    engine = load_engine(None, solution=True, dtype="float32", stage=stage.name)
    prompt = engine.encode("Once upon a time")
    tokens = list(program(stage.generate, SOLUTION_NAME)(engine.model, prompt, 200))
    first = load_engine(None, solution=True, dtype="float32", stage=FIRST.name)
    said = mx.argmax(first.model(mx.array([[*prompt, *tokens]]))[0], axis=-1)
    assert said[len(prompt) - 1 : -1].tolist() == tokens
