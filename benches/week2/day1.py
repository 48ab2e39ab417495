"""Cost of the next token as the sequence grows, without and with a KV cache."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3 import Qwen3Model
from tiny_llm.qwen3_cached.model import Qwen3CachedModel
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, on_cpu, seconds

# What the book draws of the table.
CHART = ("lines", "ms for the next token", ("no cache: ms", "KV cache: ms"))


def measure(quick: bool = False) -> Table:
    """Measure one generation step of the embedded model after sequences of different lengths."""
    lengths = [10, 50, 100, 200] if on_cpu() else [10, 100, 500, 1000, 2000]  # a GPU needs more to do
    if quick:
        lengths = lengths[:2]
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    plain, cached = Qwen3Model(config, checkpoint.weights), Qwen3CachedModel(config, checkpoint.weights)
    times = seconds(*(_recompute(plain, n) for n in lengths), *(_decode(cached, n) for n in lengths))
    without, with_one = times[: len(lengths)], times[len(lengths) :]
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4  # bytes, float32
    rows = tuple(
        (n, slow * 1e3, fast * 1e3, slow / fast, n * per_token // 1024)
        for n, slow, fast in zip(lengths, without, with_one, strict=True)
    )
    return Table(
        ("tokens so far", "no cache: ms", "KV cache: ms", "speed-up", "cache: KiB"),
        rows,
        f"After {lengths[-1]} tokens, the next one takes {without[-1] / without[0]:.0f} times as long as after "
        f"{lengths[0]} without a cache and {with_one[-1] / with_one[0]:.1f} times as long with one, a speed-up of "
        f"{rows[-1][3]:.0f}.",
    )


def _recompute(model: Qwen3Model, length: int) -> Callable[[], object]:
    """Return a step that recomputes all `length` earlier tokens."""
    tokens = mx.array([[258] * (length + 1)])  # the time does not depend on token values
    return lambda: mx.argmax(model(tokens)[:, -1], axis=-1)


def _decode(model: Qwen3CachedModel, length: int) -> Callable[[], object]:
    """Return a step that reads the earlier tokens' keys and values from caches."""
    caches = model.new_caches()
    mx.eval(model(mx.array([[258] * length]), caches))

    def run() -> object:
        token = mx.argmax(model(mx.array([[258]]), caches)[:, -1], axis=-1)
        for cache in caches:
            cache.rewind(1)
        return token

    return run
