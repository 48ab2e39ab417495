"""`generate` and `chat` as a shell runs them: what goes to stdout, what to stderr, and the exit codes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.course.checkpoint_folders import chatting, small

from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, environment
from tiny_llm_course.paths import ROOT

SUMMARY = r"{} tokens in \d+\.\d s, \d+\.\d tokens/s \(kv-cache, float32 weights as stored\); stopped: {}\n"


def command(*args) -> list[str]:
    return [sys.executable, "-m", "tiny_llm_course", *map(str, args)]


def run(*args, checkout: Path = ROOT, typed: str = "") -> subprocess.CompletedProcess[str]:
    """A command of the course, with its stdout and stderr apart."""
    env = environment(checkout)
    return subprocess.run(command(*args), cwd=checkout, env=env, input=typed, capture_output=True, text=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chatting(tmp_path_factory.mktemp("models") / "babbler", context=2000)


def generate(model, *args, **kwargs):
    return run("generate", "Once", "--model", model, "--max-tokens", 12, *args, **kwargs)


def test_the_text_goes_to_stdout_and_the_figures_to_stderr(model):
    first, again = (generate(model, "--solution", "--temp", 0) for _ in range(2))
    assert first.returncode == 0
    assert first.stdout == again.stdout
    assert first.stdout.startswith("Once")
    assert first.stdout.endswith("\n")
    assert re.fullmatch(SUMMARY.format(12, r"length limit \(12 tokens\)"), first.stderr)


def test_the_same_seed_gives_the_same_text(model):
    texts = [generate(model, "--solution", "--temp", 1, "--seed", seed).stdout for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_a_trained_model_tells_a_story(trial_model):
    done = run("generate", "Once upon a time", "--solution", "--model", trial_model, "--temp", 0, "--max-tokens", 16)
    assert done.returncode == 0
    assert done.stdout.startswith("Once upon a time, there was a")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["generate"], "Missing argument 'PROMPT'."),
        (["generate", "x", "--temp", "-1"], "Invalid value for '--temp': -1.0 is not in the range x>=0."),
        (["generate", "x", "--temp", "hot"], "Invalid value for '--temp': 'hot' is not a valid number."),
        (["generate", "x", "--top-p", "1.5"], "Invalid value for '--top-p': 1.5 is not in the range 0<=x<=1."),
        (["generate", "x", "--min-p", "-1"], "Invalid value for '--min-p': -1.0 is not in the range 0<=x<=1."),
        (["generate", "x", "--top-k", "-1"], "Invalid value for '--top-k': -1 is not in the range x>=0."),
        (["generate", "x", "--repetition-penalty", "0"], "Invalid value for '--repetition-penalty': 0.0 is not in the"),
        (["generate", "x", "--seed", "-1"], "Invalid value for '--seed': -1 is not in the range"),
        (["generate", "x", "--max-tokens", "0"], "Invalid value for '--max-tokens': 0 is not in the range x>=1."),
        (["generate", "x", "--dtype", "int8"], "Invalid value for '--dtype': 'int8' is not one of"),
        (["generate", "x", "--model", "no-such"], "no-such is neither a checkpoint folder nor a Hub id."),
        (["generate", "x", "--model", ""], "The empty name is neither a checkpoint folder nor a Hub id."),
        (["generate", "x", "--model", "~nobody-here/x y"], "~nobody-here/x y is neither a checkpoint folder nor"),
        (
            ["generate", "x", "--model", "pyproject.toml"],
            "pyproject.toml is not a folder; expected a checkpoint folder",
        ),
        (
            ["generate", "x", "--model", "MODEL", "--temp", "nan", "--solution"],
            "Invalid value for '--temp': nan is not a finite",
        ),
        (["generate", "", "--model", "MODEL", "--solution"], "The prompt is empty, but a model continues at least one"),
        (
            ["generate", "a b" * 999, "--model", "MODEL", "--solution"],
            "The prompt has 2997 tokens, but the model takes",
        ),
        (["generate", b"\xff", "--model", "MODEL", "--solution"], "The text is not UTF-8."),
        (["chat", "hello"], "Got unexpected extra argument (hello)"),
        (["chat", "--temp", "-1"], "Invalid value for '--temp': -1.0 is not in the range x>=0."),
    ],
    ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, list) else "",
)
def test_what_is_wrong_is_one_line(model, args, line):
    args = [os.fsdecode(a) if isinstance(a, bytes) else a for a in args]
    done = run(*(model if a == "MODEL" else a for a in args))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(line)
    assert all(line.startswith("    pdm run ") for line in done.stderr.splitlines()[1:])


def test_damaged_checkpoints_are_one_line_too(checkpoint):
    folder = checkpoint(small())
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    done = run("generate", "x", "--model", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{file} is truncated or damaged: it has ")
    assert done.stderr.count("\n") == 1


def test_a_model_without_a_template_does_not_chat(checkpoint):
    folder = checkpoint(small())
    done = run("chat", "--model", folder, "--solution")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{folder} has no chat template; it continues text: pdm run generate\n"


def test_closed_output_ends_quietly(model):
    """As in `pdm run generate ... | head -c 10`."""
    for both in (subprocess.PIPE, subprocess.STDOUT):
        args = ["generate", "Once", "--model", model, "--max-tokens", "400", "--solution"]
        process = subprocess.Popen(command(*args), cwd=ROOT, stdout=subprocess.PIPE, stderr=both)
        assert process.stdout
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert process.wait(30) == 141
        if process.stderr:
            assert process.stderr.read() == b""
            process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="not run here: needs /dev/full")
def test_a_full_disk_is_one_line(model):
    with Path("/dev/full").open("wb") as full:
        args = ["generate", "Once", "--model", model, "--solution"]
        done = subprocess.run(command(*args), cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"The output cannot be written: No space left on device.\n")


def test_ctrl_c_ends_the_text(model):
    args = ["generate", "Once", "--model", model, "--max-tokens", "400", "--solution"]
    process = subprocess.Popen(command(*args), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.read(10).startswith(b"Once")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out.endswith(b"\n")
    assert process.returncode == 130
    assert err.endswith(b"stopped: interrupted\n")
    assert err.count(b"\n") == 1


# --- the learner's engine

ENGINE = [f"1.{day}.{task}" for day in range(1, 8) for task in range(1, 9)]


def learners(**edits: Edit):
    """A checkout whose learner has solved the week, and then made these mistakes."""
    return checkout_for(Scenario("talk", (), solved=tuple(ENGINE), edits=tuple(edits.values())))


def test_the_first_stub_is_named(model):
    with checkout_for(Scenario("talk", ())) as checkout:
        done = generate(model, checkout=checkout)
        lines = (checkout / "src/tiny_llm/qwen3.py").read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.startswith("class Qwen3Model"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"not started: 1.5.3 The model, src/tiny_llm/qwen3.py:{line} (with --solution, ours runs). Your next step:\n"
        "    pdm run status\n"
    )


MISTAKES = {
    "raises": (
        Edit("basics.py", "\n\ndef silu(x):\n    raise ValueError('not\\nmine')\n"),
        ["src/tiny_llm: raised ValueError: not", "  src/tiny_llm/generate.py:", "  src/tiny_llm/qwen3.py:"],
        "raise ValueError('not\\nmine')",
    ),
    "syntax": (Edit("attention.py", "\n\ndef broken(:\n"), ["src/tiny_llm/attention.py:"], " is not Python: "),
    "exits": (
        Edit("sampler.py", "\n\nraise SystemExit(3)\n"),
        ["src/tiny_llm: your code left the program"],
        "raise Sys",
    ),
    "no numbers": (
        Edit("basics.py", "\n\ndef silu(x):\n    return x * mx.nan\n"),
        ["src/tiny_llm: the logits are NaN"],
        "the logits are NaN or infinite",
    ),
    "no name": (
        Edit("sampler.py", "\n\ndel make_sampler\n"),
        ["src/tiny_llm"],
        "src/tiny_llm/sampler.py defines no make",
    ),
    "not a list": (
        Edit("tokenizer.py", "\n\nByteLevelBPE.encode = lambda self, text: None\n"),
        ["src/tiny_llm gave the engine something that it cannot use: TypeError: ByteLevelBPE.encode returned NoneType"],
        "ints",
    ),
    "no text": (
        Edit("tokenizer.py", "\n\nStreamingDetokenizer.add = lambda self, token: None\n"),
        ["src/tiny_llm gave the engine something that it cannot use: TypeError: StreamingDetokenizer returned None"],
        "str",
    ),
    "no iterator": (
        Edit("generate.py", "\n\ndef generate_tokens(*args, **kwargs):\n    pass\n"),
        ["src/tiny_llm gave the engine something that it cannot use: TypeError: 'NoneType' object is not iterable"],
        "iterable",
    ),
}


@pytest.fixture(scope="module")
def solved():
    with learners() as checkout:
        yield checkout


def test_the_learners_engine_is_the_default(solved, model):
    same = ["--solution", "--stage", "kv-cache"]
    mine, ours = (generate(model, "--temp", 0, *args, checkout=solved) for args in ([], same))
    assert (mine.returncode, mine.stdout) == (0, ours.stdout)


@pytest.mark.parametrize(("edit", "starts", "end"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_the_learners_own_lines(solved, model, edit, starts, end):
    file = solved / "src" / "tiny_llm" / edit.file
    before = file.read_text()
    file.write_text(before + edit.put)
    try:
        done = generate(model, checkout=solved)
    finally:
        file.write_text(before)
    assert done.returncode == 1
    *lines, heading, command = done.stderr.splitlines()
    assert (heading, command) == ("What the tests say:", "    pdm run test")
    assert lines[0].startswith(starts[0])
    assert all(line.startswith("  src/tiny_llm/") or line == "  ..." for line in lines[1:])
    for start, line in zip(starts[1:], lines[1:], strict=False):
        assert line.startswith(start)
    assert end in lines[-1]
