"""Prompt tokens that branches of one prefix prefill: submitted at once, and scheduled by `explore`."""

import mlx.core as mx

from tiny_llm.agent.branches import explore
from tiny_llm.config import ModelConfig
from tiny_llm.paged.storage import PagedArrays
from tiny_llm.prefix.kv_cache import PrefixKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = ("lines", "prompt tokens prefilled", ("at once: tokens", "explore: tokens"))

PAGE, PAGES = 16, 300
PREFIX, OWN, NEW = 400, 12, 4  # tokens of the conversation so far, of each branch's own prompt, and of its answer


def measure(quick: bool = False) -> Table:
    """Measure branches of a conversation, served by the embedded model."""
    counts = [2, 3] if quick else [2, 4, 8]
    prefix = 64 if quick else PREFIX
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)
    rows = []
    for count in counts:
        at_once, tokens, outputs = _serve(model, config, count, prefix, together=True)
        once, _, same = _serve(model, config, count, prefix, together=False)
        if outputs != same:
            raise ValueError(f"{count} branches have other outputs if they are submitted one after the other")
        rows.append((count, tokens, at_once, once, 100 * (1 - once / at_once)))
    return Table(
        ("branches", "prompt tokens", "at once: tokens", "explore: tokens", "saved: %"),
        tuple(rows),
        f"Of {rows[-1][0]} branches that share {prefix} tokens, `explore` prefills {rows[-1][3]:,} tokens in place of "
        f"{rows[-1][2]:,}, which saves {rows[-1][4]:.0f} %; with {rows[0][0]} branches, it saves {rows[0][4]:.0f} %.",
    )


def _serve(
    model: RaggedModel, config: ModelConfig, count: int, prefix: int, *, together: bool
) -> tuple[int, int, list[list[int]]]:
    """Serve branches with an empty cache; return the prefilled tokens, those of all prompts, and the outputs."""
    storage = PagedArrays(config.num_hidden_layers, PAGES, PAGE, config.num_key_value_heads, config.head_dim)
    scheduler = Scheduler(model, PrefixKVCache(storage), max_num_seqs=count)
    shared = [300 + number * 7 % 500 for number in range(prefix)]
    requests = [Request([*shared, *[900 + branch] * OWN], NEW) for branch in range(count)]
    if not together:
        found = explore(scheduler, requests, PAGE)
        return found.prefilled_tokens, found.prompt_tokens, [request.output for request in requests]
    prefilled = 0
    for request in requests:
        scheduler.submit(request)
    while scheduler.running or scheduler.waiting:
        for chunk in scheduler.step().chunks:
            prefilled += max(0, min(chunk.end, len(chunk.request.prompt)) - chunk.start)
    return prefilled, count * (prefix + OWN), [request.output for request in requests]
