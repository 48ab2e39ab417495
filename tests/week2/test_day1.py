"""Week 2, day 1: the KV cache, attention and the model with it, generation.

What is expected is what week 1 computes for the whole text at once, by its formulas in float64 and by MLX's operators:
however a text is cut into calls, and whatever was read and rewound in between.
"""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import qwen_attention64
from tests.week1.layer_of_operators import layer_of_operators
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, model64, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, Reader, in_parts, parts_of

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached import attention, cache, generate, model
from tiny_llm_course.testkit.again import backwards, built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals, token_ids
from tiny_llm_course.testkit.memory import most_at_once
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep
from tiny_llm_course.testkit.texts import again, same_ids

by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
by_parts = pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, -3, 3)], ids=str)

# How a property cuts a text: where, and after which part how many other tokens are read and rewound.
cuts = st.lists(st.integers(1, 3), min_size=1, max_size=4)
junk = st.tuples(st.integers(0, 4), st.integers(0, 3))


def with_junk(parts, junk):
    after, count = junk
    return Parts((*parts[:after], *([-count] if count else []), *parts[after:]))


def fail(kind, headline, case, *lines):
    raise CheckFailed(Finding(kind, headline, lines, case))


# Task 1, the cache


def fetches(number):
    """The keys, 0, or the values, 1, of all fetches, one behind the other: N x H_kv x (S + S' + ..) x D.

    Those of each call are held while later ones write.
    """

    def all_fetches(key, value, parts, block=4):
        kept, found, at = cache.KVCache(block), [], 0
        for size in parts:
            piece = slice(at, at + size) if size > 0 else slice(-size)
            new = [x[:, :, piece] if size > 0 else backwards(x)[:, :, piece] for x in (key, value)]
            found.append(kept.update_and_fetch(*new)[number])
            mx.eval(found[-1])
            if size > 0:
                at += size
            else:
                kept.rewind(-size)
        return mx.concatenate(found, axis=2)

    return all_fetches


def fetches64(number):
    def by_formula(key, value, parts, block=4, *, r=exact):
        x, found, at = (key, value)[number], [], 0
        for size in parts:
            if size > 0:
                at += size
                found.append(x[:, :, :at])
            else:
                found += [x[:, :, :at], x[::-1, ::-1, ::-1, ::-1][:, :, :-size]]
        return r(np.concatenate(found, axis=2))

    return by_formula


key_fetches, value_fetches, key_fetches64, value_fetches64 = fetches(0), fetches(1), fetches64(0), fetches64(1)


def cache_agrees(key, value, parts, block=4, *, seed):
    agrees(key_fetches, key_fetches64, key, value, Parts(parts), block, seed=seed)
    agrees(value_fetches, value_fetches64, key, value, Parts(parts), block, seed=seed)


def pair(seed, *shape, dtype=mx.float32):
    draw = normals(seed, dtype)
    return draw(*shape), draw(*shape)


@by_dtype
@by_parts
def test_task_1_cache_fetches_all(parts, dtype):
    cache_agrees(*pair(1, 2, 3, 5, 6, dtype=dtype), parts, seed=1)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 256])
def test_task_1_cache_any_block(block):
    """Also a block that is as long as the first keys, and one that is longer than all."""
    for parts in ((5, 2), (2, 3, 2), (1,) * 7, (3, -2, 4)):
        cache_agrees(*pair(2, 2, 3, 7, 4), parts, block, seed=2)


def test_task_1_cache_several_blocks_at_once():
    cache_agrees(*pair(3, 1, 2, 40, 3), (3, 30, 7), seed=3)


@pytest.mark.parametrize("parts", [(-4, 5), (2, -2, 4), (4, -4, 4)], ids=str)
def test_task_1_cache_keeps_what_was_fetched(parts):
    """Keys and values of an earlier call stay as they were when others are written where they were, in a full block."""
    cache_agrees(*pair(4, 2, 3, sum(n for n in parts if n > 0), 5), parts, seed=4)


def test_task_1_cache_sweep():
    for n in sweep(N=9, K=20, L=1100, D=257):
        parts = parts_of(n.seed, n.L)
        cache_agrees(*pair(n.seed, n.N, n.K, n.L, n.D, dtype=n.dtype), parts, n.turn(256, 1, 7, 64), seed=n)


@property_test
@given(parts=cuts, junk=junk, block=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_1_cache_any_split(parts, junk, block, seed):
    junk = junk[0], min(junk[1], sum(parts))
    cache_agrees(*pair(seed, 2, 3, sum(parts), 4), with_junk(parts, junk), block, seed=seed)


def test_task_1_cache_counts():
    """offset is a plain number, 0 at first; two caches count for themselves."""
    case = "block 4, calls of 2, 1 and 4 tokens, then rewind(3), rewind(0) and rewind(4)"
    with noted(case):
        kept, other = cache.KVCache(4), cache.KVCache(4)
        counts = [kept.offset]
        for length in (2, 1, 4):
            kept.update_and_fetch(*pair(5, 1, 2, length, 3))
            counts.append(kept.offset)
        for count in (3, 0, 4):
            kept.rewind(count)
            counts.append(kept.offset)
        counts.append(other.offset)
    if wrong := next((x for x in counts if type(x) is not int), None):
        fail(Kind.TYPE, f"offset is {type_words(wrong)}, expected an int", case)
    if counts != (expected := [0, 2, 3, 7, 4, 4, 0, 0]):
        fail(Kind.VALUES, "offset is wrong", case, f"expected  {expected}", f"got       {counts}")


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_task_1_cache_rewind(count):
    """What comes after a rewind stands where the forgotten ones stood."""
    key, value = pair(6, 2, 3, 6, 4)
    more_keys, more_values = pair(60, 2, 3, 5, 4)
    case = f"float32, key 2 x 3 x 6 x 4, block 4, rewind({count}), then key 2 x 3 x 5 x 4, seed 6"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(key, value)
        kept.rewind(count)
        keys, values = kept.update_and_fetch(more_keys, more_values)
    for name, actual, old, new in (("keys", keys, key, more_keys), ("values", values, value, more_values)):
        expected = np.concatenate([to_float64(old)[:, :, : 6 - count], to_float64(new)], axis=2)
        compare(actual, expected, mx.float32, 0.0, f"{name}; {case}", expected.size)


def test_task_1_cache_leaves_the_caller_s_arrays():
    """Four tokens fill a block; two are forgotten, and others take their places: not in the caller's own array."""
    given = pair(7, 2, 3, 4, 5)
    before = [to_float64(x) for x in given]
    case = "float32, key 2 x 3 x 4 x 5, block 4, rewind(2), then key 2 x 3 x 2 x 5, seed 7"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(*given)
        kept.rewind(2)
        mx.eval(kept.update_and_fetch(*pair(70, 2, 3, 2, 5)))
    for name, x, numbers in zip(("key", "value"), given, before, strict=True):
        if not np.array_equal(to_float64(x), numbers):
            line = "x[...] = changes an MLX array in place, for everyone who holds it"
            fail(Kind.INPUT_CHANGED, f"the caller's `{name}` of an earlier call was changed", case, line)


def test_task_1_cache_grows_by_blocks():
    """Of 96 tokens, one at a time in blocks of 16, few need a copy of what is there."""
    token = normals(8)(1, 4, 1, 64)
    case = "float32, key and value 1 x 4 x 1 x 64, block 16, 96 calls"
    copied = 0
    with noted(case):
        kept = cache.KVCache(16)
        for number in range(96):
            taken = most_at_once(lambda: kept.update_and_fetch(token, token))
            copied += number >= 16 and taken > number * token.nbytes
    if copied > 10:
        headline = f"{copied} of the last 80 calls took as much memory as all keys: what is there is copied"
        fail(Kind.VALUES, headline, case, "at most   10, as there are 5 new blocks")


OTHERS = {
    "another batch": (1, 3, 2, 4),
    "other heads": (2, 1, 2, 4),
    "another D": (2, 3, 2, 1),
    "no batch": (3, 2, 4),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS.keys())
def test_task_1_cache_refuses_other_shapes(shape):
    """Also such as would broadcast to those that are there; afterwards it goes on as if nothing had been."""
    key, value = pair(9, 2, 3, 6, 4)
    case = f"float32, key 2 x 3 x 5 x 4, then key {' x '.join(map(str, shape))}"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(key[:, :, :5], value[:, :, :5])
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.ones(shape), mx.ones(shape)))
    with noted(case):
        keys, values = kept.update_and_fetch(key[:, :, 5:], value[:, :, 5:])
    compare(keys, to_float64(key), mx.float32, 0.0, f"the next keys that fit; {case}", key.size)
    compare(values, to_float64(value), mx.float32, 0.0, f"the next values that fit; {case}", key.size)


def test_task_1_cache_refuses_another_dtype():
    key, value = pair(10, 2, 3, 2, 4)
    kept = cache.KVCache(4)
    kept.update_and_fetch(key, value)
    with raises_value_error("float32, key 2 x 3 x 2 x 4, then the same in float16"):
        mx.eval(kept.update_and_fetch(key.astype(mx.float16), value.astype(mx.float16)))


@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 2, 4), (2, 3, 2, 1)], ids=str)
def test_task_1_cache_refuses_values_that_differ_from_keys(shape):
    with raises_value_error(f"float32, key 2 x 3 x 2 x 4, value {' x '.join(map(str, shape))}"):
        mx.eval(cache.KVCache(4).update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones(shape)))


@pytest.mark.parametrize("count", [6, 260, -1])
def test_task_1_cache_refuses_to_rewind_more_than_there_is(count):
    case = f"float32, key 2 x 3 x 5 x 4, rewind({count})"
    kept = cache.KVCache()
    kept.update_and_fetch(*pair(11, 2, 3, 5, 4))
    with raises_value_error(case, str(abs(count)), "5"):
        kept.rewind(count)
    if kept.offset != 5:
        fail(Kind.VALUES, "a refused rewind has changed offset", case, "expected  5", f"got       {kept.offset}")


# Task 2, attention with a cache


def of(model):
    return ModelConfig.from_dict(model.config)


def in_calls(layer, parts):
    def run(x):
        kept = cache.KVCache(4)
        return in_parts(lambda part: layer(part, kept), kept.rewind, x, parts)

    return run


@built
def attended(x, model, parts):
    return in_calls(attention.Qwen3CachedAttention(of(model), model.layer(0)), parts)


@built
def attended_by_other_parts(x, model, parts):
    return in_calls(attention.Qwen3CachedAttention(of(model), halved(model).layer(0), Doubling()), parts)


def attended64(x, model, parts, *, r=exact):
    """Week 1's attention, of the whole text at once."""
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
    """Four tokens of one row, and of four."""
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
    """More tokens than a block has, every position that the config allows, and the ends of long parts."""
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
    """However the tokens come, and whatever was read and rewound, what comes out is the same."""
    junk = junk[0], min(junk[1], sum(parts))
    model = random_model(base, seed)
    agrees(attended, attended64, stream(seed, model, 1, sum(parts)), model, with_junk(parts, junk), seed=seed)


@by_architecture
def test_task_2_attention_two_texts_in_turn(base):
    """One layer, two caches: neither text hears of the other."""
    model = random_model(base, 5)
    x = stream(5, model)
    case = f"float32, two texts of x 1 x 5 x {x.shape[-1]} in turn, {model}, parts 2 + 1 + 2, seed 5"
    found = [[], []]
    with noted(case):
        layer, caches = attention.Qwen3CachedAttention(of(model), model.layer(0)), [cache.KVCache(4) for _ in range(2)]
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
        layer, kept = attention.Qwen3CachedAttention(of(model), model.layer(0)), cache.KVCache(4)
        counts = []
        for length in (3, 1, 2):
            layer(stream(6, model, 2, length), kept)
            counts.append(kept.offset)
    if counts != [3, 4, 6]:
        fail(Kind.VALUES, "the cache's offset is wrong", case, "expected  [3, 4, 6]", f"got       {counts}")


@by_architecture
def test_task_2_attention_mlx(base):
    """The same of MLX's own operators, for the whole text."""
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
    """With those that the cache holds; and it holds no more than before."""
    model = random_model(base, 8, max_position_embeddings=4)
    case = f"float32, {model}, max_position_embeddings 4, calls of 3 and 2 tokens"
    with noted(case):
        layer, kept = attention.Qwen3CachedAttention(of(model), model.layer(0)), cache.KVCache(4)
        layer(stream(8, model, 1, 3), kept)
    with raises_value_error(case):
        mx.eval(layer(stream(8, model, 1, 2), kept))
    if kept.offset != 3:
        fail(Kind.VALUES, "tokens that were refused are in the cache", case, "expected  3", f"got       {kept.offset}")
    with noted(f"{case}, then one of 1"):
        mx.eval(layer(stream(8, model, 1, 1), kept))


@by_architecture
def test_task_2_attention_by_other_parts(base):
    """Its matrices are halved, and the parts that it is given double what a projection gives."""
    model = random_model(base, 11)
    agrees(attended_by_other_parts, attended64, stream(11, model), model, Parts((2, 1, 2)), seed=11)


@by_architecture
def test_task_2_attention_needs_every_weight(base):
    model = random_model(base, 9)
    for name in [name for name in model.layer(0) if name.startswith("self_attn.")]:
        part = model.without(f"model.layers.0.{name}").layer(0)
        with raises_error(KeyError, f"building the attention of {model}, without {name}"):
            attention.Qwen3CachedAttention(of(model), part)


@by_architecture
def test_task_2_attention_is_what_the_config_says(base):
    """Norms or biases of the other architecture, which lie in the same dictionary, are not used."""
    own = random_model(base, 10)
    other = random_model({**base, "model_type": {"qwen3": "qwen2", "qwen2": "qwen3"}[base["model_type"]]}, 100)
    fuller, x = own.with_weights(**(other.weights | own.weights)), stream(10, own)
    expected = attended64(to_float64(x), own, None)
    agrees(attended, attended64, x, fuller, Parts((3, 2)), seed=10, expected=expected)


# Task 3, the model with caches


def at_every_position(whole, parts):
    def run(tokens):
        caches = whole.new_caches()

        def rewind(count):
            for each in caches:
                each.rewind(count)

        return in_parts(lambda part: whole(part, caches, all_positions=True), rewind, tokens, parts)

    return run


@built
def logits(tokens, model_, parts):
    return at_every_position(model.Qwen3CachedModel(of(model_), model_.weights), parts)


@built
def logits_by_other_parts(tokens, model_, parts):
    return at_every_position(model.Qwen3CachedModel(of(model_), halved(model_).weights, Doubling()), parts)


def logits64(tokens, model, parts, *, r=exact):
    return model64(tokens, model, r=r)


@built
def last_logits(tokens, model_, parts):
    """After the last token of each part."""
    whole = model.Qwen3CachedModel(of(model_), model_.weights)

    def run(tokens):
        caches, ends = whole.new_caches(), np.cumsum([0, *parts])
        calls = [whole(tokens[:, a:b], caches) for a, b in itertools.pairwise(ends)]
        return mx.concatenate(calls, axis=1)

    return run


def last_logits64(tokens, model, parts, *, r=exact):
    return r(model64(tokens, model, r=r)[:, np.cumsum(parts) - 1])


@built
def alone(tokens, model_, all_positions):
    """Without caches."""
    whole = model.Qwen3CachedModel(of(model_), model_.weights)
    return lambda tokens: whole(tokens, all_positions=True) if all_positions else whole(tokens)


def alone64(tokens, model, all_positions, *, r=exact):
    found = model64(tokens, model, r=r)
    return found if all_positions else found[:, -1:]


@by_dtype
@by_head
@by_architecture
def test_task_3_model_formula(base, tied, dtype):
    whole, tokens = random_model(base, 1, dtype, tie_word_embeddings=tied), random_tokens(1, 2, 5)
    for parts in ((5,), (2, 1, 2), (2, -3, 3)):
        agrees(logits, logits64, tokens, whole, Parts(parts), seed=1, dtype=dtype)


@by_dtype
@by_architecture
def test_task_3_model_scores_the_last_token(base, dtype):
    whole, tokens = random_model(base, 2, dtype), random_tokens(2, 2, 5)
    for parts in ((5,), (2, 1, 2), (1, 1, 1, 1, 1)):
        agrees(last_logits, last_logits64, tokens, whole, Parts(parts), seed=2, dtype=dtype)


@by_architecture
@pytest.mark.parametrize("all_positions", [False, True])
def test_task_3_model_without_caches(all_positions, base):
    """The whole text, of which nothing is kept."""
    agrees(alone, alone64, random_tokens(3, 2, 5), random_model(base, 3), all_positions, seed=3, dtype=mx.float32)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
@by_architecture
def test_task_3_model_other_config(base, change):
    whole = random_model(base, 4, **change)
    agrees(logits, logits64, random_tokens(4, 2, 5), whole, Parts((2, 1, 2)), seed=4, dtype=mx.float32)


@by_head
@by_architecture
def test_task_3_model_by_other_parts(base, tied):
    """Its matrices are halved, and the parts that it is given double what a matrix gives."""
    whole, tokens = random_model(base, 15, tie_word_embeddings=tied), random_tokens(15, 2, 5)
    agrees(logits_by_other_parts, logits64, tokens, whole, Parts((2, 1, 2)), seed=15, dtype=mx.float32)


def test_task_3_model_of_eleven_layers():
    whole = random_model(QWEN3, 5, num_hidden_layers=11)
    agrees(logits, logits64, random_tokens(5, 1, 3), whole, Parts((2, 1)), seed=5, dtype=mx.float32)


def test_task_3_model_sweep():
    for n in sizes(N=4, L=65, V=300, M=3, K=2):
        measures = {
            "tie_word_embeddings": n.turn(True, False, False),
            "vocab_size": n.V,
            "num_hidden_layers": n.M,
            "num_key_value_heads": n.K,
            "num_attention_heads": 2 * n.K,
        }
        whole = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, **measures)
        tokens = mx.array(token_ids(n.seed, n.V, n.N * n.L)).reshape(n.N, n.L)
        agrees(logits, logits64, tokens, whole, parts_of(n.seed + n.L, n.L), seed=n, dtype=mx.float32)


@property_test
@given(
    parts=cuts,
    junk=junk,
    base=st.sampled_from([QWEN3, QWEN25]),
    tied=st.booleans(),
    batch=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_task_3_model_any_split(parts, junk, base, tied, batch, seed):
    """However a text is cut into calls, and whatever was read and rewound, its logits are those of the whole."""
    junk = junk[0], min(junk[1], sum(parts))
    whole, tokens = random_model(base, seed, tie_word_embeddings=tied), random_tokens(seed, batch, sum(parts))
    agrees(logits, logits64, tokens, whole, with_junk(parts, junk), seed=seed, dtype=mx.float32)


def test_task_3_model_trained():
    """The model that comes with the course, a prompt and then one token at a time, by MLX's operators."""
    whole = embedded_model()
    tokens = random_tokens(6, 1, 12, vocab_size=whole.config["vocab_size"])
    c, w = of(whole), whole.weights
    x = w["model.embed_tokens.weight"][tokens]
    for number in range(c.num_hidden_layers):
        x = layer_of_operators(x, c, whole.layer(number), "causal")
    expected = mx.fast.rms_norm(x, w["model.norm.weight"], c.rms_norm_eps) @ w["model.embed_tokens.weight"].T
    case = f"float32, tokens 1 x 12, {whole}, parts 8 + 1 + 1 + 1 + 1, seed 6"
    with noted(case):
        actual = logits(tokens, whole, Parts((8, 1, 1, 1, 1)))
    compare(actual, to_float64(expected), mx.float32, 2e-3, case, tokens.size)


@by_architecture
def test_task_3_model_reads_into_the_caches(base):
    """Any KVCache will do, with blocks of any size; each then holds every token, and is all that the model goes by."""
    whole, tokens = random_model(base, 14), random_tokens(14, 2, 5)
    case = f"float32, tokens 2 x 5, {whole}, parts 2 + 3, caches in blocks of 4 and 1, seed 14"
    with noted(case):
        caches = [cache.KVCache(4), cache.KVCache(1)]
        parts = [tokens[:, :2], tokens[:, 2:]]
        programs = [model.Qwen3CachedModel(of(whole), whole.weights) for _ in parts]
        found = [program(part, caches, all_positions=True) for program, part in zip(programs, parts, strict=True)]
        counts = [each.offset for each in caches]
    if counts != [5, 5]:
        fail(Kind.VALUES, "the caches' offsets are wrong", case, "expected  [5, 5]", f"got       {counts}")
    actual = mx.concatenate(found, axis=1)
    compare(actual, model64(to_float64(tokens), whole), mx.float32, 1e-4, case, actual.size)


@by_architecture
def test_task_3_model_two_texts_in_turn(base):
    """One model, two lots of caches."""
    whole, tokens = random_model(base, 7), random_tokens(7, 2, 5)
    case = f"float32, two texts of tokens 1 x 5 in turn, {whole}, parts 2 + 1 + 2, seed 7"
    found = [[], []]
    with noted(case):
        program = model.Qwen3CachedModel(of(whole), whole.weights)
        lots = [program.new_caches(), program.new_caches()]
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            for row in range(2):
                found[row].append(program(tokens[row : row + 1, part], lots[row], all_positions=True))
    expected = model64(to_float64(tokens), whole)
    for row in range(2):
        actual = mx.concatenate(found[row], axis=1)
        compare(actual, expected[row : row + 1], mx.float32, 1e-4, f"text {row}; {case}", actual.size)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_task_3_model_makes_a_cache_for_each_layer(layers):
    whole = random_model(QWEN3, 8, num_hidden_layers=layers)
    case = f"new_caches() of {whole}"
    with noted(case):
        caches = model.Qwen3CachedModel(of(whole), whole.weights).new_caches()
    if not isinstance(caches, list) or not all(getattr(each, "offset", None) == 0 for each in caches):
        fail(Kind.TYPE, f"got {type_words(caches)}, expected a list of empty caches", case)
    if (count := len({id(each) for each in caches})) != layers or len(caches) != layers:
        lines = f"expected  {layers}, all different", f"got       {len(caches)}, of which {count} differ"
        fail(Kind.VALUES, "another number of caches", case, *lines)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_task_3_model_refuses_another_number_of_caches(count):
    whole = random_model(QWEN3, 9)
    with raises_value_error(f"{whole}, tokens 1 x 2, {count} caches", str(count), "2"):
        mx.eval(model.Qwen3CachedModel(of(whole), whole.weights)(random_tokens(9, 1, 2), [cache.KVCache()] * count))


def test_task_3_model_computes_no_other_scores():
    """50,000 tokens to score after 64 positions: the scores of all would take 12.8 MB, and those that are asked for
    take 0.2."""
    whole = random_model(QWEN3, 10, vocab_size=50000, max_position_embeddings=1000)
    tokens = random_tokens(10, 1, 64)
    case = f"float32, tokens 1 x 64, {whole}"
    with noted(case):
        program = model.Qwen3CachedModel(of(whole), whole.weights)
        mx.eval(program(tokens))
        taken = most_at_once(lambda: program(tokens))
    if taken > 64 * 50000 * 4 // 2:
        headline = f"one call takes {taken / 1e6:.1f} MB: every position is scored, and not the last one alone"
        fail(Kind.VALUES, headline, case, "at most   6.4 MB")


@by_architecture
def test_task_3_model_needs_every_weight(base):
    whole = random_model(base, 11, num_hidden_layers=1)
    for name in whole.weights:
        with raises_error(KeyError, f"building {whole}, without {name}"):
            model.Qwen3CachedModel(of(whole), whole.without(name).weights)


@by_architecture
def test_task_3_model_refuses_more_tokens_than_the_config_allows(base):
    whole = random_model(base, 12, max_position_embeddings=4)
    case = f"{whole}, max_position_embeddings 4, calls of 4 and 1 tokens"
    with noted(case):
        program = model.Qwen3CachedModel(of(whole), whole.weights)
        caches = program.new_caches()
        mx.eval(program(random_tokens(12, 1, 4), caches))
    with raises_value_error(case):
        mx.eval(program(random_tokens(12, 1, 1), caches))


# Task 4, generating with a cache


def count_up(tokens):
    return (tokens[-1] + 1) % 11


def add_up(tokens):
    """Depends on every token so far."""
    return (sum(tokens) + len(tokens)) % 11


def continuation(follow, prompt, number):
    tokens = list(prompt)
    for _ in range(number):
        tokens.append(follow(tokens))
    return tokens[len(prompt) :]


def drawn(iterator, case, most=200):
    if not hasattr(iterator, "__next__"):
        fail(Kind.TYPE, f"got {type_words(iterator)}, expected an iterator", case)
    return list(itertools.islice(iterator, most))


def check_tokens(follow, prompt, max_tokens, expected, dtype=mx.float32, vocab=11, **options):
    """The text, and what the model is given for it: the prompt, and then one token at a time."""
    shown = "".join(f", {name} {value}" for name, value in options.items())
    text = str(prompt) if len(prompt) < 20 else f"of {len(prompt)} tokens"
    case = f"a model that {follow.__name__.replace('_', 's ')}, prompt {text}, max_tokens {max_tokens}{shown}"
    reader, given = Reader(follow, case, vocab, dtype, options.get("context_length")), list(prompt)
    tokens = again(lambda: drawn(generate.generate_cached(reader, given, max_tokens, **options), case), case)
    same_ids(tokens, expected, case)
    if given != prompt:
        fail(Kind.INPUT_CHANGED, "the caller's `prompt` was changed", case, "append to a list of your own")
    half = len(reader.seen) // 2  # both times
    room = min(max_tokens, options.get("context_length", len(prompt) + max_tokens) - len(prompt))
    if half > (needed := len(tokens) + (len(tokens) < room)):  # one more finds the end
        lines = f"at most   {needed}", f"got       {half}"
        fail(Kind.VALUES, f"for {len(tokens)} tokens the model was called more often than needed", case, *lines)
    for i, seen in enumerate(reader.seen[:half]):
        fed = [tokens[i - 1]] if i else prompt
        same_ids(seen, fed, f"what call {i + 1} of the model is given; {case}")


@by_dtype
def test_task_4_cached_count_up(dtype):
    check_tokens(count_up, [3], 4, [4, 5, 6, 7], dtype)
    check_tokens(count_up, [7, 5, 8], 5, [9, 10, 0, 1, 2], dtype)


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 20])
def test_task_4_cached_length_limit(max_tokens):
    check_tokens(add_up, [2, 5, 1], max_tokens, continuation(add_up, [2, 5, 1], max_tokens))


@property_test
@given(prompt=st.lists(st.integers(0, 10), min_size=1, max_size=6), max_tokens=st.integers(0, 8))
def test_task_4_cached_formula(prompt, max_tokens):
    check_tokens(add_up, prompt, max_tokens, continuation(add_up, prompt, max_tokens))


def test_task_4_cached_sweep():
    """Prompts, answers and vocabularies of many sizes."""
    for n in sizes(P=1100, M=140, V=4200):

        def wander_about(tokens, n=n):
            return n.V - 1 if len(tokens) % 3 == 0 else (tokens[-1] * 7 + len(tokens)) % n.V

        prompt = token_ids(n.seed, n.V, n.P)
        check_tokens(wander_about, prompt, n.M, continuation(wander_about, prompt, n.M), vocab=n.V)


@pytest.mark.parametrize(("eos_ids", "expected"), [([8], [4, 5, 6, 7]), ((6, 4), []), ({0, 7}, [4, 5, 6]), ((), None)])
def test_task_4_cached_end(eos_ids, expected):
    """Any of the eos_ids ends the text and is not yielded."""
    wanted = continuation(count_up, [3], 12) if expected is None else expected
    check_tokens(count_up, [3], 12, wanted, eos_ids=eos_ids)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "context_length", "expected"),
    [([3], 9, 4, [4, 5, 6]), ([1, 2, 3], 9, 4, [4]), ([1, 2, 3], 9, 3, []), ([1, 2, 3], 2, 9, [4, 5])],
)
def test_task_4_cached_context_length(prompt, max_tokens, context_length, expected):
    check_tokens(count_up, prompt, max_tokens, expected, context_length=context_length)


@pytest.mark.parametrize("options", [{}, {"context_length": 2}], ids=str)
def test_task_4_cached_refused_at_the_call(options):
    """Before a token is asked for."""
    prompt = [1, 2, 3] if options else []
    case = f"prompt {prompt}, {options or 'no limit'}, no token asked for yet"
    with raises_value_error(case):
        generate.generate_cached(Reader(count_up, case), prompt, 3, **options)


def test_task_4_cached_as_soon_as_known():
    """The first token comes before the model is called a second time."""
    case = "a model that counts up, prompt [3], tokens taken one at a time"
    reader = Reader(count_up, case)
    with noted(case):
        tokens = generate.generate_cached(reader, [3], 5)
        for number in range(1, 6):
            if not drawn(tokens, case, 1):
                fail(Kind.VALUES, f"token {number} did not come", case)
            if len(reader.seen) != number:
                headline = f"when token {number} came, the model had been called {len(reader.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {number}", f"got       {len(reader.seen)}")


@by_dtype
def test_task_4_cached_sampler(dtype):
    """It is given the last position's logits in float32 and all tokens so far, and has the last word."""
    case = f"{dtype_word(dtype)} logits, a sampler that chooses the second most likely token, prompt [3, 5]"
    reader, calls = Reader(add_up, case, dtype=dtype), []

    def second(scores, tokens):
        calls.append((scores, tokens if not isinstance(tokens, list) else [list(row) for row in tokens]))
        return mx.argsort(scores, axis=-1)[..., -2]

    expected = [3, 5]
    for _ in range(4):
        expected.append(int(np.argsort(to_float64(reader.logits(expected)))[-2]))
    with noted(case):
        tokens = drawn(generate.generate_cached(reader, [3, 5], 4, sampler=second), case)
    same_ids(tokens, expected[2:], case)
    for i, (scores, so_far) in enumerate(calls):
        row = to_float64(reader.logits(expected[: 2 + i]))[None]
        compare(scores, row, mx.float32, 0.0, f"the logits that the sampler is given for token {i}; {case}", row.size)
        same_ids(so_far[0], expected[: 2 + i], f"the tokens that the sampler is given for token {i}; {case}")


def test_task_4_cached_two_at_once():
    """Two texts of one model that are continued in turn, each with caches of its own."""
    case = "two continuations that are asked for tokens in turn, prompts [3] and [5, 6]"
    with noted(case):
        reader = Reader(count_up, case)
        texts = [generate.generate_cached(reader, prompt, 4) for prompt in ([3], [5, 6])]
        tokens = [[], []]
        for _ in range(4):
            for row, text in enumerate(texts):
                tokens[row] += drawn(text, case, 1)
    same_ids(tokens[0], [4, 5, 6, 7], case)
    same_ids(tokens[1], [7, 8, 9, 10], case)


@by_architecture
def test_task_4_cached_with_your_model(base):
    """The likeliest tokens by the formula of the whole text, which is computed again for each."""
    whole, prompt = random_model(base, 13), [5, 7, 11]
    expected = list(prompt)
    for _ in range(12):
        expected.append(int(model64(np.array([expected]), whole)[0, -1].argmax()))
    case = f"{whole}, prompt {prompt}, max_tokens 12"
    with noted(case):
        program = model.Qwen3CachedModel(of(whole), whole.weights)
        tokens = drawn(generate.generate_cached(program, prompt, 12), case)
    same_ids(tokens, expected[3:], case)
