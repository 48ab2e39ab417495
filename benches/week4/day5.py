"""Weights read and time of 2 of 32 experts, for 1 to 128 tokens, beside a dense MLP of as many weights."""

import mlx.core as mx

from tiny_llm.experts.grouped import Grouped
from tiny_llm.experts.moe import SparseMoE
from tiny_llm.experts.router import route
from tiny_llm.qwen3 import Qwen3MLP
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = (
    "lines",
    "MiB of weights read, ms, speed-up",
    ("experts: MiB", "dense: MiB", "experts: ms", "dense: ms", "speed-up"),
)

SIZE, WIDTH, EXPERTS, TOP_K = 256, 128, 32, 2


def measure(quick: bool = False) -> Table:
    """Measure batches of random tokens, which a random router spreads nearly evenly."""
    counts = [1, 8] if quick else [1, 4, 16, 64, 128]
    gate, w_gate, w_up, w_down = _weights()
    sparse = SparseMoE(gate, w_gate, w_up, w_down, TOP_K, True)
    dense = Qwen3MLP(
        SIZE, EXPERTS * WIDTH, w_gate.reshape(-1, SIZE), w_up.reshape(-1, SIZE), w_down.swapaxes(0, 1).reshape(SIZE, -1)
    )
    each = 3 * SIZE * WIDTH * w_gate.itemsize / 2**20  # MiB of an expert
    inputs = [mx.random.normal((1, count, SIZE), key=mx.random.key(count)) for count in counts]
    mx.eval(inputs, dense.w_down)
    touched = [sum(n > 0 for n in Grouped(route(x, gate, TOP_K, True)[0], EXPERTS).counts) for x in inputs]
    times = seconds(*[lambda x=x: sparse(x) for x in inputs], *[lambda x=x: dense(x) for x in inputs])
    rows = tuple(
        (count, busy, busy * each, EXPERTS * each, fast * 1e3, slow * 1e3, slow / fast)
        for count, busy, fast, slow in zip(counts, touched, times[: len(counts)], times[len(counts) :], strict=True)
    )
    return Table(
        ("tokens", "experts read", "experts: MiB", "dense: MiB", "experts: ms", "dense: ms", "speed-up"),
        rows,
        f"One token reads {rows[0][1]} of {EXPERTS} experts, a batch of {counts[-1]} tokens reads {rows[-1][1]}: a "
        "single token saves memory traffic and FLOPs, a large batch only FLOPs.",
    )


def _weights() -> list[mx.array]:
    """Return random weights of the router and of all experts."""
    up, down = (EXPERTS, WIDTH, SIZE), (EXPERTS, SIZE, WIDTH)
    shapes = [(EXPERTS, SIZE), up, up, down]
    weights = [mx.random.normal(s, key=mx.random.key(i)) * s[-1] ** -0.5 for i, s in enumerate(shapes)]
    mx.eval(weights)
    return weights
