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
CHART = ("bars", "% of the scheduler's own tokens/s", ("with the loop: %", "with text and events: %"))

TOKENS, ROUNDS = 16, 5


def measure(quick: bool = False) -> Table:
    """Tokens a second of some callers at a time, in three ways, each as a share of the scheduler's own."""
    tokens, rounds = (6, 1) if quick else (TOKENS, ROUNDS)
    # MLX's streams belong to a thread: who computes has read the weights, too.
    with ThreadPoolExecutor(1) as worker:
        make, tokenizer = worker.submit(_engine).result()
        rows = []
        for callers in (1, 4, 8):
            taken = in_turns(_ways(make, worker, tokenizer, callers, tokens), rounds + 1)
            alone, looped, streamed = (times[1:] for times in taken)  # the first time does not count
            shares = [[a / b for a, b in zip(alone, times, strict=True)] for times in (looped, streamed)]
            pace = callers * tokens / statistics.median(alone)
            rows.append((callers, pace, *(100 * statistics.median(each) for each in shares)))
    return Table(
        ("callers", "alone: tokens/s", "with the loop: %", "with text and events: %"),
        tuple(rows),
        f"With {rows[-1][0]} callers the loop leaves {rows[-1][2]:.0f} % of the scheduler's own tokens/s, "
        f"and {rows[-1][3]:.0f} % are left when every token is sent as text in an event of its own.",
    )


def _ways(
    make: Callable[[], Scheduler], worker: ThreadPoolExecutor, tokenizer: ByteLevelBPE, callers: int, tokens: int
) -> tuple[Program, ...]:
    """The same requests in three ways."""
    return (
        lambda: worker.submit(_alone, make(), callers, tokens).result(),
        lambda: asyncio.run(_looped(make(), worker, callers, tokens)),
        lambda: asyncio.run(_streamed(make(), worker, tokenizer, callers, tokens)),
    )


def _engine() -> tuple[Callable[[], Scheduler], ByteLevelBPE]:
    """What makes a scheduler without requests, and the tokenizer."""
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)
    tokenizer = ByteLevelBPE.from_file(checkpoint.tokenizer)
    return lambda: Scheduler(model, DenseKVCache(config.num_hidden_layers)), tokenizer


def _prompt(caller: int) -> list[int]:
    return [258 + caller] * 8


def _alone(scheduler: Scheduler, callers: int, tokens: int) -> None:
    for caller in range(callers):
        scheduler.submit(Request(_prompt(caller), tokens))
    while scheduler.running or scheduler.waiting:
        scheduler.step()


async def _looped(scheduler: Scheduler, worker: ThreadPoolExecutor, callers: int, tokens: int) -> None:
    engine = EngineLoop(scheduler, worker)

    async def read(caller: int) -> None:
        async for _ in engine.stream([Request(_prompt(caller), tokens)]):
            pass

    await asyncio.gather(*map(read, range(callers)))


async def _streamed(
    scheduler: Scheduler, worker: ThreadPoolExecutor, tokenizer: ByteLevelBPE, callers: int, tokens: int
) -> None:
    engine = EngineLoop(scheduler, worker)

    def shape(piece: Piece) -> object:
        return {"object": "text_completion", "choices": [{"index": 0, "text": piece.text}]}

    async def read(caller: int) -> None:
        text = StopStrings(StreamingDetokenizer(tokenizer), ["never said"])
        request = Request(_prompt(caller), tokens, stop=text.ends)
        stream = TextStream(engine.stream([request]), {request: text})
        async for _ in stream.events(shape, None, lambda error: json.dumps(str(error))):
            pass

    await asyncio.gather(*map(read, range(callers)))
