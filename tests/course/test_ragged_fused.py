"""The fused engine for many requests: its logits are those of `RaggedModel`, and of week 2's engine for one request."""

import importlib

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.reference_model import QWEN3, QWEN25, random_model

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.grading.build import must_be_built
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import SOLUTION_NAME, load_solution

pytestmark = pytest.mark.skipif(bool(missing(["compiler"])), reason="not run here: needs a C++ compiler")

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}
# What each of three requests reads in each step, and after how many of the last of them it asks for a next token.
STEPS = [
    [(5, 1), (1, 1), (0, 0)],
    [(1, 1), (1, 1), (7, 0)],
    [(1, 1), (0, 0), (13, 1)],
    [(1, 1), (1, 1), (1, 1)],
    [(4, 4), (1, 1), (3, 2)],
    [(31, 0), (1, 1), (1, 1)],
]


@pytest.fixture(scope="module", autouse=True)
def built():
    must_be_built([load_course().task("2.7.3")], SOLUTION)
    load_solution()


def part(module, name):
    return getattr(importlib.import_module(f"{SOLUTION_NAME}.{module}"), name)


class Given:
    """A small random model of one kind, and what is made of it."""

    def __init__(self, base, int8=False, **changes):
        reference = random_model(base, 3, **SIZES, **changes)
        self.weights = reference.weights
        self.config = part("config", "ModelConfig").from_dict(reference.config)
        self.fused = part("engines.fused", "RaggedFusedModel")(self.config, self.weights, int8)

    def plain(self):
        """`RaggedModel` with the same matrices."""
        parts = part("quantized.parts", "Quantized").like(self.config, self.weights)
        return part("serving.ragged", "RaggedModel")(self.config, self.weights, parts)

    def dense(self):
        return part("serving.kv_cache", "DenseKVCache")(self.config.num_hidden_layers)

    def paged(self, page=4, pages=80):
        return part("paged.kv_cache", "PagedKVCache")(part("engines.fused", "NativePages")(self.config, pages, page))

    def slots(self, tokens=96):
        return part("engines.fused", "NativeSlots")(self.config, 3, tokens)


def tokens(count, seed=1):
    return mx.random.randint(0, QWEN3["vocab_size"], (count,), key=mx.random.key(seed)).tolist()


def play(model, memory):
    """The logits of all steps."""
    request, chunk = part("serving.request", "Request"), part("serving.request", "Chunk")
    requests = [request(tokens(90, seed), 1) for seed in range(3)]
    for each in requests:
        assert memory.admit(each)
    given = []
    for counts in STEPS:
        chunks = [
            chunk(
                each,
                each.num_computed_tokens,
                each.prompt[each.num_computed_tokens : each.num_computed_tokens + count],
                scored,
            )
            for each, (count, scored) in zip(requests, counts, strict=True)
            if count
        ]
        for each in chunks:
            assert memory.reserve(each.request, len(each.tokens))
        given.append(model(chunks, memory))
        for each in chunks:
            each.request.num_computed_tokens = each.end
    return mx.concatenate(given)


def close(actual, expected, tolerance=2e-5):
    assert actual.shape == expected.shape
    return mx.max(mx.abs(actual - expected)).item() <= tolerance * mx.max(mx.abs(expected)).item()


@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_it_gives_the_logits_of_the_ragged_model(base, tied):
    given = Given(base, tie_word_embeddings=tied)
    expected = play(given.plain(), given.dense())
    for memory in (given.paged(), given.paged(page=1, pages=300), given.slots()):
        assert close(play(given.fused, memory), expected)


def test_its_pages_serve_the_ragged_model_too():
    given = Given(QWEN3)
    assert close(play(given.plain(), given.paged()), play(given.plain(), given.dense()))


@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
def test_one_request_is_the_engine_of_week_2(base):
    given = Given(base)
    flash = part("kernels.fused", "Qwen3FusedModel")(given.config, given.weights, flash=True)
    request, chunk = part("serving.request", "Request"), part("serving.request", "Chunk")
    one, memory, caches = request(tokens(40), 1), given.paged(), flash.new_caches()
    memory.admit(one)
    for length in (17, 1, 1, 1, 12, 1):
        memory.reserve(one, length)
        read = one.prompt[one.num_computed_tokens : one.num_computed_tokens + length]
        actual = given.fused([chunk(one, one.num_computed_tokens, read, 1)], memory)
        assert close(actual, flash(mx.array([read]), caches)[:, 0])
        one.num_computed_tokens += length


def test_a_step_that_asks_for_nothing_has_read_all_the_same():
    given = Given(QWEN3)
    request, chunk = part("serving.request", "Request"), part("serving.request", "Chunk")
    one, memory = request(tokens(9), 1), given.paged()
    memory.admit(one)
    assert given.fused([chunk(one, 0, one.prompt[:8], 0)], memory).shape == (0, QWEN3["vocab_size"])
    last = given.fused([chunk(one, 8, one.prompt[8:], 1)], memory)
    memory.truncate(one, 0)
    memory.reserve(one, 9)
    assert close(last, given.fused([chunk(one, 0, one.prompt, 1)], memory))


@pytest.mark.parametrize("rows", [*range(1, 10), 16, 21])
@pytest.mark.parametrize(
    ("outputs", "inputs", "group_size", "dtype"),
    [(33, 1056, 32, mx.float32), (19, 576, 64, mx.bfloat16), (17, 384, 128, mx.float16), (1, 32, 32, mx.bfloat16)],
)
def test_rows_that_rounding_leaves_alone_get_the_exact_product(rows, outputs, inputs, group_size, dtype):
    call, result, types = (part("kernels.native", name) for name in ("call", "Result", "SCALE_TYPES"))
    w = mx.random.normal((outputs, inputs), key=mx.random.key(rows)).astype(dtype)
    quantized = mx.quantize(w, group_size, 4)
    x = mx.random.randint(-127, 128, (rows, inputs), key=mx.random.key(9)).astype(mx.float32)
    x[:, ::group_size] = 127  # so that 8 bits hold every number of each group as it is, whatever its power of two
    groups = mx.repeat(mx.arange(inputs // group_size), group_size)
    x = mx.power(2.0, -((mx.arange(rows)[:, None] + groups) % 5)) * x
    sizes = rows, outputs, inputs, group_size, types.index(dtype)
    actual = call("matvecs_int8.cpp", "matvecs_int8", x, *quantized, result((rows, outputs)), *sizes)
    plain = mx.dequantize(
        *(each.astype(mx.float32) if each.dtype == dtype else each for each in quantized), group_size, 4
    )
    assert close(actual, mx.array(np.array(x, np.float64) @ np.array(plain, np.float64).T, mx.float32), 1e-6)


def test_eight_bits_are_close_and_each_token_is_rounded_by_itself():
    given = Given(QWEN3, int8=True)
    expected = play(given.plain(), given.dense())
    together = play(given.fused, given.paged())
    assert close(together, expected, 0.1)
    assert not close(together, expected)
    request, chunk = part("serving.request", "Request"), part("serving.request", "Chunk")
    memory, requests = given.paged(), [request(tokens(12, seed), 1) for seed in range(11)]

    def step(these):
        chunks = [
            chunk(
                each, each.num_computed_tokens, each.prompt[each.num_computed_tokens : each.num_computed_tokens + 1], 1
            )
            for each in these
        ]
        for each in chunks:
            assert memory.reserve(each.request, 1)
        logits = given.fused(chunks, memory)
        for each in these:
            each.num_computed_tokens += 1
        return logits

    for each in requests:
        assert memory.admit(each)
    many = mx.stack([step(requests) for _ in range(12)])  # eight of them and three
    for each in requests:
        memory.truncate(each, 0)
        each.num_computed_tokens = 0
    for i, each in enumerate(requests):
        alone = mx.concatenate([step([each]) for _ in range(12)])
        assert mx.array_equal(alone, many[:, i])  # to the last bit


def test_eight_bits_without_kernels_are_refused():
    given = Given(QWEN3)
    limits = part("engines.modes", "Limits")(int8=True, fused=False)
    with pytest.raises(ValueError, match=r"^int8 needs kernels"):
        part("engines.modes", "paged")(given.config, given.weights, limits)


def test_what_it_refuses_is_said_in_one_line():
    given = Given(QWEN3)
    request, chunk = part("serving.request", "Request"), part("serving.request", "Chunk")
    one, memory = request(tokens(5), 1), given.paged()
    memory.admit(one)
    size = QWEN3["vocab_size"]
    for token in (-1, size):
        with pytest.raises(IndexError, match=f"^the vocabulary has no token {token}$"):
            given.fused([chunk(one, 0, [token], 1)], memory)
    with pytest.raises(ValueError, match=r"^9 tokens need 3 pages of 4, but the table has 2$"):
        given.fused([chunk(one, 0, tokens(9), 1)], memory)
    with pytest.raises(ValueError, match=r"^97 tokens are more than max_position_embeddings = 96$"):
        given.fused([chunk(one, 0, tokens(97), 1)], memory)
    memory.block_tables[one] = [80, 1]
    with pytest.raises(IndexError, match=r"^there is no page 80 among 80$"):
        given.fused([chunk(one, 0, tokens(5), 1)], memory)
    with pytest.raises(TypeError, match="not DenseKVCache"):
        given.fused([chunk(one, 0, tokens(5), 1)], given.dense())
