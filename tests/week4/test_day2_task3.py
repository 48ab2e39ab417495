"""Task 4.2.3, dropout, checked against its formula in float64, MLX's layer and PyTorch."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import dropout64

from tiny_llm.fused_qkv import dropout as dropping
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def dropped(x, rate, training=True, chance=0):
    return dropping.dropout(x, rate, training, mx.random.key(chance))


@by_dtype
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_task_3_dropout_formula(rate, dtype):
    agrees(dropped, dropout64, normals(1, dtype)(4, 5, 6), rate, chance=11, seed=1)


@pytest.mark.parametrize("shape", [(), (1,), (300,), (2, 3), (2, 3, 4, 5)], ids=str)
def test_task_3_dropout_shapes(shape):
    agrees(dropped, dropout64, normals(2)(*shape), 0.3, chance=12, seed=2)


@by_dtype
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_task_3_dropout_off(rate, dtype):
    """If training is False, any rate leaves x unchanged."""
    agrees(dropped, dropout64, normals(3, dtype)(5, 40), rate, False, 13, seed=3)


@by_dtype
def test_task_3_dropout_rate_0(dtype):
    """A rate of 0 is valid: nothing is dropped."""
    agrees(dropped, dropout64, normals(4, dtype)(5, 40), 0.0, chance=14, seed=4)


@by_dtype
@pytest.mark.parametrize("number", [0.0, 1.5, -math.inf, math.nan])
def test_task_3_dropout_rate_1(number, dtype):
    """Everything is dropped, and nothing is NaN."""
    x = mx.full((3, 4), number, dtype)
    case = f"{dtype}, x 3 x 4 of {number}, rate 1".replace("mlx.core.", "")
    with noted(case):
        found = dropped(x, 1.0)
    compare(found, np.zeros((3, 4)), dtype, 0.0, case, 12, indirect=False)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_task_3_dropout_of_nan_and_infinity(number):
    """A dropped value is 0, whatever it was."""
    x, case = mx.full((50,), number), f"float32, x 50 of {number}, rate 0.5, key 15"
    with noted(case):
        found = dropped(x, 0.5, chance=15)
    expected = np.where(dropout64(np.ones(50), 0.5, chance=15) == 0, 0.0, number)
    compare(found, expected, mx.float32, 0.0, case, 50, indirect=False)


def test_task_3_dropout_same_key():
    """The same key drops the same values, another one others."""
    x = normals(5)(8, 50)
    for chance in (16, 17, 16):
        agrees(dropped, dropout64, x, 0.4, chance=chance, seed=5)


def test_task_3_dropout_without_a_key():
    """Without a key, MLX's global random state: seeded by `mx.random.seed`, and different in each call."""
    x = normals(6)(8, 50)
    for seed in (18, 19):
        mx.random.seed(seed)
        expected = [to_float64(nn.Dropout(0.4)(x)) for _ in range(3)]
        mx.random.seed(seed)
        case = f"float32, x 8 x 50, rate 0.4, three calls without a key after mx.random.seed({seed})"
        for each in expected:
            with noted(case):
                found = dropping.dropout(mx.array(x), 0.4, True)  # a copy: whether x changes is checked elsewhere
            compare(found, each, mx.float32, 1e-5, case, x.size, indirect=False)


def test_task_3_dropout_mlx_evaluates():
    layer, x = nn.Dropout(0.4), normals(7)(8, 50)
    layer.eval()
    agrees(dropped, dropout64, x, 0.4, False, seed=7, expected=to_float64(layer(x)))


@pytest.mark.parametrize(("rate", "training"), [(0.4, False), (0.0, True), (1.0, True)])
def test_task_3_dropout_pytorch(pytorch, rate, training):
    """PyTorch samples differently; for rates without randomness, it must agree."""
    x = normals(8)(5, 6)

    def drop(torch, x, rate, training):
        return torch.nn.functional.dropout(x, rate, training)

    agrees(dropped, dropout64, x, rate, training, seed=8, expected=pytorch(drop, x, rate, training))


def test_task_3_dropout_sweep():
    for n in sweep(A=300, B=4200):
        x = normals(n.seed, n.dtype)(n.A, n.B, spread=n.spread)
        agrees(dropped, dropout64, x, n.turn(0.25, 0.75, 0.1), True, n.seed, seed=n)


@property_test
@given(rate=st.sampled_from([0.05, 0.3, 0.5, 0.8]), chance=st.integers(0, 99))
def test_task_3_dropout_keeps_the_mean(rate, chance):
    """Of 10,000 ones, the mean after dropout is 1, to within five standard deviations."""
    x = mx.ones((100, 100))
    agrees(dropped, dropout64, x, rate, chance=chance, seed=0)
    allowed = 5 * math.sqrt(rate / (1 - rate) / x.size)
    case = f"float32, the mean of x 100 x 100 of ones, rate {rate}, key {chance}"
    compare(mx.mean(dropped(x, rate, chance=chance)), np.array(1.0), mx.float32, allowed, case, x.size)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rate", [-0.1, 1.1, 50, -math.inf, math.nan])
def test_task_3_dropout_refuses_other_rates(rate, training):
    with raises_value_error(f"float32, x 3 x 4, rate {rate}, training {training}", str(rate)):
        mx.eval(dropping.dropout(normals(9)(3, 4), rate, training, mx.random.key(0)))
