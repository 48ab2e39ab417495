"""Speed-up by speculation with a draft model and with n-grams, for one request and for eight, greedy."""

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.serving.kv_cache import DenseKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.speculative.draft_model import DraftModel
from tiny_llm.speculative.drafter import Drafter
from tiny_llm.speculative.ngram import NgramDrafter
from tiny_llm.speculative.scheduling import Speculation
from tiny_llm.tokenizer import ByteLevelBPE
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import shipped_stories
from tiny_llm_course.measuring.clock import Cell, Table, seconds
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS

# What the book draws of the table.
CHART = ("bars", "", ("step reduction", "step cost", "speed-up"))

COUNT = 4  # tokens drafted
SONG = "Row, row, row the boat. " * 4  # the model continues the repetition


def measure(quick: bool = False) -> Table:
    """Measure generation with drafts beside generation without, in the same run."""
    large, small = _Loaded("tiny-qwen3"), _Loaded("tiny-qwen3-draft")
    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    stories = [tokenizer.encode(story)[:24] for story in shipped_stories()[:8]]
    songs = [tokenizer.encode(SONG)] * 8
    rows: list[tuple[Cell, ...]] = []
    for requests in (1, 2) if quick else (1, 8):
        length = 4 if quick else 40 // requests + 11  # long enough for the clock
        for words, prompts in (("story", stories[:requests]), ("song", songs[:requests])):
            plain, *drafted = (_Serving(large, prompts, length, way) for way in ("", small, "n-grams"))
            without, *taken = seconds(plain.serve, *(each.serve for each in drafted))
            for name, run, time in zip(("draft model", "n-grams"), drafted, taken, strict=True):
                fewer = plain.steps / run.steps
                row = 100 * run.rate, fewer, fewer * time / without, without / time
                rows.append((f"{requests} x {words}, {name}", *row))
    best, worst = (f(rows, key=lambda row: row[-1]) for f in (max, min))
    return Table(
        ("requests", "accepted: %", "step reduction", "step cost", "speed-up"),
        tuple(rows),
        f"The largest speed-up is {best[-1]:.2f} ({best[0]}), the smallest {worst[-1]:.2f} ({worst[0]}).",
    )


class _Loaded:
    """A model that comes with the course, and KV caches for it."""

    def __init__(self, name: str) -> None:
        checkpoint = load_checkpoint(MODELS / name, mx.float32)
        config = ModelConfig.from_dict(checkpoint.config)
        self.model, self.layers = RaggedModel(config, checkpoint.weights), config.num_hidden_layers

    def memory(self) -> DenseKVCache:
        """Return an empty KV cache."""
        return DenseKVCache(self.layers)


class _Serving:
    """Requests served to completion with a draft model, with n-grams, or without drafts."""

    def __init__(self, large: _Loaded, prompts: list[list[int]], length: int, small: _Loaded | str = "") -> None:
        self.large, self.prompts, self.length, self.small = large, prompts, length, small
        self.steps, self.rate = 0, 0.0

    def serve(self) -> None:
        """Serve the requests; count the steps and the share of accepted draft tokens."""
        memory, self.steps = self.large.memory(), 0
        loop = Scheduler(self.large.model, memory)
        if self.small:
            drafter: Drafter = NgramDrafter()
            if isinstance(self.small, _Loaded):
                drafter = DraftModel(self.small.model, self.small.memory())
            drafts = Speculation(drafter, COUNT)
            loop = Scheduler(self.large.model, memory, policy=drafts.plan, sampler=drafts.sample)
        for prompt in self.prompts:
            loop.submit(Request(list(prompt), self.length))
        while loop.running or loop.waiting:
            loop.step()
            self.steps += 1
        if self.small:
            self.rate = drafts.num_accepted_tokens / max(1, drafts.num_draft_tokens)
