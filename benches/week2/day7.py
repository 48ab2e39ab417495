"""Memory and time of attention as a prompt grows: all scores at once, tiles in Python, two kernels."""

import mlx.core as mx

from tiny_llm.attention import scaled_dot_product_attention_grouped
from tiny_llm.flash_attention.attention import flash_attention
from tiny_llm.kernels import native
from tiny_llm_course.measuring.clock import Cell, Program, Table, peak_memory, seconds
from tiny_llm_course.programs import kernels
from tiny_llm_course.programs.launches import counted

# What the book draws of the table.
CHART = ("lines", "MiB at the peak", ("all scores: MiB", "blocks: MiB"))

H, H_KV, D = 2, 1, 64
LINE = 64  # bytes that are moved together
COUNTED = 512  # tokens; the simulator takes four times as long for twice as many


def measure(quick: bool = False) -> Table:
    """A prompt of L tokens, each of which sees those up to itself."""
    kernels.install_once()  # what runs on the CPU is counted
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
        f"From {lengths[-2]} tokens to {lengths[-1]}, all scores take {twice_whole / whole:.1f} times as much memory, "
        f"and blocks {twice_blocks / blocks:.1f} times; the kernel is {slow / kernel:.0f} times as fast as all scores.",
    )


def _programs(length: int) -> list[Program]:
    """Week 1's attention, that in blocks, and the kernel in C++, on the same inputs."""
    query, key, value = _inputs(length)
    turned = mx.contiguous(query.swapaxes(0, 1))  # the kernel takes L x H x D
    mx.eval(turned)
    return [
        lambda: scaled_dot_product_attention_grouped(query, key, value, mask="causal"),
        lambda: flash_attention(query, key, value, mask="causal"),
        lambda: native.flash(turned, key, value, D**-0.5),
    ]


def _moved(length: int) -> Cell:
    """KiB that the kernel in Metal moves, counted by the simulator."""
    if length > COUNTED:
        return "not counted"
    from tiny_llm.metal.attention import flash_attention as in_metal

    with mx.stream(mx.cpu), counted() as launches:
        mx.eval(in_metal(*_inputs(length), mask="causal"))
    return LINE * sum(each.device_transactions for each in launches) / 1024


def _inputs(length: int) -> tuple[mx.array, mx.array, mx.array]:
    """Queries, keys and values."""
    query, key, value = (mx.random.normal((heads, length, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)
    return query, key, value
