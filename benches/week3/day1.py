"""Throughput of 1 to 8 requests per step, with static and with continuous batching."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.kernels.model import KernelParts
from tiny_llm.serving.kv_cache import DenseKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Chunk, Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("lines", "tokens a second, one request is 1", ("our kernels: times", "MLX's float32: times"))

BEFORE = 32  # tokens that each request has
SLOTS = 4
LENGTHS = (2, 2, 2, 12) * 4  # of the texts that are served in so many slots


def measure(quick: bool = False) -> Table:
    """One token of each of some requests, with the model that comes with the course, and a whole lot of short texts."""
    many = (1, 2) if quick else (1, 2, 4, 8)
    folder = find_model(None)
    packed, plain = load_checkpoint(folder, mx.float32, packed=True), load_checkpoint(folder, mx.float32)
    config = ModelConfig.from_dict(packed.config)
    kernels = RaggedModel(config, packed.weights, KernelParts.like(config, packed.weights))
    models = kernels, RaggedModel(config, plain.weights)
    layers = config.num_hidden_layers
    times = seconds(*(_step(model, layers, count) for model in models for count in many))
    fast, slow = times[: len(many)], times[len(many) :]
    lengths = LENGTHS[:3] if quick else LENGTHS
    ways = [_serve(kernels, layers, lengths, static) for static in (True, False)]
    (static, continuous), (many_steps, few_steps) = seconds(*ways), [way() for way in ways]
    rows = tuple(
        (count, 1e3 * a, count * fast[0] / a, 1e3 * b, count * slow[0] / b)
        for count, a, b in zip(many, fast, slow, strict=True)
    )
    return Table(
        ("at once", "our kernels: ms", "our kernels: times", "MLX's float32: ms", "MLX's float32: times"),
        rows,
        f"{many[-1]} requests at once get {rows[-1][2]:.1f} times the tokens of one by our kernels for 4 bits, and "
        f"{rows[-1][4]:.1f} times by MLX's float32 products. {len(lengths)} texts of unlike length in {SLOTS} slots "
        f"take {many_steps} steps statically and {few_steps} continuously, {static / continuous:.1f} times as fast.",
    )


def _step(model: RaggedModel, layers: int, count: int) -> Callable[[], object]:
    """A token of each of so many requests."""
    memory = DenseKVCache(layers)
    requests = [Request([258] * (BEFORE + 1), 1) for _ in range(count)]
    for request in requests:
        memory.admit(request)
        mx.eval(model([Chunk(request, 0, [258] * BEFORE, 1)], memory))
    chunks = [Chunk(request, BEFORE, [258], 1) for request in requests]

    def step() -> object:
        logits = model(chunks, memory)
        mx.eval(logits)
        for request in requests:
            memory.truncate(request, BEFORE)
        return logits

    return step


def _serve(model: RaggedModel, layers: int, lengths: tuple[int, ...], static: bool) -> Callable[[], int]:
    """All texts, until the last one is done; what is given are the steps."""

    def serve() -> int:
        scheduler = Scheduler(model, DenseKVCache(layers), max_num_seqs=SLOTS, static=static)
        requests = [Request([258 + number], length) for number, length in enumerate(lengths)]
        for request in requests:
            scheduler.submit(request)
        steps = 0
        while not all(request.finish_reason for request in requests):
            scheduler.step()
            steps += 1
        return steps

    return serve
