"""Memory traffic of each Metal kernel, and its time on a GPU."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tiny_llm_course.course.requirements import is_here
from tiny_llm_course.measuring.clock import Cell, Table, seconds
from tiny_llm_course.programs import kernels
from tiny_llm_course.programs.launches import counted

# What the book draws of the table.
CHART = ("bars", "", ("KiB at least", "KiB moved"))

LINE = 64  # bytes that are moved together
COUNTED, TIMED = 16, 4096  # tokens
HEADS, D, E, WIDTH = 16, 128, 1024, 3072  # of Qwen3-0.6B
Program = Callable[..., mx.array]


def measure(quick: bool = False) -> Table:
    """Each kernel on some tokens of Qwen3-0.6B, in float32."""
    kernels.install_once()  # what runs on the CPU is counted, what runs on the GPU is the package's own
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
        ("kernel", "KiB at least", "KiB moved", "lines at once", "bank conflicts", "barriers", "GPU: GB/s"),
        tuple(rows),
        f"{most} moves {times[most]:.1f} times the bytes of its inputs and its output, more than any other kernel.",
    )


def _inputs(tokens: int) -> dict[str, tuple[Any, ...]]:
    """What each kernel is given for so many tokens."""
    x, weight = mx.random.normal((tokens, E)), mx.random.normal((E,))
    queries, both = mx.random.normal((1, tokens, HEADS, D)), mx.random.normal((tokens, 2 * WIDTH))
    mx.eval(x, weight, queries, both)
    return {"add_scaled": (x, x, 0.5), "rms_norm": (x, weight, 1e-6), "rope": (queries, 0, 1e6), "swiglu": (both,)}


def _needed(inputs: tuple[Any, ...], output: mx.array) -> int:
    """Bytes of the arrays that go in and of the one that comes out: each must be moved once."""
    return sum(each.nbytes for each in (*inputs, output) if isinstance(each, mx.array))


def _bandwidth(program: Program, inputs: tuple[Any, ...]) -> float:
    """GB/s of those bytes on MLX's GPU, on which this is the only work."""
    with mx.stream(mx.gpu):
        (taken,) = seconds(lambda: program(*inputs))
        return _needed(inputs, program(*inputs)) / taken / 1e9
