"""Task 6.1.2, all-gather: simulated ranks, the whole all-reduce, and two real processes over MLX's ring."""

import json

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.formulas_day1 import all_gather64, all_reduce64
from tests.week6.ringing import check_sends, folder_of, on_ranks, real_array, stacked

from tiny_llm.distributed import ring
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.processes import run_processes
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.sizes import sweep


def gathered(parts):
    return stacked(ring.all_gather, parts)


def reduced(parts):
    return stacked(ring.all_reduce, parts)


def test_task_2_all_gather_four_ranks():
    """The chapter's example: rank r has r + 1 times 1,111."""
    agrees(gathered, all_gather64, mx.array([[1111.0], [2222.0], [3333.0], [4444.0]]), seed=0)


def test_task_2_all_gather_two_ranks():
    agrees(gathered, all_gather64, mx.array([[1.0, 2.0, 3.0], [40.0, 50.0, 60.0]]), seed=0)


def test_task_2_all_gather_one_rank():
    agrees(gathered, all_gather64, normals(1)(1, 5, 2), seed=1)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_all_gather_ranks(ranks, dtype):
    agrees(gathered, all_gather64, normals(ranks, dtype)(ranks, 3, 2), seed=ranks)


@pytest.mark.parametrize("shape", [(4,), (2, 5), (2, 3, 4), (0, 2)], ids=str)
def test_task_2_all_gather_shapes(shape):
    agrees(gathered, all_gather64, normals(3)(3, *shape), seed=3)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_task_2_all_gather_sends_one_array_a_step(ranks):
    """Each rank sends size - 1 arrays of the shape of x to its right neighbor, and nothing else."""
    case = f"{ranks} ranks, 2 x 3 each"
    _, groups = on_ranks(ring.all_gather, list(normals(4)(ranks, 2, 3)), case)
    check_sends(groups, (2, 3), case)


@pytest.mark.parametrize("dtype", [*DTYPES, mx.int32], ids=str)
def test_task_2_all_gather_sends_the_dtype_of_x(dtype):
    """What is sent and what is returned have the dtype of x."""
    case = f"3 ranks, 2 x 3 each, {dtype}"
    results, groups = on_ranks(ring.all_gather, [(x * 9).astype(dtype) for x in normals(5)(3, 2, 3)], case)
    check_sends(groups, (2, 3), case, dtype)
    fail_if_different("the dtypes are wrong", [dtype] * 3, [x.dtype for x in results], case)


def test_task_2_all_gather_large_integers():
    """2^24 + 1 is no float32."""
    case = "2 ranks, an integer each, of more than 24 bits"
    results, _ = on_ranks(ring.all_gather, [mx.array([2**24 + 1]), mx.array([2**30 + 1])], case)
    fail_if_different("the arrays are wrong", [[2**24 + 1, 2**30 + 1]] * 2, [x.tolist() for x in results], case)


@pytest.mark.parametrize("ranks", [2, 1])
def test_task_2_all_gather_refuses(ranks):
    """A single number has no first axis, however few ranks there are."""
    with raises_value_error(f"{ranks} rank{'s' * (ranks > 1)}, x is a single number"):
        run_ranks(lambda group: ring.all_gather(mx.array(1.0), group), ranks)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_task_2_all_gather_makes_all_reduce(ranks, shape):
    """With your reduce-scatter: the sum of any shape, also one that cannot be divided by the ranks."""
    agrees(reduced, all_reduce64, normals(ranks)(ranks, *shape), seed=ranks)


@property_test
@given(st.integers(1, 6), st.integers(0, 11), st.integers(0, 9))
def test_task_2_all_gather_same_bits_everywhere(ranks, size, seed):
    """After an all-reduce, every rank has exactly the same sum: each chunk is added up once, and then copied."""
    case = f"{ranks} ranks, {size} numbers each, seed {seed}"
    results, _ = on_ranks(ring.all_reduce, list(normals(seed)(ranks, size)), case)
    for rank, result in enumerate(results):
        if result.tolist() != results[0].tolist():
            fail(Kind.VALUES, f"all_reduce with your all_gather: ranks 0 and {rank} have different sums", case)


@needs("port")
def test_task_2_all_gather_on_real_processes():
    """Two processes over MLX's ring get what two simulated ranks get."""
    case = "2 processes over the ring of mx.distributed, 6 x 2 each"
    given_arrays = [real_array(rank) for rank in range(2)]
    chunks, _ = on_ranks(ring.reduce_scatter, given_arrays, case)
    wholes, _ = on_ranks(ring.all_gather, chunks, case)
    for rank, whole in enumerate(wholes):
        expected = mx.concatenate(chunks).tolist()
        fail_if_different(f"simulated rank {rank} has a wrong result", expected, whole.tolist(), case)
    folders = [str(folder_of(each, ring)) for each in (ring.reduce_scatter, ring.all_gather)]
    found = [json.loads(text) for text in run_processes("tests.week6.ringing", 2, *folders, case=case)]
    for rank in range(2):
        expected = [chunks[rank].tolist(), wholes[rank].tolist()]
        fail_if_different(f"process {rank} has another result than the simulated rank", expected, found[rank], case)


def test_task_2_all_gather_sweep():
    for n in sweep(P=9, N=130, D=5):
        agrees(gathered, all_gather64, normals(n.seed, n.dtype)(n.P, n.N, n.D, spread=n.spread), seed=n)
