"""`generate`, `chat` and `bench engine` on checkpoints that no stage takes: which engine runs, and what it needs."""

import subprocess
import sys

import mlx.core as mx
import pytest
from tests.course.checkpoint_folders import CHAT_TEMPLATE, small, write_checkpoint
from tests.course.further_models import further

from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.dev.transcripts import Scenario, checkout_for, environment
from tiny_llm_course.engine import mistakes, stages
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.measuring import progression
from tiny_llm_course.measuring.engine_speed import counts, measure
from tiny_llm_course.paths import ROOT

pytestmark = pytest.mark.maintainers
COURSE = load_course()
ENGINE = COURSE.engines()[0]
ALL = [task.id for task in COURSE.tasks() if "." in task.id]
CHATTING = {"tokenizer_config": {"chat_template": CHAT_TEMPLATE}}


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """A folder with a Qwen3-MoE, which can be talked with."""
    return write_checkpoint(tmp_path_factory.mktemp("models") / "experts", further("experts"), **CHATTING)


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    """A folder with a Qwen3 of which two of three layers have a window."""
    model = further("qwen3, windows from layer 1 on", max_position_embeddings=400)
    return write_checkpoint(tmp_path_factory.mktemp("models") / "windows", model)


def run(*words, checkout=ROOT, typed=""):
    return subprocess.run(
        [sys.executable, "-m", "tiny_llm_course", *map(str, words)],
        cwd=checkout,
        env=environment(checkout),
        input=typed,
        capture_output=True,
        text=True,
    )


# Which one runs


def test_it_is_no_stage():
    assert ENGINE.name == "further"
    assert ENGINE not in COURSE.stages()
    assert stages.choose(None, solution=True) in COURSE.stages()
    assert stages.choose("further", solution=True) == ENGINE


def test_what_no_stage_takes_is_for_it(experts):
    assert load_engine(str(experts), True, "float32").stage == ENGINE
    with pytest.raises(UsageError) as refused:
        load_engine(str(experts), True, "float32", "kv-cache")
    line = "The checkpoint needs a mixture of experts, which the stage kv-cache does not support. Omit --stage."
    assert str(refused.value) == line


def test_a_course_without_it_says_so(monkeypatch):
    monkeypatch.setattr(type(COURSE), "engines", lambda self: ())
    with pytest.raises(UsageError, match=r"^The checkpoint needs experts, but no stage supports that yet\.$"):
        stages.choose(None, True, "experts")


def test_by_its_name_it_runs_what_a_stage_runs():
    """The same numbers, as nothing is asked for that differs."""
    ours, stage = (load_engine(None, True, "float32", name) for name in ("further", "kv-cache"))
    tokens = mx.array([ours.encode("Once upon a time there was a little girl")])
    assert mx.array_equal(ours.logits(tokens), stage.logits(tokens))


def test_a_window_that_is_typed_is_for_it_too():
    engine = load_engine(None, True, "float32", window=8, sinks=2)
    assert engine.stage == ENGINE
    assert set(engine.model.config.windows) == {8}
    tokens = mx.array([engine.encode("Once upon a time there was a little girl who had a big blue dog.")])
    whole = load_engine(None, True, "float32", "kv-cache").logits(tokens)
    assert mx.allclose(engine.logits(tokens)[:, :8], whole[:, :8], atol=1e-3)
    assert not mx.allclose(engine.logits(tokens)[:, 12:], whole[:, 12:], atol=1e-1)


def test_its_mistakes_are_those_of_what_it_needs():
    used = mistakes.in_engine(ENGINE)
    assert {"4.3.1", "4.3.4", "4.5.1", "4.5.3", "4.7.3", "2.1.1", "1.2.2", "1.6.3"} <= used
    assert "4.5.4" not in used  # statistics
    assert "2.1.2" not in used or "2.1.4" in used  # the other model, which only the function that generates needs
    assert "4.3.4" in mistakes.in_bits(ENGINE)


# The learner's


def test_a_folder_needs_the_tasks_of_what_it_asks_for_and_no_others(experts, windows):
    """A task that is missing is named as the first stub that is met."""
    solved = [id for id in ALL if id not in ("4.5.3", "4.3.4") and not id.startswith("4.7")]
    with checkout_for(Scenario("further", (), solved=tuple(solved))) as checkout:
        for folder, missing in ((experts, "4.5.3 "), (windows, "4.3.4 ")):
            done = run("generate", "Once", "--model", folder, "--max-tokens", 3, checkout=checkout)
            assert (done.returncode, done.stdout.strip()) == (1, "")
            assert done.stderr.startswith(f"not started: {missing}")
            assert "(with --solution, ours runs)" in done.stderr
        done = run("generate", "Once", "--model", experts, "--max-tokens", 3, "--solution", checkout=checkout)
        assert done.returncode == 0, done.stderr


def test_with_these_tasks_the_learner_s_engine_runs(experts):
    solved = [id for id in ALL if not id.startswith(("4.3", "4.7"))]
    with checkout_for(Scenario("further", (), solved=tuple(solved))) as checkout:
        done = run("generate", "Once", "--model", experts, "--max-tokens", 3, "--temp", 0, checkout=checkout)
        ours = run("generate", "Once", "--model", experts, "--max-tokens", 3, "--temp", 0, "--solution")
    assert (done.returncode, done.stdout) == (0, ours.stdout)


# The commands


def test_it_talks(experts):
    done = run("chat", "--model", experts, "--solution", "--max-tokens", 4, typed="Hello\n/quit\n")
    assert done.returncode == 0, done.stderr
    assert "4 tokens in" in done.stderr


def test_bench_engine_measures_it(windows, experts):
    for folder in (windows, experts):
        found = measure(load_engine(str(folder), True, "float32"), quick=True)
        assert found["title"] == f"{folder.name}, stage further"
        assert all(row["flops"] > 0 and row["bytes"] > 0 for row in found["rows"])


def test_the_progression_is_of_stages(windows):
    with pytest.raises(UsageError) as refused:
        progression.measure(str(windows), True)
    line, command = str(refused.value).splitlines()
    assert line == f"{windows} asks for a sliding window, which no stage supports. To measure its own engine:"
    assert command.strip() == f"pdm run bench engine --model {windows}"


# What a step computes and moves


def test_the_counts_are_those_of_a_stage_where_nothing_differs(checkpoint):
    folder = str(checkpoint(small()))
    ours, stage = (counts(load_engine(folder, True, "float32", name))[0] for name in ("further", "kv-cache"))
    assert [ours(*step) for step in ((1, 0), (7, 0), (1, 50))] == [stage(*step) for step in ((1, 0), (7, 0), (1, 50))]


@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize(("length", "offset"), [(1, 0), (1, 3), (1, 40), (6, 0), (30, 0), (12, 4), (12, 50)])
def test_a_window_is_counted_as_what_is_seen(checkpoint, length, offset, sinks):
    model, entries = further("qwen3, windows from layer 1 on"), {"attention_sinks": sinks}
    ours, _ = counts(load_engine(str(checkpoint(model, config=entries)), True, "float32"))
    folder = checkpoint(model, config={"max_window_layers": 3})
    whole, _ = counts(load_engine(str(folder), True, "float32", ENGINE.name))
    seen, all_of_them = ours(length, offset), whole(length, offset)
    limit, heads, kv_heads, dims = 5 + sinks, 6, 3, 16
    pairs = sum(max(place - limit, 0) for place in range(offset + 1, offset + length + 1))
    kept = min(offset, limit - 1)
    assert all_of_them[0] - seen[0] == 2 * 4 * heads * dims * pairs
    assert all_of_them[1] - seen[1] == 2 * 2 * kv_heads * dims * 4 * (offset - kept)


def test_experts_are_counted_as_those_that_a_token_goes_to(checkpoint):
    ours, _ = counts(load_engine(str(checkpoint(further("experts"))), True, "float32"))
    dense, _ = counts(load_engine(str(checkpoint(small())), True, "float32", ENGINE.name))
    (computed, moved), (computed_dense, moved_dense) = ours(1, 0), dense(1, 0)
    mlp, expert, router = 3 * 64 * 160, 3 * 64 * 48, 7 * 64
    assert computed - computed_dense == 2 * 2 * (3 * expert + router - mlp)
    assert moved - moved_dense == 2 * 4 * (3 * expert + router - mlp)
    assert ours(100, 0)[1] - dense(100, 0)[1] == 2 * 4 * (7 * expert + router - mlp)  # all are reached


def test_a_rolling_cache_stays_as_large_as_its_window(windows):
    engine = load_engine(str(windows), True, "float32")
    caches = engine.model.new_caches()
    for number in range(40):
        engine.model(mx.array([[number]]), caches)
    held = [sum(x.nbytes for x in vars(cache).values() if isinstance(x, mx.array)) for cache in caches]
    assert held[1] == held[2] == 2 * 3 * 16 * 4 * 5
