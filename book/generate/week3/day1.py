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
LEFT, ROW = 24.0, 20.0  # pixels
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
        "mixed": mixed(),
        "mixed-lines": mistake_diff(load_course().task(BROKEN[0]), BROKEN[1]),
    }


def steps_of(static: bool) -> list[Any]:
    """Return the results of `Scheduler.step` until all requests are finished."""
    from tiny_llm_solution.serving.kv_cache import DenseKVCache
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    def any_token(chunks: list[Any], memory: Any) -> mx.array:
        return mx.zeros((sum(chunk.num_logits for chunk in chunks), 2))

    scheduler = Scheduler(any_token, DenseKVCache(1), max_num_seqs=SLOTS, static=static)
    for length in LENGTHS:
        scheduler.submit(Request([1] * PROMPT, length))
    steps = []
    while scheduler.running or scheduler.waiting:
        steps.append(scheduler.step())
    return steps


def runs() -> dict[tuple[int, ...], replay.Run]:
    """Return the load's runs, by policy and slots."""
    return {(policy, i): replay.run(policy, n, 512, 64, LOAD) for i, n in enumerate(CHOICES) for policy in (0, 1)}


def trace() -> str:
    """Draw a row for each request and a column for each step."""
    found = {heading: steps_of(heading == "static") for heading in ("static", "continuous")}

    def draw(canvas: Canvas) -> None:
        level, across = 0.0, (canvas.width - LEFT - 4) / max(map(len, found.values()))
        for heading, steps in found.items():
            canvas.text(0, level + FONT, f"{heading}: {len(steps)} steps", "strong")
            level += FONT + 8
            for number in range(len(LENGTHS)):
                canvas.text(LEFT - 10, level + 14, chr(65 + number), "", "end")
                _row(canvas, steps, number, level, across, heading == "static")
                level += ROW
            canvas.path([(LEFT, level + 2), (LEFT + across * len(steps), level + 2)], "axis")
            for column, step in enumerate(steps):
                middle = LEFT + across * (column + 0.5)
                canvas.text(middle, level + SMALL + 6, str(len(step.chunks)), "small", "middle")
            level += SMALL + 22
            canvas.text(LEFT, level, "slots in use, step by step", "small")
            level += 20

    used = {name: sum(len(step.chunks) for step in steps) for name, steps in found.items()}
    assert len(set(used.values())) == 1
    many, few = (len(found[name]) for name in ("static", "continuous"))
    about = (
        f"Two timelines of six requests, A to F, with {', '.join(map(str, LENGTHS))} output tokens, in {SLOTS} slots. "
        f"Static batching takes {many} steps, and the slots of each batch empty one by one. Continuous batching takes "
        f"{few} steps, each with all slots in use."
    )
    caption = (
        f"Six requests in {SLOTS} slots, recorded from <code>Scheduler.step</code>. Squares are prefills, which also "
        f"yield the first token. Discs are decode steps, small dots are steps spent waiting, and rings are empty "
        f"slots. Both runs generate the same {used['static']} tokens."
    )
    return at_both_widths(draw).figure("trace-3-1", "Static and continuous batching", about, caption)


def _row(canvas: Canvas, steps: list[Any], number: int, level: float, across: float, static: bool) -> None:
    """Draw what a request does in each step: it waits, prefills, decodes, or has left its slot empty."""
    begun = False
    for column, step in enumerate(steps):
        middle, height = LEFT + across * (column + 0.5), level + ROW / 2
        own = [chunk for chunk in step.chunks if chunk.request.request_id == number]
        if own and not begun:
            canvas.rect(middle - 8, height - 7, 16, 14, "fill series-0", 2)
        elif own:
            canvas.circle(middle, height, 6, "fill series-0")
        elif not begun:
            canvas.circle(middle, height, 1.2, "dot")
        elif static and any(chunk.request.request_id // SLOTS == number // SLOTS for chunk in step.chunks):
            canvas.circle(middle, height, 6, "hollow")
        begun = begun or bool(own)


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
