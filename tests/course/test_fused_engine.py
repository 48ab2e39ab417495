"""The engines on the kernels: what they give is what day 3's engine gives, however they are called."""

import importlib

import mlx.core as mx
import pytest
from tests.week1.reference_model import QWEN3, QWEN25, random_model

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.grading.build import must_be_built
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import SOLUTION_NAME, load_solution

pytestmark = pytest.mark.skipif(bool(missing(["compiler"])), reason="not run here: needs a C++ compiler")

# Every matrix has whole groups of 64, and the last one ends within a block of 16 lanes.
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}


@pytest.fixture(scope="module", autouse=True)
def built():
    must_be_built([load_course().task("2.7.3")], SOLUTION)
    load_solution()


def part(module, name):
    return getattr(importlib.import_module(f"{SOLUTION_NAME}.{module}"), name)


def models(base, flash=False, **changes):
    """Day 3's model and the fused one, of the same weights."""
    reference = random_model(base, 3, **SIZES, **changes)
    config = part("config", "ModelConfig").from_dict(reference.config)
    return (
        part("quantized.model", "Qwen3QuantizedModel")(config, reference.weights),
        part("kernels.fused", "Qwen3FusedModel")(config, reference.weights, flash=flash),
    )


def tokens(*shape):
    return mx.random.randint(0, QWEN3["vocab_size"], shape, key=mx.random.key(1))


def close(actual, expected, tolerance=2e-5):
    return mx.max(mx.abs(actual - expected)).item() <= tolerance * mx.max(mx.abs(expected)).item()


by_attention = pytest.mark.parametrize("flash", [False, True], ids=["token by token", "in blocks"])


@by_attention
@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_it_gives_the_logits_of_day_3(base, tied, flash):
    plain, fused = models(base, flash, tie_word_embeddings=tied)
    read = tokens(2, 13)
    assert close(fused(read, all_positions=True), plain(read, all_positions=True))
    assert close(fused(read), plain(read))


@by_attention
def test_any_split_gives_the_same_logits(flash):
    plain, fused = models(QWEN3, flash)
    read = tokens(2, 11)
    expected = plain(read, all_positions=True)
    for cuts in ([1] * 11, [5, 1, 5], [10, 1]):
        caches, begin, given = fused.new_caches(), 0, []
        for length in cuts:
            given.append(fused(read[:, begin : begin + length], caches, all_positions=True))
            begin += length
        assert close(mx.concatenate(given, axis=1), expected)


@by_attention
def test_a_prompt_of_several_blocks(flash):
    plain, fused = models(QWEN3, flash)
    read = tokens(2, 90)
    expected, caches = plain(read, all_positions=True), fused.new_caches()
    parts = [fused(each, caches, all_positions=True) for each in (read[:, :31], read[:, 31:])]
    assert close(mx.concatenate(parts, axis=1), expected)


def test_what_is_forgotten_is_written_again():
    _, fused = models(QWEN3)
    read, other = tokens(1, 9), tokens(1, 12)[:, 5:]
    caches = fused.new_caches()
    fused(read, caches)
    for cache in caches:
        cache.rewind(4)
    assert close(fused(other, caches), fused(mx.concatenate([read[:, :5], other], axis=1)))


def test_calls_happen_in_order_also_if_only_the_last_result_is_asked_for():
    _, fused = models(QWEN3)
    read = tokens(1, 6)
    caches = fused.new_caches()
    first, second = fused(read[:, :4], caches), fused(read[:, 4:], caches)
    assert close(second, fused(read))
    assert close(first, fused(read[:, :4]))


def test_eight_bits_are_near_and_not_the_same():
    """Taken over some tokens: in a model as small as this, one number that is rounded the other way shows in one."""
    _, fused = models(QWEN3)

    def read():
        return mx.concatenate([fused(token[None]) for token in tokens(16, 1)])

    expected, fused.int8 = read(), True
    error = mx.sqrt(mx.mean((read() - expected) ** 2) / mx.mean(expected**2)).item()
    assert 0.01 < error < 0.06


def test_what_it_refuses():
    _, fused = models(QWEN3)
    with pytest.raises(ValueError, match="no tokens were given"):
        fused(mx.zeros((1, 0), mx.int32))
    with pytest.raises(ValueError, match="97 tokens are more than max_position_embeddings = 96"):
        fused(tokens(1, 97))
    caches = fused.new_caches()
    fused(tokens(1, 2), caches)
    with pytest.raises(ValueError, match="2 rows were given, but the cache has 1"):
        fused(tokens(2, 2), caches)
    with pytest.raises(ValueError, match="cannot drop 3 of 2 tokens"):
        caches[0].rewind(3)


def test_all_quantized_stages_tell_the_same_story():
    told = {}
    for stage in ("quantized", "cpu-kernel", "fused", "flash", "int8"):
        engine = load_engine(None, True, "float32", stage)
        answer = engine.answer(engine.encode("Once upon a time"), 200, engine.sampler(Sampling(temp=0.0)))
        told[stage] = "".join(answer.pieces)
        assert answer.tokens > 150  # it ends by itself
    rounded, exact = told.pop("int8"), told["fused"]
    assert {*told.values()} == {exact}
    assert exact[:100] == rounded[:100]
    assert exact != rounded  # where two tokens are nearly as likely


@pytest.mark.parametrize("token", [-1, 2048])
def test_a_token_that_is_none_is_said_and_ends_nothing(capfd, token):
    """It is told once, by the first kernel that throws, and what comes out is no number."""
    engine = load_engine(None, True, "float32", "fused")
    assert mx.isnan(engine.model(mx.array([[token]]))).all()
    assert capfd.readouterr().err in ("", f"A kernel threw an exception: the vocabulary has no token {token}\n")
