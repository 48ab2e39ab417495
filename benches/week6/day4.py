"""Prompt tokens that two replicas prefill for conversations, by how the replica of each turn is chosen."""

import random
from collections.abc import Callable, Sequence

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.paged.storage import PagedArrays
from tiny_llm.prefix.kv_cache import PrefixKVCache
from tiny_llm.router.choice import choose
from tiny_llm.router.replica import Replica
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = ("lines", "prompt tokens prefilled", ("round robin: tokens", "least loaded: tokens", "prefix-aware: tokens"))

PAGE, PAGES, SLOTS = 16, 400, 8
FIRST, NEW, ANSWER = 64, 24, 8  # tokens of a first prompt, of each further message, and of each answer
PAUSE = 6  # steps, at most, before a user answers

Choice = Callable[[Sequence[Replica], list[int], int], Replica | None]


def measure(quick: bool = False) -> Table:
    """Measure conversations over two replicas of the embedded model."""
    counts, turns = ([2], 2) if quick else ([2, 4, 8], 4)
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    # One layer is enough: which tokens are prefilled does not depend on their values.
    config = ModelConfig.from_dict({**checkpoint.config, "num_hidden_layers": 1})
    model = RaggedModel(config, checkpoint.weights)
    ways: tuple[Choice, ...] = (
        lambda replicas, blocks, number: replicas[number % 2],
        lambda replicas, blocks, number: choose(replicas, ()),
        lambda replicas, blocks, number: choose(replicas, blocks),
    )
    rows = []
    for count in counts:
        found = [_serve(model, config, count, turns, way) for way in ways]
        prompts, around, least, aware = found[0][0], *(prefilled for _, prefilled in found)
        rows.append((count, prompts, around, least, aware, 100 * (1 - aware / least)))
    names = ("conversations", "prompt tokens", *CHART[2], "saved: %")
    count, prompts, _, least, aware, saved = rows[-1]
    return Table(
        names,
        tuple(rows),
        f"{count} conversations of {turns} turns have {prompts:,} prompt tokens. Two replicas prefill {least:,} of "
        f"them when each turn goes to the least loaded one, and {aware:,}, {saved:.0f} % less, when it goes where its "
        "prefix is cached.",
    )


def _serve(model: RaggedModel, config: ModelConfig, count: int, turns: int, way: Choice) -> tuple[int, int]:
    """Hold the conversations; return the tokens of all prompts, and how many of them were prefilled."""
    storages = [
        PagedArrays(config.num_hidden_layers, PAGES, PAGE, config.num_key_value_heads, config.head_dim) for _ in "ab"
    ]
    schedulers = [Scheduler(model, PrefixKVCache(storage), max_num_seqs=SLOTS) for storage in storages]
    replicas = [Replica(str(number), "ready") for number in range(2)]
    draw = random.Random(3)
    prompts = [[draw.randrange(300, 900) for _ in range(FIRST)] for _ in range(count)]
    due = {number: (draw.randrange(PAUSE), 1) for number in range(count)}  # when the next turn comes, and which it is
    running: dict[Request, tuple[int, int, Replica]] = {}
    total = prefilled = sent = step = 0
    while due or running:
        for number in [number for number, (at, _) in due.items() if at <= step]:
            _, turn = due.pop(number)
            prompt = prompts[number]
            blocks = [hash(tuple(prompt[:end])) for end in range(PAGE, len(prompt) + 1, PAGE)]
            replica = way(replicas, blocks, sent)
            if replica is None:
                raise ValueError("choose returned None although both replicas are ready")
            request = Request(list(prompt), ANSWER)
            replica.running, sent, total = replica.running + 1, sent + 1, total + len(prompt)
            replica.prefixes.add(blocks)
            schedulers[replicas.index(replica)].submit(request)
            running[request] = number, turn, replica
        step += 1
        for scheduler in schedulers:
            done = scheduler.step()
            for chunk in done.chunks:
                prefilled += max(0, min(chunk.end, len(chunk.request.prompt)) - chunk.start)
            for request in done.finished:
                number, turn, replica = running.pop(request)
                replica.running -= 1
                prompts[number] += [*request.output, *(draw.randrange(300, 900) for _ in range(NEW))]
                if turn < turns:
                    due[number] = step + draw.randrange(1, PAUSE), turn + 1
    return total, prefilled
