"""Week 2, day 1, task 2: attention with a cache."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import qwen_attention64
from tests.week1.reference_model import QWEN3, QWEN25, by_architecture, random_model
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, by_parts, cuts, in_parts, junk, parts_of, with_junk

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached import attention, cache
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def in_calls(layer, parts):
    def run(x):
        kept = cache.KVCache(4)
        return in_parts(lambda part: layer(part, kept), kept.rewind, x, parts)

    return run


@built
def attended(x, model, parts):
    return in_calls(attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), model.layer(0)), parts)


@built
def attended_by_other_parts(x, model, parts):
    return in_calls(
        attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), halved(model).layer(0), Doubling()), parts
    )


def attended64(x, model, parts, *, r=exact):
    """Week 1's attention, on the whole sequence at once."""
    c, w = model.config, model.layer64(0)
    names = [f"{name}_proj.weight" for name in "qkvo"] + ["q_norm.weight", "k_norm.weight"]
    names += [f"{name}_proj.bias" for name in "qkv"]
    own = [w.get(f"self_attn.{name}") for name in names]
    settings = {"theta": c["rope_theta"], "eps": c["rms_norm_eps"], "mask": "causal"}
    return qwen_attention64(x, c["num_attention_heads"], c["num_key_value_heads"], *own, **settings, r=r)


def stream(seed, model, batch=2, length=5):
    return normals(seed, model.dtype)(batch, length, model.config["hidden_size"])


@by_dtype
@by_architecture
@by_parts
def test_task_2_attention_formula(parts, base, dtype):
    model = random_model(base, 1, dtype)
    agrees(attended, attended64, stream(1, model), model, Parts(parts), seed=1)


@by_architecture
@pytest.mark.parametrize("parts", [(3, 1), (1, 3), (2, 2), (1, 1, 1, 1)], ids=str)
def test_task_2_attention_small(parts, base):
    """Four tokens in one row, and one token in each of four rows."""
    model = random_model(base, 2)
    for batch in (1, 4):
        agrees(attended, attended64, stream(2, model, batch, 4), model, Parts(parts), seed=2)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_key_value_heads": 2}], ids=str)
@by_architecture
def test_task_2_attention_other_config(base, change):
    model = random_model(base, 3, **change)
    agrees(attended, attended64, stream(3, model), model, Parts((2, 1, 2)), seed=3)


@by_architecture
def test_task_2_attention_long(base):
    """More tokens than a block, every position that the config allows, and the ends of long parts."""
    model = random_model(base, 4, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=300)
    agrees(attended, attended64, stream(4, model, 1, 300), model, Parts((200, 1, 57, 42)), seed=4)


def test_task_2_attention_sweep():
    for n in sweep(N=5, L=65, K=3, G=3, P=4):
        measures = {
            "num_attention_heads": n.K * n.G,
            "num_key_value_heads": n.K,
            "head_dim": 2 * n.P,
            "max_position_embeddings": n.L + 5,
            "rope_theta": n.turn(1000000.0, 500.0, 10000.0),
        }
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, n.dtype, **measures)
        x = stream(n.seed, model, n.N, n.L) * n.spread
        agrees(attended, attended64, x, model, parts_of(n.seed + n.L, n.L), seed=n)


@property_test
@given(parts=cuts, junk=junk, base=st.sampled_from([QWEN3, QWEN25]), seed=st.integers(0, 99))
def test_task_2_attention_any_split(parts, junk, base, seed):
    """The output does not depend on the split into calls, or on rewound tokens."""
    junk = junk[0], min(junk[1], sum(parts))
    model = random_model(base, seed)
    agrees(attended, attended64, stream(seed, model, 1, sum(parts)), model, with_junk(parts, junk), seed=seed)


@by_architecture
def test_task_2_attention_two_sequences(base):
    """One layer, two caches: the sequences are independent."""
    model = random_model(base, 5)
    x = stream(5, model)
    case = f"float32, two interleaved sequences of x 1 x 5 x {x.shape[-1]}, {model}, parts 2 + 1 + 2, seed 5"
    found = [[], []]
    with noted(case):
        layer, caches = (
            attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), model.layer(0)),
            [cache.KVCache(4) for _ in range(2)],
        )
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            for row in range(2):
                found[row].append(layer(x[row : row + 1, part], caches[row]))
    expected = attended64(to_float64(x), model, None)
    for row in range(2):
        actual = mx.concatenate(found[row], axis=1)
        compare(actual, expected[row : row + 1], mx.float32, 1e-4, f"text {row}; {case}", actual.size)


@by_architecture
def test_task_2_attention_appends_each_token_once(base):
    model = random_model(base, 6)
    case = f"float32, {model}, calls of 3, 1 and 2 tokens"
    with noted(case):
        layer, kept = (
            attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), model.layer(0)),
            cache.KVCache(4),
        )
        counts = []
        for length in (3, 1, 2):
            layer(stream(6, model, 2, length), kept)
            counts.append(kept.offset)
    if counts != [3, 4, 6]:
        fail(Kind.VALUES, "the cache's offset is wrong", case, "expected  [3, 4, 6]", f"got       {counts}")


class Recording:
    """Another cache with the same methods, which records what it is given."""

    def __init__(self):
        self.offset, self.given = 0, []

    def update_and_fetch(self, key, value):
        self.given.append((key, value))
        self.offset += key.shape[2]
        return tuple(mx.concatenate(list(x), axis=2) for x in zip(*self.given, strict=True))


@by_dtype
@by_architecture
def test_task_2_attention_caches_each_key_value_head_once(base, dtype):
    """Keys and values reach the cache as N x H_kv x L x D, in x's dtype: neither repeated nor widened."""
    model = random_model(base, 12, dtype, num_attention_heads=6, num_key_value_heads=2)
    case = f"{dtype_word(dtype)}, {model}, calls of 3 and 1 tokens, N 2"
    with noted(case):
        layer, kept = attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), model.layer(0)), Recording()
        for length in (3, 1):
            mx.eval(layer(stream(12, model, 2, length), kept))
    dims = model.config["head_dim"]
    expected = [(2, 2, length, dims, dtype) for length in (3, 1)]
    for which, name in enumerate(("keys", "values")):
        found = [(*pair[which].shape, pair[which].dtype) for pair in kept.given]
        if found != expected:
            words = [
                ", then ".join(f"{shape_words(x[:-1])}, {dtype_word(x[-1])}" for x in xs) for xs in (expected, found)
            ]
            lines = (f"expected  {words[0]}", f"got       {words[1]}")
            fail(Kind.SHAPE, f"wrong shape or dtype of the {name} passed to the cache", case, *lines)


@by_architecture
def test_task_2_attention_mlx(base):
    """The same with MLX operators, for the whole sequence."""
    model = random_model(base, 7)
    x, w, c = stream(7, model), model.layer(0), model.config
    dims, eps = c["head_dim"], c["rms_norm_eps"]

    def heads(name):
        y = x @ w[f"self_attn.{name}_proj.weight"].T + w.get(f"self_attn.{name}_proj.bias", 0)
        y = mx.unflatten(y, -1, (-1, dims))
        if f"self_attn.{name}_norm.weight" in w:
            y = mx.fast.rms_norm(y, w[f"self_attn.{name}_norm.weight"], eps)
        y = y.swapaxes(1, 2)
        return y if name == "v" else mx.fast.rope(y, dims, traditional=False, base=c["rope_theta"], scale=1.0, offset=0)

    y = mx.fast.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), scale=dims**-0.5, mask="causal")
    expected = to_float64(y.swapaxes(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T)
    agrees(attended, attended64, x, model, Parts((2, 1, 2)), seed=7, expected=expected)


@by_architecture
def test_task_2_attention_refuses_more_tokens_than_the_config_allows(base):
    """Cached tokens count towards the limit, and a rejected call does not change the cache."""
    model = random_model(base, 8, max_position_embeddings=4)
    case = f"float32, {model}, max_position_embeddings 4, calls of 3 and 2 tokens"
    with noted(case):
        layer, kept = (
            attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), model.layer(0)),
            cache.KVCache(4),
        )
        layer(stream(8, model, 1, 3), kept)
    with raises_value_error(case):
        mx.eval(layer(stream(8, model, 1, 2), kept))
    if kept.offset != 3:
        fail(Kind.VALUES, "rejected tokens are in the cache", case, "expected  3", f"got       {kept.offset}")
    with noted(f"{case}, then one of 1"):
        mx.eval(layer(stream(8, model, 1, 1), kept))


@by_architecture
def test_task_2_attention_with_other_parts(base):
    """Halved matrices and parts that double each projection leave the output unchanged."""
    model = random_model(base, 11)
    agrees(attended_by_other_parts, attended64, stream(11, model), model, Parts((2, 1, 2)), seed=11)


@by_architecture
def test_task_2_attention_needs_every_weight(base):
    model = random_model(base, 9)
    for name in [name for name in model.layer(0) if name.startswith("self_attn.")]:
        part = model.without(f"model.layers.0.{name}").layer(0)
        with raises_error(KeyError, f"building the attention of {model}, without {name}"):
            attention.Qwen3CachedAttention(ModelConfig.from_dict(model.config), part)


@by_architecture
def test_task_2_attention_is_what_the_config_says(base):
    """Norms or biases of the other architecture in the same dictionary are ignored."""
    own = random_model(base, 10)
    other = random_model({**base, "model_type": {"qwen3": "qwen2", "qwen2": "qwen3"}[base["model_type"]]}, 100)
    fuller, x = own.with_weights(**(other.weights | own.weights)), stream(10, own)
    expected = attended64(to_float64(x), own, None)
    agrees(attended, attended64, x, fuller, Parts((3, 2)), seed=10, expected=expected)
