"""Week 1, day 6, task 6: generating tokens."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.foretold import Model, drawn, in_turn
from tests.week1.tokenizing import words

from tiny_llm import generate
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, token_ids
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


def check_tokens(follow, prompt, max_tokens, expected, dtype=mx.float32, vocab=11, **options):
    shown = ", ".join(f"{name} {value}" for name, value in options.items())
    name = follow.__name__.replace("_", "s ")
    case = f"a model that {name}, prompt {words(prompt)}, max_tokens {max_tokens}" + f", {shown}" * bool(shown)
    model, given = Model(follow, case, vocab, dtype, options.get("context_length")), list(prompt)
    tokens = again(lambda: drawn(generate.generate_tokens(model, given, max_tokens, **options), case, 200), case)
    same_ids(tokens, expected, case)
    if len(model.seen) > 2 * (len(tokens) + 1):  # both times
        calls = f"{len(model.seen) // 2} times for {len(tokens)} tokens"
        fail(Kind.VALUES, f"the model was called {calls}; it must not be called after generation has stopped", case)
    for i, seen in enumerate(model.seen[: len(tokens)]):
        same_ids(seen, [*prompt, *tokens[:i]], f"what the model is given for token {i} of the continuation; {case}")
    if given != prompt:
        fail(Kind.INPUT_CHANGED, "the caller's `prompt` was changed", case, "append to a copy")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_tokens_count_up(dtype):
    check_tokens(count_up, [3], 4, [4, 5, 6, 7], dtype)
    check_tokens(count_up, [7, 5, 8], 5, [9, 10, 0, 1, 2], dtype)


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 20])
def test_task_4_tokens_length_limit(max_tokens):
    check_tokens(add_up, [2, 5, 1], max_tokens, continuation(add_up, [2, 5, 1], max_tokens))


@property_test
@given(prompt=st.lists(st.integers(0, 10), min_size=1, max_size=6), max_tokens=st.integers(0, 8))
def test_task_4_tokens_formula(prompt, max_tokens):
    """Every token depends on all earlier ones."""
    check_tokens(add_up, prompt, max_tokens, continuation(add_up, prompt, max_tokens))


def test_task_4_tokens_of_a_large_vocabulary():
    """More tokens than 16 bits can count, as in real models."""

    def go_far(tokens):
        return (tokens[-1] + 32768) % 70000

    check_tokens(go_far, [69999], 4, continuation(go_far, [69999], 4), vocab=70000)


def test_task_4_tokens_sweep():
    """Prompts, continuations and vocabularies of many sizes."""
    for n in sizes(P=1100, M=140, V=4200):

        def wander_about(tokens, n=n):
            return n.V - 1 if len(tokens) % 3 == 0 else (tokens[-1] * 7 + len(tokens)) % n.V

        prompt = token_ids(n.seed, n.V, n.P)
        answer = continuation(wander_about, prompt, n.M)
        check_tokens(wander_about, prompt, n.M, answer, n.turn(*DTYPES), n.V)
        if n.turn(True, False) and n.M <= 20:
            check_tokens(wander_about, prompt, n.M + 3, answer, vocab=n.V, context_length=n.P + n.M)
        if n.M <= 20 and (n.turn(False, True) or n.V > 256):
            ends = answer[: answer.index(answer[-1])]
            others = [n.V, n.V + 1, n.V + 2]  # which the model never generates
            check_tokens(wander_about, prompt, n.M, ends, vocab=n.V, eos_ids=[*others, answer[-1]])


@pytest.mark.parametrize(
    ("eos_ids", "expected"),
    [
        ((), [4, 5, 6, 7, 8, 9, 10, 0, 1, 2]),
        ((8,), [4, 5, 6, 7]),
        ([10, 6], [4, 5]),
        ([6, 10], [4, 5]),
        ({9, 6, 7}, [4, 5]),
        ({4}, []),
        (frozenset({3}), [4, 5, 6, 7, 8, 9, 10, 0, 1, 2]),  # only generated tokens stop generation, not the prompt's
        ((0,), [4, 5, 6, 7, 8, 9, 10]),
    ],
    ids=str,
)
def test_task_4_tokens_end_of_text(eos_ids, expected):
    check_tokens(count_up, [3], 10, expected, eos_ids=eos_ids)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "context_length", "expected"),
    [
        ([3], 9, 4, [4, 5, 6]),
        ([1, 2, 3], 9, 5, [4, 5]),
        ([1, 2, 3], 9, 4, [4]),
        ([1, 2, 3], 9, 3, []),
        ([1, 2, 3], 2, 9, [4, 5]),
        ([1, 2, 3], 2, 5, [4, 5]),
    ],
)
def test_task_4_tokens_context_length(prompt, max_tokens, context_length, expected):
    check_tokens(count_up, prompt, max_tokens, expected, context_length=context_length)


@pytest.mark.parametrize(
    ("prompt", "options"),
    [([], {}), ([1, 2, 3], {"context_length": 2}), ([1, 2, 3], {"context_length": 1}), ([3], {"context_length": 0})],
    ids=str,
)
def test_task_4_tokens_refused_at_the_call(prompt, options):
    """The call raises, not the first next(), which may be far from the mistake; also if no token is wanted."""
    for max_tokens in (3, 0):
        case = f"prompt {prompt}, {options or 'no limit'}, max_tokens {max_tokens}, no token requested yet"
        with raises_value_error(case):
            generate.generate_tokens(Model(count_up, case), prompt, max_tokens, **options)


def test_task_4_tokens_as_soon_as_known():
    """The first token is yielded before the model is called for the second."""
    case = "a model that counts up, prompt [3], tokens taken one at a time"
    model = Model(count_up, case)
    with noted(case):
        tokens = generate.generate_tokens(model, [3], 5)
        for number in range(1, 6):
            if not drawn(tokens, case, 1):
                fail(Kind.VALUES, f"token {number} was not yielded", case, size=9)
            if len(model.seen) != number:
                headline = f"when token {number} was yielded, the model had been called {len(model.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {number}", f"got       {len(model.seen)}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_tokens_sampler(dtype):
    """The sampler is called for each token with the last position's logits in float32, and its choice is used."""
    case = f"{dtype_word(dtype)} logits, a sampler that chooses the second most likely token, prompt [3, 5]"
    model, calls = Model(add_up, case, dtype=dtype), []

    def second(logits, tokens):
        calls.append((logits, tokens if not isinstance(tokens, list) else [list(row) for row in tokens]))
        return mx.argsort(logits, axis=-1)[..., -2]

    expected = [3, 5]
    for _ in range(4):
        expected.append(int(np.argsort(to_float64(model.logits(expected)[-1]))[-2]))
    with noted(case):
        tokens = drawn(generate.generate_tokens(model, [3, 5], 4, sampler=second), case)
    same_ids(tokens, expected[2:], case)
    for i, (logits, so_far) in enumerate(calls):
        row = to_float64(model.logits(expected[: 2 + i])[-1:])
        compare(logits, row, mx.float32, 0.0, f"the logits passed to the sampler for token {i}; {case}", row.size)
        where = f"the tokens passed to the sampler for token {i}; {case}"
        if not isinstance(so_far, list) or len(so_far) != 1:
            fail(Kind.TYPE, f"the sampler was given {words(so_far)}, expected one row: a list of one list", where)
        same_ids(so_far[0], expected[: 2 + i], where)


def test_task_4_tokens_sampler_gets_a_long_history():
    """All tokens so far, however many they are: the prompt and what was generated."""
    prompt = token_ids(14, 11, 700)
    case, given = "a model that adds up, a sampler that notes its tokens, prompt of 700 tokens, max_tokens 3", []

    def note(logits, tokens):
        given.extend([*row] for row in tokens)
        return mx.argmax(logits, axis=-1)

    with noted(case):
        drawn(generate.generate_tokens(Model(add_up, case), prompt, 3, sampler=note), case)
    answer = continuation(add_up, prompt, 2)
    for i, so_far in enumerate(given):
        same_ids(so_far, [*prompt, *answer[:i]], f"the tokens passed to the sampler for token {i}; {case}")


def test_task_4_tokens_two_at_once():
    """Two interleaved generations, with one model each."""
    case = "two interleaved continuations, prompts [3] and [5, 6]"
    with noted(case):
        made = [generate.generate_tokens(Model(count_up, case), prompt, 4) for prompt in ([3], [5, 6])]
        tokens = in_turn(*made, case)
    for actual, expected in zip(tokens, ([4, 5, 6, 7], [7, 8, 9, 10]), strict=True):
        same_ids(actual, expected, case)
