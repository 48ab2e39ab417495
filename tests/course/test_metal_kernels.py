"""Kernels in Metal: what a learner is told of one that is wrong, by its line; what it costs; the two GPUs' words."""

import shutil
import subprocess

import pytest
from tests.course.metal_course import SOLVED, STUB, run, write_course

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading.build import build_for
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs import launches
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.marks import needs

pytestmark = needs("simulator")
FILE = "src/tiny_llm/metal/sums.metal"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose compiled kernels all courses share."""
    return tmp_path_factory.mktemp("metal") / "course"


@pytest.fixture
def course(folder):
    """Writes the course anew, with a kernel of the learner's, and runs commands on it."""

    def write_and_run(body, *commands, **environment):
        for file in (folder / ".tiny-llm").glob("*.json"):
            file.unlink()
        return run(write_course(folder, body), *commands, **environment)

    return write_and_run


def test_the_solution_passes_and_a_stub_is_not_started(course):
    (status, text), (with_stub, stub) = course(STUB, "test --solution", "test 1.1.1")
    assert (status, with_stub) == (0, 1)
    assert "✓ 1.1.1 Sums" in text
    assert "needs Metal or CUDA" in text
    assert "○ 1.1.1 Sums: not started\n" in stub


# Of the solution's lines one that is another, and what is said of it: the body begins at line 4.
FAULTS = {
    ("i < size;", "i <= size;"): "8 reads x[192], but x has 192 elements",
    ("t % 32 == 0", "t == 0"): "13 reads sums[1], to which nothing has been written",
    ("if (t == 0) out", "if (t == 1) more"): "13 does not compile: 'more' was not declared in this scope",
    ("i += 64", "i += 0"): "7 is in a loop that does not end",
    ("float sum = 0;", "if (t > 40) return;\nfloat sum = 0;"): "13 is a barrier at which 41 threads of a threadgroup",
    ("if (t == 0) out", "if (row) out"): "13 writes out, but 1 of 2 elements are not written: the first is out[0]",
    ("threadgroup_barrier", "simdgroup_barrier"): "11 writes sums[1], which thread (0, 0, 0) reads at line 13: a race",
}


@pytest.mark.parametrize(("change", "said"), FAULTS.items(), ids=[new for _, new in FAULTS])
def test_a_fault_is_told_with_its_line(course, change, said):
    ((status, text),) = course(SOLVED.replace(*change), "test 1.1.1")
    assert status == 1
    assert said in text.split(f"{FILE}:", 1)[1]


def test_a_fault_is_told_with_case_thread_and_code(course):
    ((_, text),) = course(SOLVED.replace("sums[t / 32] = sum", "sums[0] = sum"), "test 1.1.1")
    assert f"{FILE}:11 writes sums[0], which thread (0, 0, 0) writes at line 11: a race" in text
    assert "      the other thread is at src/tiny_llm/metal/sums.metal:11  if (t % 32 == 0) sums[0] = sum;\n" in text
    assert "      thread (32, 0, 0) of threadgroup (0, 0, 0)\n" in text
    assert "      case      float32, x 2 x 96, seed 1\n" in text


def test_a_mistake_is_named(course):
    ((_, text),) = course(SOLVED.replace("x[row + i]", "x[row + i] * x[row + i]"), "test 1.1.1")
    assert "    Your output equals what you get when it adds squares.\n    Of what?\n" in text


def test_what_a_kernel_costs_is_told(course):
    far = SOLVED.replace("x[row + i];", "x[row + i * 17 % size];")
    ((_, text),) = course(far, "test 1.1.1")
    assert "    your kernel moves 1.8 times the bytes that it needs to: 1,152, where 640 are enough\n" in text


def test_the_simulator_is_compiled_before_a_tasks_time_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "KEPT", tmp_path)
    assert build_for([load_course().task("2.5.1")], [SOLUTION]) == {}
    assert {file.name.partition("-")[0] for file in tmp_path.iterdir()} >= {"headers", "runtime"}


def test_a_compiler_that_cannot_compile_it_is_told(course):
    ((status, text),) = course(SOLVED, "test 1.1.1", CXX=shutil.which("false"))
    assert status == 0
    assert "- 1.1.1 Sums: not run here: needs " in text


def test_dev_check_proves_known_kernels(course):
    ((_, text),) = course(STUB, "dev check 1")
    assert "3 fail on the stubs, 3 pass on the solution; 2 wrong programs: 2 caught, 2 named" in text


# What MLX writes around a body for CUDA, with its types; then the prelude's part stands as MLX puts it.
FRAME = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
PRELUDE
struct Shape { int at[8]; __device__ int operator[](int i) const { return at[i]; } };
__global__ void kernel(HEAD) {
  using T = TYPE;
  using S = TYPE;
BODY
}
"""
OF_W = "const uint* packed, const Shape packed_shape, const TYPE* scales, const Shape scales_shape, const TYPE* biases"
HEADS = {
    "add_scaled": "const TYPE* x, const Shape x_shape, const TYPE* y, const float* scale, TYPE* out",
    "rope": "const TYPE* x, const Shape x_shape, const int* offset, const float* base, TYPE* out",
    "swiglu": "const TYPE* x, const Shape x_shape, TYPE* out",
    "rms_norm": "const TYPE* x, const TYPE* weight, const Shape weight_shape, const float* eps, TYPE* out",
    "quantized_matvec": f"const TYPE* x, {OF_W}, TYPE* y",
    "quantized_tiles": f"const TYPE* x, const Shape x_shape, {OF_W}, TYPE* y",
    "split_products": f"const TYPE* x, const Shape x_shape, {OF_W}, float* partial",
    "flash_attention": "const TYPE* query, const Shape query_shape, const TYPE* key, const Shape key_shape, "
    "const TYPE* value, const float* scale, const int* causal, TYPE* out",
    "paged_attention": "const TYPE* query, const Shape query_shape, const TYPE* keys, const Shape keys_shape, "
    "const TYPE* values, const int* table, const int* tokens, const float* scale, TYPE* out",
    "sum_of_parts": "const float* partial, const Shape partial_shape, TYPE* y",
}
NOT_IN_CUDA = {"quantized_matrices"}


def test_every_kernel_has_a_head_for_cuda():
    assert {file.stem for file in (SOLUTION / "metal").glob("*.metal")} == HEADS.keys() | NOT_IN_CUDA


@pytest.mark.parametrize("name", sorted(NOT_IN_CUDA))
def test_a_kernel_that_cuda_has_no_words_for_is_refused(name):
    load_solution()
    from tiny_llm_solution.metal.device import in_cuda

    with pytest.raises(ValueError, match="CUDA has no SIMD-group matrices: this kernel needs Metal"):
        in_cuda((SOLUTION / "metal" / f"{name}.metal").read_text(encoding="utf-8"))


@pytest.mark.skipif(not shutil.which("nvcc"), reason="not run here: needs nvcc")
@pytest.mark.parametrize("kind", ["float", "__half", "__nv_bfloat16"])
@pytest.mark.parametrize("name", HEADS)
def test_the_words_of_metal_compile_for_cuda(tmp_path, name, kind):
    load_solution()
    from tiny_llm_solution.metal.device import in_cuda

    body = in_cuda((SOLUTION / "metal" / f"{name}.metal").read_text(encoding="utf-8"))
    prelude = (SOLUTION / "metal" / "cuda_prelude.h").read_text(encoding="utf-8").replace("#pragma once\n", "")
    text = FRAME.replace("PRELUDE", prelude).replace("HEAD", HEADS[name]).replace("BODY", body).replace("TYPE", kind)
    source = tmp_path / "kernel.cu"
    source.write_text(text, encoding="utf-8")
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-ptx", str(source), "-o", str(tmp_path / "kernel.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
