"""Week 3, day 1, task 2: the model.

Each request must get the logits that it gets alone, by the formulas of week 1 in float64.
"""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.layer_of_operators import layer_of_operators
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, model64, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week3.ragged import CALLS, Calls, calls_of, played, rows_of, stacked

from tiny_llm.config import ModelConfig
from tiny_llm.serving import kv_cache, ragged, request
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes

by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


def of(model):
    return ModelConfig.from_dict(model.config)


def in_calls(program, model, calls, scored):
    def run(tokens):
        kept, found = kv_cache.DenseKVCache(model.config["num_hidden_layers"]), []
        for chunks, spans in played(request, calls, tokens.tolist(), kept, scored):
            logits = program(chunks, kept)
            mx.eval(logits)
            wanted = sum(chunk.num_logits for chunk in chunks)
            if isinstance(logits, mx.array) and logits.shape != (wanted, model.config["vocab_size"]):
                lines = f"expected  {wanted} x {model.config['vocab_size']}", f"got       {logits.shape}"
                fail(Kind.SHAPE, "wrong shape", f"a call of {calls}, logits: {scored}", *lines)
            stays = [stays for chunk, (_, _, stays) in zip(chunks, spans, strict=True) for _ in range(chunk.num_logits)]
            found += [logits[row : row + 1] for row, each in enumerate(stays) if each]
        return mx.concatenate(found)

    return run


@built
def logits(tokens, model, calls, scored):
    return in_calls(ragged.RaggedModel(of(model), model.weights), model, calls, scored)


@built
def logits_by_other_parts(tokens, model, calls, scored):
    return in_calls(ragged.RaggedModel(of(model), halved(model).weights, Doubling()), model, calls, scored)


def logits64(tokens, model, calls, scored, *, r=exact):
    """Return the requested rows of each request's logits, from all its tokens at once."""
    rows = rows_of(calls, *tokens.shape, scored)
    every = model64(tokens, model, r=r)
    return r(stacked([every[who, at] for who, at in rows if at >= 0], every))


@by_dtype
@by_head
@by_architecture
def test_task_2_ragged_formula(base, tied, dtype):
    model, tokens = random_model(base, 1, dtype, tie_word_embeddings=tied), random_tokens(1, 3, 5)
    for calls in CALLS:
        agrees(logits, logits64, tokens, model, calls, "last", seed=1, dtype=dtype)


@pytest.mark.parametrize("scored", ["last", "all", "some", "end"])
@by_architecture
def test_task_2_ragged_requested_logits(base, scored):
    """Logits after each chunk's last token, all or some of its tokens, or only at the end of a request."""
    model, tokens = random_model(base, 2), random_tokens(2, 3, 5)
    for calls in CALLS:
        if any(at >= 0 for _, at in rows_of(calls, 3, 5, scored)):
            agrees(logits, logits64, tokens, model, calls, scored, seed=2, dtype=mx.float32)


def test_task_2_ragged_no_logits():
    """A chunk in the middle of a prompt: no rows, of V logits."""
    model, case = random_model(QWEN3, 3), "float32, one chunk of 3 tokens, num_logits 0, seed 3"
    with noted(case):
        kept = kv_cache.DenseKVCache(2)
        one = request.Request([5, 7, 11, 2], 1)
        kept.admit(one)
        actual = ragged.RaggedModel(of(model), model.weights)([request.Chunk(one, 0, [5, 7, 11], 0)], kept)
    compare(actual, np.zeros((0, 29)), mx.float32, 0.0, case, 3)


@pytest.mark.parametrize("wanted", [1, 0])
def test_task_2_ragged_computes_no_other_logits(wanted):
    """A vocabulary of 50,000 and a chunk of 64 tokens: all logits would take 12.8 MB, the requested ones take 0.2."""
    model = random_model(QWEN3, 14, vocab_size=50000, max_position_embeddings=1000)
    case = f"float32, one chunk of 64 tokens, num_logits {wanted}, {model}"
    with noted(case):
        program = ragged.RaggedModel(of(model), model.weights)
        for _ in range(2):
            kept, one = kv_cache.DenseKVCache(2), request.Request([5] * 65, 1)
            kept.admit(one)
            taken = peak_bytes(partial(program, [request.Chunk(one, 0, [5] * 64, wanted)], kept))
    if taken > 64 * 50000 * 4 // 2:
        headline = f"one call takes {taken / 1e6:.1f} MB: logits are computed that no chunk asks for"
        fail(Kind.VALUES, headline, case, "at most   6.4 MB")


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
@by_architecture
def test_task_2_ragged_other_config(base, change):
    agrees(
        logits,
        logits64,
        random_tokens(4, 3, 5),
        random_model(base, 4, **change),
        CALLS[3],
        "last",
        seed=4,
        dtype=mx.float32,
    )


@by_head
@by_architecture
def test_task_2_ragged_other_layer_factory(base, tied):
    """The weights are halved, and the layer factory doubles what a matrix returns."""
    model, tokens = random_model(base, 5, tie_word_embeddings=tied), random_tokens(5, 3, 5)
    agrees(logits_by_other_parts, logits64, tokens, model, CALLS[3], "all", seed=5, dtype=mx.float32)


def test_task_2_ragged_unused_head():
    """The config ties the head, but the weights contain an lm_head."""
    model = random_model(QWEN3, 12, tie_word_embeddings=True)
    model = model.with_weights(**{"lm_head.weight": normals(120)(29, 12)})
    agrees(logits, logits64, random_tokens(12, 3, 5), model, CALLS[2], "last", seed=12, dtype=mx.float32)


def test_task_2_ragged_of_eleven_layers():
    model = random_model(QWEN3, 6, num_hidden_layers=11)
    agrees(logits, logits64, random_tokens(6, 3, 5), model, CALLS[3], "last", seed=6, dtype=mx.float32)


def test_task_2_ragged_sweep():
    for n in sizes(B=4, L=65, V=300, M=3, K=2):
        measures = {
            "tie_word_embeddings": n.turn(True, False, False),
            "vocab_size": n.V,
            "num_hidden_layers": n.M,
            "num_key_value_heads": n.K,
            "num_attention_heads": 2 * n.K,
        }
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, **measures)
        tokens = mx.array(token_ids(n.seed, n.V, n.B * n.L)).reshape(n.B, n.L)
        calls = calls_of(n.seed, n.B, n.L)
        agrees(logits, logits64, tokens, model, calls, n.turn("all", "last", "some"), seed=n, dtype=mx.float32)


@property_test
@given(
    requests=st.integers(1, 4),
    length=st.integers(1, 6),
    base=st.sampled_from([QWEN3, QWEN25]),
    scored=st.sampled_from(["last", "all", "some", "end"]),
    number=st.integers(0, 999),
)
def test_task_2_ragged_any_calls(requests, length, base, scored, number):
    """Requests of different lengths in one batch get what each gets alone."""
    calls, tokens = calls_of(number, requests, length), random_tokens(number, requests, length)
    agrees(logits, logits64, tokens, random_model(base, number), calls, scored, seed=number, dtype=mx.float32)


def test_task_2_ragged_trained():
    """The course's model, two requests of different lengths, by MLX's operators."""
    model = embedded_model()
    tokens = random_tokens(7, 2, 8, vocab_size=model.config["vocab_size"])
    c, w = of(model), model.weights
    x = w["model.embed_tokens.weight"][tokens]
    for number in range(c.num_hidden_layers):
        x = layer_of_operators(x, c, model.layer(number), "causal")
    every = mx.fast.rms_norm(x, w["model.norm.weight"], c.rms_norm_eps) @ w["model.embed_tokens.weight"].T
    calls = Calls([((0, 6),), ((0, 1), (1, 7)), ((1, 1), (0, 1))])
    case = f"float32, {model}, {calls}, seed 7"
    with noted(case):
        actual = logits(tokens, model, calls, "last")
    expected = [to_float64(every[who, at]) for who, at in rows_of(calls, 2, 8, "last")]
    compare(actual, np.stack(expected), mx.float32, 2e-3, case, tokens.size)


@by_head
@by_architecture
def test_task_2_ragged_needs_every_weight(base, tied):
    """The config says which weights there are."""
    model = random_model(base, 13, num_hidden_layers=1, tie_word_embeddings=tied)
    for name in model.weights:
        with raises_error(KeyError, f"building {model}, without {name}"):
            ragged.RaggedModel(of(model), model.without(name).weights)


@pytest.mark.parametrize(("start", "first"), [(0, False), (3, False), (0, True)])
def test_task_2_ragged_refuses_too_many_tokens(start, first):
    """One of two requests exceeds max_position_embeddings: the message has both numbers, the KV cache is unchanged."""
    model = random_model(QWEN3, 8, max_position_embeddings=6)
    case = f"float32, max_position_embeddings 6, a chunk of 2 tokens, and one from {start} to 7, seed 8"
    with noted(case):
        program, kept = ragged.RaggedModel(of(model), model.weights), kv_cache.DenseKVCache(2)
        one, other = request.Request([1, 2, 3], 1), request.Request([4, 5, 6, 7, 8, 9, 10], 1)
        kept.admit(one)
        kept.admit(other)
        if start:
            mx.eval(program([request.Chunk(other, 0, [4, 5, 6], 1)], kept))
            other.num_computed_tokens = 3
    chunks = [request.Chunk(one, 0, [1, 2], 1), request.next_chunk(other, 7 - start)]
    with raises_value_error(f"{case}{', which comes first' * first}", "7", "6"):
        mx.eval(program(chunks[::-1] if first else chunks, kept))
    with noted(case):
        actual = program([request.Chunk(one, 0, [1, 2], 1)], kept)
    expected = to_float64(logits(mx.array([[1, 2]]), model, Calls([((0, 2),)]), "last"))
    compare(actual, expected, mx.float32, 1e-5, f"the same chunk of 2 tokens after the error; {case}", 9)


def test_task_2_ragged_exactly_as_many_tokens():
    model, tokens = random_model(QWEN3, 9, max_position_embeddings=5), random_tokens(9, 2, 5)
    agrees(logits, logits64, tokens, model, Calls([((0, 5), (1, 4)), ((1, 1),)]), "last", seed=9, dtype=mx.float32)


def test_task_2_ragged_two_caches():
    """The model is stateless: the same chunks again, with another KV cache."""
    model, case = random_model(QWEN3, 10), "float32, the same calls twice, each time with a new KV cache, seed 10"
    tokens = random_tokens(10, 3, 5)
    with noted(case):
        run = in_calls(ragged.RaggedModel(of(model), model.weights), model, CALLS[3], "all")
        first, second = run(tokens), run(tokens)
    compare(second, to_float64(first), mx.float32, 0.0, case, tokens.size)
