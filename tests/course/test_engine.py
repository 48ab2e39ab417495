"""The engine's parts that need no terminal: finding a model, the settings of a checkpoint, how an answer ends."""

import sys
import types

import mlx.core as mx
import pytest
from tests.course.checkpoint_folders import small

from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine import engine as engine_module
from tiny_llm_course.engine.engine import Sampling, find_model, load_engine
from tiny_llm_course.programs.packages import LearnerError


def hub(answer):
    """Stands where huggingface_hub would stand."""
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = answer
    return module


def test_a_folder_comes_before_the_hub(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(lambda *args, **kwargs: pytest.fail("it was asked")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-0.6B").mkdir(parents=True)
    assert find_model("Qwen/Qwen3-0.6B").resolve() == tmp_path / "Qwen" / "Qwen3-0.6B"


def test_a_folder_of_ones_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    assert find_model("~/models") == tmp_path / "models"


def test_an_id_is_asked_of_the_hub(tmp_path, monkeypatch):
    asked = []

    def download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(download))
    assert find_model("Qwen/Qwen3-0.6B") == tmp_path
    assert asked == [("Qwen/Qwen3-0.6B", ["*.json", "*.safetensors", "*.jinja"])]


def test_no_hub_is_one_line(monkeypatch):
    def download(*args, **kwargs):
        raise ConnectionError("no network\nand a long story")

    monkeypatch.setitem(sys.modules, "huggingface_hub", hub(download))
    with pytest.raises(UsageError, match=r"^Qwen/Qwen3 is not a folder, and cannot be downloaded from the Hub: no"):
        find_model("Qwen/Qwen3")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"^There is no folder Qwen/Qwen3\. .* install huggingface_hub.*$"):
        find_model("Qwen/Qwen3")


@pytest.mark.parametrize("name", ["", "nowhere", "/no/such/folder", "a/b/c", "~nobody-here/x y", "x" * 5000, "a\0b"])
def test_what_can_be_neither_is_refused(name):
    with pytest.raises(UsageError, match="is neither a checkpoint folder nor a Hub id"):
        find_model(name)


def test_no_embedded_model_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "ROOT", tmp_path)
    monkeypatch.setattr(engine_module, "EMBEDDED_MODEL", tmp_path / "models" / "none")
    with pytest.raises(
        UsageError, match=r"^models/none is missing: restore it with `git checkout models/none`, .* --model\.$"
    ):
        find_model(None)
    (tmp_path / "models" / "none").mkdir(parents=True)
    assert find_model(None) == tmp_path / "models" / "none"


def test_the_dtype_that_is_asked_for(checkpoint):
    folder = checkpoint(small())
    for name, dtype in engine_module.DTYPES.items():
        loaded = load_engine(str(folder), True, name)
        assert {weight.dtype for weight in loaded.checkpoint.weights.values()} == {dtype}
        assert loaded.model(mx.array([[1, 2]])).dtype == dtype


def peaked(folder):
    """An engine, and logits whose likeliest tokens have probabilities of 0.6, 0.3 and 0.1."""
    return load_engine(str(folder), True, "float32"), mx.log(mx.array([[0.6, 0.3, 0.1]]))


def drawn(sampler, logits):
    return {sampler(logits, [[]]).item() for _ in range(60)}


def test_the_checkpoints_own_settings_and_what_is_given_instead(checkpoint):
    engine, logits = peaked(checkpoint(small(), generation={"temperature": 1.0, "top_k": 2}))
    assert drawn(engine.sampler(Sampling(seed=1)), logits) == {0, 1}
    assert drawn(engine.sampler(Sampling(seed=1, top_k=0)), logits) == {0, 1, 2}
    assert drawn(engine.sampler(Sampling(temp=0)), logits) == {0}
    assert drawn(peaked(checkpoint(small(), generation={"do_sample": False}))[0].sampler(Sampling()), logits) == {0}


def test_settings_out_of_range_are_one_line(checkpoint):
    with pytest.raises(
        UsageError, match=r"generation_config\.json has temperature = -1, expected a number of at least 0"
    ):
        peaked(checkpoint(small(), generation={"temperature": -1}))


class Script:
    """A sampler that says what is to be said."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    def __call__(self, logits, tokens):
        return mx.array([self.tokens.pop(0)])


LETTER_A, FIRST_OF_E_ACUTE, IM_START, IM_END, THINK, NOBODYS = 32, 127, 260, 261, 262, 270


@pytest.mark.parametrize(
    ("tokens", "text", "count", "stopped"),
    [
        ([LETTER_A, IM_END], "A", 1, "end of text"),
        ([IM_END], "", 0, "end of text"),
        ([LETTER_A] * 3, "AAA", 3, "length limit (3 tokens)"),
        ([THINK, IM_START, NOBODYS], "<think>", 3, "length limit (3 tokens)"),
        ([FIRST_OF_E_ACUTE, IM_END], "\ufffd", 1, "end of text"),
    ],
)
def test_how_an_answer_ends(checkpoint, tokens, text, count, stopped):
    engine = load_engine(str(checkpoint(small(), config={"eos_token_id": IM_END})), True, "float32")
    answer = engine.answer([1, 2], 3, Script(*tokens))
    assert answer.stopped == "interrupted"
    assert "".join(answer.pieces) == text
    assert (answer.tokens, answer.stopped) == (count, stopped)
    assert answer.summary().startswith(f"{count} token{'s' * (count != 1)} in ")


def test_logits_that_are_no_numbers_are_told_and_not_spoken(checkpoint):
    model = small()
    norm = "model.layers.1.input_layernorm.weight"
    for value in (mx.nan, mx.inf):
        folder = checkpoint(model.with_weights(**{norm: mx.full((64,), value)}))
        engine = load_engine(str(folder), True, "float32")
        with pytest.raises(LearnerError, match=f"^{folder}: the logits are NaN or infinite, as {norm} has NaN"):
            list(engine.answer([1, 2], 3, engine.sampler(Sampling())).pieces)
    folder = checkpoint(model.with_weights(**{norm: mx.full((64,), 60000.0)}))
    engine = load_engine(str(folder), True, "float16")
    with pytest.raises(LearnerError, match=r"in float16, whose largest number is 65504; try --dtype float32$"):
        list(engine.answer([1, 2], 3, engine.sampler(Sampling())).pieces)
    engine = load_engine(str(folder), True, "float32", "week1")  # whose model is a function of tokens
    answer = engine.answer([1, 2], 3, engine.sampler(Sampling()))
    list(answer.pieces)
    assert answer.stopped == "length limit (3 tokens)"
    engine.model = lambda tokens: mx.full((*tokens.shape, 9), mx.nan)
    with pytest.raises(LearnerError, match=r"^solutions/tiny_llm: the logits are NaN or infinite$"):
        list(engine.answer([1, 2], 3, engine.sampler(Sampling())).pieces)
    engine.model = lambda tokens: mx.concatenate([mx.zeros((1, 1, 9)), mx.full((1, 1, 9), -mx.inf)], axis=-1)
    assert len(list(engine.answer([1], 1, engine.sampler(Sampling())).pieces)) == 2, "-inf only rules tokens out"


def test_an_answer_ends_where_the_context_does(checkpoint):
    engine = load_engine(str(checkpoint(small(), config={"max_position_embeddings": 10})), True, "float32")
    answer = engine.answer([1] * 8, 50, Script(*[LETTER_A] * 9))
    assert "".join(answer.pieces) == "AA"
    assert answer.stopped == "the context is full (10 tokens)"
    for length, words in ((0, "The prompt is empty"), (10, "The prompt has 10 tokens, but .* fewer than 10")):
        with pytest.raises(UsageError, match=words):
            engine.answer([1] * length, 50, Script())
