"""Memory and time of attention as a prompt grows: all scores at once, tiles in Python, two kernels."""

import mlx.core as mx

from tiny_llm.attention import scaled_dot_product_attention_grouped
from tiny_llm.flash_attention.attention import flash_attention
from tiny_llm.kernels import native
from tiny_llm_course.measuring.clock import Cell, Program, Table, peak_memory, seconds
from tiny_llm_course.programs import kernels
from tiny_llm_course.programs.launches import counted

# What the book draws of the table.
CHART = (
    "lines",
    "MiB at the peak, ms",
    ("all scores: MiB", "blocks: MiB", "all scores: ms", "blocks: ms", "kernel: ms"),
)

H, H_KV, D = 2, 1, 64
LINE = 64  # bytes per memory transaction
COUNTED = 512  # tokens; doubling them makes the simulator four times slower


def measure(quick: bool = False) -> Table:
    """Measure causal attention over a prompt of L tokens."""
    kernels.install_once()  # CPU launches are counted in the simulator
    lengths = [64, 128] if quick else [256, 512, 1024, 2048]
    programs = [_programs(length) for length in lengths]
    held = [[peak_memory(program) / 2**20 for program in three[:2]] for three in programs]
    times = [seconds(*three) for three in programs]
    rows = tuple(
        (length, whole, blocks, slow * 1e3, python * 1e3, kernel * 1e3, _moved(length))
        for length, (whole, blocks), (slow, python, kernel) in zip(lengths, held, times, strict=True)
    )
    (_, whole, blocks, *_), (_, twice_whole, twice_blocks, slow, _, kernel, _) = rows[-2:]
    return Table(
        ("tokens", "all scores: MiB", "blocks: MiB", "all scores: ms", "blocks: ms", "kernel: ms", "Metal: KiB moved"),
        rows,
        f"From {lengths[-2]} to {lengths[-1]} tokens, peak memory grows by a factor of {twice_whole / whole:.1f} with "
        f"all scores stored and {twice_blocks / blocks:.1f} with blocks; the C++ kernel is {slow / kernel:.0f} times "
        "as fast as storing all scores.",
    )


def _programs(length: int) -> list[Program]:
    """Return week 1's attention, blocked attention and the C++ kernel, on the same inputs."""
    query, key, value = _inputs(length)
    transposed = mx.contiguous(query.swapaxes(0, 1))  # the kernel takes L x H x D
    mx.eval(transposed)
    return [
        lambda: scaled_dot_product_attention_grouped(query, key, value, mask="causal"),
        lambda: flash_attention(query, key, value, mask="causal"),
        lambda: native.flash(transposed, key, value, D**-0.5),
    ]


def _moved(length: int) -> Cell:
    """Return the KiB that the Metal kernel moves, counted by the simulator."""
    if length > COUNTED:
        return "not counted"
    from tiny_llm.metal.attention import flash_attention as in_metal

    with mx.stream(mx.cpu), counted() as launches:
        mx.eval(in_metal(*_inputs(length), mask="causal"))
    return LINE * sum(each.device_transactions for each in launches) / 1024


def _inputs(length: int) -> tuple[mx.array, mx.array, mx.array]:
    """Return random queries, keys and values."""
    query, key, value = (mx.random.normal((heads, length, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)
    return query, key, value
