"""Memory and time of one step of 16 rows, cut into more and more micro-batches."""

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.dataset.packing import Rows
from tiny_llm.training.accumulation import accumulate_gradients
from tiny_llm.training.model import initial_params, loss_function
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("peak: MiB", "ms"))

CONFIG = ModelConfig("qwen3", 64, 2, 176, 4, 2, 16, 512, 1e-6, 1e4, 128, True)
ROWS, LENGTH = 16, 64


def measure(quick: bool = False) -> Table:
    """Accumulate the gradients of the same rows in 1 to 16 micro-batches."""
    params, rows = initial_params(CONFIG, 0), _rows()
    loss_and_grads = mx.value_and_grad(loss_function(CONFIG))

    def step(count: int) -> list[mx.array]:
        size = ROWS // count
        parts = [rows[i * size : (i + 1) * size] for i in range(count)]
        loss, grads = accumulate_gradients(loss_and_grads, params, parts)
        return [loss, *grads.values()]

    counts = [1, 4] if quick else [1, 2, 4, 8, 16]
    memory = [_peak(lambda count=count: step(count)) for count in counts]
    times = seconds(*[lambda count=count: step(count) for count in counts])
    measured = tuple(
        (count, ROWS // count, peak, 1e3 * time, peak / memory[0], time / times[0])
        for count, peak, time in zip(counts, memory, times, strict=True)
    )
    last = measured[-1]
    return Table(
        ("micro-batches", "rows each", "peak: MiB", "ms", "memory ratio", "time ratio"),
        measured,
        f"The same {ROWS} rows in {last[0]} micro-batches take {last[4]:.2f} times the memory and {last[5]:.2f} "
        f"times the "
        "time of one large batch.",
    )


def _peak(step: object) -> float:
    """Return the MiB that a step allocates at its peak, parameters not included."""
    assert callable(step)
    mx.eval(step())
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(step())
    return (mx.get_peak_memory() - before) / 2**20


def _rows() -> Rows:
    """Return random tokens, one document to a row."""
    tokens = mx.random.randint(0, CONFIG.vocab_size, (ROWS, LENGTH + 1), key=mx.random.key(1)).astype(mx.int32)
    positions = mx.broadcast_to(mx.arange(LENGTH, dtype=mx.int32), (ROWS, LENGTH))
    return Rows(tokens[:, :-1], tokens[:, 1:], mx.zeros((ROWS, LENGTH), mx.int32), positions)
