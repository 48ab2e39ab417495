"""Task 6.3.3, experts over ranks, against the block of one process in float64."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6 import stages
from tests.week6.formulas_day3 import over_ranks64

from tiny_llm.expert_parallel import moe
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def over_ranks(x, gate, w_gate, w_up, w_down, top_k, normalize, ranks):
    """Divide the tokens among the ranks, and join the outputs."""
    ends = np.cumsum([0, *stages.shares_of(len(x), ranks)])
    tokens = [x[int(start) : int(end)] for start, end in itertools.pairwise(ends)]
    case = f"{ranks} ranks with {', '.join(str(len(each)) for each in tokens)} tokens, {len(gate)} experts"
    how = top_k, normalize
    found, _ = stages.finished(
        lambda: stages.experts_over_ranks(moe.ExpertParallelMoE, tokens, gate, (w_gate, w_up, w_down), *how), case
    )
    for own, y in zip(tokens, found, strict=True):
        if y.shape != own.shape:
            lines = (f"expected  {own.shape}", f"got       {y.shape}")
            fail(Kind.SHAPE, "wrong shape on a rank", case, *lines)
    return mx.concatenate(found)


def inputs(seed, dtype=mx.float32, tokens=9, size=7, width=6, experts=5):
    """T, E, I and X all differ."""
    draw = normals(seed, dtype)
    x, gate = draw(tokens, size), draw(experts, size, spread=2 * size**-0.5)
    w_gate, w_up = (draw(experts, width, size, spread=1.5 * size**-0.5) for _ in range(2))
    return x, gate, w_gate, w_up, draw(experts, size, width, spread=2 * width**-0.5)


@by_dtype
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_task_3_experts_formula(ranks, dtype):
    agrees(over_ranks, over_ranks64, *inputs(1, dtype), 2, True, ranks, seed=1)


@pytest.mark.parametrize("ranks", [2, 5])
def test_task_3_experts_not_normalized(ranks):
    agrees(over_ranks, over_ranks64, *inputs(2), 3, False, ranks, seed=2)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_task_3_experts_one_token_each(ranks):
    """One decode step: every rank has one token."""
    agrees(over_ranks, over_ranks64, *inputs(3, tokens=ranks), 1, True, ranks, seed=3)


@pytest.mark.parametrize("experts", [3, 4, 7, 8])
def test_task_3_experts_any_number(experts):
    """Experts that the number of ranks divides, and others."""
    agrees(over_ranks, over_ranks64, *inputs(4, experts=experts, tokens=11), 2, True, 3, seed=4)


@pytest.mark.parametrize("chosen", [0, 2, 4])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_task_3_experts_all_choose_one(ranks, chosen):
    """All tokens go to one expert: the other ranks get none, and have NaN for weights."""
    x, gate, *weights = inputs(5)
    x, gate = mx.abs(x) + 0.1, mx.where(mx.arange(5)[:, None] == chosen, 3.0, -mx.abs(gate))
    only = mx.where(mx.arange(5) == chosen, 1.0, mx.nan)[:, None, None]
    case = f"{ranks} ranks, 9 tokens, which all go to expert {chosen} of 5"
    with noted(case):
        y = over_ranks(x, gate, *(w * only for w in weights), 1, True, ranks)
    wanted = over_ranks64(*map(to_float64, (x, gate, *weights)), 1, True, ranks)
    compare(y, wanted, mx.float32, 2.0**-16 * max(1.0, float(np.abs(wanted).max())), case, x.size)


def exchanged(sizes):
    """Run `all_to_all` with rows that say from where, to where and which; return the results and groups."""
    ranks = len(sizes)
    gate, own = mx.zeros((ranks, 2)), mx.zeros((1, 2, 2))

    def parts(rank):
        numbers = [
            [[100 * rank + 10 * to + i, -i] for i in range(sizes[rank][to])] or np.zeros((0, 2)) for to in range(ranks)
        ]
        return [mx.array(np.array(each, np.float32)) for each in numbers]

    def rank_of(group):
        block = moe.ExpertParallelMoE(gate, own, own, own, 1, True, group)
        found = block.all_to_all(parts(group.rank), sizes)
        mx.eval(found)
        return found

    case = f"{ranks} ranks, rows {sizes}"
    with noted(case):
        found, groups = stages.finished(lambda: run_ranks(rank_of, ranks, forbidden=("all_gather", "all_sum")), case)
    for rank, own_parts in enumerate(found):
        wanted = [parts(source)[rank] for source in range(ranks)]
        what = f"{case}, rank {rank}"
        fail_if_different("wrong number of parts", ranks, len(own_parts), what)
        for source, (mine, theirs) in enumerate(zip(own_parts, wanted, strict=True)):
            compare(mine, to_float64(theirs), mx.float32, 0.0, f"{what}, the part from rank {source}", 10)
    return groups, case


TABLES = {
    "even": [[2, 2, 2], [2, 2, 2], [2, 2, 2]],
    "uneven": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    "empty": [[0, 0, 3], [0, 2, 0], [1, 0, 0]],
    "from one": [[1, 2, 1, 3], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    "to one": [[0, 1, 0], [0, 4, 0], [0, 2, 0]],
    "two": [[3, 1], [2, 5]],
    "one": [[4]],
    "nothing": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    "five": [[(3 * i + 2 * j) % 4 for j in range(5)] for i in range(5)],
}


@pytest.mark.parametrize("name", TABLES)
def test_task_3_experts_all_to_all(name):
    exchanged(TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_task_3_experts_bytes(name):
    """A row for the rank d places to the right is sent d times, and empty arrays are not sent at all."""
    sizes = TABLES[name]
    groups, case = exchanged(sizes)
    ranks = len(sizes)
    wanted = sum(8 * sizes[s][r] * ((r - s) % ranks) for s in range(ranks) for r in range(ranks))
    fail_if_different("wrong number of bytes sent by all ranks", wanted, sum(map(stages.sent_bytes, groups)), case)
    empty = sum(call.name in ("send", "receive") and 0 in call.shape for group in groups for call in group.calls)
    fail_if_different("empty arrays are sent or received", 0, empty, case)


def test_task_3_experts_counts_first():
    """One all_gather of X integers; all rows go by send and receive."""
    x, gate, *weights = inputs(6)
    case = "3 ranks with 3 tokens each, 5 experts"
    tokens = [x[:3], x[3:6], x[6:]]
    with noted(case):
        _, groups = stages.finished(
            lambda: stages.experts_over_ranks(moe.ExpertParallelMoE, tokens, gate, weights, 2, True), case
        )
    for rank, group in enumerate(groups):
        collectives = [(call.name, call.shape) for call in group.calls if call.peer is None]
        fail_if_different("wrong collectives", [("all_gather", (5,))], collectives, f"{case}, rank {rank}")


def test_task_3_experts_leading_dimensions():
    """Ranks with 2 x 3 and 1 x 4 tokens."""
    x, gate, *weights = inputs(7, tokens=10)
    tokens = [x[:6].reshape(2, 3, 7), x[6:].reshape(1, 4, 7)]
    case = "2 ranks with 2 x 3 and 1 x 4 tokens"
    with noted(case):
        found, _ = stages.finished(
            lambda: stages.experts_over_ranks(moe.ExpertParallelMoE, tokens, gate, weights, 2, True), case
        )
    for rank, (own, y) in enumerate(zip(tokens, found, strict=True)):
        wanted = over_ranks64(*map(to_float64, (own, gate, *weights)), 2, True, 2)
        allowed = 2.0**-16 * max(1.0, float(np.abs(wanted).max()))
        compare(y, wanted, mx.float32, allowed, f"{case}, rank {rank}", own.size)


def test_task_3_experts_called_again():
    """The same blocks, called with other tokens."""
    x, gate, *weights = inputs(8, tokens=12)

    def rank_of(group):
        own = slice(group.rank * 5 // 2, (group.rank + 1) * 5 // 2)
        block = moe.ExpertParallelMoE(gate, *(w[own] for w in weights), 2, True, group)
        return mx.concatenate([block(x[i : i + 3]) for i in (6 * group.rank, 6 * group.rank + 3)])

    case = "2 ranks, 3 tokens each, twice"
    with noted(case):
        found, _ = stages.finished(lambda: run_ranks(rank_of, 2), case)
    wanted = over_ranks64(*map(to_float64, (x, gate, *weights)), 2, True, 2)
    allowed = 2.0**-16 * max(1.0, float(np.abs(wanted).max()))
    compare(mx.concatenate(found), wanted, mx.float32, allowed, case, x.size)


def test_task_3_experts_sweep():
    for n in sweep(T=70, E=20, I=18, X=9, R=5):
        experts, ranks = max(n.X, n.R), n.R
        x, gate, *weights = inputs(n.seed, n.dtype, max(n.T, ranks), n.E, n.I, experts)
        agrees(over_ranks, over_ranks64, x, gate, *weights, min(experts, n.turn(2, 1)), n.turn(True, False), ranks,
               seed=n)  # fmt: skip


@property_test
@given(sizes=st.integers(2, 4).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=n, max_size=n)
))  # fmt: skip
def test_task_3_experts_any_table(sizes):
    exchanged(sizes)


def test_task_3_experts_refuses_more_ranks():
    case = "3 ranks, 2 experts"
    with raises_value_error(case, "3", "2"):
        run_ranks(lambda group: moe.ExpertParallelMoE(mx.zeros((2, 4)), *[mx.zeros((1, 4, 4))] * 3, 1, True, group), 3)


@pytest.mark.parametrize("name", ["w_gate", "w_up", "w_down"])
def test_task_3_experts_refuses_other_experts(name):
    """A rank that is given all experts, or too few."""
    for given_here in (5, 1):
        case = f"rank 0 of 2, 5 experts, {name} has {given_here}"
        ws = {each: mx.zeros((given_here if each == name else 2, 4, 4)) for each in ("w_gate", "w_up", "w_down")}
        with raises_value_error(case, name, str(given_here), "2"):
            run_ranks(lambda group, ws=ws: moe.ExpertParallelMoE(mx.zeros((5, 4)), *ws.values(), 1, True, group), 2)


def test_task_3_experts_refuses_too_many_per_token():
    x, gate, *weights = inputs(9)
    for top_k in (0, 6):
        with raises_value_error(f"top_k {top_k} of 5 experts, 2 ranks", str(top_k), "5"):
            stages.experts_over_ranks(moe.ExpertParallelMoE, [x[:4], x[4:]], gate, weights, top_k, True)
