"""Checkpoint folders, loaded by us and by mlx-lm: the same logits, and the same texts.

For maintainers and CI, which have mlx-lm; a learner's installation has not.
"""

import importlib.util

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import quantized, small
from tests.week1.reference_model import QWEN3, QWEN25, random_tokens

from tiny_llm_course.engine.engine import Engine, Sampling, load_engine
from tiny_llm_course.testkit.rounding import to_float64

TABLE = "model.embed_tokens.weight"
by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


@pytest.fixture(autouse=True)
def on_the_cpu():
    """The one device that every machine has, with the same arithmetic everywhere."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def theirs(folder, dtype=mx.float32):
    if importlib.util.find_spec("mlx_lm") is None:
        pytest.skip("not run here: mlx_lm is not installed (pdm run dev-setup)")
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    model.set_dtype(dtype)
    return model


def ours(folder) -> Engine:
    return load_engine(str(folder), solution=True, dtype="float32", stage="kv-cache")


def model_of(base, tied, dtype=mx.float32):
    """Small embeddings: a tied head that meets large ones at its end repeats the last token for ever."""
    model = small(base, seed=2, dtype=dtype, tie_word_embeddings=tied)
    return model.with_weights(**{TABLE: 0.2 * model.weights[TABLE]})


def their_text(model, prompt):
    """mlx-lm's own 64 tokens, with its cache."""
    from mlx_lm.generate import generate_step

    return [token for token, _ in generate_step(mx.array(prompt), model, max_tokens=64)]


def assert_same_logits(folder):
    engine = ours(folder)
    tokens = random_tokens(3, 2, 9, vocab_size=engine.checkpoint.config["vocab_size"])
    logits, expected = engine.logits(tokens), theirs(folder)(tokens)
    assert logits.dtype == mx.float32
    assert logits.shape == expected.shape
    assert np.abs(to_float64(logits) - to_float64(expected)).max() <= 1e-4


@by_architecture
@by_head
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_the_logits_are_those_of_mlx_lm(checkpoint, base, tied, shards, dtype):
    assert_same_logits(checkpoint(model_of(base, tied, dtype), shards=shards))


@by_architecture
@by_head
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_the_logits_are_those_of_mlx_lm(checkpoint, base, tied, bits):
    """mlx-lm multiplies packed weights, we unpack them first: sums in another order."""
    finer = {"0.mlp.up_proj": {"group_size": 32, "bits": 8}, "1.mlp.up_proj": {"group_size": 32, "bits": 2}}
    assert_same_logits(checkpoint(quantized(model_of(base, tied), 32, bits, **finer)))


def test_the_trial_model_continues_a_story_as_mlx_lm_does(trial_model):
    engine, reference = ours(trial_model), theirs(trial_model)
    prompt = engine.encode("Once upon a time")
    answer = engine.answer(prompt, 64, engine.sampler(Sampling(temp=0)))
    assert "".join(answer.pieces) == engine.tokenizer.decode(their_text(reference, prompt))
    assert answer.stopped == "length limit (64 tokens)"
