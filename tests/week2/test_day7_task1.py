"""Week 2, day 7, task 1: the online softmax."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.formulas_day7 import average64, bytes_held

from tiny_llm.flash_attention import online_softmax
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import forbidding, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def online(scores, values, cuts=()):
    """Return the learner's weighted mean of values, with scores in blocks that end at `cuts`."""
    running = online_softmax.OnlineSoftmax(*scores.shape[:-1], values.shape[-1])
    if not cuts:
        running.add(scores, values)  # the arrays themselves, which must not change
        return running.result()
    for first, last in itertools.pairwise((0, *cuts, scores.shape[-1])):
        running.add(scores[..., first:last], values[..., first:last, :])
    return running.result()


def averages(scores, values, cuts=(), **options):
    """The result is float32, whatever the inputs are."""
    agrees(online, average64, scores, values, cuts, dtype=mx.float32, **options)


def scores_and_values(seed, dtype=mx.float32, leading=(), length=3, keys=7, dims=5, spread=1.0):
    draw = normals(seed, dtype)
    return draw(*leading, length, keys, spread=spread), draw(*leading, keys, dims)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 4)], ids=str)
def test_task_1_online_one_block(leading, dtype):
    averages(*scores_and_values(1, dtype, leading), seed=1)


@pytest.mark.parametrize("cuts", [(3,), (1,), (6,), (2, 5), (1, 2, 3, 4, 5, 6)], ids=str)
def test_task_1_online_any_split(cuts):
    averages(*scores_and_values(2, leading=(4,)), cuts, seed=2)


@by_dtype
def test_task_1_online_blocks_of_any_dtype(dtype):
    """Everything is computed in float32, including float16 inputs."""
    averages(*scores_and_values(3, dtype, keys=40), (7, 16, 33), seed=3)


def test_task_1_online_growing_maximum():
    """Each block has a larger maximum than all earlier ones: the running state must be rescaled."""
    scores, values = scores_and_values(4, keys=8)
    averages(scores + 3 * mx.arange(8), values, (2, 4, 6), seed=4)


def test_task_1_online_constant_maximum():
    """The first block has the largest score, and the running maximum never changes."""
    scores, values = scores_and_values(5, keys=8)
    averages(scores - 3 * mx.arange(8), values, (2, 4, 6), seed=5)


@pytest.mark.parametrize("step", [-200, 200])
def test_task_1_online_blocks_far_apart(step):
    """The largest score of a block may be far below or above that of the block before: no factor may exceed 1."""
    scores, values = scores_and_values(21, keys=9)
    averages(scores + step * (mx.arange(9) // 3), values, (3, 6), seed=21)


@pytest.mark.parametrize("shift", [-2000, 300, 2000])
def test_task_1_online_large_scores(shift):
    """exp(300) overflows float32, and exp(-300) is 0."""
    scores, values = scores_and_values(6)
    averages(scores + shift, values, (2, 4), seed=6)


def test_task_1_online_rows_far_apart():
    """Each row has its own maximum."""
    scores, values = scores_and_values(17)
    averages(scores + 1000 * mx.arange(3)[:, None], values, (4,), seed=17)


def test_task_1_online_equal_scores():
    """Equal scores give the mean of all values."""
    averages(mx.zeros((2, 9)), normals(7)(9, 4), (4, 6), seed=7)


def test_task_1_online_some_masked():
    scores, values = scores_and_values(8, leading=(2,))
    averages(forbidding(8, scores), values, (3,), seed=8)


@pytest.mark.parametrize("block", [0, 1, 2], ids=["first", "middle", "last"])
def test_task_1_online_a_masked_block(block):
    """A whole block may be masked for some queries, even the first block."""
    scores, values = scores_and_values(9, length=4, keys=9)
    hidden = (mx.arange(9) // 3 == block) & (mx.arange(4)[:, None] % 2 == 0)
    averages(mx.where(hidden, -mx.inf, scores), values, (3, 6), seed=9)


@pytest.mark.parametrize("shift", [-300, 300])
def test_task_1_online_large_scores_after_a_masked_block(shift):
    """The maximum of a row starts with its first visible key, however small or large that score is."""
    scores, values = scores_and_values(19, length=4, keys=9)
    hidden = (mx.arange(9) < 6) & (mx.arange(4)[:, None] % 2 == 0)
    averages(mx.where(hidden, -mx.inf, scores + shift), values, (3, 6), seed=19)


def test_task_1_online_visible_however_small():
    """Only -inf hides a key: scores of -1e10 have weights like any others."""
    values = normals(22)(9, 4)
    with noted(case := "float32, scores 2 x 9, all -1e10, values 9 x 4, cuts (4, 6), seed 22"):
        found = online(mx.full((2, 9), -1e10), values, (4, 6))
    expected = average64(np.zeros((2, 9)), to_float64(values))
    compare(found, expected, mx.float32, 1e-5, case, 8)


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4, 5, 6)], ids=str)
def test_task_1_online_fully_masked(cuts):
    """A fully masked row gives zeros; the others are unaffected."""
    scores, values = scores_and_values(10, length=4)
    averages(mx.where(mx.arange(4)[:, None] == 1, -mx.inf, scores), values, cuts, seed=10)


def test_task_1_online_values_for_several_heads():
    """The values of one head for three heads' scores."""
    scores, values = normals(11)(2, 3, 4, 7), normals(12)(2, 1, 7, 5)
    averages(scores, values, (2, 5), seed=11)


def test_task_1_online_nothing_yet():
    case = "float32, no block added, shape 2 x 3"
    compare(online_softmax.OnlineSoftmax(2, 3).result(), np.zeros((2, 3)), mx.float32, 0.0, case, 6)


def test_task_1_online_continues_after_a_result():
    scores, values = scores_and_values(13)
    averages(scores, values, seed=13)
    running = online_softmax.OnlineSoftmax(3, 5)
    for last in range(1, 8):
        running.add(scores[:, last - 1 : last], values[last - 1 : last])
        expected = average64(to_float64(scores[:, :last]), to_float64(values[:last]))
        case = f"float32, scores 3 x {last}, values {last} x 5, key by key, result after each, seed 13"
        compare(running.result(), expected, mx.float32, 1e-5, case, 15)


def test_task_1_online_results_stay_as_they_were():
    """A block that is added afterwards does not change a result returned before."""
    scores, values = scores_and_values(20)
    running = online_softmax.OnlineSoftmax(3, 5)
    running.add(scores[:, :4], values[:4])
    before = running.result()
    running.add(scores[:, 4:], values[4:])
    running.result()
    expected = average64(to_float64(scores[:, :4]), to_float64(values[:4]))
    case = "float32, scores 3 x 4, values 4 x 5, the result before 3 more keys, read after them, seed 20"
    compare(before, expected, mx.float32, 1e-5, case, 15)


def test_task_1_online_state_does_not_grow():
    """After each of 20 blocks of 1,024 keys the result is evaluated, and with it the state."""
    scores, values = scores_and_values(18, length=4, keys=1024, dims=16)
    with noted(case := "float32, 20 times scores 4 x 1024, values 1024 x 16, a result after each, seed 18"):
        held = bytes_held(online_softmax.OnlineSoftmax(4, 16), scores, values)
    if (more := held[19] - held[3]) > values.nbytes:
        headline = f"the state grows by {more // 16:,} bytes a block: scores or values are kept"
        raise CheckFailed(Finding(Kind.VALUES, headline, ("expected  0", "counted in MLX's memory"), case))


def test_task_1_online_two_at_a_time():
    """Two instances are independent."""
    scores, values = scores_and_values(14)
    averages(scores, values, (4,), seed=14)
    one, other = online_softmax.OnlineSoftmax(3, 5), online_softmax.OnlineSoftmax(3, 5)
    for first, last in ((0, 4), (4, 7)):
        one.add(scores[:, first:last], values[first:last])
        other.add(-scores[:, first:last], values[first:last])
    expected = average64(-to_float64(scores), to_float64(values))
    compare(other.result(), expected, mx.float32, 1e-5, "float32, the second of two interleaved instances, seed 14", 15)


def test_task_1_online_mlx():
    scores, values = scores_and_values(15, leading=(2,))
    expected = to_float64(mx.softmax(scores, axis=-1, precise=True) @ values)
    averages(scores, values, (3, 4), seed=15, expected=expected)


def test_task_1_online_pytorch(pytorch):
    scores, values = scores_and_values(16)
    expected = pytorch(lambda torch, scores, values: torch.softmax(scores, -1) @ values, scores, values)
    averages(scores, values, (3, 4), seed=16, expected=expected)


def test_task_1_online_sweep():
    for n in sweep(N=65, L=131, S=1100, D=70):
        scores, values = scores_and_values(n.seed, n.dtype, (n.N,), n.L, n.S, n.D, min(n.spread, 30.0))
        step = n.turn(64, n.S, 1, 7) if n.S <= 20 else 64
        hidden = n.turn(scores, forbidding(n.seed, scores)) if n.N * n.L * n.S < 10000 else scores
        averages(hidden + n.shift, values, tuple(range(step, n.S, step)), seed=n)


@property_test
@given(cuts=st.sets(st.integers(1, 11)), seed=st.integers(0, 99))
def test_task_1_online_split_makes_no_difference(cuts, seed):
    averages(*scores_and_values(seed, keys=12), tuple(sorted(cuts)), seed=seed)
