"""Week 2, day 1, task 3: the model with caches.

The logits must equal those of week 1 for the whole sequence, by float64 formulas and MLX operators, however the
sequence is split into calls, and whatever was rewound in between.
"""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, cuts, in_parts, junk, parts_of, with_junk

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached import cache, model
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes


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
    return at_every_position(model.Qwen3CachedModel(ModelConfig.from_dict(model_.config), model_.weights), parts)


@built
def logits_by_other_parts(tokens, model_, parts):
    return at_every_position(
        model.Qwen3CachedModel(ModelConfig.from_dict(model_.config), halved(model_).weights, Doubling()), parts
    )


def logits64(tokens, model, parts, *, r=exact):
    return model64(tokens, model, r=r)


@built
def last_logits(tokens, model_, parts):
    """The logits after the last token of each part."""
    whole = model.Qwen3CachedModel(ModelConfig.from_dict(model_.config), model_.weights)

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
    whole = model.Qwen3CachedModel(ModelConfig.from_dict(model_.config), model_.weights)
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
def test_task_3_model_returns_the_last_logits(base, dtype):
    whole, tokens = random_model(base, 2, dtype), random_tokens(2, 2, 5)
    for parts in ((5,), (2, 1, 2), (1, 1, 1, 1, 1)):
        agrees(last_logits, last_logits64, tokens, whole, Parts(parts), seed=2, dtype=dtype)


@by_architecture
@pytest.mark.parametrize("all_positions", [False, True])
def test_task_3_model_without_caches(all_positions, base):
    """Without caches, the whole sequence is computed and nothing is stored."""
    agrees(alone, alone64, random_tokens(3, 2, 5), random_model(base, 3), all_positions, seed=3, dtype=mx.float32)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
@by_architecture
def test_task_3_model_other_config(base, change):
    whole = random_model(base, 4, **change)
    agrees(logits, logits64, random_tokens(4, 2, 5), whole, Parts((2, 1, 2)), seed=4, dtype=mx.float32)


@by_head
@by_architecture
def test_task_3_model_with_other_parts(base, tied):
    """Halved matrices and parts that double each product leave the logits unchanged."""
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
    """The logits do not depend on the split into calls, or on rewound tokens."""
    junk = junk[0], min(junk[1], sum(parts))
    whole, tokens = random_model(base, seed, tie_word_embeddings=tied), random_tokens(seed, batch, sum(parts))
    agrees(logits, logits64, tokens, whole, with_junk(parts, junk), seed=seed, dtype=mx.float32)


def test_task_3_model_trained():
    """The embedded model: a prompt and then one token at a time, against MLX operators."""
    whole = embedded_model()
    tokens = random_tokens(6, 1, 12, vocab_size=whole.config["vocab_size"])
    c, w = ModelConfig.from_dict(whole.config), whole.weights
    x = w["model.embed_tokens.weight"][tokens]
    for number in range(c.num_hidden_layers):
        x = layer_of_operators(x, c, whole.layer(number), "causal")
    expected = mx.fast.rms_norm(x, w["model.norm.weight"], c.rms_norm_eps) @ w["model.embed_tokens.weight"].T
    case = f"float32, tokens 1 x 12, {whole}, parts 8 + 1 + 1 + 1 + 1, seed 6"
    with noted(case):
        actual = logits(tokens, whole, Parts((8, 1, 1, 1, 1)))
    compare(actual, to_float64(expected), mx.float32, 2e-3, case, tokens.size)


@by_architecture
def test_task_3_model_fills_the_caches(base):
    """The model works with any KVCache of any block size, fills it, and keeps no other state."""
    whole, tokens = random_model(base, 14), random_tokens(14, 2, 5)
    case = f"float32, tokens 2 x 5, {whole}, parts 2 + 3, caches in blocks of 4 and 1, seed 14"
    with noted(case):
        caches = [cache.KVCache(4), cache.KVCache(1)]
        parts = [tokens[:, :2], tokens[:, 2:]]
        programs = [model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights) for _ in parts]
        found = [program(part, caches, all_positions=True) for program, part in zip(programs, parts, strict=True)]
        counts = [each.offset for each in caches]
    if counts != [5, 5]:
        fail(Kind.VALUES, "the caches' offsets are wrong", case, "expected  [5, 5]", f"got       {counts}")
    actual = mx.concatenate(found, axis=1)
    compare(actual, model64(to_float64(tokens), whole), mx.float32, 1e-4, case, actual.size)


@by_architecture
def test_task_3_model_two_sequences(base):
    """One model, two sets of caches."""
    whole, tokens = random_model(base, 7), random_tokens(7, 2, 5)
    case = f"float32, two interleaved sequences of tokens 1 x 5, {whole}, parts 2 + 1 + 2, seed 7"
    found = [[], []]
    with noted(case):
        program = model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights)
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
        caches = model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights).new_caches()
    if not isinstance(caches, list) or not all(getattr(each, "offset", None) == 0 for each in caches):
        fail(Kind.TYPE, f"got {type_words(caches)}, expected a list of empty caches", case)
    if (count := len({id(each) for each in caches})) != layers or len(caches) != layers:
        lines = f"expected  {layers}, all different", f"got       {len(caches)}, of which {count} differ"
        fail(Kind.VALUES, "the number of caches is wrong", case, *lines)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_task_3_model_refuses_another_number_of_caches(count):
    whole = random_model(QWEN3, 9)
    with raises_value_error(f"{whole}, tokens 1 x 2, {count} caches", str(count), "2"):
        mx.eval(
            model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights)(
                random_tokens(9, 1, 2), [cache.KVCache()] * count
            )
        )


def test_task_3_model_computes_no_other_logits():
    """A vocabulary of 50,000 and 64 positions: all logits would take 12.8 MB, the requested ones take
    0.2."""
    whole = random_model(QWEN3, 10, vocab_size=50000, max_position_embeddings=1000)
    tokens = random_tokens(10, 1, 64)
    case = f"float32, tokens 1 x 64, {whole}"
    with noted(case):
        program = model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights)
        mx.eval(program(tokens))
        taken = peak_bytes(lambda: program(tokens))
    if taken > 64 * 50000 * 4 // 2:
        headline = f"one call takes {taken / 1e6:.1f} MB: all positions are computed, not only the last"
        fail(Kind.VALUES, headline, case, "at most   6.4 MB")


@by_architecture
def test_task_3_model_needs_every_weight(base):
    whole = random_model(base, 11, num_hidden_layers=1)
    for name in whole.weights:
        with raises_error(KeyError, f"building {whole}, without {name}"):
            model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.without(name).weights)


@by_architecture
def test_task_3_model_refuses_more_tokens_than_the_config_allows(base):
    whole = random_model(base, 12, max_position_embeddings=4)
    case = f"{whole}, max_position_embeddings 4, calls of 4 and 1 tokens"
    with noted(case):
        program = model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights)
        caches = program.new_caches()
        mx.eval(program(random_tokens(12, 1, 4), caches))
    with raises_value_error(case):
        mx.eval(program(random_tokens(12, 1, 1), caches))
