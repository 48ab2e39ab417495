"""Week 3, day 6, task 3: a draft model.

Expected is what the draft model would generate alone, with given uniform samples.
"""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day6 import pick64, probabilities64
from tests.week3.speculating import (
    SETTINGS,
    Writers,
    greedy_text,
    random_logits,
    setting_words,
)

from tiny_llm.serving.request import Request, SamplingParams
from tiny_llm.speculative import draft_model
from tiny_llm.speculative.probabilities import DRAFT, uniforms
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

VOCAB = 9
by_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())


def drafted64(logits, text, output, count, settings):
    """Return a draft's tokens after a sequence, and the rows that they are sampled from."""
    params, rows, tokens = {name: each for name, each in settings.items() if name != "seed"}, [], []
    for number in range(count):
        rows.append(probabilities64(logits([*text, *tokens]), [*text, *tokens], **params))
        tokens.append(pick64(rows[-1], uniforms(settings.get("seed"), output + number, 1, DRAFT)[0]))
    return tokens, rows


class Books:
    """The expected contents of the draft model's KV cache, and the expected calls of the model."""

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
    """Check the drafts of a script of (counts, accepted): tokens, probabilities, calls of the model, KV cache."""
    logits = random_logits(seed, vocab)
    case = f"{len(prompts)} requests, {'; '.join(map(setting_words, settings[:2]))}, V {vocab}, logits of seed {seed}"
    if len(prompts) == 1:
        case = f"a prompt of {len(prompts[0])}, {setting_words(settings[0])}, V {vocab}, logits of seed {seed}"
    books, told = Books(), []
    with noted(case):
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, prompts, settings, logits, case=case)
    for counts, stands in script:
        told.append(f"drafts of {', '.join(map(str, counts))}")
        here = f"{case}; {'; '.join(told[-6:])}"
        writers.kv_cache.case = here
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
                fail(Kind.TYPE, "the draft tokens are not plain ints", here, size=size)
            fail_if_different(f"wrong tokens{which}", tokens, found.tokens, here, size)
            if tokens:
                numbers = f"probabilities{which}; {here}"
                compare(found.probabilities, np.array(rows), mx.float32, 2e-5, numbers, size or len(texts[i]))
        books.draft(texts, counts, [tokens for tokens, _ in expected])
        fail_if_different(
            "the tokens of each call of the model are wrong", books.calls[-6:], writers.model.calls[-6:], here, size
        )
        held = [len(books.held[i]) for i in sorted(books.held)]
        fail_if_different(
            "the draft model's KV cache has a wrong number of tokens", held, sorted_lengths(writers, held), here, size
        )
        if any(each.num_computed_tokens != 77 for each in writers.requests):
            fail(Kind.VALUES, "the caller's request.num_computed_tokens has changed", here, size=size)
        if texts != [[*each.prompt, *each.output] for each in writers.requests]:
            fail(Kind.VALUES, "the caller's request's tokens have changed", here, size=size)
        writers.write(drafts, stands, vocab)
        told[-1] += f", {stands} accepted"
    return writers


def sorted_lengths(writers, expected):
    """Return the cached lengths, in the order of the requests if they are the expected ones in another order."""
    found = writers.kv_cache.lengths
    return expected if sorted(found) == sorted(expected) else found


@by_settings
def test_task_3_draft_formula(settings):
    """Some are accepted, none, all: the KV cache has exactly the accepted tokens."""
    writers_agree([[1, 2, 3]], [settings], [([3], 2), ([3], 0), ([2], 1), ([4], 2), ([1], 0)], seed=1)


@by_settings
def test_task_3_draft_all_accepted(settings):
    """The last draft token has not been computed: two tokens are new."""
    writers_agree([[4, 2]], [settings], [([3], 3), ([2], 2), ([1], 1), ([4], 4), ([4], 0)], seed=2)


def test_task_3_draft_after_steps_without():
    """Between two drafts the output may diverge: the KV cache has tokens that were never accepted."""
    script = [([4], 0), ([0], 0), ([0], 0), ([3], 1), ([5], 1), ([0], 0), ([2], 2)]
    writers_agree([[1, 2]], [{}], script, seed=3)
    writers_agree([[1, 2]], [SETTINGS["temp 1"]], script, seed=3)


def test_task_3_draft_several():
    """Three requests with their own settings, and different counts."""
    settings = [{}, SETTINGS["temp 1"], SETTINGS["top-k, top-p"]]
    script = [([2, 3, 1], 1), ([0, 2, 3], 2), ([0, 1, 2], 0), ([3, 3, 3], 1), ([0, 0, 0], 0)]
    writers_agree([[1, 2], [3, 4, 5, 6], [7]], settings, script, seed=4)


def test_task_3_draft_repeated():
    """Nothing was generated since: the same draft, and at least one token is computed for it."""
    case = "a prompt of 3, temp 1, seed 5, V 9: drafts of 3, 3 and 1, and nothing is generated"
    logits = random_logits(5, VOCAB)
    with noted(case):
        own = [[1, 2, 3]], [SETTINGS["temp 1"]], logits
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, *own, case=case)
        found = [writers.draft([count])[0].tokens for count in (3, 3, 1)]
    tokens, _ = drafted64(logits, [1, 2, 3], 0, 3, SETTINGS["temp 1"])
    fail_if_different("wrong tokens", [tokens, tokens, tokens[:1]], found, case)
    fail_if_different(
        "the tokens of each call of the model are wrong", [[3], [1], [1], [1], [1], [1], [1]], writers.model.calls, case
    )


def test_task_3_draft_retain():
    """A released request has nothing cached, and is recomputed when it returns."""
    case = "two requests, drafts of 2; retain the second; drafts of 2 again"
    with noted(case):
        own = [[1, 2], [3, 4]], [{}, {}], random_logits(6, VOCAB)
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, *own, case=case)
        writers.draft([2, 2])
        writers.drafter.retain(writers.requests)
        both = writers.kv_cache.lengths
        writers.drafter.retain(writers.requests[1:])
        one = writers.kv_cache.lengths
        writers.draft([2, 2])
        writers.drafter.retain([])
    fail_if_different(
        "the draft model's KV cache has a wrong number of tokens after retain", [[3, 3], [3]], [both, one], case
    )
    fail_if_different(
        "the tokens of each call of the model are wrong", [[2, 2], [1, 1], [2, 1], [1, 1]], writers.model.calls, case
    )
    fail_if_different("the draft model's KV cache is not empty after retain([])", [], writers.kv_cache.lengths, case)


def test_task_3_draft_without_a_seed():
    """Each draft is sampled anew; its rows are those of its own tokens."""
    case, logits = "a prompt of 2, temp 1.5, no seed, V 9", random_logits(7, VOCAB, spread=0.5)
    mx.random.seed(3)
    with noted(case):
        own = [[1, 2]], [{"temp": 1.5}], logits
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, *own, case=case)
        drafts = [writers.draft([4])[0] for _ in range(12)]
    if len({tuple(each.tokens) for each in drafts}) < 4:
        fail(
            Kind.VALUES, "without a seed, drafts should differ", case, f"got       {drafts[0].tokens}, again and again"
        )
    for each in drafts[:3]:
        texts = [[1, 2, *each.tokens[:i]] for i in range(4)]
        expected = np.array([probabilities64(logits(text), text, temp=1.5) for text in texts])
        compare(each.probabilities, expected, mx.float32, 2e-5, f"probabilities; {case}", 2)


def test_task_3_draft_no_capacity():
    """A request without KV capacity gets no draft; the others are not affected. No requests, no drafts."""
    case, logits = "prompts of 3, 2 and 1, greedy; the draft's KV cache holds 9 tokens", random_logits(7, VOCAB)
    prompts = [[1, 2, 3], [4, 5], [6]]
    with noted(case):
        writers = Writers(
            draft_model.DraftModel, Request, SamplingParams, prompts, [{}, {}, {}], logits, room=9, case=case
        )
        long, short = writers.draft([2, 9, 2]), writers.draft([2, 2, 2])
    two = [greedy_text(logits, prompt, 2) for prompt in prompts]
    fail_if_different(
        "wrong tokens where 9 are requested for the second", [two[0], [], two[2]], [each.tokens for each in long], case
    )
    fail_if_different("wrong tokens where 2 are requested for each", two, [each.tokens for each in short], case)
    with noted(case := "propose([], []), when no request may have a draft token"):
        none = writers.drafter.propose([], [])
    fail_if_different("wrong drafts", [], none, case)


def test_task_3_draft_not_admitted():
    """The KV cache may admit no request until another one has left."""
    case, logits = "prompts of 3 and 2, greedy; the draft's KV cache holds 3 tokens", random_logits(7, VOCAB)
    prompts = [[1, 2, 3], [4, 5]]
    with noted(case):
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, prompts, [{}, {}], logits, room=3, case=case)
        found = [writers.draft([1, None])[0].tokens, writers.draft([None, 1])[1].tokens]
        writers.drafter.retain(writers.requests[1:])
        found.append(writers.draft([None, 1])[1].tokens)
    one, other = (greedy_text(logits, prompt, 1) for prompt in prompts)
    fail_if_different(
        "wrong tokens of the first, of the second, and of the second after the first has left",
        [one, [], other],
        found,
        case,
    )


def test_task_3_draft_prefix_cache():
    """Tokens found on admission are not recomputed: `num_computed_tokens` is their number."""
    case, logits = (
        "prompts of 4 and 2, greedy; the draft's KV cache finds 2 tokens, but never the last one",
        random_logits(7, VOCAB),
    )
    prompts = [[1, 2, 3, 4], [5, 6]]
    with noted(case):
        writers = Writers(
            draft_model.DraftModel, Request, SamplingParams, prompts, [{}, {}], logits, case=case, found=2
        )
        drafts = writers.draft([2, 2])
    fail_if_different(
        "wrong tokens", [greedy_text(logits, each, 2) for each in prompts], [each.tokens for each in drafts], case
    )
    fail_if_different("the tokens of each call of the model are wrong", [[2, 1], [1, 1]], writers.model.calls, case)


def test_task_3_draft_ends():
    """A token of `eos_ids` ends a request's draft; the other request's draft continues."""
    case, logits = (
        "prompts of 3 and 2, greedy; drafts of 4, and the second token is in eos_ids",
        random_logits(7, VOCAB),
    )
    prompts = [[1, 2, 3], [4, 5]]
    texts = [greedy_text(logits, prompt, 4) for prompt in prompts]
    ends = texts[0][1]
    expected = [text[: text.index(ends) + 1] if ends in text else text for text in texts]
    with noted(case):
        own = prompts, [{}, {}], logits
        writers = Writers(draft_model.DraftModel, Request, SamplingParams, *own, case=case, eos_ids=[ends])
        drafts = writers.draft([4, 4])
    fail_if_different("wrong tokens", expected, [each.tokens for each in drafts], case)
    for text, prompt, draft in zip(expected, prompts, drafts, strict=True):
        rows = [probabilities64(logits([*prompt, *text[:at]]), [*prompt, *text[:at]]) for at in range(len(text))]
        compare(draft.probabilities, np.array(rows), mx.float32, 2e-5, f"probabilities; {case}", len(text))


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
def test_task_3_draft_any_script(script, seed):
    writers_agree([[1, 2], [3]], [SETTINGS["greedy"], SETTINGS["temp 1"]], script, seed)
