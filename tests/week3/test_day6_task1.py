"""Week 3, day 6, task 1: the acceptance rule.

The uniform samples are given, so no verdict depends on luck.
"""

import itertools
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day6 import accept64, is_near, pick64

from tiny_llm.speculative import acceptance
from tiny_llm_course.testkit.cases import noted, shape_words, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes


def accept_agrees(target, drafted_of, drafted, draws, *, case, size=0):
    """Check both results, plain ints, twice; the lists must not change."""
    given = (list(drafted), list(draws))
    with noted(case):
        first = acceptance.accept(target, drafted_of, drafted, draws)
        second = acceptance.accept(target, drafted_of, drafted, draws)
    if (drafted, draws) != given:
        fail(Kind.INPUT_CHANGED, "the caller's lists were changed", case, size=size)
    if not isinstance(first, tuple) or len(first) != 2:
        fail(Kind.TYPE, f"returned {type_words(first)}, expected a tuple of two numbers", case, size=size)
    if wrong := next((each for each in first if type(each) is not int), None):
        fail(Kind.TYPE, f"a number is {type_words(wrong)}, expected an int", case, size=size)
    expected = accept64(to_float64(target), to_float64(drafted_of), drafted, draws)
    fail_if_different("wrong number of accepted tokens", expected[0], first[0], case, size)
    stand = f"{expected[0]} token{'s are' if expected[0] != 1 else ' is'} accepted"
    fail_if_different(f"{stand}, but the next one is wrong", expected[1], first[1], case, size)
    if second != first:
        fail_if_different("the second call with the same inputs gave something else", first, second, case, size)


def softmax_rows(generator, count, vocab, spread):
    logits = generator.standard_normal((count, vocab)) * spread
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.float32(rows / rows.sum(axis=1, keepdims=True))


def judged_case(seed, count, vocab, spread=1.0):
    """Draw two models' rows, draft tokens, and uniform samples at which rounding decides nothing."""
    generator = np.random.default_rng(seed)
    for _ in range(200):
        target, rows = softmax_rows(generator, count + 1, vocab, spread), softmax_rows(generator, count, vocab, spread)
        wide = np.float64(rows) / np.float64(rows).sum(axis=1, keepdims=True)
        drafted = [int(generator.choice(vocab, p=row)) for row in wide]
        draws = generator.random(count + 1).tolist()
        if not is_near(np.float64(target), np.float64(rows), drafted, draws):
            break
    return mx.array(target), mx.array(rows), drafted, draws


def drafted_agree(seed, count, vocab, spread=1.0, size=0):
    case = f"{count} drafted, V {vocab}, seed {seed}"
    accept_agrees(*judged_case(seed, count, vocab, spread), case=case, size=size)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_task_1_accept_formula(count):
    for seed in range(12):
        drafted_agree(seed, count, 6)


BLUE, DOG, CAT = 0, 1, 2  # a vocabulary of three


@pytest.mark.parametrize("draws", [(0.3, 0.7), (0.5, 0.1), (0.5, 0.7), (0.9, 0.95)], ids=str)
def test_task_1_accept_by_hand(draws):
    """`dog` was drafted with 0.5 and is due 0.2; of the other two, 0.1 and 0.2 are still due."""
    target, rows = mx.array([[0.3, 0.2, 0.5], [0.1, 0.1, 0.8]]), mx.array([[0.2, 0.5, 0.3]])
    case = f"V 3, target 0.3 0.2 0.5, draft 0.2 0.5 0.3, token {DOG} drafted, u {draws[0]} and {draws[1]}"
    accept_agrees(target, rows, [DOG], list(draws), case=case)


def test_task_1_accept_equal_models():
    """Where both models agree, every token is accepted."""
    for seed in range(6):
        target, rows, drafted, _ = judged_case(seed, 3, 5)
        target = mx.concatenate([rows, target[3:]])
        draws = [0.9999, 0.9999, 0.9999, 0.1 + 0.13 * seed]
        accept_agrees(target, rows, drafted, draws, case=f"3 drafted, V 5, target and draft the same, seed {seed}")


def test_task_1_accept_greedy():
    """With one-hot rows, accepted tokens are those that the target would have chosen, whatever u is."""
    eye = mx.eye(6)
    for target, drafted in itertools.product(
        [[1, 2, 4, 0], [3, 2, 4, 0], [1, 3, 4, 0]], [[1, 2, 4], [1, 2, 5], [3, 3, 3]]
    ):
        for draw in (0.0, 0.5, 0.999):
            case = f"target's choices {target}, drafted {drafted}, both one-hot, u {draw}"
            accept_agrees(eye[mx.array(target)], eye[mx.array(drafted)], drafted, [draw] * 4, case=case)


@pytest.mark.parametrize("draws", [(0.1, 0.2, 0.5), (0.6, 0.2, 0.3), (0.6, 0.2, 0.9), (0.4, 0.7, 0.2)], ids=str)
def test_task_1_accept_one_hot_draft(draws):
    """An n-gram draft is one-hot: its token is accepted with the target's probability, else another is sampled."""
    target = mx.array([[0.3, 0.5, 0.2], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    accept_agrees(
        target, mx.eye(3)[mx.array([1, 0])], [1, 0], list(draws), case=f"V 3, a one-hot draft [1, 0], u {draws}"
    )


def test_task_1_accept_zero_probability():
    """A token with p = 0 is never accepted and never sampled; nor is a rejected one sampled next."""
    target, rows = mx.array([[0.0, 0.5, 0.5, 0.0], [0.25] * 4]), mx.array([[0.5, 0.25, 0.0, 0.25]])
    for token, draw, last in itertools.product([0, 3], [0.0, 0.5], [0.0, 0.2, 0.4, 0.999]):
        case = f"V 4, token {token} drafted, which the target gives 0, u {draw} and {last}"
        accept_agrees(target, rows, [token], [draw, last], case=case)


@pytest.mark.parametrize("last", [0.2, 0.6, 0.97])
def test_task_1_accept_empty_residual(last):
    """Rounding may leave nothing of p - q."""
    target, rows = mx.array([[0.4, 0.5, 0.1], [0.2, 0.2, 0.6]]), mx.array([[0.4, 0.6, 0.1]])
    case = f"V 3, target 0.4 0.5 0.1, draft 0.4 0.6 0.1, token 1 drafted, u 0.95 and {last}"
    accept_agrees(target, rows, [1], [0.95, last], case=case)


@pytest.mark.parametrize("last", [0.2, 0.9])
def test_task_1_accept_small_residual(last):
    """Very little is left of p - q, and only that may be sampled."""
    target, rows = mx.array([[0.4995, 0.5005], [0.5, 0.5]]), mx.array([[0.5, 0.5]])
    case = f"V 2, target 0.4995 0.5005, draft 0.5 0.5, token 0 drafted, u 0.9995 and {last}"
    accept_agrees(target, rows, [0], [0.9995, last], case=case)


def test_task_1_accept_on_the_edge():
    """u = p / q is not below p / q."""
    target, rows = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    for token, draw in ((0, 0.0), (1, 0.5), (2, 0.999)):
        case = f"V 3, target 0 0.25 0.75, draft 0.25 0.5 0.25, token {token} drafted, u {draw} and 0.3"
        accept_agrees(target, rows, [token], [draw, 0.3], case=case)


def spread_evenly(count, dims):
    """Points that fill a cube evenly: better than random ones, and reproducible."""
    steps = 1 / np.array([1.2207440846, 1.4902161201, 1.8191725134])[:dims]  # whose multiples never coincide
    return (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_task_1_accept_keeps_the_distribution(seed):
    """Whatever the draft's row is, the first token's frequencies are the target's row, to 2 in 100."""
    generator = np.random.default_rng(seed)
    target, rows = softmax_rows(generator, 2, 6, 1.2), softmax_rows(generator, 1, 6, 1.2)
    case, count, found = f"1 drafted, V 6, seed {seed}, 150 evenly spread samples per token", 150, np.zeros(6)
    with noted(case):
        for token in range(6):
            for point in spread_evenly(count, 2).tolist():
                stands, then = acceptance.accept(mx.array(target), mx.array(rows), [token], point)
                found[token if stands else then] += rows[0, token] / count
    worst = int(np.argmax(np.abs(found - target[0])))
    if np.abs(found - target[0]).sum() / 2 > 0.02:
        lines = (f"expected  {target[0, worst]:.3f} of all first tokens", f"got       {found[worst]:.3f}")
        fail(Kind.VALUES, f"token {worst}: its frequency is not the target's probability", case, *lines)


def test_task_1_accept_chi_square():
    """Two draft tokens, 2,000 sequences with fixed samples: pairs of tokens have the target's frequencies.

    The statistic is the sum of (found - expected)^2 / expected over 25 pairs. By chance it would exceed 70 less than
    once in 100,000 times.
    """
    generator, texts, vocab = np.random.default_rng(7), 2000, 5
    target, rows = softmax_rows(generator, 3, vocab, 1.0), softmax_rows(generator, 2, vocab, 1.0)
    case, found = "2 drafted, V 5, 2,000 sequences, seed 7", Counter()
    wide = np.float64(rows) / np.float64(rows).sum(axis=1, keepdims=True)
    drafts = np.stack([generator.choice(vocab, texts, p=row) for row in wide], axis=1).tolist()
    both = mx.array(target), mx.array(rows)
    with noted(case):
        for drafted, draws in zip(drafts, generator.random((texts, 4)).tolist(), strict=True):
            stands, then = acceptance.accept(*both, drafted, draws[:3])
            text = [*drafted[:stands], then]
            if len(text) == 1:  # the next step: nothing is drafted, and the target samples
                text.append(pick64(np.float64(target[1]), draws[3]))
            found[tuple(text[:2])] += 1
    expected = {(a, b): texts * float(target[0, a] * target[1, b]) for a in range(vocab) for b in range(vocab)}
    statistic = sum((found[pair] - each) ** 2 / each for pair, each in expected.items())
    if statistic > 70:
        pair = max(expected, key=lambda pair: abs(found[pair] - expected[pair]) / expected[pair] ** 0.5)
        lines = (f"expected  tokens {pair} in about {expected[pair]:.0f} sequences", f"got       {found[pair]}")
        fail(Kind.VALUES, f"chi-square is {statistic:.0f}; up to 70 could be chance", case, *lines)


def test_task_1_accept_sweep():
    for n in sizes(K=17, V=1100):
        drafted_agree(n.seed, n.K - 1, n.V + 1, n.turn(1.0, 0.1, 4.0), size=n.K * n.V)


@property_test
@given(
    seed=st.integers(0, 999), count=st.integers(0, 5), vocab=st.integers(2, 9), spread=st.sampled_from([0.01, 1.0, 5.0])
)
def test_task_1_accept_any_rows(seed, count, vocab, spread):
    drafted_agree(seed, count, vocab, spread)


def sizes_in_words(target, rows, drafted, draws):
    shapes = f"target {shape_words(target.shape)}, draft {shape_words(rows.shape)}"
    return f"{shapes}, {len(drafted)} draft tokens, {len(draws)} uniform samples"


@pytest.mark.parametrize(
    ("cut", "numbers"),
    [
        ("target", "23"), ("draws", "23"), ("target and draws", "23"), ("draft", "12"), ("width", "34"),
        ("drafted", "12"), ("all but target", "23"),
    ],
)  # fmt: skip
def test_task_1_accept_refuses(cut, numbers):
    """The message has the size found and the size expected."""
    target, rows, drafted, draws = judged_case(5, 2, 4)
    cases = {
        "target": (target[:2], rows, drafted, draws),
        "draws": (target, rows, drafted, draws[:2]),
        "target and draws": (target[:2], rows, drafted, draws[:2]),
        "draft": (target, rows[:1], drafted, draws),
        "width": (target, rows[:, :3], [0, 1], [0.0, 0.0, 0.5]),  # both are accepted: no row is subtracted from another
        "drafted": (target[:2], rows, drafted[:1], draws[:2]),
        "all but target": (target, rows[:1], drafted[:1], draws[:2]),
    }
    with raises_value_error(sizes_in_words(*cases[cut]), *numbers):
        acceptance.accept(*cases[cut])


@pytest.mark.parametrize(("many", "numbers"), [("target", "34"), ("draws", "34"), ("draft", "23")])
def test_task_1_accept_refuses_too_many(many, numbers):
    target, rows, drafted, draws = judged_case(5, 2, 4)
    cases = {
        "target": (mx.concatenate([target, target[:1]]), rows, drafted, draws),
        "draws": (target, rows, drafted, [*draws, 0.5]),
        "draft": (target, mx.concatenate([rows, rows[:1]]), drafted, draws),
    }
    with raises_value_error(sizes_in_words(*cases[many]), *numbers):
        acceptance.accept(*cases[many])


@pytest.mark.parametrize(("many", "numbers"), [("target", "12"), ("draws", "12"), ("draft", "01"), ("width", "34")])
def test_task_1_accept_refuses_without_draft_tokens(many, numbers):
    """Sizes are also validated if nothing was drafted."""
    target, rows, _, draws = judged_case(5, 2, 4)
    cases = {
        "target": (target[:2], rows[:0], [], draws[:1]),
        "draws": (target[:1], rows[:0], [], draws[:2]),
        "draft": (target[:1], rows[:1], [], draws[:1]),
        "width": (target[:1], rows[:0, :3], [], draws[:1]),
    }
    with raises_value_error(sizes_in_words(*cases[many]), *numbers):
        acceptance.accept(*cases[many])
