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
CHART = ("bars", "", ("KiB for a token",))

LINE = 64  # bytes that are moved together
OUTPUTS, INPUTS, GROUP_SIZE = 256, 576, 64  # `down_proj` of the model that comes with the course: counted
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
    """The product of some tokens with a matrix, by each kernel."""
    kernels.install_once()  # what runs on the CPU is counted, what runs on the GPU is the package's own
    from tiny_llm.metal.quantized import (
        quantized_matrices,
        quantized_matvec,
        quantized_split,
        quantized_tiles,
        split_products,
    )

    ways: dict[str, tuple[Program, tuple[int, ...]]] = {
        "a thread a row": (a_thread_a_row, (1,)),
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
    counts = "shared reads for a product", "bank conflicts", "barriers"
    return Table(
        ("kernel", "KiB at least", "KiB for a token", *counts, "GPU: GFLOP/s"),
        tuple(rows),
        f"With 32 tokens, tiles move {one[0] / many[0]:.0f} times fewer bytes for each than with one; for a product "
        f"they take {many[1]:.2f} numbers from threadgroup memory, and matrices of 8 x 8 {by_matrices:.2f}.",
    )


def _word(program: Program) -> str:
    """What a kernel is called in the table."""
    return program.__name__.removeprefix("quantized_").removesuffix("_products")


def a_thread_a_row(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """The product of one token, by a kernel as one would write it for a single core: 1 x O."""
    from tiny_llm.metal import device

    inputs = {"x": x[0], "packed": packed, "scales": scales, "biases": biases}
    threads = -(-len(packed) // 32) * 32
    work = device.Launch(inputs, {"y": ((1, len(packed)), mx.float32)}, (threads, 1, 1), (32, 1, 1))
    return device.run(device.FOLDER / "a_thread_a_row.metal", NAIVE, work)[0]


def _inputs(tokens: int, outputs: int, inputs: int) -> tuple[mx.array, ...]:
    """Some tokens, and a matrix that MLX has packed."""
    x, w = mx.random.normal((tokens, inputs)), mx.random.normal((outputs, inputs))
    given = x, *mx.quantize(w, GROUP_SIZE, 4)
    mx.eval(*given)
    return given


def _speed(way: str, program: Program, tokens: int, size: tuple[int, int]) -> Any:
    """GFLOP/s on MLX's GPU, or why there are none. CUDA has no matrices of 8 x 8."""
    if not is_here("metal" if way == "matrices" else "gpu"):
        return "no GPU" if not is_here("gpu") else "no Metal"
    with mx.stream(mx.gpu):
        given = _inputs(tokens, *size)
        (taken,) = seconds(lambda: program(*given))
    return 2 * tokens * size[0] * size[1] / taken / 1e9
