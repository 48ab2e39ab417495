"""Day 1's figures, tables and widget: chunks that travel around a ring, ranks that wait, and what a message costs."""

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.ranks import RanksStopped, run_ranks
from tiny_llm_course.testkit.rounding import Array64
from tiny_llm_course.testkit.variants import load_solution, load_variants

RANKS = 4
PARTS = np.outer(10.0 ** np.arange(RANKS), np.arange(1, RANKS + 1))  # of each rank: a digit says which rank is in a sum
ORDERS = {  # the known mistakes of task 6.1.1
    "odd ranks receive first": "",
    "all send first": "all-send-first",
    "all receive first": "all-receive-first",
}
REAL = ROOT / "benches" / "week6" / "real_ranks.json"


class Move(NamedTuple):
    """A chunk on its way."""

    source: int
    to: int
    chunk: int
    value: float


def generated_parts() -> Parts:
    """Return the figure, the tables and the widget."""
    return {
        "ring-steps": ring_steps(),
        "buffers": buffers_table() + "\n",
        "hang": f"```text\n{_record()['message']}\n```\n",
        "send-first": f"```python\n{_record()['program']}```\n",
        "work": f"```python\n{_record()['example']}```\n",
        "printed": f"```text\n{_record()['printed']}\n```\n",
        "choices": choices(),
        "ring": ring_figure(),
    }


@functools.cache
def steps() -> list[tuple[list[Move], Array64]]:
    """Run the all-reduce of the solution on simulated ranks; return each step's moves, and what all ranks then have."""
    load_solution()
    from tiny_llm_solution.distributed.ring import all_gather, reduce_scatter

    sent: list[list[float]] = [[] for _ in range(RANKS)]

    def rank_of(group: Any) -> None:
        send = group.send

        def watched(x: mx.array, to: int) -> None:
            sent[group.rank].append(x.item())
            send(x, to)

        group.send = watched
        all_gather(reduce_scatter(mx.array(PARTS[group.rank]), group), group)

    run_ranks(rank_of, RANKS)
    found, have = [], PARTS.copy()
    for step in range(2 * (RANKS - 1)):
        reducing = step < RANKS - 1
        moves = []
        for rank in range(RANKS):
            chunk = (rank - 1 - step) % RANKS if reducing else (rank - step + RANKS - 1) % RANKS
            moves.append(Move(rank, (rank + 1) % RANKS, chunk, sent[rank][step]))
        have = have.copy()
        for move in moves:
            have[move.to, move.chunk] = move.value + (have[move.to, move.chunk] if reducing else 0)
        found.append((moves, have))
    assert (have == PARTS.sum(axis=0)).all()
    return found


def stuck(order: str) -> list[str]:
    """Return what each rank waits for, in the message of the simulated ranks, without places."""
    program = _program(order)
    try:
        run_ranks(lambda group: program(mx.array(PARTS[group.rank]), group), RANKS)
    except RanksStopped as stopped:
        return stopped.about.partition(": ")[2].split("; ")
    return []


def _program(order: str) -> Callable[..., Any]:
    known = load_variants(load_course().task("6.1.1"))
    mistake = ORDERS[order]
    every = {each.name: each for each in [known.solution, *known.wrong_programs]}
    program: Callable[..., Any] = every[mistake].program
    return program


def words(value: float) -> str:
    """Return a sum as the figure shows it."""
    return f"{value:.0f}"


def chunks_figure() -> str:
    """Draw what each rank has before the first step, after each step of the reduce-scatter, and in the end."""
    taken = steps()
    shown: list[tuple[str, list[Move], Array64]] = [("before step 1", [], PARTS)]
    for number, (moves, have) in enumerate(taken[: RANKS - 1], start=1):
        shown.append((f"after step {number}", moves, have))

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > 600
        cell, high, left = (58.0 if wide else 72.0), 25.0, 56.0
        for number, (title, moves, have) in enumerate(shown):
            across, down = (number % 2, number // 2) if wide else (0, number)
            x, y = across * (left + RANKS * cell + 44), down * (RANKS * high + 66)
            canvas.text(x + left, y + SMALL, title, "small strong")
            for chunk in range(RANKS):
                canvas.text(x + left + (chunk + 0.5) * cell, y + 2 * SMALL + 6, f"chunk {chunk}", "small", "middle")
            fresh = {(move.to, move.chunk) for move in moves}
            for rank in range(RANKS):
                top = y + 2 * SMALL + 14 + rank * high
                canvas.text(x + left - 6, top + high - 8, f"rank {rank}", "small", "end")
                for chunk in range(RANKS):
                    new = (rank, chunk) in fresh
                    canvas.rect(
                        x + left + chunk * cell, top, cell - 4, high - 4, "hollow series-0" if new else "axis", 3
                    )
                    looks = "small mono strong" if new else "small mono"
                    middle = x + left + chunk * cell + (cell - 4) / 2
                    canvas.text(middle, top + high - 8.5, words(have[rank, chunk]), looks, "middle")

    caption = (
        "Rank 0 starts with the values 1 to 4, rank 1 with ten times these values, and so on. The digits of a sum show "
        "which ranks it includes. A bold value is new: a partial sum that the rank has just received, plus the rank's "
        "own part. In each step, every partial sum moves one rank to the right and gains a digit. At the end, rank r "
        "has the sum of chunk r."
    )
    about = " ".join(
        f"{title}: " + "; ".join(f"rank {rank} {', '.join(map(words, row))}" for rank, row in enumerate(have)) + "."
        for title, _, have in shown
    )
    return at_both_widths(draw).figure("chunks-6-1", "Four ranks and four chunks in a reduce-scatter", about, caption)


def ring_steps() -> str:
    """Return the widget, with the figure as its still."""
    data = {
        "start": PARTS.astype(int).tolist(),
        "orders": [
            {"name": order, "stuck": stuck(order)} if mistake else {"name": order} for order, mistake in ORDERS.items()
        ],
        "steps": [
            {
                "moves": [[move.source, move.to, move.chunk, int(move.value)] for move in moves],
                "have": have.astype(int).tolist(),
            }
            for moves, have in steps()
        ],
    }
    return element("ring-steps", data, chunks_figure().rstrip())


@functools.cache
def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(REAL.read_text(encoding="utf-8"))
    return record


def buffers_table() -> str:
    """Return which sizes two ranks could both send before any received."""
    record = _record()
    rows = [
        [f"{mib} MiB", "both messages are received" if passed else "both hang"]
        for mib, passed in record["passed"].items()
    ]
    return (
        table("Two ranks that both send before they receive", ["size of each message", "outcome"], rows)
        + f"\n<p><em>{measured_on(record)}</em></p>"
    )


def ring_figure() -> str:
    """Draw the ring, and beside it the cycle of ranks that all wait in `send`."""
    box, high, gap, down = 62.0, 30.0, 36.0, 74.0

    def draw(canvas: Canvas) -> None:
        between = 2 * box + gap + (160 if canvas.width > WIDEST else 44)
        for x, title in ((0.0, "each rank sends"), (between, "each rank waits")):
            canvas.text(x, FONT, title, "strong")
            left, right, top, bottom = x, x + box + gap, FONT + 16, FONT + 16 + down
            for rank, (column, y) in enumerate(((left, top), (right, top), (right, bottom), (left, bottom))):
                canvas.rect(column, y, box, high, "frame series-0", 3)
                canvas.text(column + box / 2, y + high / 2 + 5, f"rank {rank}", "", "middle")
            looks = "line series-1" if x else "line"
            for ends in (
                [(left + box, top + high / 2), (right, top + high / 2)],
                [(right + box / 2, top + high), (right + box / 2, bottom)],
                [(right, bottom + high / 2), (left + box, bottom + high / 2)],
                [(left + box / 2, bottom), (left + box / 2, top + high)],
            ):
                canvas.path(ends, looks, arrow=True)

    about = "Four ranks in a circle, twice, with an arrow from each rank to the next one."
    caption = (
        "Left: the ring; an arrow is a message. Right: a deadlock, in which all ranks send first; an arrow goes from a "
        "rank to the one that must receive before its <code>send</code> returns. The arrows form a cycle, so no rank "
        "can continue."
    )
    return at_both_widths(draw).figure("ring-6-1", "A ring of four ranks, and a deadlock", about, caption)


def choices() -> str:
    """Draw the modeled times of the three all-reduces over the size of the array."""
    load_solution()
    from tiny_llm_solution.distributed.cost import CostModel

    model, sizes = CostModel(20e-6, 0.5e-9), [4.0 * 8**power for power in range(5)]  # KiB
    series = {
        name: [1e6 * time(int(1024 * size), RANKS) for size in sizes]
        for name, time in (
            ("ring", model.ring_all_reduce),
            ("one-shot", model.one_shot_all_reduce),
            ("central", model.central_all_reduce),
        )
    }
    axes = "KiB per array", "μs of an all-reduce"
    canvas = at_both_widths(lambda canvas: lines(canvas, sizes, series, axes, lambda x: f"{x:,.0f}"))
    about = "; ".join(f"{name}: from {each[0]:,.0f} to {each[-1]:,.0f} μs" for name, each in series.items())
    caption = (
        f"The modeled times of {RANKS} ranks, with a latency of 20 μs and 0.5 ns per byte. One-shot is the fastest for "
        f"small arrays, and the ring for arrays of more than {model.crossover(RANKS) / 1000:.0f} KB, where their lines "
        "cross."
    )
    return canvas.figure("choices-6-1", "Modeled times of three all-reduces", about, caption)
