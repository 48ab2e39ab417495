"""What Checkpoint and resume takes, as the array grows."""

from functools import partial

import mlx.core as mx

from tiny_llm.agent.durable import DurableRun
from tiny_llm_course.measuring.clock import Table, seconds


def measure(quick: bool = False) -> Table:
    """N numbers, four times as many in each row; beside it MLX's own operator."""
    sizes = [256, 1024] if quick else [2**18, 2**20, 2**22]
    arrays = [mx.random.normal((size,)) for size in sizes]
    mx.eval(arrays)
    times = seconds(*(partial(DurableRun, x) for x in arrays), *(partial(mx.add, x, x) for x in arrays))
    mine, mlx = times[: len(sizes)], times[len(sizes) :]
    rows = tuple((size, 1e3 * ms, 1e3 * mlx_ms, ms / mlx_ms) for size, ms, mlx_ms in zip(sizes, mine, mlx, strict=True))
    return Table(
        ("N", "ms", "MLX: ms", "ratio"),
        rows,
        f"{sizes[-1]:,} numbers take {rows[-1][3]:.1f} times as long as with MLX's own operator.",
    )
