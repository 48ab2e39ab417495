"""Memory traffic of each Metal kernel, and its time on a GPU."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tiny_llm_course.course.requirements import is_here
from tiny_llm_course.measuring.clock import Cell, Table, seconds
from tiny_llm_course.programs import kernels
from tiny_llm_course.programs.launches import counted

# What the book draws of the table.
CHART = ("bars", "", ("minimum KiB", "KiB moved"))

LINE = 64  # bytes per memory transaction
COUNTED, TIMED = 16, 4096  # tokens
HEADS, D, E, WIDTH = 16, 128, 1024, 3072  # of Qwen3-0.6B
Program = Callable[..., mx.array]


def measure(quick: bool = False) -> Table:
    """Measure each kernel on tokens of Qwen3-0.6B's size, in float32."""
    kernels.install_once()  # CPU launches are counted in the simulator; GPU launches run the package's own kernels
    from tiny_llm.metal.ops import add_scaled, rms_norm, rope, swiglu

    programs: tuple[Program, ...] = (add_scaled, rms_norm, rope, swiglu)
    few, many = (2, 2) if quick else (COUNTED, TIMED)
    rows: list[tuple[Cell, ...]] = []
    times = {}
    for program in programs:
        name = program.__name__
        inputs = _inputs(few)[name]
        with mx.stream(mx.cpu), counted() as launches:
            least = _needed(inputs, program(*inputs))
        (counts,) = launches
        moved = LINE * counts.device_transactions
        times[name] = moved / least
        taken: Cell = _bandwidth(program, _inputs(many)[name]) if is_here("gpu") else "no GPU"
        lines = counts.device_transactions / counts.device_accesses
        rows.append((name, least / 1024, moved / 1024, lines, counts.bank_conflicts, counts.barriers, taken))
    most = max(times, key=times.__getitem__)
    return Table(
        ("kernel", "minimum KiB", "KiB moved", "lines per access", "bank conflicts", "barriers", "GPU: GB/s"),
        tuple(rows),
        f"{most} moves {times[most]:.1f} times the bytes of its inputs and output, the most of all kernels.",
    )


def _inputs(tokens: int) -> dict[str, tuple[Any, ...]]:
    """Return each kernel's inputs for `tokens` tokens."""
    x, weight = mx.random.normal((tokens, E)), mx.random.normal((E,))
    queries, both = mx.random.normal((1, tokens, HEADS, D)), mx.random.normal((tokens, 2 * WIDTH))
    mx.eval(x, weight, queries, both)
    return {"add_scaled": (x, x, 0.5), "rms_norm": (x, weight, 1e-6), "rope": (queries, 0, 1e6), "swiglu": (both,)}


def _needed(inputs: tuple[Any, ...], output: mx.array) -> int:
    """Return the bytes of the inputs and the output, each of which must be moved once."""
    return sum(each.nbytes for each in (*inputs, output) if isinstance(each, mx.array))


def _bandwidth(program: Program, inputs: tuple[Any, ...]) -> float:
    """Return the minimum bytes divided by the time on MLX's GPU, in GB/s."""
    with mx.stream(mx.gpu):
        (taken,) = seconds(lambda: program(*inputs))
        return _needed(inputs, program(*inputs)) / taken / 1e9
