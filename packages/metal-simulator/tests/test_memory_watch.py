"""memory_watch runs a C++ function on buffers, and reports the line of an invalid access."""

import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from memory_watch.building import Source, build
from memory_watch.library import Fresh, Library
from metal_simulator import compiling

TEXT = """extern "C" void scale(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""


def call(text: str, tmp_path: Path, checked: bool):
    """The result for six numbers, and the fault."""
    source = Source(text, tmp_path / "scale.cpp")
    command = shlex.split(os.environ.get("METAL_SIMULATOR_CXX", "")) or compiling._command()
    library = Library(build(source, command, compiling.folder(), checked), source)
    (y,), fault = library.call("scale", [np.arange(6, dtype="f"), Fresh((6,)), 6])
    return y.tolist(), fault


@pytest.mark.parametrize("checked", [True, False])
def test_a_right_function_has_no_fault(tmp_path: Path, checked: bool):
    assert call(TEXT, tmp_path, checked) == ([0, 2, 4, 6, 8, 10], None)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("i < n", "i <= n", "reads x[6], and x has 6 elements"),
        (
            "i < n; ++i) y[i] = 2 * x[i]",
            "i <= n; ++i) { float v = x[i]; if (i < n) y[i] = 2 * v; }",
            "reads x[6], and x has 6 elements",
        ),
        ("y[i] =", "((float*)x)[i] =", "writes x[0], which is an input"),
        ("y[i] =", "y[i] +=", "reads y[0] before anything has been written there"),
        ("i = 0", "i = 1", "scale leaves y[0] unwritten"),
    ],
)
def test_a_fault_has_a_line(tmp_path: Path, old: str, new: str, what: str):
    _, fault = call(TEXT.replace(old, new), tmp_path, True)
    assert fault.what == what
    assert [line.number for line in fault.lines] == ([2] if "unwritten" not in what else [])
