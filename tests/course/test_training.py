"""`pdm run train`: what it reads, how it packs it, and that a run ends the same whether it was stopped or not."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT

torch = pytest.importorskip("torch", reason="not run here: PyTorch is not installed")
pytest.importorskip("tokenizers", reason="not run here: tokenizers is not installed")

from tokenizers import Tokenizer  # noqa: E402

from tiny_llm_course.training.packing import (  # noqa: E402
    Packer,
    conversation,
    held_out,
    topics,
    train_tokenizer,
    words_for_things,
)
from tiny_llm_course.training.preparing import training_stories  # noqa: E402
from tiny_llm_course.training.qwen3_torch import optimizers, share_of_peak  # noqa: E402
from tiny_llm_course.training.recipe import read_recipe  # noqa: E402
from tiny_llm_course.training.stories import read_stories, split, unseen  # noqa: E402

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
context = 64
muon_learning_rate = 0.02
learning_rate = 0.01
final_share = 0.1
warmup = 2
weight_decay = 0.1
betas = [0.9, 0.95]
clip = 1.0
dropout = 0.1
chat_share = 0.3
teacher_share = 0.0
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
    return [sys.executable, "-m", "tiny_llm_course", "train", "--device", "cpu", *map(str, args)]


def train(*args, **env) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def trained(text, recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    done = train(text, "--recipe", recipe, "--out", out, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "step 4: loss" in done.stdout
    assert re.search(r"step 8: loss [\d.]+, held out [\d.]+, [\d.]+ bits per byte; 0 seconds left\n", done.stdout)
    assert re.search(r"Done in \d+ seconds of training\.", done.stdout)
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
    assert train(text, "--recipe", half, "--out", whole, "--workers", 1).returncode == 0
    run = subprocess.Popen(
        command(text, "--recipe", half, "--out", out, "--workers", 1), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout
    for line in run.stdout:
        if line.startswith("step 2:"):
            run.send_signal(signal.SIGINT)
            break
    rest = run.stdout.read()
    assert run.wait() == 130
    stopped = re.search(r"Stopped at step (\d+)\. Run the same command to resume\.", rest)
    assert stopped, rest
    resumed = train(text, "--recipe", half, "--out", out, "--workers", 1)
    assert resumed.returncode == 0
    assert int(stopped[1]) < 16, "it was to be stopped before its end"
    assert f"Resumed at step {stopped[1]} of 16." in resumed.stdout
    assert same_weights(whole, out)
    assert log(out) == log(whole)
    assert [entry["step"] for entry in log(out)] == list(range(2, 17, 2))


def test_two_processes_learn_what_one_learns(text, recipe, trained, tmp_path):
    calm = tmp_path / "recipe.toml"
    calm.write_text(RECIPE.replace("dropout = 0.1", "dropout = 0.0"), encoding="utf-8")
    outs = [tmp_path / f"by{n}" for n in (1, 2)]
    for n, out in enumerate(outs, start=1):
        done = train(text, "--recipe", calm, "--out", out, "--workers", n)
        assert done.returncode == 0, done.stderr
    one, two = ([entry["loss"] for entry in log(out)] for out in outs)
    assert np.allclose(one, two, atol=0.02)
    assert not same_weights(outs[0], trained), "dropout changes what is learned, or this compares nothing"


def log(folder: Path) -> list[dict[str, float]]:
    entries: list[dict[str, float]] = json.loads((folder / "training" / "record.json").read_text("utf-8"))["log"]
    return entries


def test_it_learns(text, recipe, tmp_path):
    out = tmp_path / "model"
    done = train(text, "--recipe", recipe, "--out", out, "--workers", 1, "--steps", 40)
    assert done.returncode == 0, done.stderr
    losses = [entry["held_out_loss"] for entry in log(out)]
    assert losses[-1] < 2.5 < losses[0]


def test_a_student_learns_from_a_teacher(text, trained, tmp_path):
    out, recipe = tmp_path / "student", tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace("teacher_share = 0.0", "teacher_share = 0.5"), encoding="utf-8")
    done = train(text, "--recipe", recipe, "--out", out, "--workers", 1, "--teacher", trained)
    assert done.returncode == 0, done.stderr
    assert (out / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert not same_weights(trained, out)


def test_the_course_s_engine_runs_what_was_trained(trained):
    engine = load_engine(str(trained), solution=True, dtype="float32")
    answer = engine.answer(engine.encode("Ada had"), 5, engine.sampler(Sampling(temp=0)))
    assert isinstance("".join(answer.pieces), str)
    assert answer.tokens


def test_logits_are_those_of_the_trainer(trained):
    from tiny_llm_course.training.qwen3_torch import Qwen3
    from tiny_llm_course.training.trainer import load_weights

    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    model = Qwen3(config)
    load_weights(trained, model)
    tokens = np.random.default_rng(0).integers(0, config["vocab_size"], (2, 40))
    with torch.no_grad():
        expected = model(torch.from_numpy(tokens)).numpy()
    logits = load_engine(str(trained), solution=True, dtype="float32", stage="kv-cache").logits(mx.array(tokens))
    assert np.abs(np.array(logits) - expected).max() < 1e-4


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


def test_an_epoch_holds_every_story_once_and_is_the_same_again():
    every = stories(60)
    tokenizer = train_tokenizer(every, 320)
    packer = Packer(every, tokenizer, context=32, chat_share=0.0, seed=5)
    rows = packer.epoch(0)
    assert rows.shape[1] == 33
    assert np.array_equal(rows, packer.epoch(0))
    assert not np.array_equal(rows, packer.epoch(1)[: len(rows)])
    tokens = [token for encoding in tokenizer.encode_batch(every) for token in encoding.ids]
    assert len(rows) == (len(tokens) + len(every)) // 32
    # Each token is predicted once, but for the few at the end that fill no row.
    end = tokenizer.token_to_id(END)
    wanted = np.bincount([*tokens, *[end] * len(every)], minlength=320)
    missing = wanted - np.bincount(rows[:, 1:].ravel(), minlength=320)
    assert missing.min() >= 0
    assert missing.sum() < 32
    ordered = Packer(every[:1], tokenizer, context=8, chat_share=0.0, seed=5).epoch(0)
    text = tokenizer.decode(sorted(ordered.tolist(), key=lambda r: r)[0], skip_special_tokens=False)
    assert text in f"{END}{every[0]}{END}"


def test_bits_per_byte_leave_the_tokenizer_out():
    """A model that gives every byte one in 256 has 8 bits a byte, whatever the tokens."""
    every = stories(10)
    judges = held_out(every, train_tokenizer(every, 320), 10_000)
    bytes_in_rows = judges.bytes
    assert bytes_in_rows == sum(len(story.encode()) for story in every)
    predicted = sum(len(row) - 1 for row in judges.rows)
    assert judges.bits_per_byte(np.log(256) * bytes_in_rows / predicted) == pytest.approx(8)


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


def test_the_learning_rate_rises_and_falls(recipe):
    schedule = read_recipe(recipe, steps=100, warmup=10).schedule
    shares = [share_of_peak(step, schedule) for step in range(100)]
    assert shares[0] == pytest.approx(0.1)
    assert max(shares) == shares[10] == shares[9] == 1
    assert shares[10:] == sorted(shares[10:], reverse=True)
    assert schedule.final_share < shares[-1] < schedule.final_share + 0.01


@pytest.mark.parametrize(("muon", "kinds"), [(0.02, ["Muon", "AdamW"]), (0.0, ["AdamW"])])
def test_every_weight_has_one_optimizer(recipe, muon, kinds):
    from tiny_llm_course.training.qwen3_torch import Qwen3

    read = read_recipe(recipe, muon_learning_rate=muon)
    model = Qwen3(read.architecture.config())
    found = optimizers(model, read.schedule)
    assert [type(optimizer).__name__ for optimizer in found] == kinds
    held = [id(w) for optimizer in found for group in optimizer.param_groups for w in group["params"]]
    assert sorted(held) == sorted(id(w) for w in model.parameters())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("steps = 8", "steps = 8.5"), r"\[schedule\] steps = 8\.5, expected a whole number, not below 1"),
        (("steps = 8", "steps = -1"), r"\[schedule\] steps = -1, expected a whole number"),
        (("betas = [0.9, 0.95]", 'betas = "x"'), r"\[schedule\] betas = 'x', expected numbers"),
        (("seed = 3", "sed = 3"), r"\[schedule\] has sed; known are seed, steps"),
        (("seed = 3\n", ""), r"\[schedule\] lacks seed"),
        (("context = 64", "context = 256"), "context must be below max_position_embeddings"),
        (("num_key_value_heads = 2", "num_key_value_heads = 3"), "num_attention_heads must be a multiple"),
        (("[model]", "[model"), "is not TOML"),
        (
            ("num_key_value_heads = 2", "num_key_value_heads = 0"),
            "num_key_value_heads = 0, expected a whole number, not",
        ),
        (("every = 4", "every = 0"), "every = 0, expected a whole number, not below 1"),
        (("clip = 1.0", "clip = nan"), "clip = nan, expected a number"),
        (("betas = [0.9, 0.95]", "betas = [0.9]"), "betas must be two numbers below 1"),
        (("dropout = 0.1", "dropout = 1.5"), "dropout and the shares must be at most 1"),
        (("head_dim = 32", "head_dim = 33"), "head_dim must be even"),
        (("[schedule]", "[[schedule]]"), r"expected a table \[schedule\]"),
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
        ): "holds a run with another recipe, text, tokenizer or",
        (text, "--out", theirs, "--recipe", recipe): "already holds a model: choose another --out",
        (text, "--out", text / "x", "--recipe", recipe): "cannot be written to: Not a directory",
        (text, "--out", out, "--recipe", recipe, "--teacher", trained): "so --teacher would have no effect",
        (text, "--out", out, "--recipe", EMBEDDED_MODEL.parent / "tiny-qwen3-draft" / "recipe.toml"): "with --teacher",
        (text, "--out", out): "The recipe's vocab_size is 2048, but the text gives",
        (text, "--out", out, "--recipe", long): "The text does not fill one row of 60000 tokens: add text, or lower",
    }
    for args, line in tries.items():
        code, _, said = typed("train", "--device", "cpu", *args, "--workers", 2)
        assert code == 2, args
        assert line in said
        assert all(line == "    pdm run train --help" for line in said.splitlines()[1:]), said
    assert not list(out.rglob("*.*"))


def test_a_damaged_checkpoint_is_one_line(text, recipe, tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "checkpoint.pt").write_bytes(b"not a checkpoint")
    done = train(text, "--recipe", recipe, "--out", tmp_path, "--workers", 2)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot be read" in done.stderr
    assert "delete it to start over" in done.stderr


def test_the_tokenizer_is_one_that_the_course_can_read(trained):
    engine = load_engine(str(trained), solution=True, dtype="float32")
    theirs = Tokenizer.from_file(str(trained / "tokenizer.json"))
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


def test_stopping_ends_every_process(text, recipe, tmp_path):
    run = subprocess.Popen(
        command(text, "--recipe", recipe, "--out", tmp_path / "out", "--workers", 2, "--steps", 100000),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert run.stdout
    assert run.stderr
    assert any(line.startswith("step 4:") for line in run.stdout)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does it
    run.stdout.read()
    assert run.stderr.read() == ""
    assert run.wait(30) == 130
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process of the run is left")
