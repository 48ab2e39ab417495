"""Day 3's figures and widget: the pages of three requests, their owners in each step, and a scheduler's runs."""

import itertools
from typing import Any

import mlx.core as mx
from book.generate.week3 import replay

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import table
from tiny_llm_course.dev.book.parts import Parts

TEXTS = ("That is a blue dog", "Once upon a time there was", "The cat sat")
NEW = (9, 11, 8)  # tokens that each writes
PAGE, PAGES = 4, 7
SHOWN = 4  # the step after which the first picture is drawn
LETTERS = "ABC"
LOOKS = ("line series-0", "line", "line series-1")  # of each request's pages
ROW, LEFT = 20.0, 58.0  # pixels

# What the reader of the widget chooses.
SETTINGS = {"policy": replay.POLICIES, "slots": replay.SLOTS, "budget": (8, 16, 32), "pages": (64, 12)}


def generated_parts() -> Parts:
    """Return both figures and the widget."""
    return {"pool": pool(), "timeline": timeline(), "scheduler-replay": scheduler_replay()}


def run() -> tuple[list[Any], list[Any], list[dict[str, list[int]]], list[list[int]]]:
    """Return the requests, the steps, and for each step the block tables by letter and the tokens computed so far."""
    from tiny_llm_solution.paged.kv_cache import PagedKVCache
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    steps: list[Any] = []
    tables: list[dict[str, list[int]]] = []
    read: list[list[int]] = []

    def any_token(chunks: Any, memory: Any) -> mx.array:
        both = zip(LETTERS, requests, strict=True)
        tables.append({letter: list(memory.block_tables.get(request, [])) for letter, request in both})
        return mx.zeros((sum(chunk.num_logits for chunk in chunks), 2))

    memory = PagedKVCache(PagedArrays(1, PAGES, PAGE, 1, 1))
    scheduler = Scheduler(any_token, memory)
    requests = [Request([1] * len(text.split()), new) for text, new in zip(TEXTS, NEW, strict=True)]
    for request in requests:
        scheduler.submit(request)
    while scheduler.running or scheduler.waiting:
        steps.append(scheduler.step())
        read.append([request.num_computed_tokens for request in requests])
    return requests, steps, tables, read


def pool() -> str:
    """Draw all pages, with the tokens in them."""
    _, _, tables, read = run()

    def draw(canvas: Canvas) -> None:
        left, cell = LEFT, (canvas.width - LEFT - 66) / PAGE
        for i, heading in enumerate(range(PAGE)):
            canvas.text(left + (i + 0.5) * cell, SMALL, f"offset {heading}", "small", "middle")
        for page in range(PAGES):
            y = SMALL + 8 + page * (ROW + 4)
            canvas.text(0, y + 14, f"page {page}", "small")
            owner = next((i for i, letter in enumerate(LETTERS) if page in tables[SHOWN - 1][letter]), None)
            if owner is None:
                canvas.rect(left, y, PAGE * cell, ROW, "axis", 3)
                canvas.text(left + PAGE * cell + 8, y + 14, "free", "small")
                continue
            canvas.rect(left, y, PAGE * cell, ROW, LOOKS[owner], 3)
            table = tables[SHOWN - 1][LETTERS[owner]]
            words = [*TEXTS[owner].split(), *(f"+{n}" for n in range(1, 20))][: read[SHOWN - 1][owner]]
            first = table.index(page) * PAGE
            for i, word in enumerate(words[first : first + PAGE]):
                canvas.text(left + (i + 0.5) * cell, y + 14, word, "small", "middle")
            canvas.text(left + PAGE * cell + 8, y + 14, f"{LETTERS[owner]}, {table.index(page)}", "small")
        y = canvas.bottom + FONT + 10
        for i, letter in enumerate(LETTERS):
            canvas.text(0, y + i * (FONT + 6), f"block table of {letter}: {tables[SHOWN - 1][letter]}", "")

    about = f"{PAGES} pages of {PAGE} tokens. " + "; ".join(
        f"request {letter} owns pages {table}" for letter, table in tables[SHOWN - 1].items()
    )
    caption = (
        f"Each row is a page of the pool after step {SHOWN}. To the right of a page are its owner and its index in the "
        "owner's block table. +1 is the owner's first generated token. Free offsets in an allocated page are reserved "
        "for its owner's next tokens."
    )
    return at_both_widths(draw).figure("pool-3-3", "The page pool of three requests", about, caption)


def timeline() -> str:
    """Draw a row for each page and a column for each step, with the letter of the request that owns the page."""
    _, steps, tables, _ = run()

    def draw(canvas: Canvas) -> None:
        left, size = LEFT, (canvas.width - LEFT - 8) / len(steps)
        canvas.text(0, SMALL, "step", "small")
        for page in range(PAGES):
            y = SMALL + 8 + page * ROW
            canvas.text(0, y + 14, f"page {page}", "small")
            at = 0
            while at < len(steps):
                owner = next((i for i, letter in enumerate(LETTERS) if page in tables[at][letter]), None)
                last = at
                while last < len(steps) and owner == next(
                    (i for i, letter in enumerate(LETTERS) if page in tables[last][letter]), None
                ):
                    last += 1
                if owner is not None:
                    canvas.rect(left + at * size + 1, y + 1, (last - at) * size - 2, ROW - 3, LOOKS[owner], 3)
                    canvas.text(left + (at + last) / 2 * size, y + 14, LETTERS[owner], "small strong", "middle")
                at = last
        for number, step in enumerate(steps):
            if number % 4 == 0:
                canvas.text(left + (number + 0.5) * size, SMALL, str(number + 1), "small mono", "middle")
            if step.preempted:
                x, y = left + number * size, SMALL + 8 + PAGES * ROW + 4
                canvas.path([(x, y - 4), (x, y + 8)], "line")
                canvas.text(x, y + 22, f"{named(step.preempted)} preempted", "small", "middle")
            if number and step.admitted:
                x, y = left + number * size, SMALL + 8 + PAGES * ROW + 4
                canvas.path([(x, y - 4), (x, y + 26)], "axis")
                canvas.text(x, y + 40, f"{named(step.admitted)} resumed", "small", "middle")

    gone = [(n + 1, LETTERS[r.request_id]) for n, step in enumerate(steps) for r in step.preempted]
    again = [(n + 1, LETTERS[r.request_id]) for n, step in enumerate(steps) if n for r in step.admitted]
    about = (
        f"{PAGES} pages over {len(steps)} steps. Preempted: "
        + ", ".join(f"{letter} in step {n}" for n, letter in gone)
        + ". Readmitted: "
        + ", ".join(f"{letter} in step {n}" for n, letter in again)
        + "."
    )
    caption = (
        "The same run from its first step to its last. Each bar spans the steps in which a request owns a page. A "
        "request gets the pages for all its tokens when it is admitted, and one more whenever its last page is full. "
        "When no page is free, the youngest request is preempted and its pages are freed. Its tokens are recomputed "
        "after it has been readmitted."
    )
    return at_both_widths(draw).figure("timeline-3-3", "Page ownership, step by step", about, caption)


def named(requests: list[Any]) -> str:
    """Return the letters of some requests."""
    return " and ".join(LETTERS[request.request_id] for request in requests)


def runs() -> dict[tuple[int, ...], replay.Run]:
    """Return the load's run under each combination of the settings."""
    found = {}
    for setting in itertools.product(*(range(len(values)) for values in SETTINGS.values())):
        policy, slots, budget, pages = setting
        limits: list[Any] = [SETTINGS["slots"][slots], SETTINGS["budget"][budget], SETTINGS["pages"][pages]]
        found[setting] = replay.run(policy, *limits)
    return found


def scheduler_replay() -> str:
    """Return the widget with all its runs, and a table of four of them."""
    caption = "The load with 4 slots, a budget of 16 tokens and 64 pages"
    rows, found = [], runs()
    for policy, name in enumerate(replay.POLICIES):
        steps = found[policy, 1, 1, 0][1]
        tokens = replay.tokens_of(steps)
        time = sum(tokens) + replay.FIXED * len(tokens)
        rows.append([name, *map(str, (len(tokens), time, replay.max_itl(steps), max(tokens)))])
    head = ["policy", "steps", "time", "max ITL", "largest step, tokens"]
    return replay.replay(SETTINGS, found, table(caption, head, rows))
