"""Task 5.3.6, AdamW: the formula, mlx.optimizers and PyTorch, step for step; and the state it returns."""

import mlx.core as mx
import mlx.optimizers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day3 import adamw64

from tiny_llm.optimizers import adamw
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

STEPS = 20


def one_step(optimizer, params, grads, state, *rate):
    found = optimizer.update(params, grads, state, *rate)
    if not isinstance(found, tuple | list) or len(found) != 2:
        fail(Kind.TYPE, f"update returned {type_words(found)}, expected parameters and a state", "")
    return found


def trained(param, grads, rates, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    """The parameter after one step for each gradient; the rates are given to `update`."""
    optimizer = adamw.AdamW(123.0, betas, eps, decay, no_decay=lambda name, param: False)
    params = {"w": param}
    state = optimizer.init(params)
    for i, rate in enumerate(rates):
        params, state = one_step(optimizer, params, {"w": grads[i]}, state, rate)
    return params["w"]


def inputs(seed, dtype=mx.float32, shape=(3, 4), steps=STEPS):
    draw = normals(seed, dtype)
    return draw(*shape), draw(steps, *shape), [0.1] * steps


@by_dtype
@pytest.mark.parametrize("steps", [1, 2, STEPS])
def test_task_6_adamw_formula(steps, dtype):
    """The first step, in which the bias correction is largest; the second; and 20."""
    agrees(trained, adamw64, *inputs(1, dtype, steps=steps), seed=1)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)], ids=str)
def test_task_6_adamw_any_shape(shape):
    agrees(trained, adamw64, *inputs(2, shape=shape, steps=3), seed=2)


@pytest.mark.parametrize("betas", [(0.0, 0.999), (0.9, 0.0), (0.0, 0.0), (0.8, 0.95)], ids=str)
def test_task_6_adamw_betas(betas):
    agrees(trained, adamw64, *inputs(3, steps=5), betas, seed=3)


@pytest.mark.parametrize("eps", [0.1, 1e-4])
def test_task_6_adamw_eps(eps):
    agrees(trained, adamw64, *inputs(4, steps=3), (0.9, 0.99), eps, seed=4)


def test_task_6_adamw_small_gradients():
    """Gradients of 1e-3: their squares are far below 1, and eps still is negligible."""
    param, grads, rates = inputs(5, steps=3)
    agrees(trained, adamw64, param, grads * 1e-3, rates, seed=5)


@pytest.mark.parametrize("decay", [0.0, 0.1, 2.0])
def test_task_6_adamw_weight_decay(decay):
    agrees(trained, adamw64, *inputs(6, steps=3), (0.9, 0.999), 1e-8, decay, seed=6)


def test_task_6_adamw_decay_alone():
    """Without a gradient, a step takes rate * decay of the parameter: here 0.1 * 0.5."""
    param = normals(7)(3, 4)
    agrees(trained, adamw64, param, mx.zeros((1, 3, 4)), [0.1], (0.9, 0.999), 1e-8, 0.5, seed=7)


def test_task_6_adamw_a_schedule():
    """Another rate at each step; one of them is 0, in which only the state changes."""
    param, grads, _ = inputs(8, steps=4)
    agrees(trained, adamw64, param, grads, [0.3, 0.0, 0.05, 0.2], seed=8)


def test_task_6_adamw_its_own_rate():
    """Without a rate for the step, the optimizer's counts."""

    def own(param, grads, rates):
        optimizer = adamw.AdamW(rates[0], no_decay=lambda name, param: False)
        params, state = {"w": param}, optimizer.init({"w": param})
        for grad in grads:
            params, state = one_step(optimizer, params, {"w": grad}, state)
        return params["w"]

    agrees(own, adamw64, *inputs(9, steps=3), seed=9)


@pytest.mark.parametrize("which", ["matrix", "vector"])
def test_task_6_adamw_exempts_vectors(which):
    """By default a matrix decays, and a norm's weight does not; both are updated in one call."""

    def two(matrix, vector, of_matrix, of_vector, which):
        optimizer = adamw.AdamW(0.1, weight_decay=0.5)
        params = {"norm.weight": vector, "proj.weight": matrix}
        state = optimizer.init(params)
        for i in range(len(of_matrix)):
            grads = {"proj.weight": of_matrix[i], "norm.weight": of_vector[i]}
            params, state = one_step(optimizer, params, grads, state)
        return params["proj.weight" if which == "matrix" else "norm.weight"]

    def two64(matrix, vector, of_matrix, of_vector, which, *, r=exact):
        steps = [0.1] * len(of_matrix)
        if which == "matrix":
            return adamw64(matrix, of_matrix, steps, decay=0.5, r=r)
        return adamw64(vector, of_vector, steps, decay=0.0, r=r)

    draw = normals(10)
    agrees(two, two64, draw(3, 4), draw(5), draw(3, 3, 4), draw(3, 5), which, seed=10)


def test_task_6_adamw_exempts_by_name():
    """no_decay gets the name and the value of each parameter."""
    draw, seen = normals(11), []
    params = {"embedding": draw(3, 4), "head": draw(3, 4), "bias": draw(4)}

    def exempt(name, param):
        seen.append((name, param.shape))
        return name == "embedding"

    case = "float32, three parameters with a gradient of zero, no_decay exempts embedding, rate 0.1, decay 0.5"
    with noted(case):
        optimizer = adamw.AdamW(0.1, weight_decay=0.5, no_decay=exempt)
        grads = {name: mx.zeros_like(param) for name, param in params.items()}
        after, _ = one_step(optimizer, params, grads, optimizer.init(params))
    for name, param in params.items():
        kept = 1.0 if name == "embedding" else 0.95
        compare(after[name], kept * to_float64(param), mx.float32, 1e-6, f"{case}: {name}", 28)
    wanted = {(name, param.shape) for name, param in params.items()}
    fail_if_different("no_decay was called with something else", wanted, set(seen), case)


def test_task_6_adamw_mlx():
    """mlx.optimizers.AdamW with bias_correction=True, after each of 20 steps of the same gradients."""
    param, grads, _ = inputs(12)
    own, other = {"w": param}, {"w": param}
    case = "float32, param 3 x 4, learning_rate 0.1, betas (0.9, 0.99), weight_decay 0.1, seed 12"
    with noted(case):
        optimizer = adamw.AdamW(0.1, (0.9, 0.99), 1e-6, 0.1, no_decay=lambda name, param: False)
        state = optimizer.init(own)
        theirs = mlx.optimizers.AdamW(0.1, [0.9, 0.99], 1e-6, 0.1, bias_correction=True)
        for i in range(STEPS):
            own, state = one_step(optimizer, own, {"w": grads[i]}, state)
            other = theirs.apply_gradients({"w": grads[i]}, other)
            compare(own["w"], to_float64(other["w"]), mx.float32, 1e-5, f"{case}: after step {i + 1}", 12, False)


@pytest.mark.parametrize("settings", [((0.9, 0.999), 1e-8, 0.01), ((0.8, 0.95), 1e-4, 0.3)], ids=str)
def test_task_6_adamw_pytorch(pytorch, settings):
    param, grads, rates = inputs(13)

    def train(torch, param, grads, rate, betas, eps, decay):
        param = param.clone().requires_grad_(True)
        optimizer = torch.optim.AdamW([param], rate, betas, eps, decay)
        for grad in grads:
            param.grad = grad
            optimizer.step()
        return param.detach()

    expected = pytorch(train, param, grads, 0.1, *settings)
    agrees(trained, adamw64, param, grads, rates, *settings, seed=13, expected=expected)


def test_task_6_adamw_first_state():
    params = {"w": normals(14, mx.bfloat16)(3, 4), "b": normals(15)(4)}
    case = "w 3 x 4 in bfloat16, b 4 in float32"
    with noted(case):
        state = adamw.AdamW(0.1).init(params)
    check_state(state, {"m.w": (3, 4), "v.w": (3, 4), "m.b": (4,), "v.b": (4,)}, 0, case)
    for name in state.keys() - {"step"}:
        compare(state[name], np.zeros(state[name].shape), mx.float32, 0.0, f"{case}: the state's {name}", 16)


def check_state(state, shapes, step, case):
    """Check names, shapes and dtypes of a state, and its step."""
    if not isinstance(state, dict):
        fail(Kind.TYPE, f"the state is {type_words(state)}, expected a dict", case)
    fail_if_different("the state has other names", sorted([*shapes, "step"]), sorted(state), case)
    wrong = [name for name in state if type(state[name]) is not mx.array]
    if wrong:
        fail(Kind.TYPE, f"the state's {wrong[0]} is {type_words(state[wrong[0]])}, expected an mx.array", case)
    found = {name: state[name].shape for name in shapes}
    fail_if_different("an array of the state has another shape", shapes, found, case)
    fail_if_different(
        "the step has another shape or dtype", ((), mx.int32), (state["step"].shape, state["step"].dtype), case
    )
    fail_if_different("the step is another number", step, state["step"].item(), case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_6_adamw_next_state(dtype):
    """After three steps: m and v as the formula has them, in float32 for all dtypes."""
    param, grads, _ = inputs(16, dtype, steps=3)
    case = f"{dtype}, param 3 x 4, betas (0.9, 0.999), after three steps, seed 16".removeprefix("mlx.core.")
    with noted(case):
        optimizer = adamw.AdamW(0.1)
        params, state = {"w": param}, optimizer.init({"w": param})
        for i in range(3):
            params, state = one_step(optimizer, params, {"w": grads[i]}, state)
    check_state(state, {"m.w": (3, 4), "v.w": (3, 4)}, 3, case)
    m, v = np.zeros((3, 4)), np.zeros((3, 4))
    for grad in to_float64(grads):
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
    compare(state["m.w"], m, mx.float32, 1e-6, f"{case}: m.w", 12)
    compare(state["v.w"], v, mx.float32, 1e-6 * v.max(), f"{case}: v.w", 12)


def test_task_6_adamw_resumes():
    """Two steps, and two more by a new optimizer from the state, equal four steps."""
    param, grads, _ = inputs(17, steps=4)
    case = "float32, param 3 x 4, two steps and two more by another optimizer, seed 17"
    with noted(case):
        params, state = {"w": param}, adamw.AdamW(0.1, no_decay=lambda name, param: False).init({"w": param})
        for i in range(4):
            optimizer = adamw.AdamW(0.1, no_decay=lambda name, param: False)
            params, state = one_step(optimizer, params, {"w": grads[i]}, state)
    expected = adamw64(to_float64(param), to_float64(grads), [0.1] * 4)
    compare(params["w"], expected, mx.float32, 1e-5, case, 12)


def test_task_6_adamw_changes_nothing_in_place():
    """The caller may keep the old parameters and state: neither the dictionaries nor their arrays change."""
    param, grads, _ = inputs(18, steps=2)
    case = "float32, w 3 x 4, seed 18: the arguments after the second update"
    with noted(case):
        optimizer = adamw.AdamW(0.1)
        params, state = one_step(optimizer, {"w": param}, {"w": grads[0]}, optimizer.init({"w": param}))
        mx.eval(params, state)
        given = {"w": grads[1]}
        before = [{name: to_float64(a) for name, a in each.items()} for each in (params, given, state)]
        mx.eval(one_step(optimizer, params, given, state))
    for what, each, old in zip(("params", "grads", "state"), (params, given, state), before, strict=True):
        fail_if_different(f"the caller's {what} has other names", sorted(old), sorted(each), case)
        for name, array in old.items():
            if not np.array_equal(to_float64(each[name]), array):
                fail(Kind.INPUT_CHANGED, f"the caller's {what}[{name!r}] was changed", case)


def test_task_6_adamw_sweep():
    for n in sweep(R=257, C=4200, T=3):
        param, grads, _ = inputs(n.seed, n.dtype, n.turn((n.R, n.C), (n.C,)), n.T)
        grads = (grads * max(n.spread, 1e-3)).astype(n.dtype)
        agrees(trained, adamw64, param, grads, [n.turn(0.01, 0.1)] * n.T, (0.9, n.turn(0.999, 0.95)), seed=n)


@property_test
@given(scale=st.sampled_from([0.01, 1.0, 64.0]), seed=st.integers(0, 99))
def test_task_6_adamw_ignores_the_scale(scale, seed):
    """Gradients times a constant give the same step: without decay, the first one is the rate, in each element."""
    param, grads, _ = inputs(seed, steps=1)
    case = f"float32, param 3 x 4, one gradient times {scale}, rate 0.1, decay 0, seed {seed}"
    with noted(case):
        after = trained(param, grads * scale, [0.1], (0.9, 0.999), 1e-8, 0.0)
    expected = to_float64(param) - 0.1 * np.sign(to_float64(grads[0]))
    compare(after, expected, mx.float32, 1e-3, case, param.size)


def test_task_6_adamw_refuses_other_names():
    optimizer = adamw.AdamW(0.1)
    params = {"first": mx.ones((2, 3)), "second": mx.ones(3)}
    state = optimizer.init(params)
    with raises_value_error("params first and second, grads first", "second"):
        mx.eval(optimizer.update(params, {"first": mx.ones((2, 3))}, state))
    with raises_value_error("params first and second, grads first, second and third", "third"):
        mx.eval(optimizer.update(params, params | {"third": mx.ones(3)}, state))


@pytest.mark.parametrize("shape", [(3, 2), (3,), (1, 3), ()], ids=str)
def test_task_6_adamw_refuses_other_shapes(shape):
    optimizer = adamw.AdamW(0.1)
    state = optimizer.init({"first": mx.ones((2, 3))})
    with raises_value_error(f"first 2 x 3, its gradient {shape}", "first", str(shape)):
        mx.eval(optimizer.update({"first": mx.ones((2, 3))}, {"first": mx.ones(shape)}, state))


@pytest.mark.parametrize(
    ("settings", "number"),
    [
        ({"betas": (1.0, 0.9)}, "1.0"),
        ({"betas": (0.9, -0.1)}, "-0.1"),
        ({"eps": 0.0}, "0.0"),
        ({"learning_rate": -0.5}, "-0.5"),
        ({"weight_decay": -0.25}, "-0.25"),
    ],
    ids=str,
)
def test_task_6_adamw_refuses_other_settings(settings, number):
    with raises_value_error(f"AdamW with {settings}", number):
        adamw.AdamW(**{"learning_rate": 0.1, **settings})
