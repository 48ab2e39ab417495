"""`pytest --metal-simulator` runs the tests of a project that knows nothing of the simulator."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
import mlx.core as mx
import pytest

KERNEL = mx.fast.metal_kernel("k", ["x"], ["out"], "uint i = thread_position_in_grid.x; out[i] = x[i + SHIFT];")

@pytest.mark.skipif(not mx.metal.is_available(), reason="needs Metal")
@pytest.mark.parametrize("shift", [0, 1])
def test_copy(shift):
    launch = {"grid": (4, 1, 1), "threadgroup": (4, 1, 1), "template": [("SHIFT", shift)]}
    made = KERNEL(inputs=[mx.arange(4)], output_shapes=[(4,)], output_dtypes=[mx.int32], **launch)
    assert made[0][0] == shift
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="with Metal the kernels run without the simulator too")
@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ([], "2 skipped"),
        (["--metal-simulator"], "1 failed, 1 passed"),
        (["--metal-simulator", "--on-kernel-fault", "report"], "2 passed, 1 warning"),
        (["--metal-simulator", "--on-kernel-fault", "ignore"], "2 passed"),
    ],
)
def test_options(tmp_path: Path, options: list[str], summary: str):
    (tmp_path / "test_project.py").write_text(PROJECT, encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "metal_simulator.pytest_plugin",
        "-q",
        "--rootdir",
        tmp_path,
    ]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    assert f"\n{summary} in " in done.stdout
    assert ("reads x[4], but x has 4 elements" in done.stdout) == (bool(options) and "ignore" not in options)
