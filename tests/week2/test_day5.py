"""Week 2, day 5: kernels in Metal, one by one.

The oracles are the float64 formula, MLX's operator and PyTorch. On every machine the simulator runs the kernels,
reports faults with their line, and counts memory traffic; where there is a GPU, they run on it too.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from tests.week1.formulas import rms_norm64, rope64

from tiny_llm.metal import ops
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, fail
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import costs_at_most
from tiny_llm_course.testkit.marks import on
from tiny_llm_course.testkit.rounding import EPSILON, exact, in_float32, rounding, to_float64
from tiny_llm_course.testkit.sizes import sweep


def add_scaled64(x, y, scale, *, r=exact):
    wide = in_float32(r)
    return r(wide(x + wide(scale * y)))


# Task 1, elementwise


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7,), (2, 3, 5), (3, 700)], ids=str)
def test_task_1_add_scaled_formula(shape, dtype):
    draw = normals(1, dtype)
    agrees(ops.add_scaled, add_scaled64, draw(*shape), draw(*shape), -0.3, seed=1)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 1023, 1024, 1025])
def test_task_1_add_scaled_sizes(size):
    """Fewer elements than threads, as many, one more; and as many as four per thread."""
    draw = normals(2)
    agrees(ops.add_scaled, add_scaled64, draw(size), draw(size), 2.5, seed=2)


def test_task_1_add_scaled_narrow():
    """Values whose intermediate results overflow float16."""
    x = mx.array([60000, -60000], mx.float16)
    agrees(ops.add_scaled, add_scaled64, x, -x, 1.5, seed=3)


def test_task_1_add_scaled_large_scale():
    """A scale that float16 cannot represent."""
    draw = normals(8, mx.float16)
    agrees(ops.add_scaled, add_scaled64, draw(20), draw(20, spread=0.1), 1e5, seed=8)


def test_task_1_add_scaled_as_mlx():
    draw = normals(4)
    x, y = draw(3, 400), draw(3, 400)
    agrees(ops.add_scaled, add_scaled64, x, y, 0.7, seed=4, expected=to_float64(x + 0.7 * y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_add_scaled_as_pytorch(pytorch, dtype):
    draw = normals(5, dtype)
    x, y = draw(2, 300), draw(2, 300)
    by_torch = pytorch(lambda torch, x, y: torch.add(x.float(), y.float(), alpha=0.7).to(x.dtype), x, y)
    agrees(ops.add_scaled, add_scaled64, x, y, 0.7, seed=5, expected=by_torch)


def test_task_1_add_scaled_moves():
    """Both inputs and the output move once, in whole lines of memory."""
    x = normals(6)(4096)
    costs_at_most(ops.add_scaled, x, x, 0.5, seed=6, moved=3 * x.nbytes)


@on("gpu")
def test_task_1_add_scaled_on_the_gpu():
    draw = normals(7)
    agrees(ops.add_scaled, add_scaled64, draw(3, 1111), draw(3, 1111), -0.3, seed=7)


def test_task_1_add_scaled_sweep():
    for n in sweep(N=3, L=9, E=4200):
        draw = normals(n.seed, n.dtype)
        shape = n.N, n.L, n.E
        spread = min(n.spread, 30.0)
        agrees(ops.add_scaled, add_scaled64, draw(*shape, spread=spread), draw(*shape), n.turn(0.5, -2.0, 0.0), seed=n)


# Task 2, RMSNorm


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [5, 32, 100, 300])
def test_task_2_rms_norm_formula(size, dtype):
    """A partial SIMD-group, a whole one, several elements per thread, and several SIMD-groups."""
    draw = normals(1, dtype)
    agrees(ops.rms_norm, rms_norm64, draw(2, 3, size, spread=2.0), draw(size), 1e-6, seed=1)


@pytest.mark.parametrize("size", [1, 31, 33, 127, 128, 129, 160, 1023, 1024, 1025, 2500])
def test_task_2_rms_norm_sizes(size):
    draw = normals(2)
    agrees(ops.rms_norm, rms_norm64, draw(2, size), draw(size), 1e-5, seed=2)


def test_task_2_rms_norm_one_row():
    draw = normals(3)
    agrees(ops.rms_norm, rms_norm64, draw(300), draw(300), 1e-5, seed=3)


@pytest.mark.parametrize("size", [6, 200])
def test_task_2_rms_norm_uneven_rows(size):
    """Each row has its own mean square."""
    draw = normals(4)
    x = draw(3, size) * mx.array([[1.0], [16.0], [0.25]])
    agrees(ops.rms_norm, rms_norm64, x, draw(size), 1e-6, seed=4)


@pytest.mark.parametrize("eps", [0.0, 0.3, 2.0])
def test_task_2_rms_norm_eps(eps):
    draw = normals(5)
    agrees(ops.rms_norm, rms_norm64, draw(2, 50), draw(50), eps, seed=5)


def test_task_2_rms_norm_large_numbers():
    """float16 can represent the values, but not their squares."""
    draw = normals(6, mx.float16)
    agrees(ops.rms_norm, rms_norm64, draw(3, 40, spread=400.0), draw(40), 1e-6, seed=6)


def test_task_2_rms_norm_tiny_eps():
    """float16 rounds an eps of 1e-8 to 0, and here it is half of what is under the root."""
    draw = normals(13, mx.float16)
    agrees(ops.rms_norm, rms_norm64, draw(3, 40, spread=1e-4), draw(40), 1e-8, seed=13)


def test_task_2_rms_norm_root_in_float32():
    """If the root of the mean square is rounded to float16, all elements of a row are off by the same factor."""
    draw = normals(12, mx.float16)
    x, weight = draw(4, 2500), draw(2500)
    case = "float16, x 4 x 2,500, weight 2,500, eps 1e-6"
    with noted(case):
        actual = to_float64(ops.rms_norm(x, weight, 1e-6))
    expected = rms_norm64(to_float64(x), to_float64(weight), 1e-6)
    factors = (actual * expected).sum(axis=-1) / (expected * expected).sum(axis=-1)
    off = np.abs(factors - 1).max()
    if not off < 0.06 * EPSILON[mx.float16]:
        fail(
            Kind.VALUES,
            "all elements of a row are off by the same factor",
            case,
            f"got       a factor of 1 +- {off:.1e}",
        )


def test_task_2_rms_norm_as_mlx():
    draw = normals(7)
    x, weight = draw(4, 520), draw(520)
    expected = to_float64(mx.fast.rms_norm(x, weight, 1e-5))
    agrees(ops.rms_norm, rms_norm64, x, weight, 1e-5, seed=7, expected=expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_rms_norm_as_pytorch(pytorch, dtype):
    draw = normals(8, dtype)
    x, weight = draw(3, 200), draw(200)
    by_torch = pytorch(lambda torch, x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-5), x, weight)
    agrees(ops.rms_norm, rms_norm64, x, weight, 1e-5, seed=8, expected=by_torch)


@pytest.mark.parametrize("size", [64, 1024])
def test_task_2_rms_norm_moves(size):
    """Per row, x moves at most twice, the weight and the output once."""
    draw = normals(9)
    x, weight = draw(4, size), draw(size)
    costs_at_most(ops.rms_norm, x, weight, 1e-5, seed=9, moved=4 * x.nbytes)


def test_task_2_rms_norm_waits():
    """A long row needs no more barriers than a short one: a tree reduction of 256 sums has 8 steps."""
    draw = normals(10)
    x, weight = draw(2, 3000), draw(3000)
    costs_at_most(ops.rms_norm, x, weight, 1e-5, seed=10, bank_conflicts=0, barriers=9 * len(x))


@on("gpu")
def test_task_2_rms_norm_on_the_gpu():
    draw = normals(10)
    agrees(ops.rms_norm, rms_norm64, draw(7, 1111), draw(1111), 1e-5, seed=10)


def test_task_2_rms_norm_sweep():
    for n in sweep(N=9, E=4200):
        draw = normals(n.seed, n.dtype)
        agrees(ops.rms_norm, rms_norm64, draw(n.N, n.E, spread=n.spread), draw(n.E), n.turn(1e-6, 0.1), seed=n)


# Task 3, RoPE


def rotated64(x, offset, base, *, r=exact):
    return rope64(x, [range(offset, offset + x.shape[1])] * len(x), base, r=r)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 7])
def test_task_3_rope_formula(offset, dtype):
    agrees(ops.rope, rotated64, normals(1, dtype)(2, 3, 5, 8), offset, 1000.0, seed=1)


@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (3, 1, 2, 6), (2, 16, 4, 4), (2, 4, 16, 4), (3, 5, 7, 10)], ids=str)
def test_task_3_rope_shapes(shape):
    """Fewer pairs than threads, as many, and more; axes of size 1."""
    agrees(ops.rope, rotated64, normals(2)(*shape), 3, 10000.0, seed=2)


def test_task_3_rope_as_mlx():
    x = normals(3)(2, 9, 3, 16)
    by_mlx = mx.fast.rope(x.swapaxes(1, 2), 16, traditional=False, base=500.0, scale=1.0, offset=4).swapaxes(1, 2)
    agrees(ops.rope, rotated64, x, 4, 500.0, seed=3, expected=to_float64(by_mlx))


def test_task_3_rope_as_pytorch(pytorch):
    def by_hand(torch, x):
        pairs = x.shape[-1] // 2
        angles = torch.outer(torch.arange(5) + 2, 100.0 ** (-torch.arange(pairs) / pairs))[None, :, None]
        first, second = x[..., :pairs], x[..., pairs:]
        rotated = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
        return torch.cat(rotated, dim=-1)

    x = normals(4)(2, 5, 3, 6)
    agrees(ops.rope, rotated64, x, 2, 100.0, seed=4, expected=pytorch(by_hand, x))


def test_task_3_rope_moves():
    """x and the output move once; the angles are computed, not loaded."""
    x = normals(5)(2, 8, 4, 64)
    costs_at_most(ops.rope, x, 0, 10000.0, seed=5, moved=2 * x.nbytes)


@on("gpu")
def test_task_3_rope_on_the_gpu():
    agrees(ops.rope, rotated64, normals(6)(2, 9, 3, 16), 5, 10000.0, seed=6)


def test_task_3_rope_sweep():
    for n in sweep(N=5, L=300, H=9, P=40):
        x = normals(n.seed, n.dtype)(n.N, n.L, n.H, 2 * n.P, spread=n.spread)
        agrees(ops.rope, rotated64, x, n.turn(0, 3, 100), n.turn(10000.0, 500.0), seed=n)


# Task 4, SwiGLU


def swiglu64(x, *, r=exact):
    wide, size = in_float32(r), x.shape[-1] // 2
    gate, up = x[..., :size], x[..., size:]
    return r(wide(wide(gate * wide(np.exp(-np.logaddexp(0, -gate)))) * up))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(8,), (3, 6), (2, 3, 10)], ids=str)
def test_task_4_swiglu_formula(shape, dtype):
    agrees(ops.swiglu, swiglu64, normals(1, dtype)(*shape), seed=1)


@pytest.mark.parametrize("size", [1, 31, 255, 256, 257, 600])
def test_task_4_swiglu_sizes(size):
    """Fewer columns than threads, as many, one more."""
    agrees(ops.swiglu, swiglu64, normals(2)(3, 2 * size), seed=2)


@pytest.mark.parametrize("gate", [-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4])
def test_task_4_swiglu_large_gates(gate):
    """exp(100) overflows float32."""
    agrees(ops.swiglu, swiglu64, mx.array([[gate, gate, 0.5, -2.0]]), seed=3)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_swiglu_rounds_once(dtype):
    """Float32 steps, then one rounding: an element rounded twice is often not the closest one."""
    x, case = normals(8, dtype)(2, 2048), f"{dtype_word(dtype)}, x 2 x 2048, seed 8"
    with noted(case):
        found = to_float64(ops.swiglu(x))
    share = np.mean(found != rounding(dtype)(swiglu64(to_float64(x))))
    if share > 0.02:
        headline = f"{share:.0%} of the elements are not the closest {dtype_word(dtype)} to the result: rounded twice"
        raise CheckFailed(Finding(Kind.VALUES, headline, ("at most   2%",), case))


def test_task_4_swiglu_as_mlx():
    x = normals(4)(4, 60)
    gate, up = mx.split(x, 2, axis=-1)
    agrees(ops.swiglu, swiglu64, x, seed=4, expected=to_float64(nn.silu(gate) * up))


def test_task_4_swiglu_as_pytorch(pytorch):
    def by_torch(torch, x):
        gate, up = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    x = normals(5)(4, 60)
    agrees(ops.swiglu, swiglu64, x, seed=5, expected=pytorch(by_torch, x))


def test_task_4_swiglu_moves():
    """Gate, up and the output move once."""
    x = normals(6)(4, 1024)
    costs_at_most(ops.swiglu, x, seed=6, moved=3 * x.nbytes // 2)


@on("gpu")
def test_task_4_swiglu_on_the_gpu():
    agrees(ops.swiglu, swiglu64, normals(7)(5, 1000), seed=7)


def test_task_4_swiglu_sweep():
    for n in sweep(N=9, I=2100):
        agrees(ops.swiglu, swiglu64, normals(n.seed, n.dtype)(n.N, 2 * n.I, spread=min(n.spread, 30.0)), seed=n)
