"""Task 4.6.4, a tied embedding table, whose gradient is checked against its formula and PyTorch's."""

import mlx.core as mx
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day6 import gradient64, loss64

from tiny_llm.weight_sharing import tied_table
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def loss(table, tokens, targets):
    return parted(table, tokens, targets)[0]


def gradient(table, tokens, targets):
    return parted(table, tokens, targets)[1]


def parted(table, tokens, targets):
    both = tied_table.loss_and_gradient(table, tokens, targets)
    if not isinstance(both, tuple | list) or len(both) != 2:
        fail(Kind.TYPE, f"returned {type_words(both)}, expected a loss and a gradient", "")
    return both


def check_tied(table, tokens, targets, *, seed, **options):
    agrees(loss, loss64, table, tokens, targets, seed=seed, dtype=mx.float32)
    agrees(gradient, gradient64, table, tokens, targets, seed=seed, **options)


def ids(seed, vocab_size, count):
    return mx.array(token_ids(seed, vocab_size, count)), mx.array(token_ids(seed + 1000, vocab_size, count))


@by_dtype
def test_task_4_tied_formula(dtype):
    check_tied(normals(1, dtype)(7, 4), mx.array([1, 5, 3]), mx.array([5, 3, 6]), seed=1)


def test_task_4_tied_one_token():
    check_tied(normals(2)(5, 3), mx.array([2]), mx.array([4]), seed=2)


def test_task_4_tied_a_token_comes_twice():
    """A token that occurs twice contributes twice, as input and as target."""
    check_tied(normals(3)(6, 4), mx.array([1, 4, 1, 1]), mx.array([2, 5, 3, 2]), seed=3)


def test_task_4_tied_repeats_itself():
    """The target is the input token."""
    check_tied(normals(4)(6, 4), mx.array([2, 5]), mx.array([2, 0]), seed=4)


def test_task_4_tied_square():
    """As many tokens as features, and as inputs."""
    check_tied(normals(5)(4, 4), *ids(5, 4, 4), seed=5)


@by_dtype
def test_task_4_tied_huge_logits(dtype):
    """Logits near 1,000, whose exp overflows."""
    check_tied(normals(6, dtype)(6, 5, spread=15), *ids(6, 6, 4), seed=6)


def test_task_4_tied_zeros():
    """Rows of zeros: all tokens are equally likely, and the gradient is zero."""
    table = mx.zeros((8, 3))
    case = "float32, table 8 x 3 of zeros, tokens 2, targets 2"
    with noted(case):
        cost, moved = parted(table, mx.array([0, 1]), mx.array([2, 3]))
    compare(cost, to_float64(mx.log(mx.array(8.0))), mx.float32, 1e-6, case, 2)
    compare(moved, to_float64(table), mx.float32, 0.0, case, 2)


def test_task_4_tied_pytorch(pytorch):
    """By autograd, which adds up both uses."""

    def both(torch, table, tokens, targets):
        table = table.clone().requires_grad_(True)
        logits = torch.nn.functional.linear(torch.nn.functional.embedding(tokens.long(), table), table)
        cost = torch.nn.functional.cross_entropy(logits, targets.long())
        cost.backward()
        return torch.cat([cost.detach()[None], table.grad.flatten()])

    table, (tokens, targets) = normals(7)(9, 5), ids(7, 9, 6)
    answer = pytorch(both, table, tokens, targets)
    agrees(loss, loss64, table, tokens, targets, seed=7, expected=answer[0], dtype=mx.float32)
    agrees(gradient, gradient64, table, tokens, targets, seed=7, expected=answer[1:].reshape(9, 5))


@property_test
@given(seed=st.integers(0, 99), count=st.integers(1, 6))
def test_task_4_tied_a_small_step_lowers_the_loss(seed, count):
    """A small step against the gradient lowers the loss by the step times the squared gradient norm."""
    table, (tokens, targets) = normals(seed)(7, 4), ids(seed, 7, count)
    case = f"float32, table 7 x 4, tokens {count}, targets {count}, a step of 0.001 against the gradient, seed {seed}"
    with noted(case):
        before, moved = parted(table, tokens, targets)
        after, _ = parted(table - 1e-3 * moved, tokens, targets)
        fallen, promised = float(before - after), 1e-3 * float(mx.sum(moved * moved))
    if abs(fallen - promised) > 0.05 * promised + 1e-5:
        fail(
            Kind.VALUES,
            "the loss does not fall as the gradient says",
            case,
            f"expected  {promised:.4g}",
            f"got       {fallen:.4g}",
        )


def test_task_4_tied_sweep():
    for n in sweep(L=131, V=1009, E=257):
        # wide enough for logits of unit variance, times the sweep's scale
        table = normals(n.seed, n.dtype)(n.V, n.E, spread=n.E**-0.25) * min(n.spread, 30)
        check_tied(table, *ids(n.seed, n.V, n.L), seed=n)
