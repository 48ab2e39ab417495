"""Week 1, day 5, task 3: the model."""

from functools import cache

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.blocks import measures, torch_block
from tests.week1.layer_of_operators import layer_of_operators
from tests.week1.reference_model import (
    QWEN3,
    QWEN25,
    by_architecture,
    by_head,
    embedded_model,
    model64,
    random_model,
    random_tokens,
)

from tiny_llm import qwen3
from tiny_llm.config import ModelConfig
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes


@built
def logits(tokens, model):
    whole = qwen3.Qwen3Model(ModelConfig.from_dict(model.config), model.weights)
    return lambda tokens: whole(tokens)


@by_dtype
@by_head
@by_architecture
def test_task_3_model_formula(base, tied, dtype):
    model = random_model(base, 1, dtype, tie_word_embeddings=tied)
    agrees(logits, model64, random_tokens(1, 2, 5), model, seed=1, dtype=dtype)


@by_architecture
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 4), (4, 1)])
def test_task_3_model_small(batch, length, base):
    agrees(logits, model64, random_tokens(2, batch, length), random_model(base, 2), seed=2, dtype=mx.float32)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
@by_architecture
def test_task_3_model_other_config(base, change):
    """Theta, eps and the number of layers come from the config."""
    model = random_model(base, 3, **change)
    agrees(logits, model64, random_tokens(3, 2, 5), model, seed=3, dtype=mx.float32)


@by_architecture
def test_task_3_model_longest_sequence(base):
    """Every position that the config allows works."""
    model = random_model(base, 10, max_position_embeddings=33)
    agrees(logits, model64, random_tokens(10, 1, 33), model, seed=10, dtype=mx.float32)


def test_task_3_model_of_eleven_layers():
    """ "10" sorts before "2" as a string, but not as a layer number."""
    model = random_model(QWEN3, 4, num_hidden_layers=11)
    agrees(logits, model64, random_tokens(4, 1, 3), model, seed=4, dtype=mx.float32)


def test_task_3_model_ties_as_the_config_says():
    """Some checkpoints contain an lm_head that their config does not use."""
    model = random_model(QWEN3, 5, tie_word_embeddings=True).with_weights(**{"lm_head.weight": normals(50)(29, 12)})
    agrees(logits, model64, random_tokens(5, 2, 5), model, seed=5, dtype=mx.float32)


@by_architecture
def test_task_3_model_called_with_other_sizes(base):
    """One object, as in generation: each call has its own rows and tokens."""
    model = random_model(base, 15)
    whole = qwen3.Qwen3Model(ModelConfig.from_dict(model.config), model.weights)
    for batch, length in [(1, 3), (1, 4), (2, 4), (1, 1), (3, 7)]:
        tokens = random_tokens(15, batch, length)
        agrees(lambda tokens, _: whole(tokens), model64, tokens, model, seed=15, dtype=mx.float32)


def test_task_3_model_sweep():
    for n in sizes(N=20, L=65, V=4200, E=7, I=7, M=4, K=3, G=3, P=4):
        tied = {"tie_word_embeddings": n.turn(True, False, False), "vocab_size": n.V, "num_hidden_layers": n.M}
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, **{**measures(n), **tied})
        tokens = mx.array(token_ids(n.seed, n.V, n.N * n.L)).reshape(n.N, n.L)
        agrees(logits, model64, tokens, model, seed=n, dtype=mx.float32)


@cache
def computed_once(tokens, r):
    return model64(np.array(tokens), embedded_model(), r=r)


def trained64(tokens, model, *, r=exact):
    """Return `model64` of the embedded model, which takes a second."""
    return computed_once(tuple(map(tuple, tokens.tolist())), r)


def test_task_3_model_trained():
    """The embedded model: six layers, three query heads per key-value head, theta a million."""
    model = embedded_model()
    tokens = random_tokens(11, 1, 12, vocab_size=model.config["vocab_size"])
    agrees(logits, trained64, tokens, model, seed=11, dtype=mx.float32)


@pytest.mark.parametrize("length", [1, 7])
def test_task_3_model_trained_ignores_later_tokens(length):
    """Later tokens do not change a position, so a cache can reuse it."""
    model = embedded_model()
    tokens = random_tokens(12, 1, 12, vocab_size=model.config["vocab_size"])
    whole, part = logits(tokens, model), logits(tokens[:, :length], model)
    case = f"float32, {model}, the first {length} of 12 tokens and all of them, seed 12"
    compare(part, to_float64(whole[:, :length]), mx.float32, 2e-3, case, part.size)


@by_head
@by_architecture
def test_task_3_model_mlx(base, tied):
    model, tokens = random_model(base, 6, tie_word_embeddings=tied), random_tokens(6, 2, 5)
    table = nn.Embedding(*model.weights["model.embed_tokens.weight"].shape)
    table.update({"weight": model.weights["model.embed_tokens.weight"]})
    x = table(tokens)
    for number in range(model.config["num_hidden_layers"]):
        x = layer_of_operators(x, ModelConfig.from_dict(model.config), model.layer(number), "causal")
    x = mx.fast.rms_norm(x, model.weights["model.norm.weight"], model.config["rms_norm_eps"])
    expected = to_float64(table.as_linear(x) if tied else x @ model.weights["lm_head.weight"].T)
    agrees(logits, model64, tokens, model, seed=6, dtype=mx.float32, expected=expected)


@by_head
@by_architecture
def test_task_3_model_pytorch(pytorch, base, tied):
    model, tokens = random_model(base, 7, tie_word_embeddings=tied), random_tokens(7, 2, 5)

    def whole(torch, tokens, **weights):
        functional, table = torch.nn.functional, weights["model.embed_tokens.weight"]
        x = functional.embedding(tokens.long(), table)
        for number in range(model.config["num_hidden_layers"]):
            prefix = f"model.layers.{number}."
            layer = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            x = torch_block(torch, x, model.config, layer)
        x = functional.rms_norm(x, x.shape[-1:], weights["model.norm.weight"], model.config["rms_norm_eps"])
        return functional.linear(x, table if tied else weights["lm_head.weight"])

    expected = pytorch(whole, tokens, **model.weights)
    agrees(logits, model64, tokens, model, seed=7, dtype=mx.float32, expected=expected)


@by_architecture
def test_task_3_model_needs_every_weight(base):
    model = random_model(base, 8, num_hidden_layers=1)
    for name in model.weights:
        with raises_error(KeyError, f"building {model}, without {name}"):
            qwen3.Qwen3Model(ModelConfig.from_dict(model.config), model.without(name).weights)


@by_architecture
def test_task_3_model_needs_every_layer(base):
    """The config gives the number of layers; a file that lacks one raises."""
    model = random_model(base, 13)
    for number in range(2):
        prefix = f"model.layers.{number}."
        part = {name: w for name, w in model.weights.items() if not name.startswith(prefix)}
        with raises_error(KeyError, f"building {model}, without all weights of layer {number}"):
            qwen3.Qwen3Model(ModelConfig.from_dict(model.config), part)


@by_architecture
def test_task_3_model_refuses_other_shapes(base):
    """The embedding, the norms of the residual stream and the MLP must have the config's shapes."""
    model = random_model(base, 14, num_hidden_layers=1)
    for name, weight in model.weights.items():
        if "self_attn" in name or name == "lm_head.weight":
            continue
        for axis in range(weight.ndim):
            wrong = mx.concatenate([weight, weight], axis=axis)
            shape = " x ".join(map(str, wrong.shape))
            with raises_value_error(f"building {model}, with {name} of shape {shape}"):
                qwen3.Qwen3Model(ModelConfig.from_dict(model.config), model.with_weights(**{name: wrong}).weights)


@by_architecture
def test_task_3_model_tied_is_untied_with_the_table(base):
    """A tied head equals a head whose weight is the embedding table."""
    tied = random_model(base, 9, tie_word_embeddings=True)
    untied = random_model(base, 9).with_weights(**{"lm_head.weight": tied.weights["model.embed_tokens.weight"]})
    tokens = random_tokens(9, 2, 4)
    case = f"float32, tokens 2 x 4, {tied}, against an untied head that is the same table, seed 9"
    compare(logits(tokens, tied), to_float64(logits(tokens, untied)), mx.float32, 1e-4, case, tokens.size)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_3_model_keeps_the_past(length, changed, seed):
    """Changing a later token does not change the logits of any earlier position."""
    changed = min(changed, length - 1)
    model, tokens = random_model(QWEN3, seed), random_tokens(seed, 1, length)
    other = mx.where(mx.arange(length) < changed, tokens, (tokens + 1) % 29)
    before, after = logits(tokens, model), logits(other, model)
    case = f"float32, tokens 1 x {length}, changed from position {changed} on, seed {seed}"
    compare(after[:, :changed], to_float64(before[:, :changed]), mx.float32, 1e-4, case, length)


@property_test
@given(batch=st.integers(2, 4), length=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_3_model_row_alone(batch, length, seed):
    """A row's logits do not depend on the other rows of its batch."""
    model, tokens = random_model(QWEN25, seed), random_tokens(seed, batch, length)
    together = logits(tokens, model)
    for row in range(batch):
        case = f"float32, row {row} of tokens {batch} x {length} alone, and in its batch, seed {seed}"
        alone = to_float64(logits(tokens[row : row + 1], model))
        compare(together[row : row + 1], alone, mx.float32, 1e-4, case, tokens.size)
