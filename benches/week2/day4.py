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
CHART = ("bars", "", ("times as fast",))

FOLDER = Path(native.__file__).parent
OUTPUTS, INPUTS, GROUP_SIZE = 1024, 3072, 64  # `down_proj` of Qwen3-0.6B
LAYERS = 28  # each has such a matrix: more, together, than a cache holds
Arrays = list[np.ndarray[Any, Any]]


class Case(NamedTuple):
    """A program that goes once through all matrices, for so many tokens at a time."""

    name: str
    tokens: int
    run: Callable[[], object]


def measure(quick: bool = False) -> Table:
    """The products of a token, or of several, with all matrices; in the table, what is needed for one of each."""
    rng = np.random.default_rng(1)
    matrices = [_matrix(rng) for _ in range(2 if quick else LAYERS)]
    x = rng.standard_normal((64, INPUTS)).astype(np.float32)
    y = np.zeros((64, OUTPUTS), np.float32)
    cases = [
        Case("MLX's own", 1, _stock(x[0], matrices)),
        Case("scalar", 1, _kernel(matvec_scalar.__name__, x, matrices, y)),
        Case("SIMD", 1, _kernel(matvec_simd.__name__, x, matrices, y)),
        Case("all cores", 1, _kernel(matvec_threads.__name__, x, matrices, y)),
    ]
    error = None
    if FOLDER == SOLUTION / "kernels" or progress.status_of("2.4.5") == "passed":  # an optional task
        cases.append(Case("8 bits for x", 1, _kernel("matvec_int8", x, matrices, y, file="matvec_int8")))
        cases[-1].run()
        error = _error(y[0], x[0], matrices[-1])
    cases.append(Case("reading, no more", 1, _reading(matrices)))
    for n in (1, 8, 64):
        cases.append(Case(f"matmul of {n}", n, _kernel(matmul.__name__, x[:n], matrices, y, n, file="matmul")))
    size = sum(part.nbytes for part in matrices[0])
    times = [taken / len(matrices) for taken in seconds(*(case.run for case in cases))]
    rows = tuple(
        (case.name, time / case.tokens * 1e3, size / time / 1e9, times[0] * case.tokens / time)
        for case, time in zip(cases, times, strict=True)
    )
    faster = {case.name: row[-1] / rows[1][-1] for case, row in zip(cases, rows, strict=True)}
    see = f"All cores with SIMD are {faster['all cores']:.0f} times as fast as the scalar kernel"
    if error is not None:
        rounded = faster["8 bits for x"]
        see += f"; 8 bits for x make it {rounded:.0f} times, and the product is off by {100 * error:.1f} % of its size"
    return Table(("program", "ms for a token", "weights, GB/s", "times as fast"), rows, f"{see}.")


def _matrix(rng: np.random.Generator) -> Arrays:
    """Packed weights, scales and biases, all drawn."""
    groups = OUTPUTS, INPUTS // GROUP_SIZE
    packed = rng.integers(0, 2**32, (OUTPUTS, INPUTS // 8), np.uint32)
    scales = 0.01 * rng.standard_normal(groups).astype(np.float32)
    return [packed, scales, -7.5 * scales]


def _stock(x: np.ndarray[Any, Any], matrices: list[Arrays]) -> Callable[[], object]:
    """`mx.quantized_matmul`, on the CPU."""
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
    """A kernel by its name in C++: the function of Python that has the name copies all that it is given."""
    function = ctypes.CDLL(str(FOLDER / ".build" / f"{file}.so"))[name]
    sizes = [ctypes.c_int(n) for n in (*tokens, OUTPUTS, INPUTS, GROUP_SIZE, 0)]
    calls = [[*(ctypes.c_void_p(a.ctypes.data) for a in (x, *parts, y)), *sizes] for parts in matrices]

    def run() -> object:
        for call in calls:
            function(*call)
        return []

    return run


def _reading(matrices: list[Arrays]) -> Callable[[], object]:
    """As many bytes as all matrices have, read and added up on all cores: no program that needs them can be faster."""
    numbers = np.ones(sum(part.nbytes for parts in matrices for part in parts) // 4, np.float32)
    read = ctypes.CDLL(str(FOLDER / ".build" / "stream.so")).read_all

    def run() -> object:
        read(ctypes.c_void_p(numbers.ctypes.data), ctypes.c_int64(numbers.size))
        return []

    return run


def _error(y: np.ndarray[Any, Any], x: np.ndarray[Any, Any], matrix: Arrays) -> float:
    """How far y is from the product in float64, as a share of its size."""
    words, scales, biases = matrix
    q = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(OUTPUTS, -1, GROUP_SIZE)
    weights = scales[..., None].astype(np.float64) * q + biases[..., None]
    right = weights.reshape(OUTPUTS, INPUTS) @ x.astype(np.float64)
    return float(np.linalg.norm(y - right) / np.linalg.norm(right))
