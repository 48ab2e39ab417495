"""Task 5.6.5, groups of samples: a completion is what its request gets alone, its log-probabilities are float64's."""

import copy

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.toy_engine import END, PROMPTS, VOCAB, ToyScheduler, alone, table_of

from tiny_llm.preferences import sampling
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import same_ids


def sampled(table, prompts, group_size, case, temp=1.0, max_tokens=8, seed=5, seats=100, part=100):
    """Check all completions against what their requests get alone; return the schedulers that were made."""
    made = []

    def new_scheduler(sampler):
        made.append(ToyScheduler(table, sampler, seats, part))
        return made[-1]

    given = copy.deepcopy(prompts)
    with noted(case):
        groups = sampling.sample_groups(new_scheduler, given, group_size, temp, max_tokens, {END}, seed)
    fail_if_different("the prompts have changed", prompts, given, case)
    if type(groups) is not list or any(type(group) is not list for group in groups):
        fail(Kind.TYPE, f"returned {type_words(groups)}, expected a list of lists", case)
    fail_if_different("wrong number of completions", [group_size] * len(prompts), [len(g) for g in groups], case)
    for i, (prompt, group) in enumerate(zip(prompts, groups, strict=True)):
        for g, found in enumerate(group):
            where = f"completion {g} of prompt {i}; {case}"
            tokens, logs, ended = alone(table, prompt, seed + i * group_size + g, temp, max_tokens)
            fail_if_different("wrong `prompt`", prompt, found.prompt, where)
            same_ids(found.tokens, tokens, f"the tokens of {where}")
            if len(found.logprobs) != len(logs) or any(type(log) is not float for log in found.logprobs):
                fail(Kind.TYPE, f"`logprobs` are not {len(logs)} floats", where, f"got       {found.logprobs}")
            compare(mx.array(found.logprobs), np.array(logs), mx.float32, 1e-4, f"the log-probabilities of {where}", 9)
            fail_if_different("wrong `ended`", ended, found.ended, where)
    return made


def case_of(what, prompts=PROMPTS, group_size=3):
    return f"{what}: {len(prompts)} prompts, groups of {group_size}, a toy model of {VOCAB} tokens"


def test_task_5_groups_one_prompt():
    sampled(table_of(1), PROMPTS[:1], 4, case_of("one group", PROMPTS[:1], 4))


def test_task_5_groups_several_prompts():
    sampled(table_of(2), PROMPTS, 3, case_of("several groups"))


@pytest.mark.parametrize("temp", [0.5, 0.7, 2.0])
def test_task_5_groups_temperature(temp):
    """The log-probability is that of the distribution that the token was sampled from."""
    sampled(table_of(3), PROMPTS, 2, case_of(f"temp {temp}", PROMPTS, 2), temp)


def test_task_5_groups_end_token():
    """The end token is likely: it is the last of its completion, with its log-probability."""
    sampled(table_of(4, end=3.0), PROMPTS, 4, case_of("completions that end soon", PROMPTS, 4))


def test_task_5_groups_nothing_but_the_end():
    sampled(table_of(5, end=50.0), PROMPTS, 2, case_of("completions of the end token alone", PROMPTS, 2))


def test_task_5_groups_never_ends():
    sampled(table_of(6, end=-50.0), PROMPTS, 2, case_of("completions that are cut off", PROMPTS, 2))


@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_task_5_groups_end_at_the_limit(max_tokens):
    """Some completions end with the last token that they may have."""
    case = case_of(f"max_tokens {max_tokens}", PROMPTS, 5)
    sampled(table_of(7, end=1.5), PROMPTS, 5, case, max_tokens=max_tokens)


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_task_5_groups_few_at_a_time(seats):
    """The scheduler runs fewer requests than there are, in an order that changes from step to step."""
    sampled(table_of(8, end=1.0), PROMPTS, 3, case_of(f"{seats} requests at a time"), seats=seats)


@pytest.mark.parametrize("part", [1, 2])
def test_task_5_groups_chunked_prefill(part):
    """Long prompts take several steps, and have no logits until their last one."""
    prompts = [*PROMPTS, [7] * 9]
    sampled(table_of(9, end=1.0), prompts, 2, case_of(f"prompts in parts of {part}", prompts, 2), part=part)


def test_task_5_groups_two_equal_prompts():
    """Their completions differ, because their seeds do."""
    prompts = [[2, 4], [2, 4]]
    sampled(table_of(10), prompts, 3, case_of("the same prompt twice", prompts))


def test_task_5_groups_one_run():
    """All requests are in one batch: one scheduler, which runs them at the same time."""
    case = case_of("one run")
    made = sampled(table_of(11, end=-50.0), PROMPTS, 3, case)
    fail_if_different("calls of new_scheduler", 1, len(made), case)
    fail_if_different("requests that ran at the same time", 9, made[0].most, case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_5_groups_narrow_logits(dtype):
    """Logits far apart, in the model's dtype: the log-probabilities are float32."""
    sampled(table_of(12, dtype, spread=30.0), PROMPTS, 2, case_of(f"{dtype} logits", PROMPTS, 2), temp=3.0)


def test_task_5_groups_no_prompts():
    sampled(table_of(13), [], 3, case_of("no prompts", []))


def test_task_5_groups_sweep():
    for n in sizes(P=9, G=20, L=65):
        if n.P * n.G <= 60:
            prompts = [[(i * 7 + k) % END for k in range(1 + (i + n.seed) % n.L)] for i in range(n.P)]
            case = f"{case_of('sweep', prompts, n.G)}, seed {n.seed}"
            options = {"temp": n.turn(1.0, 0.7, 1.5), "max_tokens": n.turn(3, 6), "seats": n.turn(50, 4)}
            table = table_of(n.seed, end=n.turn(0.0, 2.0))
            sampled(table, prompts, n.G, case, seed=n.seed * 1000, part=n.turn(100, 3), **options)


@property_test
@given(seed=st.integers(0, 10_000), group_size=st.integers(1, 3), end=st.sampled_from([0.0, 2.0]))
def test_task_5_groups_any_seed(seed, group_size, end):
    case = case_of(f"seed {seed}", PROMPTS, group_size)
    sampled(table_of(14, end=end), PROMPTS, group_size, case, max_tokens=4, seed=seed)


@pytest.mark.parametrize(("temp", "group_size"), [(0.0, 3), (-1.0, 3), (1.0, 0), (1.0, -1)])
def test_task_5_groups_refuses(temp, group_size):
    def new_scheduler(sampler):
        return ToyScheduler(table_of(15), sampler)

    with raises_value_error(f"temp {temp}, group_size {group_size}", str(temp if temp <= 0 else group_size)):
        sampling.sample_groups(new_scheduler, PROMPTS, group_size, temp, 3, {END}, 0)
