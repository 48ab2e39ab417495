"""Numbers and vectors are rounded, written and read as MLX and Metal have it."""

import mlx.core as mx
import numpy as np
import pytest

from .running import run


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_halves_are_rounded_as_mlx_rounds_them(dtype: mx.Dtype):
    x = mx.array(np.random.default_rng(1).normal(size=(2, 64)).astype("f")).astype(dtype)
    source = """
        uint i = thread_position_in_grid.x;
        T a = x[i], b = x[64 + i];
        T product = a * b; T sum = a + b; T ratio = a / b; T root = metal::sqrt(metal::abs(a));
        out[i] = product; out[64 + i] = sum; out[128 + i] = ratio; out[192 + i] = root;
    """
    (out,) = run(source, [((4, 64), dtype)], {"x": x}, (64, 1, 1), template=[("T", dtype)])
    a, b = x[0], x[1]
    wide = [a.astype(mx.float32), b.astype(mx.float32)]
    wanted = [wide[0] * wide[1], wide[0] + wide[1], wide[0] / wide[1], mx.sqrt(mx.abs(wide[0]))]
    for got, one in zip(out, wanted, strict=True):
        assert got.tolist() == one.astype(dtype).tolist()


def test_vectors():
    source = """
        float4 v = float4(1, 2, 3, 4), w = 2;
        v.xy = v.zw; v.w *= 2; v += float4(0, 1, 0, 1) * w;
        for (int i = 0; i < 4; i++) out[i] = v[i];
        out[4] = dot(v, w); out[5] = float3(v.xyz).z; out[6] = length(float2(3, 4)); out[7] = select(w, v, v > w).z;
        out[8] = float(any(v == 3.0f)) + 2 * float(all(v > 3.0f));
        out[9] = float(sizeof(float3) + sizeof(packed_float3));
        uchar4 b = as_type<uchar4>(0x04030201u); out[10] = b.x + 10 * b.w;
        out[11] = clamp(v, float4(3.5), float4(5)).y;
        out[12] = fma(2.0f, 3.0f, 4.0f) + mix(0.0f, 8.0f, 0.25f); out[13] = half4(v).z;
        out[14] = ceildiv(7, 2); out[15] = 0;
    """
    (out,) = run(source, [((16,), mx.float32)], None, (1, 1, 1))
    assert out.tolist() == [3, 6, 3, 10, 44, 3, 5, 3, 1, 28, 41, 5, 12, 3, 4, 0]


def test_constants_are_floats_and_tables_can_be_read():
    header = "constant float table[3] = {0.1, 1e-1, .1};"
    source = "out[0] = table[0] == table[1] && table[1] == table[2] && sizeof(0.5) == 4;"
    (out,) = run(source, [((1,), mx.bool_)], None, (1, 1, 1), header=header)
    assert out.tolist() == [True]
