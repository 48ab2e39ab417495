"""Week 1, day 5: the embedding, a transformer block, the model from token ids to logits.

Each task is held to its formula in float64, to MLX's own operators and to PyTorch's; then to properties. The models are
random, one of Qwen3's shape and one of Qwen2.5's.
"""

import dataclasses
from functools import cache

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import (
    QWEN3,
    QWEN25,
    block64,
    embedded_model,
    model64,
    random_model,
    random_tokens,
)

from tiny_llm import embedding, qwen3
from tiny_llm.config import ModelConfig
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, NAMED_MASKS, mask_of, normals, token_ids
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep

ARCHITECTURES = [QWEN3, QWEN25]
by_architecture = pytest.mark.parametrize("base", ARCHITECTURES, ids=["qwen3", "qwen2.5"])
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


# Task 1, embedding


@built
def embed(tokens, weight):
    table = embedding.Embedding(*weight.shape, weight)
    return lambda tokens: table(tokens)


def embed64(tokens, weight, *, r=exact):
    return r(weight[tokens.astype(int)])


@built
def unembed(x, weight):
    table = embedding.Embedding(*weight.shape, weight)
    return lambda x: table.as_linear(x)


def unembed64(x, weight, *, r=exact):
    return r(x @ weight.T)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (2, 3, 4)], ids=str)
def test_task_1_embedding_formula(leading, dtype):
    weight = normals(1, dtype)(7, 5)
    agrees(embed, embed64, random_tokens(1, *leading, vocab_size=7), weight, seed=1, dtype=dtype)


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32], ids=str)
def test_task_1_embedding_every_token(dtype):
    """The ids 0 to V - 1 in order give the table itself, whatever kind of integers they are."""
    weight = normals(2)(7, 5)
    agrees(embed, embed64, mx.arange(7).astype(dtype), weight, seed=2, dtype=mx.float32)


def test_task_1_embedding_mlx():
    weight, tokens, x = normals(3)(7, 5), random_tokens(3, 2, 3, vocab_size=7), normals(30)(2, 3, 5)
    table = nn.Embedding(7, 5)
    table.update({"weight": weight})
    agrees(embed, embed64, tokens, weight, seed=3, dtype=mx.float32, expected=to_float64(table(tokens)))
    agrees(unembed, unembed64, x, weight, seed=30, expected=to_float64(table.as_linear(x)))


def test_task_1_embedding_pytorch(pytorch):
    weight, tokens, x = normals(4)(7, 5), random_tokens(4, 2, 3, vocab_size=7), normals(40)(2, 3, 5)
    expected = pytorch(lambda torch, t, w: torch.nn.functional.embedding(t.long(), w), tokens, weight)
    agrees(embed, embed64, tokens, weight, seed=4, dtype=mx.float32, expected=expected)
    expected = pytorch(lambda torch, x, w: torch.nn.functional.linear(x, w), x, weight)
    agrees(unembed, unembed64, x, weight, seed=40, expected=expected)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (2, 3, 4)], ids=str)
def test_task_1_embedding_as_linear(leading, dtype):
    draw = normals(5, dtype)
    agrees(unembed, unembed64, draw(*leading, 5), draw(7, 5), seed=5)


def test_task_1_embedding_sweep():
    for n in sweep(N=1100, V=4200, E=1100):
        draw = normals(n.seed, n.dtype)
        weight, x = draw(n.V, n.E, spread=n.spread), draw(n.N, n.E)
        tokens = mx.array(token_ids(n.seed, n.V, n.N))
        leading = n.turn((-1,), (1, -1), (-1, 1))
        agrees(embed, embed64, tokens.reshape(*leading), weight, seed=n, dtype=n.dtype)
        agrees(unembed, unembed64, x.reshape(*leading, n.E), weight, seed=n)


def test_task_1_embedding_large_vocabulary():
    """More tokens than 16 bits can count, as real models have them."""
    weight, tokens = normals(7)(70000, 1), mx.array([69999, 40000, 32768, 65536, 0])
    agrees(embed, embed64, tokens, weight, seed=7, dtype=mx.float32)


def test_task_1_embedding_square_table():
    """V = E: the one case in which a table that is not transposed goes unnoticed."""
    draw = normals(6)
    agrees(unembed, unembed64, draw(2, 5), draw(5, 5), seed=6)


@pytest.mark.parametrize("shape", [(5, 7), (7, 6), (8, 5), (7, 1), (1, 5), (35,)], ids=str)
def test_task_1_embedding_refuses_other_shapes(shape):
    with raises_value_error(f"vocab_size 7, embedding_dim 5, weight {' x '.join(map(str, shape))}"):
        embedding.Embedding(7, 5, mx.zeros(shape))


# Task 2, transformer block


@built
def block(x, model, mask=None, number=0):
    layer = qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), model.layer(number))
    return lambda x, mask: layer(x) if mask is None else layer(x, mask)


def stream(seed, model, batch=2, length=5):
    """What enters a layer: N x L x E."""
    return normals(seed, model.dtype)(batch, length, model.config["hidden_size"])


@by_dtype
@by_architecture
@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_2_block_formula(mask, base, dtype):
    model = random_model(base, 1, dtype)
    agrees(block, block64, stream(1, model), model, mask, seed=1)


@by_architecture
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 4), (4, 1)])
def test_task_2_block_small(batch, length, base):
    model = random_model(base, 2)
    agrees(block, block64, stream(2, model, batch, length), model, "causal", seed=2)


@by_architecture
def test_task_2_block_finite_mask(base):
    """A bias for each row and head."""
    model = random_model(base, 3)
    agrees(block, block64, stream(3, model), model, normals(30)(2, 6, 5, 5, spread=2.0), seed=3)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_key_value_heads": 2}], ids=str)
@by_architecture
def test_task_2_block_other_config(base, change):
    """Theta, eps and the number of heads are the config's."""
    model = random_model(base, 4, **change)
    agrees(block, block64, stream(4, model), model, "causal", seed=4)


def measures(n):
    """Of a model as a sweep draws them, and every other time with E = H * D."""
    heads, dims = n.K * n.G, 2 * n.P
    return {
        "hidden_size": n.turn(n.E, heads * dims),
        "num_attention_heads": heads,
        "num_key_value_heads": n.K,
        "head_dim": dims,
        "intermediate_size": n.I,
        "max_position_embeddings": n.L,
        "rope_theta": n.turn(1000000.0, 500.0, 10000.0),
        "rms_norm_eps": n.turn(1e-6, 0.1, 1e-5, 0.01),
    }


def test_task_2_block_sweep():
    for n in sweep(N=20, L=131, E=65, I=65, K=4, G=4, P=8):
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, n.dtype, **measures(n))
        x, heads = stream(n.seed, model, n.N, n.L) * n.spread, n.K * n.G
        shape = *n.turn((), (n.N, 1), (heads,), (n.N, heads)), n.L, n.L
        mask = mask_of(n.turn(*NAMED_MASKS), n.seed, n.turn(*DTYPES), *shape)
        agrees(block, block64, x, model, mask, seed=n)


def mlx_block(x, model, mask, number=0):
    """A layer of MLX's own operators."""
    c, w = model.config, model.layer(number)
    dims, eps = c["head_dim"], c["rms_norm_eps"]
    normed = mx.fast.rms_norm(x, w["input_layernorm.weight"], eps)

    def heads(name):
        y = normed @ w[f"self_attn.{name}_proj.weight"].T + w.get(f"self_attn.{name}_proj.bias", 0)
        y = y.reshape(*y.shape[:2], -1, dims)
        if f"self_attn.{name}_norm.weight" in w:
            y = mx.fast.rms_norm(y, w[f"self_attn.{name}_norm.weight"], eps)
        y = y.transpose(0, 2, 1, 3)
        theta = c["rope_theta"]
        return y if name == "v" else mx.fast.rope(y, dims, traditional=False, base=theta, scale=1.0, offset=0)

    y = mx.fast.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), scale=dims**-0.5, mask=mask)
    h = x + y.transpose(0, 2, 1, 3).flatten(2) @ w["self_attn.o_proj.weight"].T
    normed = mx.fast.rms_norm(h, w["post_attention_layernorm.weight"], eps)
    gate, up, down = (w[f"mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
    return h + (nn.silu(normed @ gate) * (normed @ up)) @ down


@by_architecture
@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_2_block_mlx(mask, base):
    model = random_model(base, 5)
    x = stream(5, model)
    agrees(block, block64, x, model, mask, seed=5, expected=to_float64(mlx_block(x, model, mask)))


def torch_block(torch, x, config, w):
    """A layer of PyTorch's own operators, with a causal mask; `w` by the names within a layer."""
    functional, eps, dims = torch.nn.functional, config["rms_norm_eps"], config["head_dim"]
    angles = torch.outer(torch.arange(x.shape[1]), config["rope_theta"] ** (-torch.arange(0, dims, 2) / dims))
    cos, sin = (torch.cat([f(angles), f(angles)], dim=-1) for f in (torch.cos, torch.sin))
    normed = functional.rms_norm(x, x.shape[-1:], w["input_layernorm.weight"], eps)

    def heads(name):
        y = functional.linear(normed, w[f"self_attn.{name}_proj.weight"], w.get(f"self_attn.{name}_proj.bias"))
        y = y.unflatten(-1, (-1, dims))
        if f"self_attn.{name}_norm.weight" in w:
            y = functional.rms_norm(y, (dims,), w[f"self_attn.{name}_norm.weight"], eps)
        y = y.transpose(1, 2)
        first, second = y.chunk(2, dim=-1)
        return y if name == "v" else y * cos + torch.cat([-second, first], dim=-1) * sin

    y = functional.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), is_causal=True, enable_gqa=True)
    h = x + functional.linear(y.transpose(1, 2).flatten(2), w["self_attn.o_proj.weight"])
    normed = functional.rms_norm(h, h.shape[-1:], w["post_attention_layernorm.weight"], eps)
    gate, up = (functional.linear(normed, w[f"mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    return h + functional.linear(functional.silu(gate) * up, w["mlp.down_proj.weight"])


@by_architecture
def test_task_2_block_pytorch(pytorch, base):
    model = random_model(base, 6)
    x = stream(6, model)

    def layer(torch, x, **w):
        return torch_block(torch, x, model.config, w)

    expected = pytorch(layer, x, **model.layer(0))
    agrees(block, block64, x, model, "causal", seed=6, expected=expected)


def test_task_2_block_longest_sequence():
    """Every position that the config allows can be used; one head of queries, as the scores are four million."""
    model = random_model(QWEN3, 9, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=2049)
    x = stream(9, model, 1, 2049)
    case = f"float32, x 1 x 2049 x 12, {model}, max_position_embeddings 2049, causal, seed 9"
    with noted(case):
        y = block(x, model, "causal")
    compare(y, to_float64(mlx_block(x, model, "causal")), mx.float32, 1e-4, case, x.size)


@by_architecture
def test_task_2_block_refuses_more_tokens_than_the_config_allows(base):
    model = random_model(base, 13, max_position_embeddings=4)
    block(stream(13, model, 1, 4), model, "causal")
    with raises_value_error(f"float32, x 1 x 5 x {model.config['hidden_size']}, {model}, max_position_embeddings 4"):
        mx.eval(block(stream(13, model, 1, 5), model, "causal"))


@by_architecture
def test_task_2_block_that_adds_nothing(base):
    """With wo and w_down of zeros both steps add zero, and the stream passes through as it came."""
    model = random_model(base, 7)
    names = "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight"
    model = model.with_weights(**{name: mx.zeros_like(model.weights[name]) for name in names})
    agrees(block, block64, stream(7, model), model, "causal", seed=7)


@by_architecture
@pytest.mark.parametrize("silent", ["self_attn.o_proj", "mlp.down_proj"])
def test_task_2_block_with_one_step_silent(silent, base):
    """With zeros for wo or for w_down one step adds nothing, and the other one is seen alone."""
    model = random_model(base, 10, rope_theta=500.0)
    name = f"model.layers.0.{silent}.weight"
    model = model.with_weights(**{name: mx.zeros_like(model.weights[name])})
    agrees(block, block64, stream(10, model), model, "causal", seed=10)


@by_architecture
def test_task_2_block_needs_every_weight(base):
    """It is missed when the layer is built, and not only when it runs."""
    model = random_model(base, 8)
    for name in model.layer(0):
        part = model.without(f"model.layers.0.{name}").layer(0)
        with raises_error(KeyError, f"building a layer of {model}, without {name}"):
            qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), part)


@by_architecture
def test_task_2_block_is_what_the_config_says(base):
    """Norms or biases of the other architecture, which lie in the same dictionary, are not used; it stays as it was."""
    model = random_model(base, 12)
    other = random_model({**base, "model_type": {"qwen3": "qwen2", "qwen2": "qwen3"}[base["model_type"]]}, 120)
    fuller, x = dataclasses.replace(model, weights=other.weights | model.weights), stream(12, model)
    expected = block64(to_float64(x), model, "causal")
    agrees(block, block64, x, fuller, "causal", seed=12, expected=expected)
    weights = fuller.layer(0)
    names = [*weights]
    case = f"the weights' names after building a layer of {model}"
    with noted(case):
        qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), weights)
    if [*weights] != names:
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, "the caller's `weights` were changed", (), case))


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_2_block_causal_keeps_the_past(length, changed, seed):
    """Behind a causal mask, another future leaves the stream as it was."""
    changed = min(changed, length - 1)
    model = random_model(QWEN3, seed)
    x = stream(seed, model, 1, length)
    other = x + mx.where(mx.arange(length)[:, None] < changed, 0.0, 3.0)
    before, after = block(x, model, "causal"), block(other, model, "causal")
    case = f"float32, x 1 x {length} x 12, causal, x changed from position {changed} on, seed {seed}"
    compare(after[:, :changed], to_float64(before[:, :changed]), mx.float32, 1e-4, case, x.size)


# Task 3, the model


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
    """Theta, eps and the number of layers are the config's."""
    model = random_model(base, 3, **change)
    agrees(logits, model64, random_tokens(3, 2, 5), model, seed=3, dtype=mx.float32)


@by_architecture
def test_task_3_model_longest_sequence(base):
    """Every position that the config allows can be used."""
    model = random_model(base, 10, max_position_embeddings=33)
    agrees(logits, model64, random_tokens(10, 1, 33), model, seed=10, dtype=mx.float32)


def test_task_3_model_of_eleven_layers():
    """As words, "10" comes before "2"; as layers it does not."""
    model = random_model(QWEN3, 4, num_hidden_layers=11)
    agrees(logits, model64, random_tokens(4, 1, 3), model, seed=4, dtype=mx.float32)


def test_task_3_model_ties_as_the_config_says():
    """Some checkpoints hold an lm_head that their config does not use."""
    model = random_model(QWEN3, 5, tie_word_embeddings=True).with_weights(**{"lm_head.weight": normals(50)(29, 12)})
    agrees(logits, model64, random_tokens(5, 2, 5), model, seed=5, dtype=mx.float32)


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
    """`model64` of the embedded model, which takes a second."""
    return computed_once(tuple(map(tuple, tokens.tolist())), r)


def test_task_3_model_trained():
    """The model that comes with the course: six layers, three heads of queries to a head of keys, theta a million."""
    model = embedded_model()
    tokens = random_tokens(11, 1, 12, vocab_size=model.config["vocab_size"])
    agrees(logits, trained64, tokens, model, seed=11, dtype=mx.float32)


@pytest.mark.parametrize("length", [1, 7])
def test_task_3_model_trained_reads_no_further(length):
    """What comes after a position changes nothing at it: with a cache it need not be computed again."""
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
        x = mlx_block(x, model, "causal", number)
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
    """The config says how many layers there are, and a file that lost one lacks its weights."""
    model = random_model(base, 13)
    for number in range(2):
        prefix = f"model.layers.{number}."
        part = {name: w for name, w in model.weights.items() if not name.startswith(prefix)}
        with raises_error(KeyError, f"building {model}, without all weights of layer {number}"):
            qwen3.Qwen3Model(ModelConfig.from_dict(model.config), part)


@by_architecture
def test_task_3_model_tied_is_untied_with_the_table(base):
    """A tied head is a head whose weight is the embedding's table."""
    tied = random_model(base, 9, tie_word_embeddings=True)
    untied = random_model(base, 9).with_weights(**{"lm_head.weight": tied.weights["model.embed_tokens.weight"]})
    tokens = random_tokens(9, 2, 4)
    case = f"float32, tokens 2 x 4, {tied}, against an untied head that is the same table, seed 9"
    compare(logits(tokens, tied), to_float64(logits(tokens, untied)), mx.float32, 1e-4, case, tokens.size)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_3_model_keeps_the_past(length, changed, seed):
    """Another later token leaves the logits of every earlier position."""
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
        case = f"float32, row {row} of tokens {batch} x {length} by itself, and in its batch, seed {seed}"
        alone = to_float64(logits(tokens[row : row + 1], model))
        compare(together[row : row + 1], alone, mx.float32, 1e-4, case, tokens.size)
