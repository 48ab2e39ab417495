"""`pdm run train`: what it reads, how it packs it, and that a run ends the same whether it was stopped or not."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT
from tiny_llm_course.training.conversations import conversation, documents, topics, words_for_things
from tiny_llm_course.training.curve import as_svg, in_characters
from tiny_llm_course.training.recipe import read_recipe
from tiny_llm_course.training.stories import read_stories, split, training_stories, unseen

pytestmark = pytest.mark.maintainers
RECIPE = """
name = "tiny"
[model]
vocab_size = 320
hidden_size = 64
num_hidden_layers = 2
intermediate_size = 64
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
rope_theta = 1000000.0
rms_norm_eps = 1e-6
max_position_embeddings = 256
[schedule]
seed = 3
steps = 8
rows = 4
micro_batches = 1
context = 64
learning_rate = 0.01
final_share = 0.1
warmup = 2
weight_decay = 0.1
betas = [0.9, 0.95]
clip = 1.0
chat_share = 0.3
every = 4
"""
WHO, WHAT, WHERE = ("Ada", "Ben", "Cy", "Dot"), ("frog", "kite", "boat", "lamp"), ("pond", "hill", "shed", "road")


def stories(count: int = 300) -> list[str]:
    """Little stories by rule: enough to learn a few merges and a few words from."""
    draw = random.Random(1)

    def story(number: int) -> str:
        who, what, where = draw.choice(WHO), draw.choice(WHAT), draw.choice(WHERE)
        call = "".join(draw.choices("aeioudgklmnprst", k=7))  # no story is a near copy of another
        return (
            f"{who} had a {what}. Every day {who} sang {call}, took the {what}, and went to the {where}, {call}.\n"
            f"One day the {what} fell, {call}, in a hole by the {where}. {who} dug {number} times and found the {what}!"
        )

    return [story(number) for number in range(count)]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "stories.txt"
    file.write_text(f"\n{END}\n".join(stories()), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    file.write_text(RECIPE, encoding="utf-8")
    return file


def command(*args) -> list[str]:
    return [sys.executable, "-m", "tiny_llm_course", "train", "--solution", "--cpu", *map(str, args)]


def train(*args, **env) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def trained(text, recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    done = train(text, "--recipe", recipe, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "step 4: loss" in done.stdout
    assert re.search(r"step 8: loss [\d.]+, held out [\d.]+, [\d.]+ bits per byte; 0 seconds left\n", done.stdout)
    assert re.search(r"Done in \d+ seconds\.", done.stdout)
    assert "Once upon a time" in done.stdout
    return out


def weights(folder: Path) -> dict[str, mx.array]:
    loaded = mx.load(str(folder / "model.safetensors"))
    assert isinstance(loaded, dict)
    return loaded


def same_weights(a: Path, b: Path) -> bool:
    return all(mx.array_equal(w, weights(b)[name]) for name, w in weights(a).items())


def test_a_run_that_was_stopped_ends_as_one_that_was_not(text, recipe, trained, tmp_path):
    half = tmp_path / "recipe.toml"
    half.write_text(RECIPE.replace("every = 4", "every = 2").replace("steps = 8", "steps = 16"), encoding="utf-8")
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    assert train(text, "--recipe", half, "--out", whole).returncode == 0
    run = subprocess.Popen(command(text, "--recipe", half, "--out", out), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout
    for line in run.stdout:
        if line.startswith("step 2:"):
            run.send_signal(signal.SIGINT)
            break
    rest = run.stdout.read()
    assert run.wait() == 130
    stopped = re.search(r"Stopped at step (\d+)\. Run the same command to resume\.", rest)
    assert stopped, rest
    resumed = train(text, "--recipe", half, "--out", out)
    assert resumed.returncode == 0
    assert int(stopped[1]) < 16, "it was to be stopped before its end"
    assert f"Resumed at step {stopped[1]} of 16." in resumed.stdout
    assert same_weights(whole, out)
    assert log(out) == log(whole)
    assert [entry["step"] for entry in log(out)] == list(range(1, 17))


def log(folder: Path) -> list[dict[str, float]]:
    entries: list[dict[str, float]] = json.loads((folder / "training" / "record.json").read_text("utf-8"))["log"]
    return entries


def test_it_learns(text, recipe, tmp_path):
    out = tmp_path / "model"
    done = train(text, "--recipe", recipe, "--out", out, "--steps", 120)
    assert done.returncode == 0, done.stderr
    losses = [entry["held_out"] for entry in log(out) if entry["held_out"]]
    assert losses[-1] < 3 < losses[0]


def test_the_course_s_engine_runs_what_was_trained(trained):
    engine = load_engine(str(trained), solution=True, dtype="float32")
    answer = engine.answer(engine.encode("Ada had"), 5, engine.sampler(Sampling(temp=0)))
    assert isinstance("".join(answer.pieces), str)
    assert answer.tokens


def test_what_is_held_out_does_not_depend_on_the_others():
    every = stories(400)
    seen, unseen = split(every)
    assert set(seen) | set(unseen) == set(every)
    assert not set(seen) & set(unseen)
    assert 3 < len(unseen) < 30
    assert split(every[200:])[1] == [story for story in unseen if story in every[200:]]


def test_a_near_copy_judges_nobody():
    every = stories(40)
    copy, other = "Well. " + every[0], "A whole story about something else that nobody has told before. " * 5
    assert unseen([copy, other], every) == [other]


def test_requests_are_about_what_the_story_is_about():
    every = stories(300)
    things = words_for_things(every)
    assert set(WHAT) <= things
    assert not things & {"the", "had", "dug", "took", "one", "day,"}
    about = topics(every[0], things)
    thing = next(word for word in WHAT if word in every[0])
    assert about[0] == f"a {thing}"
    draw = random.Random(0)
    requests = [turns for turns in (conversation(every[0], about, draw) for _ in range(50)) if len(turns) == 2]
    assert all(turns[1] == ("assistant", every[0]) for turns in requests)
    assert sum(f"a {thing}" in turns[0][1] for turns in requests) > 20


def test_named_characters_and_adjectives():
    things = frozenset({"frog"})
    story = "Once there was a green frog called Hop. The frog had a friend, a girl named Mia. The frog and Mia swam."
    assert topics(story, things) == ["a frog", "a green frog", "a frog named Hop", "a girl named Mia"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("steps = 8", "steps = 8.5"), r"\[schedule\] steps = 8\.5: Input should be a valid integer"),
        (("steps = 8", "steps = -1"), r"\[schedule\] steps = -1: Input should be greater than or equal to 1"),
        (("betas = [0.9, 0.95]", 'betas = "x"'), r"\[schedule\] betas = 'x': Input should be a valid list"),
        (("seed = 3", "sed = 3"), r"\[schedule\] sed = 3: Extra inputs are not permitted"),
        (("seed = 3\n", ""), r"\[schedule\] seed: Field required"),
        (("context = 64", "context = 256"), "context must be below max_position_embeddings"),
        (("num_key_value_heads = 2", "num_key_value_heads = 3"), "num_attention_heads must be a multiple"),
        (("[model]", "[model"), "is not TOML"),
        (
            ("num_key_value_heads = 2", "num_key_value_heads = 0"),
            "num_key_value_heads = 0: Input should be greater than or equal to 1",
        ),
        (("every = 4", "every = 0"), "every = 0: Input should be greater than or equal to 1"),
        (("clip = 1.0", "clip = nan"), "clip = nan: Input should be a finite number"),
        (("betas = [0.9, 0.95]", "betas = [0.9]"), "List should have at least 2 items"),
        (("chat_share = 0.3", "chat_share = 1.5"), "chat_share = 1.5: Input should be less than or equal to 1"),
        (("head_dim = 32", "head_dim = 33"), "head_dim = 33: Input should be a multiple of 2"),
        (("[schedule]", "[[schedule]]"), r"\[schedule\]: Input should be a valid dictionary"),
    ],
)
def test_a_recipe_that_cannot_be_cooked_is_one_line(tmp_path, change, line):
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE.replace(*change), encoding="utf-8")
    with pytest.raises(UsageError, match=line):
        read_recipe(file)


def test_wrong_use_is_one_line(typed, text, recipe, trained, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Only one story.", encoding="utf-8")
    long = tmp_path / "recipe.toml"
    long.write_text(RECIPE.replace("context = 64", "context = 60000").replace("= 256", "= 60001"), encoding="utf-8")
    large = tmp_path / "large.toml"
    large.write_text(RECIPE.replace("vocab_size = 320", "vocab_size = 99000"), encoding="utf-8")
    latin = tmp_path / "latin.txt"
    latin.write_bytes("café".encode("latin-1"))
    pipe = tmp_path / "pipe"  # nobody writes to it
    os.mkfifo(pipe)
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "model.safetensors").write_bytes(b"")
    tries = {
        (tmp_path / "none.txt", "--out", out): "does not exist",
        (text,): "Missing option '--out'",
        (short, "--out", out): f"holds one story, expected several, with {END} between them",
        (latin, "--out", out): "is not UTF-8",
        (pipe, "--out", out): "is a pipe, expected a file",
        (text, "--out", out, "--recipe", pipe): "is a pipe, expected a file",
        (text, "--out", EMBEDDED_MODEL): "which holds the course's own models: choose another folder",
        (
            text,
            "--out",
            trained,
            "--recipe",
            recipe,
            "--seed",
            9,
        ): "holds a run with another recipe or text",
        (text, "--out", theirs, "--recipe", recipe): "already holds a model: choose another --out",
        (text, "--out", text / "x", "--recipe", recipe): "cannot be written to: Not a directory",
        (text, "--out", out, "--recipe", large): "The recipe's vocab_size is 99000, but the text gives",
        (text, "--out", out, "--recipe", long): "The text does not fill one row of 60000 tokens: add text, or lower",
    }
    for args, line in tries.items():
        code, _, said = typed("train", "--solution", "--cpu", *args)
        assert code == 2, args
        assert line in said
        assert all(line == "    pdm run train --help" for line in said.splitlines()[1:]), said
    assert not list(out.rglob("*.*"))


def test_a_damaged_checkpoint_is_skipped(text, recipe, trained, tmp_path):
    out = tmp_path / "model"
    shutil.copytree(trained, out)
    newest = out / "training" / "step-8.params.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    done = train(text, "--recipe", recipe, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "A checkpoint is damaged and not used: step-8.json" in done.stdout
    assert "Resumed at step 4 of 8." in done.stdout
    assert same_weights(out, trained)
    (out / "training" / "run.json").write_text("{", encoding="utf-8")
    done = train(text, "--recipe", recipe, "--out", out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot be read: delete" in done.stderr


def test_a_run_keeps_the_operators_that_it_began_with(text, recipe, trained, tmp_path):
    out = tmp_path / "model"
    shutil.copytree(trained, out)
    (out / "training" / "step-8.json").unlink()
    run = json.loads((out / "training" / "run.json").read_text(encoding="utf-8"))
    words = "fused, in C++ on all cores (5.4.5)" if run["fused"] else "of MLX"
    done = train(text, "--recipe", recipe, "--out", out)
    assert f"operators: {words}\n" in done.stdout
    assert same_weights(out, trained)
    (out / "training" / "run.json").write_text(json.dumps(run | {"fused": False}), encoding="utf-8")
    (out / "training" / "step-8.json").unlink()
    done = train(text, "--recipe", recipe, "--out", out)
    assert "operators: of MLX\n" in done.stdout


def test_documents_hold_every_story_once():
    every = stories(60)
    assert documents(every, 0.0, "5 0") == every
    told = documents(every, 0.5, "5 0")
    assert told == documents(every, 0.5, "5 0") != documents(every, 0.5, "5 1")
    assert [sum(story in text for text in told) for story in every] == [1] * len(every)
    assert 15 < sum(text.startswith("<|im_start|>user\n") for text in told) < 45


def test_a_loss_is_drawn():
    lines = in_characters([4.0, 2.0, 1.0, 0.0], width=4, height=2)
    assert [line[:4] for line in lines] == ["█   ", "██▄ "]
    assert lines[0].endswith("4.00")
    assert lines[1].endswith("0.00 now")
    assert in_characters([]) == []
    svg = as_svg({"training": [(1, 6.9), (2, 5.0)], "held out": [(2, 5.5)]})
    assert svg.count("<polyline") == 2
    assert "2 steps" in svg


def test_the_tokenizer_is_one_that_the_course_can_read(trained):
    engine = load_engine(str(trained), solution=True, dtype="float32")
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(trained / "tokenizer.json"))
    for text in (stories(1)[0], "Naïve  café\n\n42 🐸", "<|im_start|>user\nHi<|im_end|>\n"):
        assert engine.encode(text) == theirs.encode(text).ids
        assert theirs.decode(engine.encode(text), skip_special_tokens=False) == text


def test_a_story_file_is_read_without_repetitions(tmp_path):
    file = tmp_path / "s.txt"
    file.write_text(f"One.\n{END}\n\n{END} Two. {END}One.", encoding="utf-8")
    assert read_stories(file) == ["One.", "Two."]


def test_the_stories_that_judge_are_not_trained_on(tmp_path):
    file = tmp_path / "s.txt"
    mine = [f"Once upon a time there were {n} frogs in a pond." for n in range(40)]
    near_copy = shipped_stories()[3].replace("snail", "worm").upper()
    file.write_text(END.join([*mine, near_copy]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"s\.txt has stories of models/held-out-stories\.txt, which are reserved"):
        training_stories((file,))
    file.write_text(END.join(mine), encoding="utf-8")
    assert sorted([story for part in training_stories((file,)) for story in part]) == sorted(mine)
