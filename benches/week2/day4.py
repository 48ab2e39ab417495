"""What each kernel optimization gains, on a matrix read from memory, for one token and for several."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from tiny_llm.kernels import native
from tiny_llm.kernels.native import matmul, matvec_scalar, matvec_simd, matvec_threads
from tiny_llm_course.learner import progress
from tiny_llm_course.measuring.clock import Table, seconds
from tiny_llm_course.paths import SOLUTION

# What the book draws of the table.
CHART = ("bars", "", ("speed-up",))

FOLDER = Path(native.__file__).parent
OUTPUTS, INPUTS, GROUP_SIZE = 1024, 3072, 64  # `down_proj` of Qwen3-0.6B
LAYERS = 28  # one such matrix each: together they exceed the caches
Arrays = list[np.ndarray[Any, Any]]


class Case(NamedTuple):
    """A program that multiplies `tokens` tokens by every matrix once."""

    name: str
    tokens: int
    run: Callable[[], object]


def measure(quick: bool = False) -> Table:
    """Measure the product of one or several tokens with all matrices; report it per token and matrix."""
    rng = np.random.default_rng(1)
    matrices = [_matrix(rng) for _ in range(2 if quick else LAYERS)]
    x = rng.standard_normal((64, INPUTS)).astype(np.float32)
    y = np.zeros((64, OUTPUTS), np.float32)
    cases = [
        Case("MLX", 1, _stock(x[0], matrices)),
        Case("scalar", 1, _kernel(matvec_scalar.__name__, x, matrices, y)),
        Case("SIMD", 1, _kernel(matvec_simd.__name__, x, matrices, y)),
        Case("all cores", 1, _kernel(matvec_threads.__name__, x, matrices, y)),
    ]
    error = None
    if FOLDER == SOLUTION / "kernels" or progress.status_of("2.4.5") == "passed":  # an optional task
        cases.append(Case("8-bit activations", 1, _kernel("matvec_int8", x, matrices, y, file="matvec_int8")))
        cases[-1].run()
        error = _error(y[0], x[0], matrices[-1])
    cases.append(Case("memory read", 1, _reading(matrices)))
    for n in (1, 8, 64):
        cases.append(
            Case(
                f"matmul, {n} token{'s' if n > 1 else ''}",
                n,
                _kernel(matmul.__name__, x[:n], matrices, y, n, file="matmul"),
            )
        )
    size = sum(part.nbytes for part in matrices[0])
    times = [taken / len(matrices) for taken in seconds(*(case.run for case in cases))]
    rows = tuple(
        (case.name, time / case.tokens * 1e3, size / time / 1e9, times[0] * case.tokens / time)
        for case, time in zip(cases, times, strict=True)
    )
    faster = {case.name: row[-1] / rows[1][-1] for case, row in zip(cases, rows, strict=True)}
    see = f"SIMD on all cores is {faster['all cores']:.0f} times as fast as the scalar kernel"
    if error is not None:
        rounded = faster["8-bit activations"]
        see += f"; 8-bit activations make it {rounded:.0f} times, with a relative error of {100 * error:.1f} %"
    return Table(("kernel", "ms per token", "weights: GB/s", "speed-up"), rows, f"{see}.")


def _matrix(rng: np.random.Generator) -> Arrays:
    """Return random packed weights, scales and biases."""
    groups = OUTPUTS, INPUTS // GROUP_SIZE
    packed = rng.integers(0, 2**32, (OUTPUTS, INPUTS // 8), np.uint32)
    scales = 0.01 * rng.standard_normal(groups).astype(np.float32)
    return [packed, scales, -7.5 * scales]


def _stock(x: np.ndarray[Any, Any], matrices: list[Arrays]) -> Callable[[], object]:
    """Return a program that runs `mx.quantized_matmul` on the CPU."""
    row, given = mx.array(x[None]), [list(map(mx.array, parts)) for parts in matrices]
    mx.eval(row, given)

    def run() -> object:
        return [mx.quantized_matmul(row, w, s, b, group_size=GROUP_SIZE, stream=mx.cpu) for w, s, b in given]

    return run


def _kernel(
    name: str,
    x: np.ndarray[Any, Any],
    matrices: list[Arrays],
    y: np.ndarray[Any, Any],
    *tokens: int,
    file: str = "matvec",
) -> Callable[[], object]:
    """Return a program that calls a C++ kernel directly, without the copies that its Python wrapper makes."""
    function = ctypes.CDLL(str(FOLDER / ".build" / f"{file}.so"))[name]
    sizes = [ctypes.c_int(n) for n in (*tokens, OUTPUTS, INPUTS, GROUP_SIZE, 0)]
    calls = [[*(ctypes.c_void_p(a.ctypes.data) for a in (x, *parts, y)), *sizes] for parts in matrices]

    def run() -> object:
        for call in calls:
            function(*call)
        return []

    return run


def _reading(matrices: list[Arrays]) -> Callable[[], object]:
    """Return a program that reads and sums as many bytes on all cores: the lower bound for any kernel."""
    numbers = np.ones(sum(part.nbytes for parts in matrices for part in parts) // 4, np.float32)
    read = ctypes.CDLL(str(FOLDER / ".build" / "stream.so")).read_all

    def run() -> object:
        read(ctypes.c_void_p(numbers.ctypes.data), ctypes.c_int64(numbers.size))
        return []

    return run


def _error(y: np.ndarray[Any, Any], x: np.ndarray[Any, Any], matrix: Arrays) -> float:
    """Return the relative error of y against the product in float64."""
    words, scales, biases = matrix
    q = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(OUTPUTS, -1, GROUP_SIZE)
    weights = scales[..., None].astype(np.float64) * q + biases[..., None]
    right = weights.reshape(OUTPUTS, INPUTS) @ x.astype(np.float64)
    return float(np.linalg.norm(y - right) / np.linalg.norm(right))
