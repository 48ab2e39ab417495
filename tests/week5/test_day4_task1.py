"""Task 5.4.1, gradient accumulation, checked against its formula, one large batch in MLX, and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day4 import accumulated64
from tests.week5.runs import IGNORE, Micro, micro_batches

from tiny_llm.training import accumulation
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def program_and_formula(part):
    """Compare the gradients (part 1) or the loss (part 0) of micro-batches whose results are rows of arrays."""

    def accumulate(grads, losses, counts):
        params = {"w": mx.zeros(grads.shape[1:]), "b": mx.zeros(grads.shape[1:])}

        def loss_and_grads(given, batch):
            number = int(batch.tokens[0, 0].item())
            if given is not params:
                fail(Kind.VALUES, "loss_and_grads was not called with params", f"counts {counts}", size=grads.size)
            return losses[number], {"w": grads[number], "b": -2 * grads[number]}

        loss, found = accumulation.accumulate_gradients(loss_and_grads, params, micro_batches(counts))
        if set(found) != {"w", "b"}:
            lines = ("expected  ['b', 'w']", f"got       {sorted(found)}")
            fail(Kind.VALUES, "wrong names of the gradients", f"counts {counts}", *lines, size=grads.size)
        return mx.stack([found["w"], found["b"]]) if part else loss

    def formula(grads, losses, counts, *, r=exact):
        loss, summed = accumulated64(losses, grads, counts, r=r)
        return np.stack([summed, -2 * summed]) if part else np.array(loss)

    return accumulate, formula


def inputs(seed, counts, dtype=mx.float32, size=7):
    draw = normals(seed, dtype)
    return draw(len(counts), size), normals(seed + 50)(len(counts)), list(counts)


def both(grads, losses, counts, **options):
    agrees(*program_and_formula(1), grads, losses, counts, **options)
    agrees(*program_and_formula(0), grads, losses, counts, dtype=mx.float32, **options)


@by_dtype
@pytest.mark.parametrize("counts", [(3, 1), (1, 3), (2, 5, 4), (6,)], ids=str)
def test_task_1_accumulation_formula(counts, dtype):
    both(*inputs(1, counts, dtype), seed=1)


def test_task_1_accumulation_equal_counts():
    """Here the mean of the means is right."""
    both(*inputs(2, (4, 4, 4)), seed=2)


@pytest.mark.parametrize("counts", [(0, 3), (3, 0), (2, 0, 5), (0, 0)], ids=str)
def test_task_1_accumulation_without_targets(counts):
    """A micro-batch of padding alone weighs nothing, and nothing is divided by zero."""
    both(*inputs(3, counts), seed=3)


def test_task_1_accumulation_three_and_one():
    """Losses of 2 and 6 over 3 targets and 1, as in the chapter: the mean is 3."""
    both(mx.array([[2.0], [6.0]]), mx.array([2.0, 6.0]), [3, 1], seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_accumulation_sums_in_float32(dtype):
    """600 equal parts: in bfloat16, a sum of them stops growing at a half."""
    counts = [1] * 600
    program, formula = program_and_formula(1)
    agrees(program, formula, mx.ones((600, 3), dtype), normals(55)(600) + 5, counts, seed=5)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_accumulation_loss_in_float32(dtype):
    """The losses of the micro-batches are narrow, and 1 and 2 times them exact: only their float32 sum is rounded."""
    grads, losses, counts = inputs(9, (1, 2, 1))
    agrees(*program_and_formula(0), grads, losses.astype(dtype), counts, dtype=mx.float32, seed=9)


def regression(w, tokens, targets):
    """Return the mean of -ln softmax(w[token])[target] over the counted targets."""
    counted = targets != IGNORE
    logits = w[tokens]
    chosen = mx.take_along_axis(logits, mx.where(counted, targets, 0)[..., None], axis=-1).squeeze(-1)
    losses = mx.where(counted, mx.logsumexp(logits, axis=-1) - chosen, 0.0)
    return mx.sum(losses) / mx.maximum(mx.sum(counted), 1)


def rows(seed, count, length=5, vocab=6):
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, vocab, (count, length))
    for row in targets:
        row[int(generator.integers(0, length)) :] = IGNORE
    targets[0, 0] = 1
    return mx.array(generator.integers(0, vocab, (count, length)).astype(np.int32)), mx.array(targets.astype(np.int32))


def gradient_in_parts(w, tokens, targets, size):
    differentiate = mx.value_and_grad(lambda params, batch: regression(params["w"], batch.tokens, batch.targets))
    parts = [Micro(tokens[i : i + size], targets[i : i + size]) for i in range(0, len(tokens), size)]
    return accumulation.accumulate_gradients(differentiate, {"w": w}, parts)[1]["w"]


def gradient64(w, tokens, targets, size, *, r=exact):
    counted = targets != IGNORE
    ids, labels = tokens[counted].astype(int), targets[counted].astype(int)
    logits = w[ids]
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = r(p / p.sum(axis=-1, keepdims=True))
    p[np.arange(len(ids)), labels] -= 1
    grad = np.zeros_like(w)
    np.add.at(grad, ids, p)
    return r(grad / len(ids))


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_task_1_accumulation_large_batch(size):
    """Rows one, two, three or all eight at a time: the same gradient."""
    agrees(gradient_in_parts, gradient64, normals(6)(6, 6), *rows(6, 8), size, seed=6)


def test_task_1_accumulation_mlx():
    """One large batch, differentiated by MLX."""
    w, (tokens, targets) = normals(7)(6, 6), rows(7, 8)
    expected = to_float64(mx.grad(regression)(w, tokens, targets))
    agrees(gradient_in_parts, gradient64, w, tokens, targets, 3, seed=7, expected=expected)


def test_task_1_accumulation_pytorch(pytorch):
    w, (tokens, targets) = normals(8)(6, 6), rows(8, 8)

    def gradient(torch, w, tokens, targets):
        w = w.clone().requires_grad_(True)
        flat = targets.long().flatten()
        torch.nn.functional.cross_entropy(w[tokens.long()].flatten(0, 1), flat, ignore_index=IGNORE).backward()
        return w.grad

    expected = pytorch(gradient, w, tokens, targets)
    agrees(gradient_in_parts, gradient64, w, tokens, targets, 3, seed=8, expected=expected)


def test_task_1_accumulation_sweep():
    for n in sweep(M=20, P=4200, C=9):
        counts = [(i * 7 + n.seed) % n.C + (n.M == 1) for i in range(n.M)]
        grads, losses, _ = inputs(n.seed, counts, n.dtype, n.P)
        both((grads * n.spread).astype(n.dtype), losses * n.spread, counts, seed=n)


@property_test
@given(counts=st.lists(st.integers(0, 5), min_size=2, max_size=5), seed=st.integers(0, 99))
def test_task_1_accumulation_any_order(counts, seed):
    """The order of the micro-batches does not matter."""
    grads, losses, _ = inputs(seed, counts)
    program, _ = program_and_formula(1)
    case = f"float32, grads {len(counts)} x 7, counts {counts}, seed {seed}, against the reverse order"
    with noted(case):
        forwards, backwards = program(grads, losses, counts), program(grads[::-1], losses[::-1], counts[::-1])
    compare(backwards, to_float64(forwards), mx.float32, 1e-5, case, grads.size)


def test_task_1_accumulation_calls_each_once():
    numbers = []

    def loss_and_grads(params, batch):
        numbers.append(int(batch.tokens[0, 0].item()))
        return mx.array(1.0), {"w": mx.ones(2)}

    case = "four micro-batches"
    with noted(case):
        accumulation.accumulate_gradients(loss_and_grads, {"w": mx.zeros(2)}, micro_batches([1, 0, 2, 3]))
    if numbers != [0, 1, 2, 3]:
        lines = ("expected  [0, 1, 2, 3]", f"got       {numbers}")
        fail(Kind.VALUES, "loss_and_grads was not called once per micro-batch, in order", case, *lines)


def test_task_1_accumulation_evaluates_each_micro_batch():
    """When the second call begins, the first one's gradients, 4 MB, are in memory, and not a graph."""
    active = []

    def loss_and_grads(params, batch):
        active.append(mx.get_active_memory())
        return mx.sum(params["w"]), {"w": params["w"] * 2}

    params = {"w": mx.ones(2**20)}
    mx.eval(params)
    case = "two micro-batches, gradients of 2**20 float32 numbers"
    with noted(case):
        accumulation.accumulate_gradients(loss_and_grads, params, micro_batches([2, 1]))
    if active[1] - active[0] < 4 * 2**20:
        headline = "the first micro-batch has not been evaluated when the second one begins"
        fail(Kind.VALUES, headline, case, f"got       {active[1] - active[0]} bytes more than before", size=2**20)


def test_task_1_accumulation_frees_activations():
    """Loss and gradients share activations of 16 MB: when the second call begins, no graph keeps the first one's."""
    active = []

    def loss_and_grads(params, batch):
        active.append(mx.get_active_memory())
        activations = mx.arange(2**22) * params["w"][0]
        return mx.mean(activations), {"w": mx.mean(mx.square(activations)) * mx.ones(2)}

    params = {"w": mx.ones(2)}
    mx.eval(params)
    case = "two micro-batches, activations of 2**22 float32 numbers"
    with noted(case):
        accumulation.accumulate_gradients(loss_and_grads, params, micro_batches([2, 1]))
    if active[1] - active[0] > 2 * 2**22:
        headline = "the first micro-batch's activations are still in memory when the second one begins"
        fail(Kind.VALUES, headline, case, f"got       {active[1] - active[0]} bytes more than before", size=2**22)


@pytest.mark.parametrize("dtypes", [(mx.float32, mx.bfloat16), (mx.bfloat16, mx.float32)], ids=str)
def test_task_1_accumulation_a_dtype_for_each_gradient(dtypes):
    """Of w and of b; the parameters' own dtypes do not matter."""
    grads = {name: mx.ones(2, dtype) for name, dtype in zip("wb", dtypes, strict=True)}
    case = ", ".join(f"gradients of {name} in {str(g.dtype).rpartition('.')[2]}" for name, g in grads.items())
    with noted(case):
        _, found = accumulation.accumulate_gradients(
            lambda params, batch: (mx.array(1.0), grads), {"w": mx.zeros(2), "b": mx.zeros(2)}, micro_batches([2, 1])
        )
    for name, grad in grads.items():
        compare(found[name], np.ones(2), grad.dtype, 1e-6, f"{case}: {name}", 2, indirect=False)


def test_task_1_accumulation_changes_no_gradient():
    """loss_and_grads returns the same arrays every time."""
    kept = {"w": mx.array([1.0, 2.0])}
    case = "three micro-batches, the same gradient array for each"
    with noted(case):
        _, found = accumulation.accumulate_gradients(
            lambda params, batch: (mx.array(3.0), kept), {"w": mx.zeros(2)}, micro_batches([2, 1, 4])
        )
    compare(kept["w"], np.array([1.0, 2.0]), mx.float32, 0.0, f"{case}, that array afterwards", 2)
    compare(found["w"], np.array([1.0, 2.0]), mx.float32, 1e-6, case, 2)


def test_task_1_accumulation_changes_no_loss():
    """loss_and_grads returns the same arrays every time."""
    kept = mx.array(3.0)
    case = "three micro-batches, the same loss array for each"
    with noted(case):
        loss, _ = accumulation.accumulate_gradients(
            lambda params, batch: (kept, {"w": mx.ones(2)}), {"w": mx.zeros(2)}, micro_batches([2, 1, 4])
        )
    compare(kept, np.array(3.0), mx.float32, 0.0, f"{case}, that array afterwards", 1)
    compare(loss, np.array(3.0), mx.float32, 1e-6, case, 1)


def test_task_1_accumulation_refuses_none():
    with raises_value_error("no micro-batch"):
        accumulation.accumulate_gradients(lambda params, batch: (mx.array(0.0), {}), {}, [])
