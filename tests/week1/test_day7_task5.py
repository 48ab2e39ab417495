"""Week 1, day 7, task 5: the sampler.

Token frequencies are compared with the specified probabilities: seeds are fixed, and the bounds fail a right program
once in a million, however it uses its random numbers.
"""

import math
from statistics import NormalDist

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.filters import FLAT, MIDDLE, min_p64, penalty64, top_k64, top_p64, used, vocabularies
from tests.week1.formulas import softmax64

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import SHIFTS, forbidding, normals
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def sampling64(logits, tokens, temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """Return the probabilities of a sampler, N x V."""
    y = penalty64(logits, tokens, repetition_penalty) / temp
    y = top_k64(y, top_k) if top_k else y
    return softmax64(min_p64(top_p64(y, top_p), min_p), -1)


def possible64(logits, tokens, temp=1.0, seed=None, slack=1e-4, **settings):
    """Return which tokens a sampler may choose, N x V, including borderline ones that rounding may keep."""
    if temp == 0:
        y = penalty64(logits, tokens, settings.get("repetition_penalty", 1.0))
        return y >= y.max(axis=-1, keepdims=True)
    if settings.get("top_p"):
        settings["top_p"] += slack
    if settings.get("min_p"):
        settings["min_p"] -= slack
    return sampling64(logits, tokens, temp, **settings) > 0


def choose(sample, logits, tokens, case):
    """Return the sampled ids, one per row."""
    with noted(case):
        chosen = sample(logits, tokens)
        if isinstance(chosen, mx.array):
            mx.eval(chosen)
    if isinstance(chosen, mx.array) and not mx.issubdtype(chosen.dtype, mx.integer):
        got = str(chosen.dtype).removeprefix("mlx.core.")
        raise CheckFailed(Finding(Kind.DTYPE, "token ids are integers", (f"got       {got}",), case, logits.size))
    ids = chosen.astype(mx.int32) if isinstance(chosen, mx.array) else chosen
    rows = len(tokens)
    if not isinstance(ids, mx.array) or ids.shape != (rows,):
        compare(ids, np.zeros(rows), mx.int32, 0.0, case, logits.size)  # reports the difference
    return ids


def chooses(sample, logits, tokens, expected, case):
    """Check that a sampler returns these ids."""
    compare(choose(sample, logits, tokens, case), np.array(expected), mx.int32, 0.0, case, logits.size, indirect=False)


def words(settings):
    """`temp 0.5, top_k 3`, for the description of a case."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "the default arguments"


def made(**settings):
    """The learner's sampler with these settings."""
    with noted(f"making a sampler, {words(settings)}"):
        return sampler.make_sampler(**settings)


GREEDY = [
    {},
    {"repetition_penalty": 2.0},
    {"top_k": 3, "top_p": 0.9, "min_p": 0.1},
    {"repetition_penalty": 1.5, "seed": 3},
]


@pytest.mark.parametrize("settings", GREEDY, ids=words)
def test_task_3_sampler_greedy(settings):
    """temp 0: the most likely token of each row, after the penalty."""
    logits = normals(1)(4, 7) + mx.array([[3.0], [0.0], [1.0], [-9.0]])
    likeliest = mx.argsort(-logits, axis=-1).tolist()
    tokens = [likeliest[0][:2], likeliest[1][:1] * 3, [], likeliest[3][1:]]
    penalized = penalty64(to_float64(logits), tokens, settings.get("repetition_penalty", 1.0))
    case = f"float32, logits 4 x 7, tokens {tokens}, temp 0, {words(settings)}, seed 1"
    chooses(made(temp=0, **settings), logits, tokens, penalized.argmax(axis=-1), case)


@pytest.mark.parametrize("later", [19, 64, 5000])
def test_task_3_sampler_greedy_penalizes_tokens_used_long_ago(later):
    """All tokens so far count, however many came after."""
    logits, tokens = mx.array([[5.0, 4.0, -1.0], [3.0, 6.0, -1.0]]), [[0, *[2] * later], [1, *[2] * later]]
    case = f"float32, logits 2 x 3, token 0 or 1 used once, then token 2 {later} times, temp 0, repetition_penalty 10.0"
    chooses(made(temp=0, repetition_penalty=10.0), logits, tokens, [1, 0], case)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_task_3_sampler_greedy_mlx(rows):
    logits = normals(2)(rows, 50)
    expected = mx.argmax(logits, axis=-1).tolist()
    case = f"float32, logits {rows} x 50, no tokens, temp 0, seed 2"
    chooses(made(temp=0.0), logits, [[]] * rows, expected, case)


SWEPT = [
    {"temp": 0},
    {"temp": 0, "repetition_penalty": 3.0},
    {"top_k": 1, "seed": 1},
    {"temp": 0.7, "top_p": 0.2, "seed": 0},
    {"temp": 1.5, "min_p": 0.6},
    {"temp": 0.3, "top_k": 5, "top_p": 0.5, "min_p": 0.1, "repetition_penalty": 0.5, "seed": 2},
]


def test_task_3_sampler_sweep():
    """Repeated calls, for batches and vocabularies of many sizes, never return a dropped token."""
    samplers = [made(**settings) for settings in SWEPT]
    mx.random.seed(0)
    for n in sweep(N=1100, V=4200):
        logits, tokens = normals(n.seed, n.dtype)(n.N, n.V, spread=max(n.spread, 0.1)), used(n, n.V)
        logits = n.turn(logits, forbidding(n.seed, logits))
        for sample, settings in zip(samplers, SWEPT, strict=True):
            told = f"{words(settings)}, a sampler that was called before, seed {n.seed}"
            case = f"{dtype_word(n.dtype)}, logits {n.N} x {n.V}, {told}"
            chosen = to_float64(choose(sample, logits, tokens, case)).astype(int)
            left = possible64(to_float64(logits), tokens, **settings)
            for row, token in enumerate(chosen):
                if not (0 <= token < n.V and left[row, token]):
                    headline = f"row {row} got token {token}, which the filters drop"
                    raise CheckFailed(Finding(Kind.VALUES, headline, (), case, logits.size))


def test_task_3_sampler_greedy_pytorch(pytorch):
    logits = normals(3)(5, 9)
    expected = pytorch(lambda torch, logits: torch.argmax(logits, dim=-1), logits)
    chooses(made(temp=0.0), logits, [[]] * 5, expected, "float32, logits 5 x 9, no tokens, temp 0, seed 3")


def test_task_3_sampler_greedy_uses_no_random_numbers():
    """Random numbers drawn afterwards are unaffected."""
    sample = made(temp=0.0)
    mx.random.seed(4)
    expected = to_float64(mx.random.uniform(shape=(5,)))
    mx.random.seed(4)
    choose(sample, normals(4)(2, 5), [[], []], case := "five random numbers drawn after a call of a sampler, temp 0")
    compare(mx.random.uniform(shape=(5,)), expected, mx.float32, 0.0, case, 10)


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 1}, {"top_p": 0.0}, {"top_p": 0.01}, {"min_p": 1.0}, {"temp": 0.001}, {"top_k": 1, "temp": 5.0}],
    ids=words,
)
def test_task_3_sampler_one_token_kept(settings):
    """Settings that keep one token: nothing is random."""
    logits, tokens = vocabularies(5), [[0], [1], [2]]
    case = f"float32, logits 3 x 6, {words(settings)}, seed 5"
    chooses(made(**settings), logits, tokens, to_float64(logits).argmax(axis=-1), case)


ROWS, CALLS = 100, 20


def bound(categories, significance=1e-6):
    """The chi-square that a right program exceeds once in a million (Wilson and Hilferty's approximation)."""
    degrees = categories - 1
    z = NormalDist().inv_cdf(1 - significance)
    return degrees * (1 - 2 / (9 * degrees) + z * math.sqrt(2 / (9 * degrees))) ** 3 if degrees else 0.0


def draws_with(settings, logits, tokens, probabilities, case):
    """Check that each row is sampled with its own probabilities, in 20 calls with 100 copies of each row."""
    sample = made(**settings)
    rows, size = logits.shape
    copies, their_tokens = mx.concatenate([logits] * ROWS), tokens * ROWS
    case = f"float32, logits {rows} x {size}, {words(settings)}, {case}"
    counts, alike = np.zeros((rows, size), dtype=int), np.ones(rows, dtype=bool)
    for _ in range(CALLS):
        ids = np.array(choose(sample, copies, their_tokens, case))
        if ids.min() < 0 or ids.max() >= size:
            raise CheckFailed(
                Finding(Kind.VALUES, f"a token id that does not exist: {ids.max()}", (), case, logits.size)
            )
        np.add.at(counts, (np.arange(len(ids)) % rows, ids), 1)
        alike &= (ids.reshape(-1, rows) == ids[:rows]).all(axis=0)
    total = ROWS * CALLS
    for row in range(rows):
        possible = probabilities[row] > 0
        table = [("expected", probabilities[row]), ("got", counts[row] / total)]
        lines = tuple(f"{name:<10}{' '.join(f'{share:.3f}' for share in shares)}" for name, shares in table)

        def fail(headline, row=row, lines=lines):
            raise CheckFailed(Finding(Kind.VALUES, headline, (f"row {row}, token by token", *lines), case, logits.size))

        if counts[row][~possible].any():
            fail("a token was sampled that the filters drop")
        wanted = total * probabilities[row][possible]
        if ((counts[row][possible] - wanted) ** 2 / wanted).sum() > bound(int(possible.sum())):
            if alike[row]:
                fail(f"all {ROWS} copies of a row got the same token in each call")
            fail(f"over {total} samples per row, the token frequencies do not match the probabilities")


DRAWN = [
    {},
    {"temp": 0.7},
    {"temp": 2.0},
    {"temp": 0.05},
    {"top_p": 0.96},
    {"min_p": 0.09},
    {"top_k": 2},
    {"top_k": 50},
    {"top_p": 0.7},
    {"top_p": 1.0, "temp": 1.5},
    {"min_p": 0.25},
    {"repetition_penalty": 1.5},
    {"temp": 2.0, "top_p": 0.72},
    {"temp": 0.5, "min_p": 0.25},
    {"top_k": 3, "top_p": 0.7},
    {"top_p": 0.5, "min_p": 0.6},
    {"repetition_penalty": 2.0, "top_k": 3},
    {"repetition_penalty": 2.0, "top_p": 0.6},
    {"temp": 1.5, "top_k": 4, "top_p": 0.8, "min_p": 0.5, "repetition_penalty": 1.3},
]


@pytest.mark.parametrize("settings", DRAWN, ids=words)
def test_task_3_sampler_probabilities(settings):
    """Every filter alone, also close to its neutral value, any two whose order matters, and all together."""
    tokens = [[1, 1, 4], [0]]
    logits = vocabularies(6, rows=[MIDDLE, FLAT])
    expected = sampling64(to_float64(logits), tokens, **settings)
    draws_with({**settings, "seed": 60}, logits, tokens, expected, f"tokens {tokens}, seed 6")


def test_task_3_sampler_probabilities_of_one_row():
    """As in generation: one row, and a new random number for each call."""
    case = "forty calls on the same logits 1 x 6, seed 61"
    sample, logits = made(seed=61), vocabularies(6, rows=[FLAT])
    drawn = mx.stack([choose(sample, logits, [[]], case) for _ in range(40)])
    differ(drawn, mx.broadcast_to(drawn[:1], drawn.shape), "every call sampled the same token", case)


def test_task_3_sampler_probabilities_without_a_seed():
    mx.random.seed(7)
    logits = vocabularies(7, rows=[MIDDLE, FLAT])
    draws_with({"top_k": 4}, logits, [[], []], sampling64(to_float64(logits), [[], []], top_k=4), "no seed")


@pytest.mark.parametrize("shift", SHIFTS[:2])
def test_task_3_sampler_probabilities_forbidden_tokens(shift):
    """A token whose logit is -inf is never sampled, whatever the other logits are."""
    logits = mx.where(mx.arange(6) == 2, -math.inf, vocabularies(8, rows=[MIDDLE, FLAT]) + shift)
    draws_with(
        {"seed": 80},
        logits,
        [[2], []],
        sampling64(to_float64(logits), [[2], []]),
        f"logit 2 is -inf, the others around {shift}, seed 8",
    )


def test_task_3_sampler_probabilities_pytorch(pytorch):
    logits = vocabularies(9, rows=[MIDDLE, FLAT])

    def by_torch(torch, logits, temp, top_k, top_p):
        values, order = torch.topk(logits / temp, top_k)  # sorted
        probabilities = torch.softmax(values, dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        probabilities = torch.softmax(values.masked_fill(before >= top_p, -math.inf), dim=-1)
        return torch.zeros_like(logits).scatter(-1, order, probabilities)

    expected = pytorch(by_torch, logits, 1.3, 5, 0.72)
    draws_with({"temp": 1.3, "top_k": 5, "top_p": 0.72, "seed": 90}, logits, [[], []], expected, "seed 9")


WIDE = (3, 1000)  # rows x tokens: ten calls cannot agree by chance


def several(sample, case, calls=10):
    """Return the ids of several calls with the same logits, calls x rows."""
    logits = normals(10)(*WIDE, spread=0.1)
    return mx.stack([choose(sample, logits, [[]] * WIDE[0], case) for _ in range(calls)])


def same(actual, expected, case):
    compare(actual, to_float64(expected), mx.int32, 0.0, case, expected.size)


def differ(a, b, headline, case):
    if mx.array_equal(a, b):
        raise CheckFailed(Finding(Kind.VALUES, headline, (), case))  # size 0, so that it is reported first


def test_task_3_sampler_seed_gives_the_same_tokens():
    case = "two samplers with seed 5, ten calls each on the same logits"
    first = several(made(seed=5), case)
    same(several(made(seed=5), case), first, case)


def test_task_3_sampler_seed_of_zero():
    """0 is a valid seed."""
    case = "two samplers with seed 0, ten calls each on the same logits"
    first = several(made(seed=0), case)
    same(several(made(seed=0), case), first, case)


def test_task_3_sampler_seed_ignores_other_random_numbers():
    """Other code draws random numbers, or sets MLX's seed, between the calls."""
    case = "seed 5, ten calls, with other random numbers drawn between them"
    first = several(made(seed=5), case)
    sample = made(seed=5)
    interrupted = []
    for call in range(10):
        interrupted.append(several(sample, case, 1))
        mx.random.seed(call)
        mx.eval(mx.random.uniform(shape=(call + 1,)))
    same(mx.concatenate(interrupted), first, case)


def test_task_3_sampler_seed_leaves_the_global_state():
    """A seeded sampler does not affect MLX's global random numbers."""
    mx.random.seed(11)
    expected = to_float64(mx.random.uniform(shape=(5,)))
    case = "five random numbers drawn with mx.random after three calls of a sampler with seed 5"
    mx.random.seed(11)
    several(made(seed=5), case, 3)
    compare(mx.random.uniform(shape=(5,)), expected, mx.float32, 0.0, case, 3000)


def test_task_3_sampler_samplers_share_no_state():
    """Two alternating samplers return the same ids as each would alone."""
    case = "alternating samplers with seeds 5 and 6, ten calls each"
    alone = [several(made(seed=seed), case) for seed in (5, 6)]
    five, six = made(seed=5), made(seed=6)
    turns = [(several(five, case, 1), several(six, case, 1)) for _ in range(10)]
    for together, expected in zip(zip(*turns, strict=True), alone, strict=True):
        same(mx.concatenate(list(together)), expected, case)
    differ(*alone, "different seeds sample the same tokens", case)


@pytest.mark.parametrize("seed", [None, 5])
def test_task_3_sampler_calls_differ(seed):
    """Each call and each row uses new random numbers."""
    case = f"ten calls on the same logits, seed {seed}"
    ids = several(made(seed=seed), case)
    differ(ids, mx.broadcast_to(ids[:1], ids.shape), "every call sampled the same tokens", case)


def test_task_3_sampler_uses_a_key_once():
    """A key is used for sampling or split, never both: otherwise two calls would share random bits."""
    case = "two calls on the same logits, seed 5"
    ids, logits = several(made(seed=5), case, 2), normals(10)(*WIDE, spread=0.1)
    for half in (0, 1):
        key = mx.random.key(5)
        for _ in range(3):
            keys = key, mx.random.split(key)[half]
            drawn = mx.stack([mx.random.categorical(logits, key=one).astype(ids.dtype) for one in keys])
            differ(ids, drawn, "a key that one call samples with is split for the next call", case)
            key = keys[1]


def test_task_3_sampler_rows_differ():
    """Rows with the same logits are sampled independently."""
    case = "one call, logits 100 x 1000, all rows equal, seed 5"
    ids = choose(made(seed=5), mx.zeros((100, 1000)), [[]] * 100, case)
    differ(ids, mx.broadcast_to(ids[:1], ids.shape), "every row sampled the same token", case)


def test_task_3_sampler_without_a_seed_follows_mlx():
    """seed None uses mx.random.seed."""
    case = "no seed, mx.random.seed(12) before, ten calls, twice"
    mx.random.seed(12)
    first = several(made(), case)
    mx.random.seed(12)
    if not mx.array_equal(several(made(), case), first):
        raise CheckFailed(Finding(Kind.VALUES, "after the same mx.random.seed, the tokens differ", (), case))
    mx.random.seed(13)
    case = "no seed, ten calls after mx.random.seed(12), and ten after mx.random.seed(13)"
    differ(several(made(), case), first, "mx.random.seed does not change the tokens", case)


@pytest.mark.parametrize("temp", [0.0, 0.7])
def test_task_3_sampler_leaves_its_inputs(temp):
    logits, tokens = vocabularies(13), [[1, 2], [3], []]
    before = to_float64(logits)
    with noted("making a sampler, make_sampler(temp, 4, 0.9, 0.05, 1.3, 5)"):
        sample = sampler.make_sampler(temp, 4, 0.9, 0.05, 1.3, 5)
    case = f"float32, logits 3 x 6 after a call, temp {temp}, all filters on, seed 13"
    choose(sample, logits, tokens, case)
    compare(logits, before, mx.float32, 0.0, case, logits.size)
    assert tokens == [[1, 2], [3], []], "the sampler changed the caller's lists of tokens"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temp", -0.1),
        ("top_k", -1),
        ("top_p", -0.01),
        ("top_p", 1.01),
        ("min_p", -0.01),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -2.0),
    ],
)
@pytest.mark.parametrize("others", [{}, {"temp": 0, "seed": 3}, {"top_k": 2, "top_p": 0.9, "min_p": 0.1}], ids=words)
def test_task_3_sampler_refuses(others, name, value):
    """Whatever the other arguments are, also those that make this one useless."""
    settings = {**others, name: value}
    with raises_value_error(f"make_sampler, {words(settings)}", name):
        sampler.make_sampler(**settings)


def test_task_3_sampler_refuses_each_argument_by_its_name():
    """A message that names all arguments names none: no two arguments have the same one."""
    told = []
    for name in ("temp", "top_k", "top_p", "min_p", "repetition_penalty"):
        with raises_value_error(f"make_sampler({name}=-1)", name):
            try:
                sampler.make_sampler(**{name: -1})
            except ValueError as error:
                told.append(str(error))
                raise
    if len({*told}) < len(told):
        headline = "several arguments have the same message"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {told[0]}",), "each argument alone, as -1"))
