"""How requests are served: by a mode that is named, or by the furthest that is there; and what all of them write."""

import dataclasses
import importlib
import itertools

import pytest
from tests.course.checkpoint_folders import small

from tiny_llm_course.course.entities import Mode, Target
from tiny_llm_course.course.registry import Course, UsageError, load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.engine import serving, stages
from tiny_llm_course.engine.serving import Limits, load_scheduler
from tiny_llm_course.learner import progress
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import SOLUTION_NAME, LearnerError, load_solution

pytestmark = pytest.mark.maintainers
MODES = [mode for mode in load_course().modes() if not stages.simulated(mode) and mode.name != "int8"]
ONE = Mode("one", "serves one", Target("engines.modes", "static"), ("3.1.2",), ("3.4.2",))
MANY = Mode("many", "serves many", Target("engines.modes", "paged"), ("3.1.2", "3.3.3"))
TEXTS = ["Once upon a time", "That is a blue dog", "Tom had a", "One day, the little girl went to the"]
LIMITS = Limits(max_num_seqs=3, max_num_batched_tokens=16)
compiled = pytest.mark.skipif(bool(missing(["compiler"])), reason="not run here: no compiler")
by_model = pytest.mark.parametrize(
    "kernels",
    [
        False,
        pytest.param(True, marks=compiled),
    ],
    ids=["arrays", "fused"],
)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A course of two modes; the ids of the tasks that have passed."""
    weeks = tuple(
        dataclasses.replace(week, modes=(ONE, MANY) if week.modes else (), stages=()) for week in load_course().weeks
    )
    monkeypatch.setattr(serving, "load_course", lambda: Course(weeks))
    passed: set[str] = set()
    monkeypatch.setattr(progress, "done", lambda task: task.id in passed)
    return passed


def written(mode: str, kernels: bool, limits: Limits = LIMITS) -> list[str]:
    """What some requests get that come together."""
    engine = load_scheduler(None, True, mode, limits, "float32", kernels=kernels)
    request = importlib.import_module(f"{SOLUTION_NAME}.serving.request").Request
    requests = [request(engine.tokenizer.encode(text), 14, eos_ids=engine.checkpoint.eos_ids) for text in TEXTS]
    for one in requests:
        engine.scheduler.submit(one)
    while engine.scheduler.running or engine.scheduler.waiting:
        engine.scheduler.step()
    assert all(one.finish_reason for one in requests)
    return [engine.tokenizer.decode(one.output) for one in requests]


@by_model
def test_all_modes_write_the_same_and_what_each_request_gets_alone(kernels: bool) -> None:
    alone = written("static", kernels, limits=dataclasses.replace(LIMITS, max_num_seqs=1))
    assert "a little girl named" in alone[0]
    for mode in MODES:
        assert written(mode.name, kernels) == alone, mode.name


@by_model
def test_where_memory_is_short_some_are_put_back_and_write_the_same(kernels: bool) -> None:
    of_token = 2 * 6 * 2 * 64 * 4  # layers, heads, dimensions, bytes
    short = dataclasses.replace(LIMITS, kv_cache_bytes=40 * of_token, page_size=4)
    for mode in ("paged", "prefix", "speculative"):
        assert written(mode, kernels, limits=short) == written(mode, kernels), mode


@by_model
def test_a_draft_model_guesses_and_changes_nothing(kernels: bool) -> None:
    draft = str(ROOT / "models/tiny-qwen3-draft")
    engine = load_scheduler(None, True, "speculative", Limits(max_num_seqs=2), "float32", draft, kernels)
    request = importlib.import_module(f"{SOLUTION_NAME}.serving.request").Request
    requests = [request(engine.tokenizer.encode(text), 14) for text in TEXTS]
    for one in requests:
        engine.scheduler.submit(one)
    steps = 0
    while engine.scheduler.running or engine.scheduler.waiting:
        engine.scheduler.step()
        steps += 1
    assert [engine.tokenizer.decode(one.output) for one in requests] == written("static", kernels)
    assert steps < 2 * 14  # two at a time, a token a step: some guesses were right


def test_a_draft_model_needs_the_same_tokens(checkpoint) -> None:
    with pytest.raises(UsageError, match=r"has \d+ tokens, but .* has 2048: it cannot draft\.$"):
        load_scheduler(None, True, "speculative", draft=str(checkpoint(small())))


def test_the_kernels_serve_where_they_are_there() -> None:
    fused = load_scheduler(None, True, "paged", dtype="float32")
    assert fused.fused == (not missing(["compiler"]))
    assert type(fused.scheduler.model).__name__ == ("RaggedFusedModel" if fused.fused else "RaggedModel")
    arrays = load_scheduler(None, True, "paged", dtype="float32", kernels=False)
    assert type(arrays.scheduler.model).__name__ == "RaggedModel"
    assert arrays.context_length == fused.context_length == 2048
    assert arrays.mode.name == "paged"


def test_limits_reach_the_scheduler() -> None:
    engine = load_scheduler(
        None, True, "paged", Limits(max_num_seqs=5, max_num_batched_tokens=70, page_size=32), "float32", kernels=False
    )
    assert (
        engine.scheduler.max_num_seqs,
        engine.scheduler.max_num_batched_tokens,
        engine.scheduler.kv_cache.storage.page_size,
    ) == (5, 70, 32)


def test_limits_that_are_too_narrow_are_said_in_words() -> None:
    with pytest.raises(UsageError, match=r"cannot be served: 5000 bytes hold 0 tokens of 6144 bytes"):
        load_scheduler(None, True, "paged", Limits(kv_cache_bytes=5000), "float32")


@pytest.mark.parametrize(
    ("passed", "chosen"), [([], ONE), (["3.3.3"], ONE), (["3.1.2"], ONE), (["3.1.2", "3.3.3"], MANY)]
)
def test_a_learner_is_served_by_the_furthest_whose_tasks_have_passed(
    two: set[str], passed: list[str], chosen: Mode
) -> None:
    two.update(passed)
    assert serving.choose(None, solution=False) == chosen
    assert serving.choose("one", solution=False) == ONE
    assert serving.choose("many", solution=False) == MANY
    assert serving.choose(None, solution=True) == MANY


def test_a_learner_has_kernels_when_they_have_passed(two: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "missing", lambda words: ())
    assert not serving.has_kernels(ONE, solution=False)
    assert serving.has_kernels(ONE, solution=True)
    two.add("3.4.2")
    assert serving.has_kernels(ONE, solution=False)
    monkeypatch.setattr(serving, "missing", tuple)
    assert not serving.has_kernels(ONE, solution=True)


def test_an_unknown_one_is_refused_with_those_that_there_are(two: set[str]) -> None:
    with pytest.raises(UsageError) as refused:
        serving.choose("fast", solution=False)
    listed = "one (serves one), many (serves many)"
    assert str(refused.value) == f"There is no stage 'fast' of serving. Stages: {listed}."


def test_what_this_machine_cannot_run_is_refused_by_name(two: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    needs_metal = dataclasses.replace(MANY, requires=("metal",))
    weeks = tuple(
        dataclasses.replace(week, modes=(ONE, needs_metal) if week.modes else ()) for week in load_course().weeks
    )
    monkeypatch.setattr(serving, "load_course", lambda: Course(weeks))
    monkeypatch.setattr(serving, "missing", tuple)
    monkeypatch.setattr(stages, "missing", tuple)
    assert serving.choose(None, solution=True) == ONE
    with pytest.raises(UsageError, match=r"^The stage many cannot run here: it needs Metal\.$"):
        serving.choose("many", solution=True)


def test_a_task_that_is_missing_is_named_when_its_stub_is_met() -> None:
    with pytest.raises(LearnerError, match=r"^not started: \d\.\d\.\d .*, src/tiny_llm/"):
        load_scheduler(None, False, "paged", dtype="float32")


@compiled
def test_the_mode_int8_rounds_activations() -> None:
    assert load_scheduler(None, True, "int8").scheduler.model.int8
    assert not load_scheduler(None, True, "prefix").scheduler.model.int8


def test_eight_bits_without_their_kernels_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"cannot be served: int8 needs kernels that are built") as refused:
        load_scheduler(None, True, "paged", Limits(int8=True), kernels=False)
    assert "\n" not in str(refused.value)


def test_every_mode_stands_on_the_days_before_it() -> None:
    """Each needs what the one before it needs, but for the memory whose place is taken."""
    for before, mode in itertools.pairwise(MODES):
        assert {*before.needs} - {"3.1.1"} <= {*mode.needs}, mode.name
    assert len(MODES) == 6


def test_a_draft_ends_with_an_end_token():
    """As a chat template's end token, which the prompt holds after each turn."""
    load_solution()
    request, drafter = (
        importlib.import_module(f"{SOLUTION_NAME}.{module}") for module in ("serving.request", "speculative.ngram")
    )
    text = [7, 8, 9, 5, 6, 7, 8]
    for eos_ids, tokens in (((9,), [9]), ((5, 7), [9, 5]), ((), [9, 5, 6])):
        asked = request.Request(text, 9, eos_ids=eos_ids)
        assert [draft.tokens for draft in drafter.NgramDrafter().propose([asked], [3])] == [tokens]
