"""Overhead of serving: the scheduler's steps alone, with the event loop, and with text and events."""

import asyncio
import json
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.server.loop import EngineLoop
from tiny_llm.server.streaming import Piece, TextStream
from tiny_llm.serving.kv_cache import DenseKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.serving.stopping import StopStrings
from tiny_llm.tokenizer import ByteLevelBPE, StreamingDetokenizer
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Program, Table, in_turns

# What the book draws of the table.
CHART = ("bars", "% of the scheduler's throughput", ("event loop: %", "streamed text: %"))

TOKENS, ROUNDS = 16, 5


def measure(quick: bool = False) -> Table:
    """Measure the throughput of the bare scheduler, and that of the event loop and of streaming relative to it."""
    tokens, rounds = (6, 1) if quick else (TOKENS, ROUNDS)
    # MLX's streams are per thread, so the thread that computes must also load the weights.
    with ThreadPoolExecutor(1) as worker:
        make, tokenizer = worker.submit(_engine).result()
        rows = []
        for clients in (1, 4, 8):
            taken = in_turns(_ways(make, worker, tokenizer, clients, tokens), rounds + 1)
            alone, looped, streamed = (times[1:] for times in taken)  # the first round is a warm-up
            shares = [[a / b for a, b in zip(alone, times, strict=True)] for times in (looped, streamed)]
            throughput = clients * tokens / statistics.median(alone)
            rows.append((clients, throughput, *(100 * statistics.median(each) for each in shares)))
    return Table(
        ("clients", "scheduler: tokens/s", "event loop: %", "streamed text: %"),
        tuple(rows),
        f"With {rows[-1][0]} clients, throughput through the event loop is {rows[-1][2]:.0f} % of the bare "
        f"scheduler's, and {rows[-1][3]:.0f} % with every token streamed as text in its own event.",
    )


def _ways(
    make: Callable[[], Scheduler], worker: ThreadPoolExecutor, tokenizer: ByteLevelBPE, clients: int, tokens: int
) -> tuple[Program, ...]:
    """Return programs that serve the same requests in three ways."""
    return (
        lambda: worker.submit(_alone, make(), clients, tokens).result(),
        lambda: asyncio.run(_looped(make(), worker, clients, tokens)),
        lambda: asyncio.run(_streamed(make(), worker, tokenizer, clients, tokens)),
    )


def _engine() -> tuple[Callable[[], Scheduler], ByteLevelBPE]:
    """Return a factory of empty schedulers, and the tokenizer."""
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)
    tokenizer = ByteLevelBPE.from_file(checkpoint.tokenizer)
    return lambda: Scheduler(model, DenseKVCache(config.num_hidden_layers)), tokenizer


def _prompt(client: int) -> list[int]:
    return [258 + client] * 8


def _alone(scheduler: Scheduler, clients: int, tokens: int) -> None:
    for client in range(clients):
        scheduler.submit(Request(_prompt(client), tokens))
    while scheduler.running or scheduler.waiting:
        scheduler.step()


async def _looped(scheduler: Scheduler, worker: ThreadPoolExecutor, clients: int, tokens: int) -> None:
    engine = EngineLoop(scheduler, worker)

    async def read(client: int) -> None:
        async for _ in engine.stream([Request(_prompt(client), tokens)]):
            pass

    await asyncio.gather(*map(read, range(clients)))


async def _streamed(
    scheduler: Scheduler, worker: ThreadPoolExecutor, tokenizer: ByteLevelBPE, clients: int, tokens: int
) -> None:
    engine = EngineLoop(scheduler, worker)

    def shape(piece: Piece) -> object:
        return {"object": "text_completion", "choices": [{"index": 0, "text": piece.text}]}

    async def read(client: int) -> None:
        text = StopStrings(StreamingDetokenizer(tokenizer), ["never said"])
        request = Request(_prompt(client), tokens, stop=text.ends)
        stream = TextStream(engine.stream([request]), {request: text})
        async for _ in stream.events(shape, None, lambda error: json.dumps(str(error))):
            pass

    await asyncio.gather(*map(read, range(clients)))
