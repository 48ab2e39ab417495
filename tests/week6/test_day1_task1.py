"""Task 6.1.1, reduce-scatter: simulated ranks, checked against sums in float64."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.formulas_day1 import reduce_scatter64
from tests.week6.ringing import check_sends, on_ranks, stacked

from tiny_llm.distributed import ring
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.errors import fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.sizes import sweep


def scattered(parts):
    return stacked(ring.reduce_scatter, parts)


def test_task_1_reduce_scatter_four_ranks():
    """The chapter's example: rank r has 1, 2, 3 and 4 times 10^r."""
    parts = mx.array([[1, 2, 3, 4]]) * mx.array([[1.0], [10.0], [100.0], [1000.0]])
    agrees(scattered, reduce_scatter64, parts, seed=0)


def test_task_1_reduce_scatter_two_ranks():
    """One step: each rank sends the other one's half."""
    agrees(scattered, reduce_scatter64, mx.array([[1.0, 2.0], [30.0, 40.0]]), seed=0)


def test_task_1_reduce_scatter_one_rank():
    """Nothing is sent."""
    agrees(scattered, reduce_scatter64, normals(1)(1, 5, 2), seed=1)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_reduce_scatter_ranks(ranks, dtype):
    """Odd and even numbers of ranks; chunks of three rows of two."""
    agrees(scattered, reduce_scatter64, normals(ranks, dtype)(ranks, ranks * 3, 2), seed=ranks)


@pytest.mark.parametrize("shape", [(6,), (6, 5), (6, 2, 4), (6, 0)], ids=str)
def test_task_1_reduce_scatter_shapes(shape):
    """Vectors, matrices, more axes, and nothing."""
    agrees(scattered, reduce_scatter64, normals(3)(3, *shape), seed=3)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_task_1_reduce_scatter_sends_chunks(ranks):
    """Each rank sends size - 1 chunks to its right neighbor, and nothing else."""
    case = f"{ranks} ranks, {2 * ranks} x 3 each"
    parts = normals(4)(ranks, 2 * ranks, 3)
    _, groups = on_ranks(ring.reduce_scatter, list(parts), case)
    check_sends(groups, (2, 3), case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_reduce_scatter_sends_the_dtype_of_x(dtype):
    """Sums are taken, and sent, in the dtype of x: chunks in float32 would be twice as large."""
    case = f"3 ranks, 6 x 3 each, {dtype}"
    _, groups = on_ranks(ring.reduce_scatter, list(normals(5, dtype)(3, 6, 3)), case)
    check_sends(groups, (2, 3), case, dtype)


def test_task_1_reduce_scatter_integers():
    """Counts are summed too: rank r has 6 r to 6 r + 5."""
    case = "3 ranks, 6 integers each"
    results, _ = on_ranks(ring.reduce_scatter, list(mx.arange(18).reshape(3, 6)), case)
    fail_if_different("the sums are wrong", [[18, 21], [24, 27], [30, 33]], [x.tolist() for x in results], case)
    fail_if_different("the dtypes are wrong", [mx.int32] * 3, [x.dtype for x in results], case)


@pytest.mark.parametrize("shape", [(), (5,), (2, 4)], ids=str)
def test_task_1_reduce_scatter_refuses(shape):
    """Rows that cannot be divided by three ranks, and a single number."""
    case = f"3 ranks, x of shape {shape}"
    with raises_value_error(case):
        run_ranks(lambda group: ring.reduce_scatter(mx.ones(shape), group), 3)


def test_task_1_reduce_scatter_refuses_on_one_rank():
    """A single number has no axis, however few ranks there are."""
    case = "1 rank, x of shape ()"
    with raises_value_error(case):
        run_ranks(lambda group: ring.reduce_scatter(mx.array(1.0), group), 1)


def test_task_1_reduce_scatter_large_integers():
    """2^24 + 1 is no float32."""
    case = "2 ranks, 2 integers each, of more than 24 bits"
    results, _ = on_ranks(ring.reduce_scatter, [mx.array([2**24 + 1, 2**30 + 1]), mx.array([2, 2**29 + 2])], case)
    fail_if_different("the sums are wrong", [[2**24 + 3], [2**30 + 2**29 + 3]], [x.tolist() for x in results], case)


@property_test
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 9))
def test_task_1_reduce_scatter_of_one_rank_alone(ranks, rows, seed):
    """If all ranks but one have zeros, each rank gets that one's chunk, unchanged."""
    own = seed % ranks
    x = normals(seed)(ranks * rows)
    parts = mx.stack([x if rank == own else mx.zeros_like(x) for rank in range(ranks)])
    agrees(scattered, reduce_scatter64, parts, seed=seed)


def test_task_1_reduce_scatter_sweep():
    for n in sweep(P=9, N=130, D=5):
        agrees(scattered, reduce_scatter64, normals(n.seed, n.dtype)(n.P, n.P * n.N, n.D, spread=n.spread), seed=n)
