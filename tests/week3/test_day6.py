"""Week 3, day 6: the acceptance rule, lookup of n-grams, a draft model, drafts in the scheduler's loop.

What is expected is what the target model would have written alone: token for token where it is greedy, and in the same
distribution where it draws. The numbers that decide are given, so that no verdict is luck.
"""

import itertools
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day6 import accept64, is_near, lookup64, pick64, probabilities64
from tests.week3.speculating import (
    SETTINGS,
    Notes,
    Scripted,
    Told,
    Writers,
    greedy_text,
    mixed,
    random_logits,
    setting_words,
)

from tiny_llm.serving.plans import whole_prompts
from tiny_llm.serving.request import Request, SamplingParams, next_chunk
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.speculative import acceptance, draft, ngram, scheduling
from tiny_llm.speculative.chances import DRAFTING, JUDGING, uniforms
from tiny_llm.speculative.drafts import Draft
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids

# Task 1, the acceptance rule


def accept_agrees(target, drafted_of, drafted, draws, *, case, size=0):
    """Both results, plain ints, twice; the lists stay as they were."""
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
    fail_if_different("wrong number of tokens that stand", expected[0], first[0], case, size)
    stand = f"{expected[0]} token{'s stand' if expected[0] != 1 else ' stands'}"
    fail_if_different(f"{stand}, but the next one is wrong", expected[1], first[1], case, size)
    if second != first:
        fail_if_different("the second call with the same inputs gave something else", first, second, case, size)


def softmax_rows(generator, count, vocab, spread):
    logits = generator.standard_normal((count, vocab)) * spread
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.float32(rows / rows.sum(axis=1, keepdims=True))


def judged_case(seed, count, vocab, spread=1.0):
    """Rows of two models, tokens drawn of the draft's, and numbers at which rounding decides nothing."""
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
    case = f"V 3, target 0.3 0.2 0.5, draft 0.2 0.5 0.3, token {DOG} drafted, draws {draws[0]} and {draws[1]}"
    accept_agrees(target, rows, [DOG], list(draws), case=case)


def test_task_1_accept_equal_models():
    """Where both models say the same, everything stands."""
    for seed in range(6):
        target, rows, drafted, _ = judged_case(seed, 3, 5)
        target = mx.concatenate([rows, target[3:]])
        draws = [0.9999, 0.9999, 0.9999, 0.1 + 0.13 * seed]
        accept_agrees(target, rows, drafted, draws, case=f"3 drafted, V 5, target and draft the same, seed {seed}")


def test_task_1_accept_greedy():
    """With a single 1 in each row, what stands is what the target would have chosen, whatever is drawn."""
    eye = mx.eye(6)
    for target, drafted in itertools.product(
        [[1, 2, 4, 0], [3, 2, 4, 0], [1, 3, 4, 0]], [[1, 2, 4], [1, 2, 5], [3, 3, 3]]
    ):
        for draw in (0.0, 0.5, 0.999):
            case = f"target's choices {target}, drafted {drafted}, both certain, draws {draw}"
            accept_agrees(eye[mx.array(target)], eye[mx.array(drafted)], drafted, [draw] * 4, case=case)


@pytest.mark.parametrize("draws", [(0.1, 0.2, 0.5), (0.6, 0.2, 0.3), (0.6, 0.2, 0.9), (0.4, 0.7, 0.2)], ids=str)
def test_task_1_accept_certain_draft(draws):
    """An n-gram is certain: its token stands with the target's probability, or else another comes."""
    target = mx.array([[0.3, 0.5, 0.2], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    accept_agrees(
        target, mx.eye(3)[mx.array([1, 0])], [1, 0], list(draws), case=f"V 3, a certain draft [1, 0], draws {draws}"
    )


def test_task_1_accept_impossible():
    """A token that the target rules out never stands, and never comes; nor does one that was refused."""
    target, rows = mx.array([[0.0, 0.5, 0.5, 0.0], [0.25] * 4]), mx.array([[0.5, 0.25, 0.0, 0.25]])
    for token, draw, last in itertools.product([0, 3], [0.0, 0.5], [0.0, 0.2, 0.4, 0.999]):
        case = f"V 4, token {token} drafted, which the target gives 0, draws {draw} and {last}"
        accept_agrees(target, rows, [token], [draw, last], case=case)


@pytest.mark.parametrize("last", [0.2, 0.6, 0.97])
def test_task_1_accept_nothing_left(last):
    """Rounding may leave nothing of p - q."""
    target, rows = mx.array([[0.4, 0.5, 0.1], [0.2, 0.2, 0.6]]), mx.array([[0.4, 0.6, 0.1]])
    case = f"V 3, target 0.4 0.5 0.1, draft 0.4 0.6 0.1, token 1 drafted, draws 0.95 and {last}"
    accept_agrees(target, rows, [1], [0.95, last], case=case)


@pytest.mark.parametrize("last", [0.2, 0.9])
def test_task_1_accept_little_left(last):
    """Of p - q very little is left, and no more than that may come."""
    target, rows = mx.array([[0.4995, 0.5005], [0.5, 0.5]]), mx.array([[0.5, 0.5]])
    case = f"V 2, target 0.4995 0.5005, draft 0.5 0.5, token 0 drafted, draws 0.9995 and {last}"
    accept_agrees(target, rows, [0], [0.9995, last], case=case)


def test_task_1_accept_on_the_edge():
    """A number that is just p / q is not below it."""
    target, rows = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    for token, draw in ((0, 0.0), (1, 0.5), (2, 0.999)):
        case = f"V 3, target 0 0.25 0.75, draft 0.25 0.5 0.25, token {token} drafted, draws {draw} and 0.3"
        accept_agrees(target, rows, [token], [draw, 0.3], case=case)


def spread_evenly(count, dims):
    """Points that fill a cube evenly: better than drawn ones, and the same for everybody."""
    steps = 1 / np.array([1.2207440846, 1.4902161201, 1.8191725134])[:dims]  # whose multiples never meet
    return (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_task_1_accept_keeps_the_distribution(seed):
    """Whatever the draft's row is, the first token comes as often as the target's row says, to 2 in 100."""
    generator = np.random.default_rng(seed)
    target, rows = softmax_rows(generator, 2, 6, 1.2), softmax_rows(generator, 1, 6, 1.2)
    case, count, found = f"1 drafted, V 6, seed {seed}, 150 evenly spread draws for each token", 150, np.zeros(6)
    with noted(case):
        for token in range(6):
            for point in spread_evenly(count, 2).tolist():
                stands, then = acceptance.accept(mx.array(target), mx.array(rows), [token], point)
                found[token if stands else then] += rows[0, token] / count
    worst = int(np.argmax(np.abs(found - target[0])))
    if np.abs(found - target[0]).sum() / 2 > 0.02:
        lines = (f"expected  {target[0, worst]:.3f} of all first tokens", f"got       {found[worst]:.3f}")
        fail(Kind.VALUES, f"token {worst} does not come as often as the target says", case, *lines)


def test_task_1_accept_chi_square():
    """Two drafted tokens, 2,000 texts with fixed draws: pairs of tokens come as often as the target says.

    The statistic is the sum of (found - expected)^2 / expected over 25 pairs. By luck alone it would pass 70 once in
    more than 100,000 times.
    """
    generator, texts, vocab = np.random.default_rng(7), 2000, 5
    target, rows = softmax_rows(generator, 3, vocab, 1.0), softmax_rows(generator, 2, vocab, 1.0)
    case, found = "2 drafted, V 5, 2,000 texts, seed 7", Counter()
    wide = np.float64(rows) / np.float64(rows).sum(axis=1, keepdims=True)
    drafts = np.stack([generator.choice(vocab, texts, p=row) for row in wide], axis=1).tolist()
    both = mx.array(target), mx.array(rows)
    with noted(case):
        for drafted, draws in zip(drafts, generator.random((texts, 4)).tolist(), strict=True):
            stands, then = acceptance.accept(*both, drafted, draws[:3])
            text = [*drafted[:stands], then]
            if len(text) == 1:  # the step after this one: nothing is drafted, and the target draws
                text.append(pick64(np.float64(target[1]), draws[3]))
            found[tuple(text[:2])] += 1
    expected = {(a, b): texts * float(target[0, a] * target[1, b]) for a in range(vocab) for b in range(vocab)}
    statistic = sum((found[pair] - each) ** 2 / each for pair, each in expected.items())
    if statistic > 70:
        pair = max(expected, key=lambda pair: abs(found[pair] - expected[pair]) / expected[pair] ** 0.5)
        lines = (f"expected  tokens {pair} in about {expected[pair]:.0f} texts", f"got       {found[pair]}")
        fail(Kind.VALUES, f"chi-square is {statistic:.0f}; up to 70 could be luck", case, *lines)


def test_task_1_accept_sweep():
    for n in sizes(K=17, V=1100):
        drafted_agree(n.seed, n.K - 1, n.V + 1, n.turn(1.0, 0.1, 4.0), size=n.K * n.V)


@property_test
@given(
    seed=st.integers(0, 999), count=st.integers(0, 5), vocab=st.integers(2, 9), spread=st.sampled_from([0.01, 1.0, 5.0])
)
def test_task_1_accept_any_rows(seed, count, vocab, spread):
    drafted_agree(seed, count, vocab, spread)


@pytest.mark.parametrize(("cut", "numbers"), [("target", "3"), ("draws", "3"), ("draft", "2"), ("width", "4")])
def test_task_1_accept_refuses(cut, numbers):
    target, rows, drafted, draws = judged_case(5, 2, 4)
    cases = {
        "target": (target[:2], rows, drafted, draws),
        "draws": (target, rows, drafted, draws[:2]),
        "draft": (target, rows[:1], drafted, draws),
        "width": (target, rows[:, :3], [0, 1], [0.0, 0.0, 0.5]),  # both stand: no row is taken from another
    }
    with raises_value_error(f"2 drafted, V 4, too little of the {cut}", numbers):
        acceptance.accept(*cases[cut])


@pytest.mark.parametrize("many", ["target", "draws", "draft"])
def test_task_1_accept_refuses_too_many(many):
    target, rows, drafted, draws = judged_case(5, 2, 4)
    cases = {
        "target": (mx.concatenate([target, target[:1]]), rows, drafted, draws),
        "draws": (target, rows, drafted, [*draws, 0.5]),
        "draft": (target, mx.concatenate([rows, rows[:1]]), drafted, draws),
    }
    with raises_value_error(f"2 drafted, V 4, too much of the {many}", "3"):
        acceptance.accept(*cases[many])


# Task 2, lookup of n-grams


def lookup_agrees(tokens, count, *limits, expected=None):
    shown = str(tokens) if len(tokens) <= 16 else f"[... {str(tokens[-12:])[1:]} ({len(tokens)} tokens)"
    names = zip(("longest", "shortest"), limits, strict=False)
    case = ", ".join([f"tokens {shown}, count {count}", *(f"{name} {each}" for name, each in names)])
    given = list(tokens)
    found = again(lambda: ngram.lookup(tokens, count, *limits), case)
    if tokens != given:
        fail(Kind.INPUT_CHANGED, "the caller's `tokens` was changed", case)
    wanted = lookup64(tokens, count, *limits)
    if expected is not None:
        assert wanted == expected
    same_ids(found, wanted, case)


def test_task_2_lookup_sentence():
    """`5 1` has stood twice: what followed the last time counts, and not that `1` has stood later alone."""
    tokens = [5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1]
    lookup_agrees(tokens, 3, expected=[9, 3, 4])
    lookup_agrees(tokens, 3, 1, 1, expected=[6, 0, 5])
    lookup_agrees(tokens, 3, 3, 3, expected=[])


def test_task_2_lookup_limits():
    """Never more than are wanted, and never past the end of the text."""
    lookup_agrees([1, 2, 9, 1, 2], 5, 2, expected=[9, 1, 2])
    lookup_agrees([1, 2, 9, 1, 2], 1, 2, expected=[9])
    lookup_agrees([1, 2, 9, 1, 2], 0, 2, expected=[])
    lookup_agrees([7, 8, 7], 4, 5, 1, expected=[8, 7])


def test_task_2_lookup_sizes():
    """The longest run that has stood before decides, but none longer than `longest` or shorter than `shortest`."""
    tokens = [4, 2, 3, 5, 2, 3, 6, 3, 7, 4, 2, 3]
    for longest, expected in ((1, [7, 4]), (2, [6, 3]), (3, [5, 2]), (9, [5, 2])):
        lookup_agrees(tokens, 2, longest, expected=expected)
    lookup_agrees([1, 2, 3, 4, 2], 3, 3, 2, expected=[])
    lookup_agrees([1, 2, 3, 1, 2], 3, 3, 2, expected=[3, 1, 2])


def test_task_2_lookup_overlap():
    """A place may reach into the end of the text; the end itself is none."""
    lookup_agrees([6, 6, 6, 6], 3, expected=[6])
    lookup_agrees([6, 6], 2, expected=[6])
    lookup_agrees([1, 2, 1, 2, 1], 5, 3, expected=[2, 1])
    lookup_agrees([6, 6, 6], 1, 2, 2, expected=[6])


def test_task_2_lookup_whole_tokens():
    """Token 2 is not within token 23, nor within token 12."""
    lookup_agrees([1, 23, 5, 1, 2], 2, expected=[])
    lookup_agrees([12, 7, 2, 9, 12, 8, 2], 3, 1, expected=[9, 12, 8])


@pytest.mark.parametrize("tokens", [[], [4], [1, 2, 3], [1, 1, 2]], ids=str)
def test_task_2_lookup_nothing(tokens):
    lookup_agrees(tokens, 3, expected=[])


def test_task_2_lookup_defaults():
    """Runs of three tokens, then of two, then of one."""
    lookup_agrees([9, 1, 2, 3, 4, 7, 8, 2, 3, 4, 6, 1, 2, 3, 4], 3, expected=[6, 1, 2])
    lookup_agrees([5, 1, 5], 3, expected=[1, 5])


def test_task_2_lookup_sweep():
    for n in sizes(L=1100, V=70, K=20):
        tokens = np.random.default_rng(n.seed).integers(0, n.V, n.L - 1).tolist()
        lookup_agrees(tokens, n.K - 1, n.turn(3, 1, 2, 5), 1)


@property_test
@given(
    tokens=st.lists(st.integers(0, 2), max_size=20),
    count=st.integers(0, 6),
    limits=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_task_2_lookup_any_text(tokens, count, limits):
    lookup_agrees(tokens, count, max(limits), min(limits))


@property_test
@given(tokens=st.lists(st.integers(0, 2), max_size=20), size=st.integers(1, 4))
def test_task_2_lookup_has_stood_before(tokens, size):
    """What is proposed has followed the last token before: it stands in the text, directly behind an equal one."""
    case = f"tokens {tokens}, count 3, longest {size}"
    found = again(lambda: ngram.lookup(tokens, 3, size), case)
    pieces = [tokens[at : at + 1 + len(found)] for at in range(len(tokens) - 1)]
    if found and [tokens[-1], *found] not in pieces:
        fail(Kind.VALUES, "what is proposed has never followed the last token", case, f"got       {found}")


@pytest.mark.parametrize(("count", "longest", "shortest", "number"), [(-1, 3, 1, "-1"), (2, 3, 0, "0"), (2, 1, 2, "1")])
def test_task_2_lookup_refuses(count, longest, shortest, number):
    with raises_value_error(f"tokens [1, 2, 1], count {count}, longest {longest}, shortest {shortest}", number):
        ngram.lookup([1, 2, 1], count, longest, shortest)


@pytest.mark.parametrize(
    ("tokens", "count", "longest", "shortest", "number"),
    [([], -1, 3, 1, "-1"), ([4], 2, 3, 0, "0"), ([1, 2, 1], 0, 3, -2, "-2"), ([1, 2, 1], 0, 1, 2, "1")],
)
def test_task_2_lookup_refuses_first(tokens, count, longest, shortest, number):
    """Also if nothing could be proposed, or nothing is wanted."""
    with raises_value_error(f"tokens {tokens}, count {count}, longest {longest}, shortest {shortest}", number):
        ngram.lookup(tokens, count, longest, shortest)


# Task 3, a draft model

VOCAB = 9
by_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def drafted64(logits, text, output, count, settings):
    """The tokens of a draft behind a text, and the rows that they are drawn of."""
    params, rows, tokens = {name: each for name, each in settings.items() if name != "seed"}, [], []
    for number in range(count):
        rows.append(probabilities64(logits([*text, *tokens]), [*text, *tokens], **params))
        tokens.append(pick64(rows[-1], uniforms(settings.get("seed"), output + number, 1, DRAFTING)[0]))
    return tokens, rows


class Books:
    """What the small model's memory should have, and what the model should be called with."""

    def __init__(self):
        self.held, self.calls = {}, []

    def draft(self, texts, counts, drafted):
        wanted = [i for i, count in enumerate(counts) if count]
        first = []
        for i in wanted:
            held = self.held.get(i, [])
            same = next((at for at, (a, b) in enumerate(zip(held, texts[i], strict=False)) if a != b), len(held))
            first.append(len(texts[i]) - min(same, len(texts[i]) - 1))
            self.held[i] = [*texts[i], *drafted[i][:-1]]
        self.calls += [first] * bool(first)
        self.calls += [[1 for i in wanted if counts[i] > number] for number in range(1, max(counts))]


def writers_agree(prompts, settings, script, seed, vocab=VOCAB, size=0):
    """Drafts of a script of (counts, how many stand): tokens, probabilities, calls of the model, memory."""
    logits = random_logits(seed, vocab)
    case = f"{len(prompts)} requests, {'; '.join(map(setting_words, settings[:2]))}, V {vocab}, logits of seed {seed}"
    if len(prompts) == 1:
        case = f"a prompt of {len(prompts[0])}, {setting_words(settings[0])}, V {vocab}, logits of seed {seed}"
    books, told = Books(), []
    with noted(case):
        writers = Writers(draft.DraftModel, Request, SamplingParams, prompts, settings, logits, case=case)
    for counts, stands in script:
        told.append(f"drafts of {', '.join(map(str, counts))}")
        here = f"{case}; {'; '.join(told[-3:])}"
        writers.memory.case = here
        texts = [[*each.prompt, *each.output] for each in writers.requests]
        with noted(here):
            drafts = writers.draft(counts)
        expected = [
            drafted64(logits, text, len(request.output), count, own)
            for text, request, count, own in zip(texts, writers.requests, counts, settings, strict=True)
        ]
        for i, (found, (tokens, rows)) in enumerate(zip(drafts, expected, strict=True)):
            which = f" of request {i}" * (len(prompts) > 1)
            if not hasattr(found, "tokens") or not hasattr(found, "probabilities"):
                fail(Kind.TYPE, f"a draft is {type_words(found)}, expected a Draft", here, size=size)
            if [type(each) for each in found.tokens] != [int] * len(found.tokens):
                fail(Kind.TYPE, "the drafted tokens are not plain ints", here, size=size)
            fail_if_different(f"wrong tokens{which}", tokens, found.tokens, here, size)
            if tokens:
                numbers = f"probabilities{which}; {here}"
                compare(found.probabilities, np.array(rows), mx.float32, 2e-5, numbers, size or len(texts[i]))
        books.draft(texts, counts, [tokens for tokens, _ in expected])
        fail_if_different(
            "the tokens of each call of the model are wrong", books.calls[-6:], writers.model.calls[-6:], here, size
        )
        held = [len(books.held[i]) for i in sorted(books.held)]
        fail_if_different("memory has another number of tokens", held, sorted_lengths(writers, held), here, size)
        if any(each.read != 77 for each in writers.requests):
            fail(Kind.VALUES, "the caller's request has another `read` than before", here, size=size)
        if texts != [[*each.prompt, *each.output] for each in writers.requests]:
            fail(Kind.VALUES, "the caller's request has other tokens than before", here, size=size)
        writers.write(drafts, stands, vocab)
        told[-1] += f", {stands} stand"
    return writers


def sorted_lengths(writers, expected):
    """The lengths in memory, in the order of the requests if they are the expected ones in another order."""
    found = writers.memory.lengths
    return expected if sorted(found) == sorted(expected) else found


@by_settings
def test_task_3_draft_formula(settings):
    """Some stand, none, all: memory has just what the text has taken."""
    writers_agree([[1, 2, 3]], [settings], [([3], 2), ([3], 0), ([2], 1), ([4], 2), ([1], 0)], seed=1)


@by_settings
def test_task_3_draft_all_stand(settings):
    """The token that was drafted last has not been read: two are new."""
    writers_agree([[4, 2]], [settings], [([3], 3), ([2], 2), ([1], 1), ([4], 4), ([4], 0)], seed=2)


def test_task_3_draft_after_steps_without():
    """Between two drafts the text may go its own way: memory has tokens that it has never taken."""
    script = [([4], 0), ([0], 0), ([0], 0), ([3], 1), ([5], 1), ([0], 0), ([2], 2)]
    writers_agree([[1, 2]], [{}], script, seed=3)
    writers_agree([[1, 2]], [SETTINGS["temp 1"]], script, seed=3)


def test_task_3_draft_several():
    """Three requests with settings of their own, and counts that differ."""
    settings = [{}, SETTINGS["temp 1"], SETTINGS["top-k, top-p"]]
    script = [([2, 3, 1], 1), ([0, 2, 3], 2), ([0, 1, 2], 0), ([3, 3, 3], 1), ([0, 0, 0], 0)]
    writers_agree([[1, 2], [3, 4, 5, 6], [7]], settings, script, seed=4)


def test_task_3_draft_asked_again():
    """Nothing was written since: the same draft, and at least one token is read for it."""
    case = "a prompt of 3, temp 1, seed 5, V 9: drafts of 3, 3 and 1, and nothing is written"
    logits = random_logits(5, VOCAB)
    with noted(case):
        own = [[1, 2, 3]], [SETTINGS["temp 1"]], logits
        writers = Writers(draft.DraftModel, Request, SamplingParams, *own, case=case)
        found = [writers.draft([count])[0].tokens for count in (3, 3, 1)]
    tokens, _ = drafted64(logits, [1, 2, 3], 0, 3, SETTINGS["temp 1"])
    fail_if_different("wrong tokens", [tokens, tokens, tokens[:1]], found, case)
    fail_if_different(
        "the tokens of each call of the model are wrong", [[3], [1], [1], [1], [1], [1], [1]], writers.model.calls, case
    )


def test_task_3_draft_keep():
    """Who is let go has nothing in memory, and is read anew when it comes back."""
    case = "two requests, drafts of 2; keep the second; drafts of 2 again"
    with noted(case):
        own = [[1, 2], [3, 4]], [{}, {}], random_logits(6, VOCAB)
        writers = Writers(draft.DraftModel, Request, SamplingParams, *own, case=case)
        writers.draft([2, 2])
        writers.drafter.keep(writers.requests)
        both = writers.memory.lengths
        writers.drafter.keep(writers.requests[1:])
        one = writers.memory.lengths
        writers.draft([2, 2])
        writers.drafter.keep([])
    fail_if_different("memory has another number of tokens after keep", [[3, 3], [3]], [both, one], case)
    fail_if_different(
        "the tokens of each call of the model are wrong", [[2, 2], [1, 1], [2, 1], [1, 1]], writers.model.calls, case
    )
    fail_if_different("memory has something after keep([])", [], writers.memory.lengths, case)


def test_task_3_draft_without_a_seed():
    """Each draft is drawn anew; its rows are those of its own tokens."""
    case, logits = "a prompt of 2, temp 1.5, no seed, V 9", random_logits(7, VOCAB, spread=0.5)
    mx.random.seed(3)
    with noted(case):
        own = [[1, 2]], [{"temp": 1.5}], logits
        writers = Writers(draft.DraftModel, Request, SamplingParams, *own, case=case)
        drafts = [writers.draft([4])[0] for _ in range(12)]
    if len({tuple(each.tokens) for each in drafts}) < 4:
        fail(
            Kind.VALUES, "without a seed, drafts should differ", case, f"got       {drafts[0].tokens}, again and again"
        )
    for each in drafts[:3]:
        texts = [[1, 2, *each.tokens[:i]] for i in range(4)]
        expected = np.array([probabilities64(logits(text), text, temp=1.5) for text in texts])
        compare(each.probabilities, expected, mx.float32, 2e-5, f"probabilities; {case}", 2)


def test_task_3_draft_no_room():
    """For whom memory has no room, nothing is drafted; the others do not notice."""
    case, logits = "prompts of 3, 2 and 1, greedy; memory has room for 9 tokens", random_logits(7, VOCAB)
    prompts = [[1, 2, 3], [4, 5], [6]]
    with noted(case):
        writers = Writers(draft.DraftModel, Request, SamplingParams, prompts, [{}, {}, {}], logits, room=9, case=case)
        long, short = writers.draft([2, 9, 2]), writers.draft([2, 2, 2])
    two = [greedy_text(logits, prompt, 2) for prompt in prompts]
    fail_if_different(
        "wrong tokens where 9 are wanted of the second", [two[0], [], two[2]], [each.tokens for each in long], case
    )
    fail_if_different("wrong tokens where 2 are wanted of each", two, [each.tokens for each in short], case)


def test_task_3_draft_not_let_in():
    """Memory may let nobody in, until somebody has gone."""
    case, logits = "prompts of 3 and 2, greedy; memory has room for 3 tokens", random_logits(7, VOCAB)
    prompts = [[1, 2, 3], [4, 5]]
    with noted(case):
        writers = Writers(draft.DraftModel, Request, SamplingParams, prompts, [{}, {}], logits, room=3, case=case)
        found = [writers.draft([1, None])[0].tokens, writers.draft([None, 1])[1].tokens]
        writers.drafter.keep(writers.requests[1:])
        found.append(writers.draft([None, 1])[1].tokens)
    one, other = (greedy_text(logits, prompt, 1) for prompt in prompts)
    fail_if_different(
        "wrong tokens of the first, of the second, and of the second when the first has gone",
        [one, [], other],
        found,
        case,
    )


def test_task_3_draft_memory_that_finds():
    """What memory finds of a text that it lets in is not read once more: `read` says how much that is."""
    case, logits = "prompts of 4 and 2, greedy; memory finds 2 tokens, but never the last one", random_logits(7, VOCAB)
    prompts = [[1, 2, 3, 4], [5, 6]]
    with noted(case):
        writers = Writers(draft.DraftModel, Request, SamplingParams, prompts, [{}, {}], logits, case=case, found=2)
        drafts = writers.draft([2, 2])
    fail_if_different(
        "wrong tokens", [greedy_text(logits, each, 2) for each in prompts], [each.tokens for each in drafts], case
    )
    fail_if_different("the tokens of each call of the model are wrong", [[2, 1], [1, 1]], writers.model.calls, case)


def test_task_3_draft_sweep():
    for n in sizes(N=8, L=140, K=9, V=70):
        generator = np.random.default_rng(n.seed)
        prompts = [generator.integers(0, n.V + 1, n.L).tolist() for _ in range(n.N)]
        settings = [n.turn(*SETTINGS.values()), *list(SETTINGS.values()) * 2][: n.N]
        script = [([n.K] * n.N, int(generator.integers(0, n.K + 1))), ([min(n.K, 2 + i % 2) for i in range(n.N)], 0)]
        writers_agree(prompts, settings, script, n.seed, n.V + 1, size=n.N * n.L * n.K)


@property_test
@given(
    script=st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=2, max_size=2), st.integers(0, 3)), min_size=1, max_size=6
    ),
    seed=st.integers(0, 99),
)
def test_task_3_draft_any_course(script, seed):
    writers_agree([[1, 2], [3]], [SETTINGS["greedy"], SETTINGS["temp 1"]], script, seed)


# Task 4, drafts in the scheduler's loop


def guesses(logits, *, sampled=False, off=0, fewer=0):
    """A drafter's proposal: the likeliest of some logits moved on by `off`, certain; or drawn, with rows of its own."""

    def propose(text, count):
        tokens, rows = [], []
        for _ in range(max(0, count - fewer)):
            numbers = logits([*text, *tokens])
            e = np.exp(numbers - numbers.max())
            rows.append(e / e.sum())
            chance = np.random.default_rng([len(text), len(tokens), *text[-2:]]).random()
            token = pick64(rows[-1], chance) if sampled else (int(np.argmax(numbers)) + off) % len(numbers)
            tokens.append(token)
        return tokens, rows if sampled and rows else None

    return propose


def request_of(prompt, output, settings, most=50):
    made = Request(list(prompt), most, SamplingParams(**settings))
    made.output, made.read = list(output), len(prompt) + len(output) - 1
    return made


def in_pieces(running, budget):
    """A plan of pieces of three tokens at most."""
    return [next_chunk(request, min(3, request.unread)) for request in running]


def without_the_first(running, budget):
    """A plan that reads nothing of the first request."""
    return [next_chunk(request, request.unread) for request in running[1:]]


def shown(chunks):
    return [(chunk.start, chunk.tokens, chunk.scored) for chunk in chunks]


def plan_agrees(budget, most, *, count=3, fewer=0, prompt=1, inner=None):
    """The chunks of a plan of three requests: two write, one has a prompt to read."""
    requests = [
        request_of([1, 2], [3], {}, most[0]),
        request_of([4], [5, 6], {}, most[1]),
        request_of([2, 5, 1, 1][:prompt], [], {}, most[2]),
    ]
    requests[2].read = 0
    case = f"budget {budget}, count {count}, max_tokens {most} with outputs of 1, 2 and 0, a prompt of {prompt}"
    if inner:
        case += f", an inner plan {inner.__name__.replace('_', ' ')}"
    propose, budgets = guesses(random_logits(1), fewer=fewer), []
    drafter = Scripted(Draft, propose)

    def noting(running, budget):
        budgets.append(budget)
        return inner(running, budget)

    with noted(case):
        speculation = scheduling.Speculation(drafter, count, *([noting] if inner else []))
        chunks = speculation.plan(requests, budget)
    plain = (inner or whole_prompts)(requests, budget)
    left, asked, expected = budget - sum(len(chunk.tokens) for chunk in plain), [], []
    for chunk in plain:
        request = chunk.request
        share = max(0, min(left, count, request.max_tokens - len(request.output) - 1)) if chunk.scored else 0
        asked += [share] * bool(share)
        left -= share
        tokens = propose([*request.prompt, *request.output], share)[0]
        expected.append((chunk.start, [*chunk.tokens, *tokens], chunk.scored + len(tokens)))
    if [chunk.request for chunk in chunks] != [chunk.request for chunk in plain]:
        fail(Kind.VALUES, "the chunks are not those of the inner plan, in its order", case)
    fail_if_different("the chunks (start, tokens, scored) are wrong", expected, shown(chunks), case)
    fail_if_different("what the drafter is asked, call by call, is wrong", [asked] * bool(asked), drafter.asked, case)
    fail_if_different("who the drafter is to keep, call by call, is wrong", [3], drafter.kept, case)
    fail_if_different(
        "what the drafter is told first is wrong", ["keep", *["draft"] * bool(asked)], drafter.order, case
    )
    fail_if_different("the budget of the inner plan is wrong", [budget] * len(budgets), budgets, case)


@pytest.mark.parametrize("budget", [100, 12, 11, 9, 6, 5, 4, 3, 2, 1])
def test_task_4_loop_plan_budget(budget):
    """The budget counts drafted tokens, too; the first chunk is first."""
    plan_agrees(budget, (50, 50, 50))


@pytest.mark.parametrize("most", [(2, 50, 50), (3, 4, 1), (2, 3, 2)], ids=str)
def test_task_4_loop_plan_max_tokens(most):
    """Of the tokens that may still be written, the last one is not drafted."""
    plan_agrees(100, most)


def test_task_4_loop_plan_fewer():
    """A drafter may give less than it is asked for, or nothing."""
    for fewer in (1, 2, 3):
        plan_agrees(100, (50, 50, 50), fewer=fewer)


def test_task_4_loop_plan_prompts():
    """Nothing stands behind a piece of a prompt; behind its end, a draft does."""
    for prompt in (1, 3, 4):
        plan_agrees(100, (50, 50, 50), prompt=prompt, inner=in_pieces)
        plan_agrees(8, (50, 50, 50), prompt=prompt, inner=in_pieces)


@pytest.mark.parametrize("budget", [1000, 8, 4])
def test_task_4_loop_plan_left_out(budget):
    """A request of which this step reads nothing runs all the same: what was drafted for it is kept."""
    plan_agrees(budget, (50, 50, 50), inner=without_the_first)


def test_task_4_loop_plan_again():
    """What was drafted in an earlier step is forgotten."""
    case, requests = (
        "two requests; a plan with budget 100, one with budget 2",
        [request_of([i], [3], {}) for i in (1, 2)],
    )
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(random_logits(1))), 3)
        long, short = speculation.plan(requests, 100), speculation.plan(requests, 2)
    fail_if_different("the first plan's scored are wrong", [4, 4], [chunk.scored for chunk in long], case)
    fail_if_different("the second plan's chunks are wrong", [(1, [3], 1)] * 2, shown(short), case)


def choice_agrees(settings, seed, *, sampled=True, missing=(), count=3, vocab=7, size=0):
    """What is chosen after a plan, for logits that are near to the drafter's."""
    small = random_logits(seed, vocab, spread=0.7)
    large = mixed(small, random_logits(seed + 50, vocab))
    requests = [request_of([1 % vocab, 0, i % vocab], [i % vocab, 0], each) for i, each in enumerate(settings)]
    words = "; ".join(map(setting_words, settings[:2]))
    case = f"{len(settings)} requests, {words}, {count} drafted, V {vocab}, seed {seed}"
    propose = guesses(small, sampled=sampled)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, propose), count)
        chunks = [chunk for i, chunk in enumerate(speculation.plan(requests, 10000)) if i not in missing]
    fail_if_different("scored is wrong", [count + 1] * len(chunks), [chunk.scored for chunk in chunks], case, size)
    texts = [
        [[*each.prompt, *each.output, *chunk.tokens[1 : i + 1]] for i in range(count + 1)]
        for chunk in chunks
        for each in [chunk.request]
    ]
    logits = np.array([large(text) for own in texts for text in own], np.float32)
    with noted(case):
        found = speculation.choose(mx.array(logits), chunks)
    expected, stood = [], 0
    for chunk, own in zip(chunks, texts, strict=True):
        setting = settings[requests.index(chunk.request)]
        params = {name: each for name, each in setting.items() if name != "seed"}
        target = np.array([probabilities64(large(text), text, **params) for text in own])
        drafted, rows = propose(own[0], count)
        rows = np.eye(vocab)[drafted] if rows is None else np.array(rows)
        draws = uniforms(setting.get("seed"), len(chunk.request.output), count + 1, JUDGING)
        accepted, token = accept64(target, rows.reshape(count, vocab), drafted, draws)
        expected.append([*drafted[:accepted], token])
        stood += accepted
    fail_if_different("the new tokens of the chunks are wrong", expected, found, case, size)
    counted = [speculation.drafted, speculation.accepted]
    fail_if_different("drafted and accepted are wrong", [count * len(chunks), stood], counted, case, size)


SEEDED = [{**each, "seed": 11 + i} for i, each in enumerate(SETTINGS.values())]


@pytest.mark.parametrize("settings", SEEDED, ids=SETTINGS.keys())
def test_task_4_loop_choose(settings):
    for seed in range(6):
        choice_agrees([settings], seed)
        choice_agrees([settings], seed, sampled=False)


def test_task_4_loop_choose_several():
    """Each with its own params and seed; a chunk may be missing, since its request was put back."""
    for seed in range(3):
        choice_agrees(SEEDED, seed)
        choice_agrees(SEEDED, seed, missing=(0, 2))


def test_task_4_loop_choose_nothing():
    """Pieces of prompts alone: no rows, no tokens."""
    case, request = "one request in the middle of its prompt", Request([1, 2, 3, 4, 5], 9)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(random_logits(1))), 3, in_pieces)
        found = speculation.choose(mx.zeros((0, 7)), speculation.plan([request], 100))
    fail_if_different("the new tokens of the chunks are wrong", [[]], found, case)


def serve(
    prompts, settings, *, large, propose, count=3, budget=40, limit=9, eos=(), stops=None, inner=None, slots=3, case=""
):
    """Let the loop serve all; after each step, memory has all of each text but its last token."""
    memory, drafter = Notes(case=case), Scripted(Draft, propose)
    with noted(case):
        speculation = scheduling.Speculation(drafter, count, *([inner] if inner else []))
        loop = Scheduler(
            Told(large), memory, slots=slots, budget=budget, plan=speculation.plan, choose=speculation.choose
        )
        requests = [
            Request(list(prompt), limit, SamplingParams(**own), eos, stop)
            for prompt, own, stop in zip(prompts, settings, stops or [None] * len(prompts), strict=True)
        ]
        for request in requests:
            loop.submit(request)
        for _ in range(40 * len(prompts)):
            if not loop.running and not loop.waiting:
                break
            step = loop.step()
            for chunk in step.chunks:
                request = chunk.request
                if request in memory.held and memory.held[request] != request.tokens(0, request.read):
                    got = f"got       {memory.held[request]}"
                    fail(
                        Kind.VALUES,
                        "memory has other tokens than the text",
                        case,
                        f"expected  {request.tokens(0, request.read)}",
                        got,
                    )
                if chunk.scored and request in memory.held and request.unread != 1:
                    fail(Kind.VALUES, f"after a step {request.unread} tokens of a text are unread, expected 1", case)
    if memory.held or any(not request.finished for request in requests):
        fail(Kind.VALUES, "not everybody was served to the end", case)
    return requests, speculation, loop


DRAFTERS = {
    "always right": lambda large: guesses(large),
    "always wrong": lambda large: guesses(large, off=1),
    "often right": lambda large: guesses(mixed(large, random_logits(99))),
    "by chance": lambda large: guesses(random_logits(98), sampled=True),
    "nothing": lambda large: guesses(large, fewer=9),
}
by_drafter = pytest.mark.parametrize("drafter", DRAFTERS)


@by_drafter
def test_task_4_loop_greedy(drafter):
    """The text is the greedy one, whoever drafts."""
    large, prompts = random_logits(5), [[1, 2], [3], [4, 5, 6], [2, 2]]
    for inner, budget in ((None, 40), (in_pieces, 40), (None, 7)):
        case = f"4 greedy requests, 3 slots, budget {budget}, a drafter that is {drafter}, count 3"
        served = serve(
            prompts, [{}] * 4, large=large, propose=DRAFTERS[drafter](large), inner=inner, budget=budget, case=case
        )
        expected = [greedy_text(large, prompt, 9) for prompt in prompts]
        fail_if_different("the texts are not the greedy ones", expected, [each.output for each in served[0]], case)


def test_task_4_loop_always_right():
    """Nine tokens at four a step: three steps."""
    large = random_logits(5)
    case = "1 greedy request, a drafter that is always right, count 3, max_tokens 9"
    memory = Notes(case=case)
    with noted(case):
        speculation = scheduling.Speculation(Scripted(Draft, guesses(large)), 3)
        loop = Scheduler(Told(large), memory, plan=speculation.plan, choose=speculation.choose)
        loop.submit(Request([1, 2], 9))
        steps = [loop.step().new for _ in range(3)]
    fail_if_different("how many tokens each step gives is wrong", [4, 4, 1], [len(new[0]) for new in steps], case)
    fail_if_different("drafted and accepted are wrong", (6, 6), (speculation.drafted, speculation.accepted), case)


@by_drafter
def test_task_4_loop_ends(drafter):
    """A text ends within a run of accepted tokens: at an end token, which is no part of it, or where `stop` says so."""
    large, prompt = random_logits(5), [1, 2]
    text = greedy_text(large, prompt, 9)
    end = next(token for token in text[2:] if token not in text[:2])
    at = text.index(end)
    for eos, stop, expected in (((end,), None, text[:at]), ((), lambda token: token == end, text[: at + 1])):
        how = "eos_ids" if eos else "stop"
        case = f"1 greedy request that ends with token {end}, by {how}, a drafter that is {drafter}"
        served = serve([prompt], [{}], large=large, propose=DRAFTERS[drafter](large), eos=eos, stops=[stop], case=case)
        fail_if_different("the text is wrong", expected, served[0][0].output, case)
        fail_if_different("why it has ended is wrong", "stop", served[0][0].finished, case)


def test_task_4_loop_seeds():
    """With a seed, the text is the same alone and among others."""
    large = random_logits(6)
    propose = guesses(mixed(large, random_logits(60)), sampled=True)
    prompts, settings = [[1, 2], [3], [4, 5]], [SEEDED[1], SEEDED[2], SEEDED[3]]
    case = f"3 requests, {'; '.join(map(setting_words, settings[:2]))}; together, and each alone"
    together = serve(prompts, settings, large=large, propose=propose, case=case)[0]
    alone = [
        serve([p], [s], large=large, propose=propose, case=case)[0][0] for p, s in zip(prompts, settings, strict=True)
    ]
    fail_if_different(
        "the texts together are not those of each alone", [r.output for r in alone], [r.output for r in together], case
    )


@pytest.mark.parametrize("settings", [{"temp": 1.0}, {"temp": 1.0, "repetition_penalty": 1.6}], ids=setting_words)
def test_task_4_loop_distribution(settings):
    """1,200 texts of two tokens, each with a seed of its own: pairs come as often as without drafts.

    The statistic is the sum of (found - expected)^2 / expected over 16 pairs. By luck alone it would pass 55 once in
    more than 100,000 times.
    """
    large, small, texts = random_logits(3, 4, 2, 1.0), random_logits(4, 4, 2, 1.0), 1200
    case = f"{texts} texts of 2 tokens, {setting_words(settings)}, seeds 0 to {texts - 1}, V 4, 2 drafted"

    def propose(text, count):
        rows = [probabilities64(small([0]), [], temp=1.0)] * count
        chances = next(drawn)
        return [pick64(row, chance) for row, chance in zip(rows, chances, strict=True)], rows

    found, drawn = Counter(), iter(np.random.default_rng(9).random((2 * texts, 1)).tolist())
    with noted(case):
        for seed in range(texts):
            request = Request([1, 2], 2, SamplingParams(**settings, seed=seed))
            drafter = Scripted(Draft, propose)
            speculation = scheduling.Speculation(drafter, 2)
            loop = Scheduler(Told(large), Notes(case=case), plan=speculation.plan, choose=speculation.choose)
            loop.submit(request)
            while not request.finished:
                loop.step()
            found[tuple(request.output)] += 1
    first = probabilities64(large([1, 2]), [1, 2], **settings)
    expected = {
        (a, b): texts * first[a] * second
        for a in range(4)
        for b, second in enumerate(probabilities64(large([1, 2, a]), [1, 2, a], **settings))
    }
    statistic = sum((found[pair] - each) ** 2 / each for pair, each in expected.items())
    if statistic > 55:
        pair = max(expected, key=lambda pair: abs(found[pair] - expected[pair]) / expected[pair] ** 0.5)
        lines = (f"expected  tokens {pair} in about {expected[pair]:.0f} texts", f"got       {found[pair]}")
        fail(Kind.VALUES, f"chi-square is {statistic:.0f}; up to 55 could be luck", case, *lines)


def test_task_4_loop_sweep():
    for n in sizes(N=8, K=9, V=140):
        settings = [n.turn(*SEEDED), *SEEDED, *SEEDED][: n.N]
        choice_agrees(settings, n.seed, count=n.K, vocab=n.V + 1, sampled=n.turn(True, False), size=n.N * n.K * n.V)


@property_test
@given(
    count=st.integers(1, 5),
    budget=st.integers(4, 14),
    prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), min_size=1, max_size=4),
    limit=st.integers(1, 8),
    drafter=st.sampled_from(sorted(DRAFTERS)),
)
def test_task_4_loop_any_course(count, budget, prompts, limit, drafter):
    large = random_logits(12)
    case = f"prompts {prompts}, count {count}, budget {budget}, max_tokens {limit}, a drafter that is {drafter}"
    propose = DRAFTERS[drafter](large)
    served = serve(
        prompts, [{}] * len(prompts), large=large, propose=propose, count=count, budget=budget, limit=limit, case=case
    )
    expected = [greedy_text(large, prompt, limit) for prompt in prompts]
    fail_if_different("the texts are not the greedy ones", expected, [each.output for each in served[0]], case)
