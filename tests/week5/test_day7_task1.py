"""Task 5.7.1, choices by likelihood, checked against its formula, MLX's loss, PyTorch and transformers."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import embedded_model, model64
from tests.week5.formulas_day7 import FIELDS, choices64, common_prefix
from tests.week5.toy import CHOICES, PROMPT, TOY, Characters, table_of

from tiny_llm.evaluation import choices as choices_module
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.embedded import embedded_checkpoint
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_field = pytest.mark.parametrize("field", FIELDS)


def scored(table, toy, prompt, choices, field):
    """One field of the learner's scores."""
    found = choices_module.score_choices(toy.logits(table), toy.encode, prompt, choices)
    if not hasattr(found, field):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected ChoiceScores", f"prompt {prompt!r}", size=len(choices))
    return getattr(found, field)


def agree(table, prompt, choices, field, *, seed, toy=TOY, **options):
    agrees(scored, choices64, table, toy, prompt, list(choices), field, seed=seed, dtype=mx.float32, **options)


@by_field
@by_dtype
def test_task_1_choices_formula(dtype, field):
    agree(table_of(1, dtype), PROMPT, CHOICES, field, seed=1)


@by_field
@pytest.mark.parametrize(
    "choices", [[" cat"], [" boy", " boy"], [" the dog", " the cat"], ["s", ".", "ed"], [" ", "."]], ids=str
)
def test_task_1_choices_any_number(choices, field):
    """A single choice, two equal ones, two with a common beginning, three short ones, a space."""
    agree(table_of(2), PROMPT, choices, field, seed=2)


@by_field
def test_task_1_choices_of_one_token(field):
    agree(table_of(3), PROMPT, [" dog", " cat", " boy", " tail"], field, seed=3)


@by_field
def test_task_1_choices_prompt_of_one_token(field):
    agree(table_of(4), " the", CHOICES, field, seed=4)


@by_field
@pytest.mark.parametrize("prompt", ["the dog saw a b", "the dog saw a "], ids=["b", "space"])
@pytest.mark.parametrize("choices", [["oy", "ed", "at"], ["boy", "the cat", "w"], ["oy"]], ids=str)
def test_task_1_choices_token_across_the_boundary(choices, prompt, field):
    """ "b" + "oy" is the token "boy", and " " + "the" is " the", for some of the choices or for all."""
    agree(table_of(5), prompt, choices, field, seed=5)


@by_field
def test_task_1_choices_bytes_are_not_characters(field):
    """é and ü have two bytes each."""
    agree(table_of(6), PROMPT, [" é", " üéü", " e"], field, seed=6)


@by_field
@pytest.mark.parametrize("shift", [-20000, 20000])
def test_task_1_choices_large_logits(shift, field):
    """exp(20000) overflows; adding one number to all logits changes no probability."""
    table = mx.round(table_of(7) * 64) / 64 + shift  # multiples of 1/64: exact in float32
    agree(table, PROMPT, CHOICES, field, seed=7)


@by_field
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_choices_in_float32(dtype, field):
    """1,791 tokens that are almost equally likely, and 300 of them in a choice: half precision loses the sums."""
    toy = Characters(1791)
    ids = np.random.default_rng(8).integers(0, toy.count, 420).tolist()
    choices = [toy.text(ids[20:]), toy.text(ids[20:120])]
    agree(table_of(8, dtype, toy.count, 0.5), toy.text(ids[:20]), choices, field, seed=8, toy=toy)


@by_field
def test_task_1_choices_mlx(field):
    """MLX's cross-entropy, summed over the tokens of a choice."""
    table, rows = table_of(9), [TOY.encode(PROMPT + choice) for choice in CHOICES]
    shared = common_prefix([TOY.encode(PROMPT), *rows])
    sums = []
    for row in rows:
        logits = TOY.logits(table)(mx.array([row]))[0, shared - 1 : -1]
        sums.append(-nn.losses.cross_entropy(logits, mx.array(row[shared:]), reduction="sum"))
    counts = {
        "total": [1] * 3,
        "per_token": [len(row) - shared for row in rows],
        "per_byte": [len(choice.encode()) for choice in CHOICES],
    }
    expected = to_float64(mx.stack(sums)) / counts[field]
    agree(table, PROMPT, CHOICES, field, seed=9, expected=expected)


def test_task_1_choices_pytorch(pytorch):
    table, row = table_of(10), TOY.encode(PROMPT + CHOICES[0])
    shared = common_prefix([TOY.encode(PROMPT), row])
    places = TOY.rows_of(row, len(table))[shared - 1 : -1].tolist()

    def loss(torch, table, places, targets):
        return -torch.nn.functional.cross_entropy(table[places], torch.tensor(targets), reduction="sum")[None]

    expected = pytorch(loss, table, places, row[shared:])
    agree(table, PROMPT, CHOICES[:1], "total", seed=10, expected=expected)


STORY = "The sun went down. It was time to go to"
ENDINGS = [" bed.", " the park with her mom.", " stone"]
# Their ids by the tokenizers library, which a learner need not have.
IDS = [390, 665, 437, 619, 13, 430, 279, 389, 265, 459, 265]
ROWS = [IDS + rest for rest in ([1019, 13], [262, 543, 338, 312, 372, 13], [333, 483])]


def test_task_1_choices_embedded_model(pytorch):
    """The trained model's scores are those that transformers computes."""
    shared = common_prefix([IDS, *ROWS])
    ids = dict(zip([STORY, *(STORY + ending for ending in ENDINGS)], [IDS, *ROWS], strict=True))

    def by_transformers(torch, rows, shared):
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(embedded_checkpoint(mx.float32).folder, dtype=torch.float32)
        sums = []
        for row in rows:
            tokens = torch.tensor([row])
            logs = torch.log_softmax(model(tokens).logits[0, shared - 1 : -1], dim=-1)
            sums.append(logs.gather(-1, tokens[0, shared:, None]).sum())
        return torch.stack(sums).detach()

    expected = pytorch(by_transformers, ROWS, shared)
    model = embedded_model()

    def logits(tokens):
        return mx.array(model64(np.array(tokens), model).astype(np.float32))

    case = f"the embedded model, prompt {STORY!r}, choices {ENDINGS}"
    with noted(case):
        actual = choices_module.score_choices(logits, lambda text: [*ids[text]], STORY, ENDINGS)
    compare(actual.total, expected, mx.float32, 1e-3, case, 3)


def test_task_1_choices_one_call_each():
    """The model is called once per choice, with 1 x L tokens."""
    calls, model = [], TOY.logits(table_of(11))

    def counted(tokens):
        calls.append(tokens.shape)
        return model(tokens)

    case = f"prompt {PROMPT!r}, choices {CHOICES}"
    with noted(case):
        mx.eval(choices_module.score_choices(counted, TOY.encode, PROMPT, CHOICES))
    if len(calls) != len(CHOICES):
        lines = (f"expected  {len(CHOICES)} calls", f"got       {len(calls)} calls")
        fail(Kind.VALUES, "wrong number of calls of the model", case, *lines, size=len(CHOICES))


def test_task_1_choices_sweep():
    for n in sweep(C=5, L=131, T=131, V=1100):
        toy = Characters(n.V)
        ids = np.random.default_rng(n.seed).integers(0, n.V, n.L + n.C * n.T).tolist()
        parts = [ids[n.L + i * n.T : n.L + (i + 1) * n.T] for i in range(n.C)]
        choices = [toy.text(part[: max(1, len(part) - i)]) for i, part in enumerate(parts)]
        table = table_of(n.seed, n.dtype, n.V, min(n.spread, 30.0))
        agree(table, toy.text(ids[: n.L]), choices, n.turn(*FIELDS), seed=n, toy=toy)


@property_test
@given(seed=st.integers(0, 99), length=st.integers(1, 9))
def test_task_1_choices_all_tokens_sum_to_one(seed, length):
    """If every token is a choice, their probabilities sum to 1."""
    toy = Characters(13)
    prompt = toy.text(np.random.default_rng(seed).integers(0, 13, length).tolist())
    table = table_of(seed, size=13)
    case = f"every one of 13 tokens is a choice, prompt of {length} tokens, seed {seed}: the sum of the probabilities"
    with noted(case):
        total = scored(table, toy, prompt, [toy.text([i]) for i in range(13)], "total")
        actual = mx.sum(mx.exp(total))
    compare(actual, np.array(1.0), mx.float32, 1e-4, case, 13)


@property_test
@given(seed=st.integers(0, 99))
def test_task_1_choices_in_any_order(seed):
    """Other choices do not change a choice's score, unless they change the context."""
    case = f"prompt {PROMPT!r}, choices {CHOICES}, backwards, seed {seed}"
    table = table_of(seed)
    for field in FIELDS:
        with noted(case):
            actual = scored(table, TOY, PROMPT, CHOICES[::-1], field)
            expected = to_float64(scored(table, TOY, PROMPT, CHOICES, field))[::-1]
        compare(actual, expected, mx.float32, 1e-4, case, 3)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_task_1_choices_refuses_an_empty_choice(at):
    choices = [*CHOICES[:at], "", *CHOICES[at + 1 :]]
    with raises_value_error(f"prompt {PROMPT!r}, choices {choices}", str(at)):
        choices_module.score_choices(TOY.logits(table_of(12)), TOY.encode, PROMPT, choices)


@pytest.mark.parametrize(("prompt", "choices"), [(PROMPT, []), ("", CHOICES), ("b", ["oy", "ed"])], ids=str)
def test_task_1_choices_refuses_no_context(prompt, choices):
    """No choices, an empty prompt, and a first token that differs between the choices."""
    with raises_value_error(f"prompt {prompt!r}, choices {choices}"):
        choices_module.score_choices(TOY.logits(table_of(13)), TOY.encode, prompt, choices)
