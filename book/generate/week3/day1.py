"""Day 1's figures and widget: which requests run in which step, a load batched in two ways, and two sequences that
share a cache by mistake.
"""

import functools
import textwrap
from typing import Any

import mlx.core as mx
from book.generate.week3 import replay

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.mistake_diffs import mistake_diff
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.embedded import embedded_checkpoint
from tiny_llm_course.testkit.variants import load_variants

LENGTHS, SLOTS, PROMPT = (6, 2, 3, 4, 2, 1), 3, 5  # tokens of each text, and of "That is a blue dog"
LONGER, MORE = (2, 2, 2, 12) * 4, 4  # of the benchmark
BROKEN = "3.1.1", "one-request-s-cache"
# What the reader of the widget chooses; what day 2 and day 3 add, a token budget and pages, limits nothing here.
CHOICES = (2, 3, 4, 5, 6)  # slots
SETTINGS = {"policy": ("static batching", "continuous batching"), "slots": CHOICES}
LOAD = tuple((0, PROMPT, length) for length in LENGTHS)
BEGUN, WRITTEN = ("Once upon a time", "Tom and Sam went to the park. They"), 20


def generated_parts() -> Parts:
    """Return the widget, and what a mistake does to two sequences."""
    return {
        "replay": replay.replay(SETTINGS, runs(), trace().rstrip(), LOAD),
        "lengths": lengths(),
        "mixed": mixed(),
        "mixed-lines": mistake_diff(load_course().task(BROKEN[0]), BROKEN[1]),
    }


def runs() -> dict[tuple[int, ...], replay.Run]:
    """Return the load's runs, by policy and slots."""
    return {(policy, i): replay.run(policy, n, 512, 64, LOAD) for i, n in enumerate(CHOICES) for policy in (0, 1)}


def trace() -> str:
    """Draw which request has which slot in each step."""
    runs = both(LOAD, SLOTS)
    many, few = map(len_of, runs.values())
    about = (
        f"Two timelines of six requests, A to F, with {', '.join(map(str, LENGTHS))} output tokens, in {SLOTS} slots. "
        f"Static batching takes {many} steps, and the slots of each batch empty one by one. Continuous batching takes "
        f"{few} steps, each with all slots in use."
    )
    caption = (
        f"Six requests in {SLOTS} slots, recorded from <code>Scheduler.step</code>. Filled blocks are prefills, which "
        f"also yield the first token, and outlined blocks are decode steps. Dotted blocks are empty slots: "
        f"{SLOTS * many - sum(LENGTHS)} with static batching, {SLOTS * few - sum(LENGTHS)} with continuous batching."
    )
    return drawn(runs, LOAD, SLOTS).figure("trace-3-1", "Static and continuous batching", about, caption)


def lengths() -> str:
    """Draw the requests of the benchmark."""
    load = tuple((0, 1, length) for length in LONGER)
    runs = both(load, MORE)
    many, few = map(len_of, runs.values())
    about = (
        f"Two timelines of {len(load)} requests in {MORE} slots. Static batching takes {many} steps, in most of which "
        f"three slots are empty. Continuous batching takes {few} steps."
    )
    caption = (
        f"The benchmark's {len(load)} requests, A to P. The queue shows those that wait, or their number. Dotted "
        f"blocks are empty slots: {MORE * many - sum(LONGER)} with static batching, {MORE * few - sum(LONGER)} with "
        "continuous batching."
    )
    return drawn(runs, load, MORE).figure("lengths-3-1", "Requests of different lengths", about, caption)


def both(load: replay.Load, slots: int) -> dict[str, replay.Run]:
    """Return a load's runs with static and with continuous batching."""
    return {name: replay.run(policy, slots, 512, 64, load) for policy, name in enumerate(("static", "continuous"))}


def len_of(run: replay.Run) -> int:
    """Return the number of steps."""
    return len(run[1])


def drawn(runs: dict[str, replay.Run], load: replay.Load, slots: int) -> Canvas:
    """Draw a row for each slot and a column for each step, at both widths."""

    def draw(canvas: Canvas) -> None:
        level, across = 0.0, (canvas.width - replay.LEFT - 10) / max(map(len_of, runs.values()))
        for heading, run in runs.items():
            canvas.text(0, level + FONT, f"{heading}: {len_of(run)} steps", "strong")
            level = replay.draw_lanes(canvas, run, load, slots, level + FONT + 6, across)
            every = 1 if across > 16 else 12
            for step in range(every, len_of(run) + 1, every):
                x = replay.LEFT + across * (step - 0.5)
                canvas.text(x, level + SMALL + 2, str(step), "small", "middle")
            level += SMALL + 20

    return at_both_widths(draw)


def mixed() -> str:
    """Return two sequences, one at a time and in one batch, by the solution and with the mistake."""
    broken = next(v for v in load_variants(load_course().task(BROKEN[0])).wrong_programs if v.name == BROKEN[1])
    from tiny_llm_solution.serving.kv_cache import DenseKVCache

    rows, mistaken = [], type("Mistaken", (DenseKVCache,), {"attend": broken.program})
    for heading, memory in (("correct", DenseKVCache), ("with the mistake", mistaken)):
        for slots, which in ((1, "one at a time"), (2, "both in one batch")):
            rows.append(f"{heading}, {which}")
            for text in _written(memory, slots):
                rows += textwrap.wrap(text.replace("\n", " "), 74, initial_indent="  ", subsequent_indent="    ")
    return "```text\n" + "\n".join(rows) + "\n```\n"


def _written(memory: Any, slots: int) -> list[str]:
    """Generate both sequences with this number of slots."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.serving.ragged import RaggedModel
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    checkpoint, bpe = embedded_checkpoint(mx.float32), _tokenizer()
    config = ModelConfig.from_dict(checkpoint.config)
    made = Scheduler(RaggedModel(config, checkpoint.weights), memory(config.num_hidden_layers), max_num_seqs=slots)
    requests = [Request(bpe.encode(text), WRITTEN) for text in BEGUN]
    for request in requests:
        made.submit(request)
    while not all(request.finish_reason for request in requests):
        made.step()
    return [text + bpe.decode(request.output) for text, request in zip(BEGUN, requests, strict=True)]


@functools.cache
def _tokenizer() -> Any:
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    from tiny_llm_course.engine.engine import find_model

    return ByteLevelBPE.from_file(find_model(None) / "tokenizer.json")
