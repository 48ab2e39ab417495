"""Task 5.5.5, several adapters in one batch, checked row by row in float64, and against MLX and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.routing import products
from tests.week5.formulas_day5 import batched64, update64

from tiny_llm.lora import batched
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

OWNERS = [1, -1, 0, 2, 1, 0, -1, 2, 1]
SCALES = [2.0, 0.5, 1.5]


def updates(x, owners, a, b, scales):
    """All adapters of one rank, stacked."""
    return batched.batched_update(x, owners, list(a), list(b), scales)


def adapted(seed, dtype=mx.float32, rows=9, inputs=7, outputs=5, rank=2, count=3):
    draw = normals(seed, dtype)
    return draw(rows, inputs), draw(count, rank, inputs, spread=inputs**-0.5), draw(count, outputs, rank)


@by_dtype
@pytest.mark.parametrize(
    "owners",
    [OWNERS, sorted(OWNERS), OWNERS[::-1], [0] * 9, [2] * 9, [-1] * 9, [2, 0, 1] * 3],
    ids=["mixed", "sorted", "backwards", "the first", "the last", "none", "in turn"],
)
def test_task_5_batched_formula(owners, dtype):
    x, a, b = adapted(1, dtype)
    agrees(updates, batched64, x, owners, a, b, SCALES, seed=1)


@pytest.mark.parametrize("owner", [-1, 0, 1, 2])
def test_task_5_batched_one_row(owner):
    """A decode step of one request."""
    x, a, b = adapted(2, rows=1)
    agrees(updates, batched64, x, [owner], a, b, SCALES, seed=2)


@pytest.mark.parametrize("owner", [-1, 0])
def test_task_5_batched_one_adapter(owner):
    x, a, b = adapted(3, rows=4, count=1)
    agrees(updates, batched64, x, [owner, 0, -1, 0], a, b, [3.0], seed=3)


def test_task_5_batched_equal_sizes():
    """T = I = O = r = number of adapters."""
    x, a, b = adapted(4, rows=4, inputs=4, outputs=4, rank=4, count=4)
    agrees(updates, batched64, x, [2, 0, 3, 0], a, b, [1.0, 2.0, 3.0, 4.0], seed=4)


def test_task_5_batched_own_ranks():
    """Ranks of 1, 4 and 2."""
    draw = normals(5)
    x, a, b = draw(9, 7), [draw(r, 7) for r in (1, 4, 2)], [draw(5, r) for r in (1, 4, 2)]
    case = "float32, x 9 x 7, adapters of rank 1, 4 and 2, seed 5"
    with noted(case):
        actual = batched.batched_update(x, OWNERS, a, b, SCALES)
    rows = [
        update64(to_float64(x[t]), to_float64(a[k]), to_float64(b[k]), SCALES[k]) if k >= 0 else np.zeros(5)
        for t, k in enumerate(OWNERS)
    ]
    compare(actual, np.stack(rows), mx.float32, 1e-4, case, x.size, indirect=False)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_5_batched_float32_adapters(dtype):
    """x is narrow, and A and B are float32."""
    x, (_, a, b) = adapted(6, dtype)[0], adapted(6)
    agrees(updates, batched64, x, OWNERS, a, b, SCALES, seed=6)


def test_task_5_batched_idle_adapters():
    """Adapters 0 and 2 have no rows, and NaN for weights."""
    x, a, b = adapted(7)
    idle, owners = mx.array([True, False, True])[:, None, None], [1, -1, 1, 1, -1, -1, 1, 1, 1]
    case = "float32, x 9 x 7, three adapters, NaN in those without rows, seed 7"
    with noted(case):
        actual = updates(x, owners, mx.where(idle, mx.nan, a), mx.where(idle, mx.nan, b), SCALES)
    expected = batched64(to_float64(x), owners, to_float64(a), to_float64(b), SCALES)
    compare(actual, expected, mx.float32, 1e-4, case, x.size, indirect=False)


def test_task_5_batched_small_numbers():
    """Rows 1, 2 and 3; adapter 0 multiplies by 10, adapter 1 by 100."""
    a, b = mx.ones((2, 1, 1)), mx.array([10.0, 100.0]).reshape(2, 1, 1)
    x, expected = mx.array([[1.0], [2.0], [3.0]]), np.array([[100.0], [0.0], [30.0]])
    agrees(updates, batched64, x, [1, -1, 0], a, b, [1.0, 1.0], seed=0, expected=expected)


def test_task_5_batched_mlx():
    """MLX's gather_mm, with a zero adapter for the rows without one."""
    x, a, b = adapted(8)
    indices = mx.array([k % 4 for k in OWNERS])
    scaled = b * mx.array(SCALES)[:, None, None]
    a4, b4 = (mx.concatenate([w, mx.zeros((1, *w.shape[1:]))]).swapaxes(1, 2) for w in (a, scaled))
    inner = mx.gather_mm(x[:, None], a4, rhs_indices=indices)
    expected = to_float64(mx.gather_mm(inner, b4, rhs_indices=indices)[:, 0])
    agrees(updates, batched64, x, OWNERS, a, b, SCALES, seed=8, expected=expected)


def test_task_5_batched_pytorch(pytorch):
    x, a, b = adapted(9)

    def theirs(torch, x, owners, a, b, scales):
        rows = torch.zeros(len(x), b.shape[1])
        for k, scale in enumerate(scales):
            mine = torch.tensor(owners) == k
            rows[mine] = scale * torch.nn.functional.linear(torch.nn.functional.linear(x[mine], a[k]), b[k])
        return rows

    expected = pytorch(theirs, x, OWNERS, a, b, SCALES)
    agrees(updates, batched64, x, OWNERS, a, b, SCALES, seed=9, expected=expected)


def test_task_5_batched_copies_no_matrix_for_a_row():
    """256 rows of four adapters of rank 64."""
    agrees(updates, batched64, adapted(10)[0], OWNERS, *adapted(10)[1:], SCALES, seed=10)
    x, a, b = adapted(11, rows=256, inputs=256, outputs=256, rank=64, count=4)
    mx.eval(x, a, b)
    owners = [t % 4 for t in range(256)]
    case = "float32, x 256 x 256, four adapters of rank 64, seed 11"
    holds_less(lambda: updates(x, owners, a, b, [1.0] * 4), 256 * 64 * 256, "a quarter of an A per row", case=case)


def test_task_5_batched_merges_no_matrices():
    """B A, O x I, would take far more work and memory than the two thin products."""
    x, a, b = adapted(14, rows=4, inputs=1024, outputs=1024, rank=4, count=2)
    mx.eval(x, a, b)
    case = "float32, x 4 x 1024, two adapters of rank 4, outputs 1024, seed 14"
    call = lambda: updates(x, [1, 0, -1, 1], a, b, [1.0] * 2)  # noqa: E731
    holds_less(call, 1024 * 1024 * 2, "half of an O x I matrix", case=case)


def test_task_5_batched_two_products_per_adapter():
    """32 rows of two adapters in turn."""
    x, a, b = adapted(15, rows=32, count=2)
    case = "float32, x 32 x 7, owners 0, 1, 0, 1, ..., seed 15"
    with noted(case):
        count = products(updates(x, [0, 1] * 16, a, b, [1.0, 2.0]))
    if count > 4:
        fail(Kind.VALUES, f"{count} matrix products are computed for two adapters", case, "at most   4")


def test_task_5_batched_sweep():
    for n in sweep(T=257, I=1100, O=1100, R=64, K=20):
        x, a, b = adapted(n.seed, n.dtype, n.T, n.I, n.O, min(n.R, 2**16 // n.O), n.K)
        owners = [int(k) for k in np.random.default_rng(n.seed).integers(-1, n.turn(n.K, 0, 1) or n.K, n.T)]
        scales = [0.5 + k / 4 for k in range(n.K)]
        agrees(updates, batched64, (x * min(n.spread, 30.0)).astype(n.dtype), owners, a, b, scales, seed=n)


@property_test
@given(owners=st.lists(st.integers(-1, 2), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_task_5_batched_a_row_alone(owners, seed):
    """A row's update does not depend on the other rows."""
    x, a, b = adapted(seed, rows=len(owners))
    case = f"float32, x {len(owners)} x 7, owners {owners}, seed {seed}, row by row"
    with noted(case):
        together = updates(x, owners, a, b, SCALES)
        alone = [to_float64(updates(x[t : t + 1], [k], a, b, SCALES))[0] for t, k in enumerate(owners)]
    compare(together, np.array(alone), mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("owner", [-2, 3, 7])
def test_task_5_batched_refuses_other_owners(owner):
    x, a, b = adapted(12)
    with raises_value_error(f"three adapters, an owner {owner}", str(owner), "3"):
        mx.eval(updates(x, [*OWNERS[:8], owner], a, b, SCALES))


@pytest.mark.parametrize("count", [8, 10])
def test_task_5_batched_refuses_other_lengths(count):
    x, a, b = adapted(13)
    with raises_value_error(f"x 9 x 7, {count} owners", "9", str(count)):
        mx.eval(updates(x, [0] * count, a, b, SCALES))
