"""`pdm run attention`: the weights are the engine's own, and every way to see them shows the same numbers."""

import json
import os
import re
import subprocess
import sys
import time

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import small

from tiny_llm_course.commands.attention.pictures import drawing, page
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, environment
from tiny_llm_course.engine.attention_maps import ATTENTION, WITH_WEIGHTS, AttentionMaps, attention_maps, visible
from tiny_llm_course.engine.engine import Engine, load_engine
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import LearnerError, installed, program
from tiny_llm_course.terminal import tables as heat

pytestmark = pytest.mark.maintainers
TEXT = "That is a blue dog"
ENGINE_OF_WEEK_1 = load_course().stages()[0].name
DONE = ("1.1.1", "1.1.2", "1.1.3", "1.2.1", "1.2.2", "1.3.1", "1.3.2", "1.3.3", "1.4.1", "1.4.2", "1.4.3", "1.5.1",
        "1.5.2", "1.5.3", "1.6.1", "1.6.2", "1.6.3", "1.6.4")  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load_engine(None, True, "float32", ENGINE_OF_WEEK_1)


@pytest.fixture(scope="module")
def looks(engine) -> AttentionMaps:
    return attention_maps(engine, TEXT)


def run(*words, checkout=ROOT, **more):
    command = [sys.executable, "-m", "tiny_llm_course", "attention", *map(str, words)]
    env = {**environment(checkout), **more}
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, encoding="utf-8")


# The weights


def test_rows_sum_to_one_and_nobody_looks_ahead(looks):
    assert looks.weights.shape == (6, 6, 5, 5)
    assert np.allclose(looks.weights.sum(axis=-1), 1, atol=1e-5)
    assert (np.triu(looks.weights, k=1) == 0).all()
    assert looks.names == TEXT.split()


def test_the_logits_are_those_of_the_engine(engine, looks):
    assert mx.array_equal(looks.logits, engine.logits(mx.array([engine.encode(TEXT)]))[0])


def test_weights_times_values_are_the_engines_own_output(engine, looks):
    """In every layer; and when the engine runs on these outputs, its logits are what they were."""
    target, layers = load_course().task(ATTENTION).program, []
    own = program(target, engine.package_name)

    def by_weights(query, key, value, *args, **kwargs):
        weights = mx.array(looks.weights[len(layers)])[None]
        output = weights @ mx.repeat(value, query.shape[1] // value.shape[1], axis=1)
        layers.append(mx.max(mx.abs(output - own(query, key, value, *args, **kwargs))).item())
        return output

    with installed(target, by_weights, engine.package_name):
        logits = engine.logits(mx.array([engine.encode(TEXT)]))[0]
    assert len(layers) == 6
    assert max(layers) < 1e-4
    assert mx.allclose(logits, looks.logits, rtol=1e-4, atol=1e-3)


def test_the_head_of_the_book(looks):
    """Layer 3, head 0: the row of `dog` that day 1 of week 1 computes, from rounded queries and keys."""
    assert np.allclose(looks.weights[3, 0, 4], [0.0205, 0.0530, 0.4005, 0.4777, 0.0483], atol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_models_and_dtypes(checkpoint, dtype):
    """Heads that share keys otherwise, a head dimension that is not E / H, Qwen3 with norms."""
    engine = load_engine(str(checkpoint(small())), True, dtype, ENGINE_OF_WEEK_1)
    config = engine.checkpoint.config
    found = attention_maps(engine, "the one")
    shape = (config["num_hidden_layers"], config["num_attention_heads"], len(found.tokens), len(found.tokens))
    assert found.weights.shape == shape
    assert np.allclose(found.weights.sum(axis=-1), 1, atol=0.02)


@pytest.mark.parametrize("wrong", [
    ("what it gives", lambda given: given[0], "returned a mlx.core.array, expected a tuple: output, weights"),
    ("one head's weights", lambda given: (given[0], given[1][:, :1]), "returned weights that are 1 x 1 x 5 x 5"),
    ("another output", lambda given: (2 * given[0], given[1]), "returns another output in layer 0 than task 1.3.2"),
], ids=lambda wrong: wrong[0])  # fmt: skip
def test_weights_that_are_not_the_engines_are_refused(engine, wrong):
    _, change, words = wrong
    target = load_course().task(WITH_WEIGHTS).program
    own = program(target, engine.package_name)
    with installed(target, lambda *args, **kwargs: change(own(*args, **kwargs)), engine.package_name):  # noqa: SIM117
        with pytest.raises(LearnerError, match=re.escape(words)):
            attention_maps(engine, TEXT)


# What a terminal shows


def test_all_layers_and_heads_in_lines_that_fit():
    done = run(TEXT, "--solution")
    assert done.returncode == 0
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line.startswith("Layer")] == [f"Layer {i}" for i in range(6)]
    assert done.stdout.count("head 5") == 6
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if re.match(r" +(head|1)|\d ", line))
    assert "\x1b" not in done.stdout


def test_numbers_in_place_of_shades(looks):
    done = run(TEXT, "--solution", "--layer", 3, "--head", 0, "--numbers")
    rows = [line.split()[2:] for line in done.stdout.splitlines() if re.match(r"\d ", line)]
    assert rows[4] == [f"{weight:.2f}" for weight in looks.weights[3, 0, 4]]
    assert rows[0] == [f"{looks.weights[3, 0, 0, 0]:.2f}", "·", "·", "·", "·"]


def test_a_shade_for_each_number():
    table = [[1.0, 0, 0, 0, 0], [0.02, 0.98, 0, 0, 0], [0.2, 0.3, 0.5, 0, 0], [0.06, 0.74, 0.1, 0.1, 0], [0.2] * 5]
    lines = heat.maps([("head 0", table)], list("abcde"), 80)
    assert lines[:5] == [
        "     head 0",
        "      1 2 3 4 5",
        "1 a  ██ · · · ·",
        "2 b    ██ · · ·",
        "3 c  ░░▒▒▓▓ · ·",
    ]
    assert heat.maps([("head 0", table)], list("abcde"), 80, shades=heat.PLAIN)[3] == "2 b    ## - - -"
    many = heat.maps([("head 0", [[0.0] * 12] * 12)], list("abcdefghijkl"), 80)
    assert many[1] == "       1 2 3 4 5 6 7 8 9 0 1 2"
    assert many[-1].startswith("12 l")


def test_as_many_maps_beside_each_other_as_fit():
    tables = [(f"head {i}", [[1.0, 0], [0.5, 0.5]]) for i in range(5)]
    names = ["a", "a long name of a token"]
    for width in range(22, 80):
        lines = heat.maps(tables, names, width)
        assert max(map(len, lines)) <= width
        assert sum(line.count("head") for line in lines) == 5
    assert heat.maps(tables, names, 21) == []
    assert lines[3].startswith("2 a long name…")


def test_a_terminal_without_blocks_gets_other_signs():
    done = run(TEXT, "--solution", "--layer", 0, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "?" not in done.stdout
    assert "## - - - -" in done.stdout


@pytest.mark.parametrize(
    ("token", "shown"),
    [(" dog", "dog"), (" ", "␣"), ("\n", "␊"), ("\t", "␉"), ("", "∅"), ("a b", "a b"), ("\x1b[2J", "␛[2J")],
)
def test_a_token_is_one_line_of_visible_letters(token, shown):
    assert visible(token) == shown


# Files


def test_the_drawing(looks, tmp_path):
    file = tmp_path / "heads.svg"
    assert run(TEXT, "--solution", "--svg", file).returncode == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<svg ")
    assert text == drawing(looks, list(range(6)), list(range(6)), TEXT)
    assert text.count("<circle") == 36 * 10  # what is hidden
    one = drawing(looks, [3], [0], "<&>")
    assert one.count("<circle") == 10
    assert "Attention weights: &lt;&amp;&gt;" in one
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_the_page_holds_all_weights_and_asks_for_nothing(looks, tmp_path):
    file = tmp_path / "heads.html"
    done = run(TEXT, "--solution", "--layer", 3, "--head", 0, "--html", file)
    assert done.returncode == 0
    assert done.stdout.endswith(f"The page of all heads: {file}\n")
    text = file.read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text)[1])
    assert data["tokens"] == TEXT.split()
    assert (data["layers"], data["heads"], data["first"]) == (6, 6, 18)
    rows = np.tril_indices(5)
    assert np.allclose(np.array(data["weights"]).reshape(6, 6, 15) / 1e5, looks.weights[:, :, *rows], atol=1e-5)
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_what_a_text_says_is_no_part_of_the_page(looks):
    text = page(
        AttentionMaps(("</script><b>", *looks.tokens[1:]), looks.weights, looks.logits), "</title><script>{DATA}", "<i>"
    )
    assert "</title><script>" not in text
    assert "<b>" not in text
    assert text.count("</script>") == 2
    assert "Attention weights: &lt;/title&gt;&lt;script&gt;{DATA}</title>" in text


def test_files_are_written_over_only_if_they_are_ours(tmp_path):
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    for _ in range(2):
        assert run("a dog", "--solution", "--svg", svg, "--html", html).returncode == 0
    for option, file in (("--svg", svg), ("--html", html)):
        file.write_text("mine", encoding="utf-8")
        done = run("a dog", "--solution", option, file)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert file.read_text(encoding="utf-8") == "mine"


# Wrong use, and a learner's engine


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'TEXT'."),
        ([""], "The text is empty, but attention needs at least one token."),
        ([TEXT, "--layer", "6"], "There is no layer 6: the model has layers 0 to 5."),
        ([TEXT, "--head", "9"], "There is no head 9: the model has heads 0 to 5."),
        ([TEXT, "--layer", "-1"], "Invalid value for '--layer': -1 is not in the range x>=0."),
        ([("dog " * 99).strip()], "The text has 100 tokens, and a picture holds at most 64."),
        ([("dog " * 40).strip()], "A map of 41 tokens needs 90 columns; the terminal has 80."),
        ([TEXT, "--model", "no-such"], "no-such is neither a checkpoint folder nor a Hub id."),
        ([TEXT, "--svg", "no/folder/x.svg"], "no/folder/x.svg cannot be written"),
        ([b"\xff"], "The text is not UTF-8."),
    ],
)
def test_one_line_on_what_is_wrong(words, said):
    command = [sys.executable, "-m", "tiny_llm_course", "attention", *words, "--solution"]
    done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr


def test_a_text_too_wide_for_the_terminal_can_be_a_page(tmp_path):
    done = run(("dog " * 40).strip(), "--solution", "--html", tmp_path / "x.html")
    assert done.returncode == 0
    assert "A map of 41 tokens needs 90 columns; the terminal has 80." in done.stdout
    assert (tmp_path / "x.html").stat().st_size > 10_000


def test_too_many_squares_for_a_drawing(looks):
    wide = AttentionMaps(("a",) * 64, np.zeros((6, 6, 64, 64), np.float32), looks.logits)
    with pytest.raises(UsageError, match="--layer or --head"):
        drawing(wide, list(range(6)), list(range(6)), "a")


def test_a_learners_engine_needs_week_1_and_the_task():
    with checkout_for(Scenario("nothing", typed=(""))) as checkout:
        done = run(TEXT, checkout=checkout)
        assert done.returncode == 1
        assert done.stderr.startswith("not started: 1.")
    with checkout_for(Scenario("week 1", typed=(""), solved=DONE)) as checkout:
        done = run(TEXT, checkout=checkout)
        assert done.returncode == 1
        assert done.stderr.startswith("not started: 4.2.4 Attention that returns its weights")


def test_a_learners_weights():
    edit = Edit("fused_qkv/attention.py", find="dims**-0.5 if", put="dims ** (-1 / 2) if")
    solved = (*DONE, "4.2.3", "4.2.4")
    with checkout_for(Scenario("done", typed=(""), solved=solved, edits=(edit,))) as checkout:
        done, ours = (run(TEXT, *words, checkout=checkout) for words in ((), ("--solution",)))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[1:] == ours.stdout.splitlines()[1:]
        assert "(tiny-qwen3, src/tiny_llm)" in done.stdout
    edit = Edit("fused_qkv/attention.py", find="dims**-0.5 if", put="1.0 if")
    with checkout_for(Scenario("wrong", typed=(""), solved=solved, edits=(edit,))) as checkout:
        done = run(TEXT, checkout=checkout)
        assert done.returncode == 1
        assert done.stderr == (
            "Task 4.2.4 returns another output in layer 0 than task 1.3.2: these are not the engine's weights\n"
            "What the tests say:\n    pdm run test 1.3.2 4.2.4\n"
        )


def test_it_is_there_in_three_seconds_of_work():
    """Of the processor's time: others may use it at the same moment."""
    before = os.times()
    started = time.perf_counter()
    assert run(TEXT, "--solution").returncode == 0
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert min(spent, time.perf_counter() - started) < 3
