"""The lists of forbidden calls are complete: by group, and against every function of MLX with a task's result."""

import itertools
import re
from contextlib import suppress

import mlx.core as mx
import mlx.nn as nn
import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading.traps import each_of
from tiny_llm_course.testkit.variants import load_variants

PRODUCTS = ("dequantize", "quantized_matmul", "gather_qmm", "qqmm", "gather_qqmm")
GROUPS = {
    "losses": set(each_of(["mlx.nn.losses.*"])),
    "quantized": {f"mlx.core.{name}" for name in PRODUCTS},
    "derivatives": {
        *(f"mlx.core.{name}" for name in ("grad", "value_and_grad", "vjp", "jvp")),
        "mlx.nn.value_and_grad",
    },
}
# By task: members of a group that it may call, though others of the group are forbidden.
GROUP_ALLOWED = {"2.3.7": GROUPS["quantized"] - {"mlx.core.dequantize"}}  # as_linear is a quantized product
# By task: functions with the task's result on the inputs tried here that it may call, each for a reason.
ALLOWED = {"1.5.1": {"mlx.core.take"}}  # it is an index in square brackets
MODULES = {"mlx.core": mx, "mlx.core.fast": mx.fast, "mlx.core.linalg": mx.linalg, "mlx.nn": nn}
NOT_TRIED = re.compile(
    r"_|as_strided|async|checkpoint|clear|compile|custom|default|disable|enable|eval|export|from_dlpack|import|load"
    r"|.*kernel|new_|print|reset|save|set_|stream|synchronize|average_gradients|fully_shard|quantize$"
)
OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"axis": -1},
    {"axis": 0},
    {"precise": True, "axis": -1},
    {"mask": "causal"},
)
CALLS = 3


def functions():
    """The functions to try, by their full names."""
    losses = {"mlx.nn.losses": nn.losses}
    return {
        f"{name}.{key}": value
        for name, module in (MODULES | losses).items()
        for key, value in vars(module).items()
        if callable(value) and not isinstance(value, type) and not NOT_TRIED.match(key)
    }


def recorded(task):
    """Some calls that the task's probes make: the arguments and the result, an array."""
    known, calls = load_variants(task), []
    solution = known.solution.program

    def noting(program, before):
        def call(*args, **kwargs):
            made = program(*args, **kwargs)
            if isinstance(made, mx.array) and made.size > 1:
                calls.append(([*before, *args, *kwargs.values()], made))
            elif isinstance(program, type):
                return noting(made, [*before, *args, *kwargs.values()])
            return made

        return call

    for probe in known.probes:
        with suppress(Exception):
            probe.run(noting(solution, []))
        if len(calls) >= CALLS:
            break
    arrays = [([arg for arg in args if isinstance(arg, mx.array)], args, made) for args, made in calls[:CALLS]]
    return [call for call in arrays if call[0] and not any(equal(each, call[2]) for each in call[0])]


def equal(one, other):
    """Whether something is an array of the same shape and nearly the same numbers."""
    if not isinstance(one, mx.array) or one.shape != other.shape or mx.issubdtype(one.dtype, mx.complexfloating):
        return False
    return bool(mx.allclose(one.astype(mx.float32), other.astype(mx.float32), 1e-3, 1e-4, equal_nan=True))


def attempts(arrays, args):
    """Ways to pass what a task's program was given."""
    scale = {"scale": arrays[0].shape[-1] ** -0.5} if arrays[0].ndim else {}
    orders = [args, *itertools.permutations(arrays)] if len(arrays) < 4 else [args, arrays]
    return [(order, options | more) for order in orders for options in OPTIONS for more in ({}, scale)]


def gives(function, calls):
    """Whether a function gives the results of all calls, in one way of passing the arguments."""
    ways = zip(*(attempts(arrays, args) for arrays, args, _ in calls), strict=False)
    return any(all(attempt(function, *passed, call[2]) for passed, call in zip(w, calls, strict=True)) for w in ways)


def attempt(function, args, options, made):
    with suppress(Exception):
        return equal(function(*args, **options), made)
    return False


@pytest.mark.parametrize("task", load_course().tasks(), ids=lambda task: task.id)
def test_a_group_is_forbidden_as_a_whole(task):
    forbidden = set(each_of(task.forbidden))
    for group in GROUPS.values():
        if forbidden & group:
            assert group - forbidden <= GROUP_ALLOWED.get(task.id, set())


def test_the_groups_are_complete():
    named = {f"mlx.core.{name}" for name in dir(mx) if re.search(r"q.*mm|quantize|^v?jp|grad", name)}
    known = set().union(*GROUPS.values()) | {"mlx.core.quantize", "mlx.core.stop_gradient"}
    assert named <= known


@pytest.mark.maintainers
@pytest.mark.parametrize(
    "task", [t for t in load_course().tasks() if t.target.is_python and not t.judges], ids=lambda task: task.id
)
def test_no_function_of_mlx_does_the_work(task):
    if not (calls := recorded(task)):
        return  # its results are not arrays
    found = {name for name, function in functions().items() if gives(function, calls)}
    assert found <= set(each_of(task.forbidden)) | ALLOWED.get(task.id, set())
