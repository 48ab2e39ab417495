"""Task 4.4.2, latent attention expanded, checked against its formula, MLX's operators and transformers' DeepSeek-V3."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.latent_formulas import COMPRESSED, PLAIN, expanded64, latents64, queries64, random_layer
from tests.week4.latent_oracles import by_query, deepseek, layer_of, of_operators, stream, without

from tiny_llm.latent_attention import expanded
from tiny_llm.latent_attention.config import LatentConfig
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_error, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def of(layer):
    return LatentConfig.from_dict(layer.config)


def seen_from(method, number):
    """Return one of the two arrays that a method returns, for tokens from a position on."""

    @built
    def part(x, layer, first=0):
        made = expanded.LatentAttention(of(layer), layer.weights)
        return lambda x, first: getattr(made, method)(x, slice(first, first + x.shape[1]))[number]

    return part


def seen_from64(formula, number, heads):
    def part64(x, layer, first=0, *, r=exact):
        found = formula(x, layer, first, r=r)[number]
        return np.ascontiguousarray(found.swapaxes(1, 2)) if heads else found

    return part64


PARTS = {
    "query without RoPE": (seen_from("queries", 0), seen_from64(queries64, 0, True)),
    "query with RoPE": (seen_from("queries", 1), seen_from64(queries64, 1, True)),
    "latent": (seen_from("latents", 0), seen_from64(latents64, 0, False)),
    "RoPE key": (seen_from("latents", 1), seen_from64(latents64, 1, False)),
}
by_part = pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())


@built
def attended(x, layer):
    made = expanded.LatentAttention(of(layer), layer.weights)
    return lambda x: made(x)


@by_dtype
@by_query
@by_part
def test_task_2_expanded_parts(part, base, dtype):
    """Queries and latents separately, for tokens that start the sequence and for later ones."""
    layer = random_layer(base, 1, dtype)
    for first in (0, 5):
        agrees(*part, stream(1, layer), layer, first, seed=1)


@by_part
def test_task_2_expanded_parts_at_late_positions(part):
    """The last positions that the config allows, and another theta."""
    layer = random_layer(COMPRESSED, 2, rope_theta=10000.0)
    agrees(*part, stream(2, layer), layer, 88, seed=2)


@by_dtype
@by_query
@pytest.mark.parametrize("batch", [1, 2])
def test_task_2_expanded_formula(batch, base, dtype):
    layer = random_layer(base, 3, dtype)
    agrees(attended, expanded64, stream(3, layer, batch), layer, seed=3)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 1},
        {"v_head_dim": 5},
        {"v_head_dim": 9},
        {"qk_nope_head_dim": 4},
        {"kv_lora_rank": 20},
        {"hidden_size": 18},
        {"rope_theta": 10.0},
        {"qk_rope_head_dim": 2},
    ],
    ids=str,
)
@by_query
def test_task_2_expanded_other_config(base, change):
    layer = random_layer(base, 4, **change)
    agrees(attended, expanded64, stream(4, layer), layer, seed=4)


@by_query
@pytest.mark.parametrize("part", ["rope", "nope"])
def test_task_2_expanded_one_part_zero(part, base):
    """With zeros for the RoPE key, or for all other keys, only the first product or only the second remains."""
    layer = without(random_layer(base, 5), part)
    agrees(attended, expanded64, stream(5, layer), layer, seed=5)


@by_query
def test_task_2_expanded_latents_are_normalized(base):
    """x of any scale gives the same latent: it is normalized. The RoPE key, which is not, is zero here."""
    layer = without(random_layer(base, 6), "rope")
    for longer in (0.01, 100.0):
        agrees(attended, expanded64, longer * stream(6, layer), layer, seed=6)


@by_query
def test_task_2_expanded_first_token(base):
    """It sees only itself: no score matters."""
    layer = random_layer(base, 7)
    agrees(attended, expanded64, stream(7, layer, 2, 1), layer, seed=7)


@by_query
def test_task_2_expanded_ignores_other_weights(base):
    """A layer's dictionary also contains its MLP, and names without `self_attn.` belong to other modules."""
    layer = random_layer(base, 8)
    names = [name.removeprefix("self_attn.") for name in layer.weights]
    others = {"mlp.gate_proj.weight": mx.ones((3, 3)), **{name: mx.ones((2, 2)) for name in names}}
    x = stream(8, layer)
    for weights in (others | layer.weights, layer.weights | others):
        fuller = type(layer)(layer.config, weights)
        agrees(attended, expanded64, x, fuller, seed=8, expected=expanded64(to_float64(x), layer))


@by_query
def test_task_2_expanded_follows_the_config(base):
    """The weights of the other query projection are in the same dictionary; q_lora_rank decides."""
    other = COMPRESSED if base is PLAIN else PLAIN
    layer = random_layer(base, 9)
    fuller = type(layer)(layer.config, random_layer(other, 90).weights | layer.weights)
    x = stream(9, layer)
    agrees(attended, expanded64, x, fuller, seed=9, expected=expanded64(to_float64(x), layer))


@by_query
def test_task_2_expanded_needs_every_weight(base):
    layer = random_layer(base, 10)
    for name in layer.weights:
        part = {other: w for other, w in layer.weights.items() if other != name}
        with raises_error(KeyError, f"building a layer of {layer}, without {name}"):
            expanded.LatentAttention(of(layer), part)


def test_task_2_expanded_refuses_more_tokens_than_the_config_allows():
    layer = random_layer(PLAIN, 11, max_position_embeddings=4)
    attended(stream(11, layer, 1, 4), layer)
    with raises_value_error(f"float32, x 1 x 5 x 20, {layer}, max_position_embeddings 4"):
        mx.eval(attended(stream(11, layer, 1, 5), layer))


@by_query
def test_task_2_expanded_mlx(base):
    layer = random_layer(base, 12)
    x = stream(12, layer)
    agrees(attended, expanded64, x, layer, seed=12, expected=to_float64(of_operators(x, layer)))


@by_query
def test_task_2_expanded_pytorch(pytorch, base):
    layer = random_layer(base, 13)
    x = stream(13, layer)

    def theirs(torch, x, **weights):
        return deepseek(torch, x, layer.config, weights)

    expected = pytorch(theirs, x, **layer.weights)
    agrees(attended, expanded64, x, layer, seed=13, expected=expected)


def test_task_2_expanded_sweep():
    for n in sweep(N=5, L=130, E=65, H=9, C=65, D=33, P=17, V=33):
        layer = layer_of(n)
        x = stream(n.seed, layer, n.N, n.L) * max(n.spread, 0.03)
        agrees(attended, expanded64, x, layer, seed=n)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_2_expanded_is_causal(length, changed, seed):
    """Other tokens from some position on do not change any earlier output."""
    changed = min(changed, length - 1)
    layer = random_layer(COMPRESSED, seed)
    x = stream(seed, layer, 1, length)
    agrees(attended, expanded64, x, layer, seed=seed)
    noise = mx.where(mx.arange(length)[:, None] < changed, 0.0, 5.0)
    first, second = attended(x, layer), attended(x + noise, layer)
    case = f"float32, x 1 x {length} x 20, {layer}, x changed from {changed} on, seed {seed}"
    compare(second[:, :changed], to_float64(first)[:, :changed], mx.float32, 1e-5, case, x.size)


@property_test
@given(first=st.integers(1, 60), seed=st.integers(0, 99))
def test_task_2_expanded_scores_depend_on_the_distance(first, seed):
    """Queries and RoPE keys at later positions have the same products."""
    layer = random_layer(PLAIN, seed)
    x = stream(seed, layer, 1, 4)
    for part in PARTS.values():
        agrees(*part, x, layer, first, seed=seed)
    made = expanded.LatentAttention(of(layer), layer.weights)

    def products(start):
        where = slice(start, start + 4)
        return made.queries(x, where)[1] @ made.latents(x, where)[1][:, None].swapaxes(-1, -2)

    case = f"float32, x 1 x 4 x 20, {layer}, positions from {first} against positions from 0, seed {seed}"
    compare(products(first), to_float64(products(0)), mx.float32, 1e-4, case, x.size)
