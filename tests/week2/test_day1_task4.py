"""Week 2, day 1, task 4: generating with a cache."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import by_architecture, model64, random_model
from tests.week2.in_parts import Reader

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached import generate, model
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids


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
    """Check the tokens and the model's inputs: the prompt, and then one token at a time."""
    shown = "".join(f", {name} {value}" for name, value in options.items())
    text = str(prompt) if len(prompt) < 20 else f"of {len(prompt)} tokens"
    case = f"a model that {follow.__name__.replace('_', 's ')}, prompt {text}, max_tokens {max_tokens}{shown}"
    reader, given = Reader(follow, case, vocab, dtype, options.get("context_length")), list(prompt)
    tokens = again(lambda: drawn(generate.generate_cached(reader, given, max_tokens, **options), case), case)
    same_ids(tokens, expected, case)
    if given != prompt:
        fail(Kind.INPUT_CHANGED, "the caller's `prompt` was changed", case, "append to a copy")
    if reader.unneeded:
        lines = ("expected  0", f"got       {reader.unneeded // 2}")
        fail(Kind.VALUES, "logits of positions before the last were requested", case, *lines)
    half = len(reader.seen) // 2  # both times
    room = min(max_tokens, options.get("context_length", len(prompt) + max_tokens) - len(prompt))
    if half > (needed := len(tokens) + (len(tokens) < room)):  # one more call finds the end
        lines = f"at most   {needed}", f"got       {half}"
        fail(Kind.VALUES, f"for {len(tokens)} tokens the model was called more often than needed", case, *lines)
    for i, seen in enumerate(reader.seen[:half]):
        fed = [tokens[i - 1]] if i else prompt
        same_ids(seen, fed, f"the input of model call {i + 1}; {case}")


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
    """Prompts, continuations and vocabularies of many sizes."""
    for n in sizes(P=1100, M=140, V=4200):

        def wander_about(tokens, n=n):
            return n.V - 1 if len(tokens) % 3 == 0 else (tokens[-1] * 7 + len(tokens)) % n.V

        prompt = token_ids(n.seed, n.V, n.P)
        check_tokens(wander_about, prompt, n.M, continuation(wander_about, prompt, n.M), vocab=n.V)


@pytest.mark.parametrize(("eos_ids", "expected"), [([8], [4, 5, 6, 7]), ((6, 4), []), ({0, 7}, [4, 5, 6]), ((), None)])
def test_task_4_cached_end(eos_ids, expected):
    """Any of the eos_ids stops generation and is not yielded."""
    wanted = continuation(count_up, [3], 12) if expected is None else expected
    check_tokens(count_up, [3], 12, wanted, eos_ids=eos_ids)


@pytest.mark.parametrize("prompt", [[6], [3, 6], [6, 3]], ids=str)
def test_task_4_cached_end_in_the_prompt(prompt):
    """An eos_id that the prompt contains, even as its last token, does not end the generation."""
    wanted = [(prompt[-1] + number) % 11 for number in range(1, 11)]
    check_tokens(count_up, prompt, 30, wanted if prompt[-1] == 6 else wanted[:2], eos_ids=[6])


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "context_length", "expected"),
    [([3], 9, 4, [4, 5, 6]), ([1, 2, 3], 9, 4, [4]), ([1, 2, 3], 9, 3, []), ([1, 2, 3], 2, 9, [4, 5])],
)
def test_task_4_cached_context_length(prompt, max_tokens, context_length, expected):
    check_tokens(count_up, prompt, max_tokens, expected, context_length=context_length)


@pytest.mark.parametrize("max_tokens", [3, 0])
@pytest.mark.parametrize("options", [{}, {"context_length": 2}, {"context_length": 0}], ids=str)
def test_task_4_cached_refused_at_the_call(options, max_tokens):
    """The call raises, not the first next(), even if no tokens are wanted."""
    prompt = [1, 2, 3] if options else []
    case = f"prompt {prompt}, max_tokens {max_tokens}, {options or 'no limit'}, no token requested yet"
    with raises_value_error(case):
        generate.generate_cached(Reader(count_up, case), prompt, max_tokens, **options)


def test_task_4_cached_as_soon_as_known():
    """The first token is yielded before the model is called a second time."""
    case = "a model that counts up, prompt [3], tokens taken one at a time"
    reader = Reader(count_up, case)
    with noted(case):
        tokens = generate.generate_cached(reader, [3], 5)
        for number in range(1, 6):
            if not drawn(tokens, case, 1):
                fail(Kind.VALUES, f"token {number} was not yielded", case)
            if len(reader.seen) != number:
                headline = f"when token {number} was yielded, the model had been called {len(reader.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {number}", f"got       {len(reader.seen)}")


@by_dtype
def test_task_4_cached_sampler(dtype):
    """The sampler gets the last position's logits in float32 and all tokens so far, and its choice is used."""
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
        compare(scores, row, mx.float32, 0.0, f"the logits passed to the sampler for token {i}; {case}", row.size)
        same_ids(so_far[0], expected[: 2 + i], f"the tokens passed to the sampler for token {i}; {case}")


def test_task_4_cached_two_at_once():
    """Two interleaved generations with one model, each with its own caches."""
    case = "two interleaved continuations, prompts [3] and [5, 6]"
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
    """Greedy tokens by the formula, which recomputes the whole sequence for each."""
    whole, prompt = random_model(base, 13), [5, 7, 11]
    expected = list(prompt)
    for _ in range(12):
        expected.append(int(model64(np.array([expected]), whole)[0, -1].argmax()))
    case = f"{whole}, prompt {prompt}, max_tokens 12"
    with noted(case):
        program = model.Qwen3CachedModel(ModelConfig.from_dict(whole.config), whole.weights)
        tokens = drawn(generate.generate_cached(program, prompt, 12), case)
    same_ids(tokens, expected[3:], case)
