"""The fused operators of training: their values and gradients are those of the model of array operations."""

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.grading.build import must_be_built
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import load_solution

pytestmark = [
    pytest.mark.maintainers,
    pytest.mark.skipif(bool(missing(["compiler"])), reason="not run here: needs a C++ compiler"),
]
load_solution()

from tiny_llm_solution.backward.attention import attention_vjp  # noqa: E402
from tiny_llm_solution.backward.layers import rms_norm_vjp, swiglu_vjp  # noqa: E402
from tiny_llm_solution.basics import silu  # noqa: E402
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.dataset.loss import cross_entropy  # noqa: E402
from tiny_llm_solution.dataset.packing import Rows, document_mask, pack_documents  # noqa: E402
from tiny_llm_solution.training import fused  # noqa: E402
from tiny_llm_solution.training.model import (  # noqa: E402
    attend,
    compiled_loss_and_grads,
    initial_params,
    loss_function,
)

CONFIG = ModelConfig("qwen3", 24, 2, 40, 6, 2, 8, 50, 1e-6, 1e4, 64, True)
DOCUMENTS = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7]]


@pytest.fixture(scope="module", autouse=True)
def built():
    must_be_built([load_course().task("5.4.5")], SOLUTION)


def drawn(seed, *shape):
    return mx.random.normal(shape, key=mx.random.key(seed))


def close(found, expected, tolerance=1e-5):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("length", [7, 12, 40])
def test_the_model_has_the_loss_and_gradients_of_array_operations(length, compiled):
    params, rows = initial_params(CONFIG, 1, 0.3), pack_documents(DOCUMENTS, length, eos=49)
    make = fused.fused_loss_function
    differentiate = compiled_loss_and_grads(CONFIG, make) if compiled else mx.value_and_grad(make(CONFIG))
    loss, grads = differentiate(params, rows)
    expected, plain = mx.value_and_grad(loss_function(CONFIG))(params, rows)
    assert abs(loss.item() - expected.item()) < 1e-5
    for name, grad in plain.items():
        np.testing.assert_allclose(np.array(grads[name]), np.array(grad), rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_row_of_padding_has_no_loss_and_no_gradient():
    params, rows = initial_params(CONFIG, 2), pack_documents([[1, 2]], 8, eos=49)
    padding = Rows(rows.tokens, mx.full((1, 8), -100), mx.full((1, 8), -1), rows.positions)
    loss, grads = mx.value_and_grad(fused.fused_loss_function(CONFIG))(params, padding)
    assert loss.item() == 0
    assert all(mx.all(grad == 0).item() for grad in grads.values())


def test_the_same_call_gives_the_same_bits():
    params, rows = initial_params(CONFIG, 3, 0.3), pack_documents(DOCUMENTS * 9, 40, eos=49)
    differentiate = compiled_loss_and_grads(CONFIG, fused.fused_loss_function)
    first = [np.array(grad) for grad in differentiate(params, rows)[1].values()]
    for _ in range(5):
        again = [np.array(grad) for grad in differentiate(params, rows)[1].values()]
        assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("dy", [1.0, -0.3])
def test_cross_entropy_passes_the_gradient_of_the_loss_on(dy):
    logits, targets = drawn(4, 3, 5, 50), mx.array(np.random.default_rng(4).integers(0, 50, (3, 5)), mx.int32)
    targets[0, 2] = -100
    found, expected = (
        mx.grad(lambda z, f=f: dy * f(z, targets))(logits) for f in (fused.fused_cross_entropy, cross_entropy)
    )
    close([found], [expected])


@pytest.mark.parametrize("shape", [(5,), (3, 24), (2, 700, 3, 16)])
def test_rms_norm_has_the_gradients_of_day_3(shape):
    x, weight, dy = drawn(5, *shape), drawn(6, shape[-1]), drawn(7, *shape)
    _, found = mx.vjp(fused.fused_rms_norm(1e-5), [x, weight], [dy])
    close(found, rms_norm_vjp(x, weight, 1e-5, dy), 1e-4)


@pytest.mark.parametrize("size", [1, 15, 16, 40_000])
def test_swiglu_has_the_gradients_of_day_3(size):
    gate, up, dy = drawn(8, size) * 9, drawn(9, size), drawn(10, size)
    (y,), found = mx.vjp(fused.fused_swiglu, [gate, up], [dy])
    close([y, *found], [silu(gate) * up, *swiglu_vjp(gate, up, dy)])


@pytest.mark.parametrize(("length", "dims"), [(1, 4), (5, 7), (33, 16), (100, 64)])
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (3, 1)])
def test_attention_has_the_gradients_of_day_3(length, dims, heads):
    number, kv_heads = heads
    query, dy = drawn(11, 2, length, number, dims), drawn(12, 2, length, number, dims)
    key, value = drawn(13, 2, length, kv_heads, dims), drawn(14, 2, length, kv_heads, dims)
    ids = mx.array(np.sort(np.random.default_rng(length).integers(0, 4, (2, length))), mx.int32)
    mask = document_mask(ids)
    (y,), found = mx.vjp(lambda q, k, v: fused.fused_attend(q, k, v, ids), [query, key, value], [dy])
    by_head = (a.swapaxes(1, 2) for a in (query, key, value, dy))
    expected = [grad.swapaxes(1, 2) for grad in attention_vjp(*by_head, mask=mask)]
    close([y, *found], [attend(query, key, value, mask), *expected], 1e-4)
