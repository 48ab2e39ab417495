"""Memory traffic and work per token of each quantized matmul, and its time on a GPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx

from tiny_llm_course.course.requirements import is_here
from tiny_llm_course.measuring.clock import Cell, Table, seconds
from tiny_llm_course.programs import kernels
from tiny_llm_course.programs.launches import counted

# What the book draws of the table.
CHART = ("bars", "", ("KiB per token", "shared reads per product"))

LINE = 64  # bytes per memory transaction
OUTPUTS, INPUTS, GROUP_SIZE = 256, 576, 64  # `down_proj` of the embedded model: counted
LARGE = 1024, 3072  # that of Qwen3-0.6B: timed
PARTS = 3
NAIVE = """
const uint row = thread_position_in_grid.x, words = packed_shape[1], groups = scales_shape[1];
if (row < packed_shape[0]) {
  float total = 0;
  for (uint word = 0; word < words; ++word) {
    const uint q = packed[row * words + word], group = row * groups + word * groups / words;
    const float scale = float(scales[group]), bias = float(biases[group]);
    for (uint digit = 0; digit < 8; ++digit) {
      total += (scale * float(q >> (4 * digit) & 15) + bias) * float(x[8 * word + digit]);
    }
  }
  y[row] = total;
}
"""
Program = Callable[..., mx.array]


def measure(quick: bool = False) -> Table:
    """Measure the product of some tokens with a matrix, for each kernel."""
    kernels.install_once()  # CPU launches are counted in the simulator; GPU launches run the package's own kernels
    from tiny_llm.metal.quantized import (
        quantized_matrices,
        quantized_matvec,
        quantized_split,
        quantized_tiles,
        split_products,
    )

    ways: dict[str, tuple[Program, tuple[int, ...]]] = {
        "thread per row": (thread_per_row, (1,)),
        _word(quantized_matvec): (lambda x, *w: quantized_matvec(x[0], *w), (1,)),
        _word(split_products): (partial(quantized_split, parts=PARTS), (1, 8)),
        _word(quantized_tiles): (quantized_tiles, (1, 8, 32)),
        _word(quantized_matrices): (quantized_matrices, (1, 8, 32)),
    }
    size = (16, 64) if quick else (OUTPUTS, INPUTS)
    rows: list[tuple[Cell, ...]] = []
    found: dict[str, tuple[float, float]] = {}
    for way, (program, lengths) in ways.items():
        for length in lengths:
            given = _inputs(length, *size)
            with mx.stream(mx.cpu), counted() as launches:
                y = program(*given)
            moved = LINE * sum(each.device_transactions for each in launches) / length
            least = sum(each.nbytes for each in (*given, y)) / length
            shared = sum(each.threadgroup_bytes_read for each in launches) / 4 / (length * size[0] * size[1])
            conflicts = sum(each.bank_conflicts for each in launches)
            barriers = sum(each.barriers for each in launches)
            name = f"{way}, {length} token{'s' if length > 1 else ''}"
            found[name] = moved, shared
            speed = _speed(way, program, length, size if quick else LARGE)
            rows.append((name, least / 1024, moved / 1024, shared, conflicts, barriers, speed))
    one, many = found["tiles, 1 token"], found["tiles, 32 tokens"]
    by_matrices = found["matrices, 32 tokens"][1]
    counts = "shared reads per product", "bank conflicts", "barriers"
    return Table(
        ("kernel", "minimum KiB", "KiB per token", *counts, "GPU: GFLOP/s"),
        tuple(rows),
        f"With 32 tokens, the tiled kernel moves {one[0] / many[0]:.0f} times fewer bytes per token than with one. It "
        f"reads {many[1]:.2f} floats from threadgroup memory per product, the 8 x 8 matrix kernel {by_matrices:.2f}.",
    )


def _word(program: Program) -> str:
    """Return the kernel's name in the table."""
    return program.__name__.removeprefix("quantized_").removesuffix("_products")


def thread_per_row(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """Return one token's product, 1 x O, from a kernel with one thread per row."""
    from tiny_llm.metal import device

    inputs = {"x": x[0], "packed": packed, "scales": scales, "biases": biases}
    threads = -(-len(packed) // 32) * 32
    work = device.Launch(inputs, {"y": ((1, len(packed)), mx.float32)}, (threads, 1, 1), (32, 1, 1))
    return device.run(device.FOLDER / "thread_per_row.metal", NAIVE, work)[0]


def _inputs(tokens: int, outputs: int, inputs: int) -> tuple[mx.array, ...]:
    """Return random tokens and a matrix packed by MLX."""
    x, w = mx.random.normal((tokens, inputs)), mx.random.normal((outputs, inputs))
    given = x, *mx.quantize(w, GROUP_SIZE, 4)
    mx.eval(*given)
    return given


def _speed(way: str, program: Program, tokens: int, size: tuple[int, int]) -> Any:
    """Return GFLOP/s on MLX's GPU, or why they cannot be measured. CUDA has no 8 x 8 matrices."""
    if not is_here("metal" if way == "matrices" else "gpu"):
        return "no GPU" if not is_here("gpu") else "no Metal"
    with mx.stream(mx.gpu):
        given = _inputs(tokens, *size)
        (taken,) = seconds(lambda: program(*given))
    return 2 * tokens * size[0] * size[1] / taken / 1e9
