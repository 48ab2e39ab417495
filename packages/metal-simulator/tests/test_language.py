"""Metal's constants and matrices, its fast math macro, and MLX's own headers."""

import math
from typing import Any

import mlx.core as mx
import pytest

from metal_simulator import metal_kernel
from metal_simulator.includes import SHIPPED

from .running import run

CONSTANTS = {
    "M_PI_F": math.pi,
    "M_2_SQRTPI_F": 2 / math.sqrt(math.pi),
    "M_LOG2E_F": math.log2(math.e),
    "M_SQRT1_2_F": math.sqrt(0.5),
    "float(M_1_PI_H)": 1 / math.pi,
    "MAXFLOAT": 3.4028234663852886e38,
    "float(HALF_MAX)": 65504,
    "-INFINITY": -math.inf,
    "float(INT_MAX)": 2**31,
    "float(__METAL_VERSION__ >= 300)": 1,
}


def test_constants():
    source = "".join(f"out[{i}] = {name};\n" for i, name in enumerate(CONSTANTS))
    (out,) = run(source, [((len(CONSTANTS),), mx.float32)], None, (1, 1, 1))
    assert out.tolist() == pytest.approx(list(CONSTANTS.values()), rel=3e-4)


def test_matrices():
    source = """
        float2x3 a = float2x3(1, 2, 3, 4, 5, 6);
        float3x2 b = float3x2(float2(1, 0), float2(2, 1), float2(0, 3));
        float3x3 p = a * b;
        for (int c = 0; c < 3; ++c) for (int r = 0; r < 3; ++r) out[3 * c + r] = p[c][r];
        out[9] = (a * float2(1, 2)).z;
        out[10] = (float3(1, 1, 1) * a).y;
        out[11] = transpose(a)[2].y;
        out[12] = determinant(float4x4(2));
        out[13] = determinant(float3x3(1, 2, 3, 0, 1, 4, 5, 6, 0));
        half4x4 m = half4x4(1); m *= 2; m[1].z = 5; m += half4x4(1.0);
        out[14] = m[1].z + m[2].z;
        out[15] = (m - m == half4x4(0)) && sizeof(float4x3) == 64;
    """
    (out,) = run(source, [((16,), mx.float32)], None, (1, 1, 1))
    assert out.tolist() == [1, 2, 3, 6, 9, 12, 12, 15, 18, 15, 15, 6, 16, 1, 8, 1]


@pytest.mark.parametrize(("options", "fast"), [(None, 0), ({"math_mode": "relaxed"}, 0), ({"math_mode": "fast"}, 1)])
def test_fast_math_is_told_to_the_kernel(options, fast: int):
    source = "#ifdef __FAST_MATH__\nout[0] = 1;\n#else\nout[0] = 0;\n#endif\n"
    kernel = metal_kernel("k", [], ["out"], source, compile_options=options)
    launch: dict[str, Any] = {
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
        "output_shapes": [(1,)],
        "output_dtypes": [mx.int32],
    }
    assert kernel(inputs=[], **launch)[0].item() == fast


def test_headers_of_mlx():
    names = [
        "utils.h",
        "atomic.h",
        "binary_ops.h",
        "unary_ops.h",
        "reduce_utils.h",
        "steel/gemm/gemm.h",
        "quantized.h",
        "sdpa_vector.h",
        "softmax.h",
    ]
    files = [f"mlx/backend/metal/kernels/{name}" for name in names]
    if not any(all((folder / file).is_file() for file in files) for folder in SHIPPED):
        pytest.skip("this version of MLX ships other headers")
    header = "".join(f'#include "{file}"\n' for file in files)
    source = "out[0] = ceildiv(7, 2) + Limits<int>::max % 2 + elem_to_loc(5, x_shape, x_strides, x_ndim);"
    (out,) = run(source, [((1,), mx.int32)], {"x": mx.ones((3, 4))}, (1, 1, 1), header=header)
    assert out.tolist() == [10]


def test_complex_numbers():
    source = """
        threadgroup complex64_t shared[32];
        uint i = thread_position_in_grid.x;
        shared[i] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = 1.0f + shared[31 - i] * complex64_t(0, 1);
    """
    (out,) = run(source, [((32,), mx.complex64)], {"x": mx.arange(32).astype(mx.complex64)})
    assert out.tolist() == [1 + 1j * (31 - i) for i in range(32)]


def test_a_comment_declares_nothing():
    (out,) = run("// of a threadgroup\nint a; a = 3; /* threadgroup */ int b = 4; out[0] = a + b;", [((1,), mx.int32)])
    assert out.tolist() == [7]
