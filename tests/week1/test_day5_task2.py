"""Week 1, day 5, task 2: transformer block."""

import dataclasses

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.blocks import measures, torch_block
from tests.week1.layer_of_operators import layer_of_operators
from tests.week1.reference_model import QWEN3, QWEN25, block64, by_architecture, random_model

from tiny_llm import qwen3
from tiny_llm.config import ModelConfig
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, NAMED_MASKS, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def block(x, model, mask=None, number=0):
    layer = qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), model.layer(number))
    return lambda x, mask: layer(x) if mask is None else layer(x, mask)


def stream(seed, model, batch=2, length=5):
    """Return the input of a layer, N x L x E."""
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
    """Theta, eps and the number of heads come from the config."""
    model = random_model(base, 4, **change)
    agrees(block, block64, stream(4, model), model, "causal", seed=4)


@by_architecture
def test_task_2_block_called_with_other_sizes_and_masks(base):
    """One object, as in generation: each call has its own rows, tokens and mask."""
    model = random_model(base, 14)
    layer = qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), model.layer(0))

    def called_before(x, model, mask=None):
        return layer(x) if mask is None else layer(x, mask)

    for batch, length, mask in [(1, 3, "causal"), (1, 4, "causal"), (2, 4, None), (1, 1, "causal"), (3, 7, "causal")]:
        agrees(called_before, block64, stream(14, model, batch, length), model, mask, seed=14)


def test_task_2_block_sweep():
    for n in sweep(N=20, L=131, E=65, I=65, K=4, G=4, P=8):
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, n.dtype, **measures(n))
        x, heads = stream(n.seed, model, n.N, n.L) * n.spread, n.K * n.G
        shape = *n.turn((), (n.N, 1), (heads,), (n.N, heads)), n.L, n.L
        mask = mask_of(n.turn(*NAMED_MASKS), n.seed, n.turn(*DTYPES), *shape)
        agrees(block, block64, x, model, mask, seed=n)


@by_architecture
@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_2_block_mlx(mask, base):
    model = random_model(base, 5)
    x = stream(5, model)
    agrees(
        block,
        block64,
        x,
        model,
        mask,
        seed=5,
        expected=to_float64(layer_of_operators(x, ModelConfig.from_dict(model.config), model.layer(0), mask)),
    )


@by_architecture
def test_task_2_block_pytorch(pytorch, base):
    model = random_model(base, 6)
    x = stream(6, model)

    def layer(torch, x, **w):
        return torch_block(torch, x, model.config, w)

    expected = pytorch(layer, x, **model.layer(0))
    agrees(block, block64, x, model, "causal", seed=6, expected=expected)


def test_task_2_block_longest_sequence():
    """Every position that the config allows works; one query head keeps the scores at four million."""
    model = random_model(QWEN3, 9, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=2049)
    x = stream(9, model, 1, 2049)
    case = f"float32, x 1 x 2049 x 12, {model}, max_position_embeddings 2049, causal, seed 9"
    with noted(case):
        y = block(x, model, "causal")
    compare(
        y,
        to_float64(layer_of_operators(x, ModelConfig.from_dict(model.config), model.layer(0), "causal")),
        mx.float32,
        1e-4,
        case,
        x.size,
    )


@by_architecture
def test_task_2_block_refuses_more_tokens_than_the_config_allows(base):
    model = random_model(base, 13, max_position_embeddings=4)
    agrees(block, block64, stream(13, model, 1, 4), model, "causal", seed=13)
    with raises_value_error(f"float32, x 1 x 5 x {model.config['hidden_size']}, {model}, max_position_embeddings 4"):
        mx.eval(block(stream(13, model, 1, 5), model, "causal"))


@by_architecture
def test_task_2_block_that_adds_nothing(base):
    """With wo and w_down of zeros both branches add zero, and the residual stream is unchanged."""
    model = random_model(base, 7)
    names = "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight"
    model = model.with_weights(**{name: mx.zeros_like(model.weights[name]) for name in names})
    agrees(block, block64, stream(7, model), model, "causal", seed=7)


@by_architecture
@pytest.mark.parametrize("silent", ["self_attn.o_proj", "mlp.down_proj"])
def test_task_2_block_with_one_branch_zero(silent, base):
    """With zeros for wo or w_down one branch adds nothing, which isolates the other."""
    model = random_model(base, 10, rope_theta=500.0)
    name = f"model.layers.0.{silent}.weight"
    model = model.with_weights(**{name: mx.zeros_like(model.weights[name])})
    agrees(block, block64, stream(10, model), model, "causal", seed=10)


@by_architecture
def test_task_2_block_needs_every_weight(base):
    """A missing weight raises when the layer is built, not only when it runs."""
    model = random_model(base, 8)
    for name in model.layer(0):
        part = model.without(f"model.layers.0.{name}").layer(0)
        with raises_error(KeyError, f"building a layer of {model}, without {name}"):
            qwen3.Qwen3TransformerBlock(ModelConfig.from_dict(model.config), part)


@by_architecture
def test_task_2_block_is_what_the_config_says(base):
    """Norms or biases of the other architecture in the same dictionary are ignored, and the dictionary is unchanged."""
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
    """With a causal mask, changing the future does not change earlier positions."""
    changed = min(changed, length - 1)
    model = random_model(QWEN3, seed)
    x = stream(seed, model, 1, length)
    other = x + mx.where(mx.arange(length)[:, None] < changed, 0.0, 3.0)
    before, after = block(x, model, "causal"), block(other, model, "causal")
    case = f"float32, x 1 x {length} x 12, causal, x changed from position {changed} on, seed {seed}"
    compare(after[:, :changed], to_float64(before[:, :changed]), mx.float32, 1e-4, case, x.size)
