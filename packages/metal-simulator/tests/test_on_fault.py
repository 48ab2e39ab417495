"""A fault is raised, reported or ignored; after a reported one the run continues where it can."""

import warnings
from typing import Any

import mlx.core as mx
import pytest

from metal_simulator import FaultWarning, Kernel, KernelFault, Kind, metal_kernel, patched

SOURCE = """
    threadgroup float partial[64];
    uint t = thread_position_in_threadgroup.x;
    partial[t] = x[t + 1];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint step = 32; step > 0; step /= 2) {
        if (t < step) partial[t] += partial[t + step];
    }
    if (t == 0) out[0] = partial[0];
    if (t < 3) threadgroup_barrier(mem_flags::mem_threadgroup);
    out[1] = float(more[0] / (more[1] - 4));
"""


def run(kernel: Kernel) -> list[mx.array]:
    return kernel(
        inputs=[mx.ones((64,)), mx.array([4, 5])],
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(2,), (3,)],
        output_dtypes=[mx.float32, mx.int32],
    )


def kernel(source: str = SOURCE, **options) -> Kernel:
    return metal_kernel("total", ["x", "more"], ["out", "unwritten"], source, **options)


def test_all_faults_are_collected():
    reporting = kernel(on_fault="report")
    with pytest.warns(FaultWarning, match="total") as warned:
        out, _ = run(reporting)
    found = [(fault.kind, fault.line, fault.buffer) for fault in reporting.faults]
    assert found == [
        (Kind.OUT_OF_BOUNDS, 4, "x"),
        (Kind.RACE, 7, "partial"),
        (Kind.DIVERGENT_BARRIER, 10, None),
        (Kind.OUTPUT_UNWRITTEN, None, "unwritten"),
    ]
    assert [str(one.message) for one in warned] == [str(fault) for fault in reporting.faults]
    assert out[1].item() == 4


def test_a_run_ends_at_a_fault_that_would_end_the_process():
    reporting = kernel(SOURCE.replace("- 4", "- 5"), on_fault="report")
    with pytest.warns(FaultWarning, match="total"):
        run(reporting)
    assert [fault.kind for fault in reporting.faults][-1] == Kind.DIVISION_BY_ZERO


def test_ignored_faults_are_silent():
    ignoring = kernel(on_fault="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, _ = run(ignoring)
    assert ignoring.faults == []
    assert out[1].item() == 4


def test_the_first_is_raised_by_default():
    with pytest.raises(KernelFault) as fault:
        run(kernel())
    assert fault.value.kind == Kind.OUT_OF_BOUNDS


def test_the_words_are_named():
    with pytest.raises(ValueError, match="one of 'raise', 'report', 'ignore', not 'warn'"):
        kernel(on_fault="warn")


def test_patched_mlx_runs_on_the_simulator():
    original, available = mx.fast.metal_kernel, mx.metal.is_available()
    double = """uint i = thread_position_in_grid.x; out[i] = 2 * x[i];"""

    @mx.compile
    def twice(x: mx.array) -> mx.array:
        made: Any = mx.fast.metal_kernel("twice", ["x"], ["out"], double)
        launch = {"grid": (x.size, 1, 1), "threadgroup": (32, 1, 1)}
        outputs: list[mx.array] = made(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], **launch)
        return outputs[0]

    with patched():
        assert mx.metal.is_available()
        assert (twice(mx.arange(5)) + 1).tolist() == [1, 3, 5, 7, 9]
        with patched("ignore"):
            run(kernel())
        with pytest.raises(KernelFault):
            run(kernel())
    assert (mx.fast.metal_kernel, mx.metal.is_available()) == (original, available)
