"""Throughput of a decode step of 1 to 8 requests, with our kernels and with MLX's float32 product."""

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
CHART = ("lines", "throughput, relative to one request", ("our kernels: throughput", "MLX float32: throughput"))

BEFORE = 32  # cached tokens per request
SLOTS = 4
LENGTHS = (2, 2, 2, 12) * 4  # output tokens of the requests that are served in SLOTS slots


def measure(quick: bool = False) -> Table:
    """Measure a decode step of several requests, and static against continuous batching, with the embedded model."""
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
        ("requests", "our kernels: ms", "our kernels: throughput", "MLX float32: ms", "MLX float32: throughput"),
        rows,
        f"A batch of {many[-1]} requests has {rows[-1][2]:.1f} times the throughput of one request with our 4-bit "
        f"kernels, and {rows[-1][4]:.1f} times with MLX's float32 matmuls. Serving {len(lengths)} requests of "
        f"different lengths in {SLOTS} slots takes {many_steps} steps with static batching and {few_steps} with "
        f"continuous batching, which is {static / continuous:.1f} times as fast.",
    )


def _step(model: RaggedModel, layers: int, count: int) -> Callable[[], object]:
    """Return a decode step of `count` requests."""
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
    """Return a program that serves all requests and returns the number of steps."""

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
