"""The function made of a source is the one that MLX makes: MLX prints it without a GPU, while it exports a function."""

import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from metal_simulator import metal_kernel
from metal_simulator.signature import ATTRIBUTES, TYPES, signature

SHAPES = [(), (1,), (7,), (8,), (2, 4), (3, 2, 2), (0,), (1, 1)]


def mlx_prints(path: Path, capfd: pytest.CaptureFixture[str], made: dict[str, Any], called: dict[str, Any]) -> str:
    def function(a):
        call = {"grid": (8, 1, 1), "threadgroup": (8, 1, 1), "output_shapes": [(8,)], "output_dtypes": [mx.float32]}
        return mx.fast.metal_kernel(**{"name": "k", "output_names": ["out"], **made})(
            **{**call, **called}, verbose=True
        )

    capfd.readouterr()
    mx.export_function(str(path / "kernel.mlxfn"), function, mx.zeros((2,)))
    return capfd.readouterr().out


def ours(made: dict[str, Any], called: dict[str, Any]) -> str:
    header = made.get("header", "")
    text = signature(
        "k",
        made["source"],
        list(zip(made["input_names"], called["inputs"], strict=True)),
        list(zip(made.get("output_names", ["out"]), called.get("output_dtypes", [mx.float32]), strict=True)),
        called.get("template", []),
        made.get("atomic_outputs", False),
    ).metal(made["source"], header)
    return f"Generated source code for `k`:\n```\n{text}\n```"


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "types": (
        {"input_names": [f"a{i}" for i in range(len(TYPES))], "source": "out[0] = 1;"},
        {"inputs": [mx.zeros((9,), dtype) for dtype in TYPES]},
    ),
    "sizes": (
        {
            "input_names": [f"a{i}" for i in range(len(SHAPES))],
            "source": "".join(f"a{i}_shape; a{i}_strides; a{i}_ndim; " for i in range(len(SHAPES))),
        },
        {"inputs": [mx.zeros(shape) for shape in SHAPES]},
    ),
    "names by substring": (
        {"input_names": ["x", "xx"], "source": "int a = xx_shape[0]; int my_thread_position_in_grid_y = 0;"},
        {"inputs": [mx.zeros((9,)), mx.zeros((9, 2))]},
    ),
    "attributes": ({"input_names": [], "source": " ".join(ATTRIBUTES)}, {"inputs": []}),
    "template": (
        {"input_names": ["x"], "source": "out[0] = T(N);", "header": "#define ONE 1\n"},
        {
            "inputs": [mx.zeros((9,), mx.bfloat16)],
            "template": [("T", mx.bfloat16), ("N", -3), ("F", True), ("G", False), ("U", mx.uint8)],
        },
    ),
    "atomic": (
        {
            "input_names": ["x"],
            "source": "x_ndim thread_position_in_grid",
            "output_names": ["a", "b"],
            "atomic_outputs": True,
        },
        {"inputs": [mx.zeros((9,))], "output_dtypes": [mx.uint32, mx.float32], "output_shapes": [(1,), (2,)]},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_is_mlx_own(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    made, called = CALLS[name]
    printed = mlx_prints(tmp_path, capfd, made, called)
    assert "custom_kernel_k" in printed
    assert ours(made, called).split() == printed.split()


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no outputs": ({"output_names": []}, {"output_shapes": [], "output_dtypes": []}),
    "too few inputs": ({}, {"inputs": []}),
    "too many shapes": ({}, {"output_shapes": [(8,), (8,)]}),
    "too many types": ({}, {"output_dtypes": [mx.float32, mx.float32]}),
    "a float in the template": ({}, {"template": [("N", 1.5)]}),
    "a device that is no GPU": ({}, {"stream": mx.cpu}),
    "an unknown mode": ({"compile_options": {"math_mode": "quick"}}, {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_in_mlx_words(name: str, tmp_path: Path):
    made, called = REFUSED[name]
    call: dict[str, Any] = {"inputs": [mx.zeros((8,))], "grid": (8, 1, 1), "threadgroup": (8, 1, 1)}
    call |= {"output_shapes": [(8,)], "output_dtypes": [mx.float32], **called}
    make: dict[str, Any] = {
        "name": "k",
        "input_names": ["x"],
        "output_names": ["out"],
        "source": "out[0] = x[0];",
        **made,
    }

    def function(a):
        return mx.fast.metal_kernel(**make)(**call)

    with pytest.raises(ValueError, match="metal_kernel") as theirs:
        mx.export_function(str(tmp_path / "kernel.mlxfn"), function, mx.zeros((2,)))
    with pytest.raises(ValueError, match=re.escape(str(theirs.value).strip())):
        metal_kernel(**make)(**call)
