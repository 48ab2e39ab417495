"""Task 4.4.4, absorbed projections, checked against their formula, MLX's operators and transformers' DeepSeek-V3."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.in_parts import Parts, in_parts, parts_of
from tests.week4.latent_formulas import COMPRESSED, PLAIN, absorbed64, expanded64, random_layer
from tests.week4.latent_oracles import (
    by_parts,
    by_query,
    cuts,
    deepseek,
    layer_of,
    of_operators,
    pair,
    products_with,
    stream,
    without,
)

from tiny_llm.latent_attention import absorbed, cache
from tiny_llm.latent_attention.config import LatentConfig
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def of(layer):
    return LatentConfig.from_dict(layer.config)


@built
def by_latents(x, layer, parts):
    made = absorbed.AbsorbedLatentAttention(of(layer), layer.weights)

    def run(x):
        own = cache.LatentCache(4)
        return in_parts(lambda part: made(part, own), own.rewind, x, parts)

    return run


@by_dtype
@by_query
@by_parts
def test_task_4_absorbed_formula(parts, base, dtype):
    layer = random_layer(base, 21, dtype)
    agrees(by_latents, absorbed64, stream(21, layer, 2, 5), layer, Parts(parts), seed=21)


@by_dtype
@by_query
def test_task_4_absorbed_is_expanded(base, dtype):
    """Checked against the formula with expanded keys and values."""
    layer = random_layer(base, 22, dtype)
    x = stream(22, layer, 2, 5)
    expected = expanded64(to_float64(x), layer)
    agrees(by_latents, absorbed64, x, layer, Parts((2, 1, 2)), seed=22, expected=expected)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 1},
        {"v_head_dim": 5},
        {"v_head_dim": 9},
        {"qk_nope_head_dim": 7},
        {"kv_lora_rank": 5},
        {"rope_theta": 10.0},
        {"qk_rope_head_dim": 2},
    ],
    ids=str,
)
def test_task_4_absorbed_other_config(change):
    layer = random_layer(COMPRESSED, 23, **change)
    agrees(by_latents, absorbed64, stream(23, layer, 2, 5), layer, Parts((3, 1, 1)), seed=23)


@pytest.mark.parametrize("part", ["rope", "nope"])
def test_task_4_absorbed_one_part_zero(part):
    layer = without(random_layer(PLAIN, 24), part)
    agrees(by_latents, absorbed64, stream(24, layer, 2, 5), layer, Parts((2, 3)), seed=24)


@by_query
def test_task_4_absorbed_first_token(base):
    """It sees only itself: only its value matters."""
    layer = random_layer(base, 25)
    agrees(by_latents, absorbed64, stream(25, layer, 2, 1), layer, Parts((1,)), seed=25)


def test_task_4_absorbed_long():
    """More tokens than the initial capacity, and every position that the config allows."""
    layer = random_layer(PLAIN, 26, max_position_embeddings=300, num_attention_heads=2)
    agrees(by_latents, absorbed64, stream(26, layer, 1, 300), layer, Parts((200, 1, 57, 42)), seed=26)


def test_task_4_absorbed_mlx():
    layer = random_layer(COMPRESSED, 27)
    x = stream(27, layer, 2, 5)
    expected = to_float64(of_operators(x, layer))
    agrees(by_latents, absorbed64, x, layer, Parts((2, 1, 2)), seed=27, expected=expected)


@by_query
def test_task_4_absorbed_pytorch(pytorch, base):
    layer = random_layer(base, 28)
    x = stream(28, layer, 2, 5)

    def theirs(torch, x, **weights):
        return deepseek(torch, x, layer.config, weights)

    expected = pytorch(theirs, x, **layer.weights)
    agrees(by_latents, absorbed64, x, layer, Parts((3, 1, 1)), seed=28, expected=expected)


def test_task_4_absorbed_sweep():
    for n in sweep(N=5, L=130, E=65, H=9, C=65, D=33, P=17, V=33):
        layer = layer_of(n)
        x = stream(n.seed, layer, n.N, n.L) * max(n.spread, 0.03)
        agrees(by_latents, absorbed64, x, layer, parts_of(n.seed + n.L, n.L), seed=n)


@property_test
@given(parts=cuts, junk=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_4_absorbed_any_split(parts, junk, seed):
    """However the tokens are split into calls, and whatever was cached and rewound, the output is the same."""
    junk = [-min(junk, sum(parts))] if junk else []
    layer = random_layer(COMPRESSED, seed)
    whole = Parts((*parts[:1], *junk, *parts[1:]))
    agrees(by_latents, absorbed64, stream(seed, layer, 1, sum(parts)), layer, whole, seed=seed)


class Counting:
    """A learner's cache that records the bytes of every array that it returns, and the last array."""

    def __init__(self, own):
        self.own, self.read, self.entries = own, [], None

    @property
    def offset(self):
        return self.own.offset

    @property
    def nbytes(self):
        return self.own.nbytes

    def update_and_fetch(self, latent, rope_key):
        entries = self.own.update_and_fetch(latent, rope_key)
        self.read.append(entries.nbytes)
        self.entries = entries
        return entries

    def rewind(self, count):
        self.own.rewind(count)


@by_dtype
def test_task_4_absorbed_reads_the_cache_once(dtype):
    """A decode step reads as many bytes as the latent cache holds: one latent and one RoPE key per token."""
    layer = random_layer(PLAIN, 29, dtype)
    case = f"{dtype}, {layer}, x 2 x 6 x 20, then one token in each of three calls"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(4)
        counting = Counting(own)
        for length in (6, 1, 1, 1):
            mx.eval(made(stream(29, layer, 2, length), counting))
    expected = [2 * tokens * (7 + 4) * dtype.size for tokens in (6, 7, 8, 9)]
    if counting.read != expected:
        headline = "a wrong number of bytes is read from the cache"
        fail(Kind.VALUES, headline, case, f"expected  {expected}", f"got       {counting.read}")
    if own.offset != 9:
        fail(Kind.VALUES, "the cache's offset is wrong", case, "expected  9", f"got       {own.offset}")


@pytest.mark.parametrize("length", [1, 2])
def test_task_4_absorbed_computes_no_keys(length):
    """32 heads: a key of 32 numbers for each of 1,024 tokens would take 4.2 MB, and what is cached takes 131 KB."""
    changes = {"kv_lora_rank": 24, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32}
    layer = random_layer(PLAIN, 30, num_attention_heads=32, max_position_embeddings=2048, **changes)
    case = f"float32, {layer}, x 1 x {length} x 20 after 1,024 tokens, seed 30"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(2048)
        mx.eval(own.update_and_fetch(*pair(30, 1, 1024, 24, 8)))
        new = stream(30, layer, 1, length)
        mx.eval(made(new, own))
    holds_less(lambda: made(new, own), 1024 * 32 * 32 * 4 // 3, "a third of what the keys of all heads take", case=case)


def test_task_4_absorbed_one_product_for_all_heads():
    """Eight heads need no more products with the entries than two: a product for each head would load them again."""
    found = []
    for heads in (2, 8):
        layer = random_layer(PLAIN, 34, num_attention_heads=heads)
        case = f"float32, {layer}, x 1 x 3 x 20, seed 34"
        with noted(case):
            counting = Counting(cache.LatentCache(4))
            result = absorbed.AbsorbedLatentAttention(of(layer), layer.weights)(stream(34, layer, 1, 3), counting)
            found.append(products_with(counting.entries, result))
    if found[1] > found[0]:
        headline = "more heads need more matrix products with the cache's entries"
        shown = f"got       {found[0]} products with 2 heads, {found[1]} with 8"
        fail(Kind.VALUES, headline, case, "expected  the same number for any number of heads", shown)


@by_query
def test_task_4_absorbed_two_sequences(base):
    """One layer, two caches: the sequences are independent."""
    layer = random_layer(base, 31)
    x = stream(31, layer, 2, 5)
    case = f"float32, two sequences of x 1 x 5 x 20 in turn, {layer}, parts 2 + 1 + 2, seed 31"
    found = [[], []]
    with noted(case):
        made = absorbed.AbsorbedLatentAttention(of(layer), layer.weights)
        caches = [cache.LatentCache(4) for _ in range(2)]
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            for row in range(2):
                found[row].append(made(x[row : row + 1, part], caches[row]))
    expected = absorbed64(to_float64(x), layer)
    for row in range(2):
        actual = mx.concatenate(found[row], axis=1)
        compare(actual, expected[row : row + 1], mx.float32, 1e-4, f"sequence {row}; {case}", actual.size)


@by_query
def test_task_4_absorbed_ignores_other_weights(base):
    """A layer's dictionary also contains names without `self_attn.`, of other modules."""
    layer = random_layer(base, 35)
    others = {name.removeprefix("self_attn."): mx.ones((2, 2)) for name in layer.weights}
    x = stream(35, layer, 2, 5)
    expected = absorbed64(to_float64(x), layer)
    for weights in (others | layer.weights, layer.weights | others):
        fuller = type(layer)(layer.config, weights)
        agrees(by_latents, absorbed64, x, fuller, Parts((3, 2)), seed=35, expected=expected)


@by_query
def test_task_4_absorbed_needs_every_weight(base):
    layer = random_layer(base, 32)
    for name in layer.weights:
        part = {other: w for other, w in layer.weights.items() if other != name}
        with raises_error(KeyError, f"building a layer of {layer}, without {name}"):
            absorbed.AbsorbedLatentAttention(of(layer), part)


def test_task_4_absorbed_refuses_more_tokens_than_the_config_allows():
    """Including the cached tokens; and the cache does not grow."""
    layer = random_layer(PLAIN, 33, max_position_embeddings=4)
    case = f"float32, {layer}, max_position_embeddings 4, calls of 3 and 2 tokens"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(4)
        made(stream(33, layer, 1, 3), own)
    with raises_value_error(case):
        mx.eval(made(stream(33, layer, 1, 2), own))
    if own.offset != 3:
        fail(Kind.VALUES, "tokens that raised are in the cache", case, "expected  3", f"got       {own.offset}")
    with noted(f"{case}, then one of 1"):
        mx.eval(made(stream(33, layer, 1, 1), own))
