"""What a scheduler has decided, drawn: a row for each request, a column for each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .request import Request
from .step import Step

# What a request does in a step, its mark, and the same in words.
MARKS = {
    "w": ("\N{MIDDLE DOT}", "waits"),
    "p": ("\N{DARK SHADE}", "reads its prompt"),
    "d": ("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "writes"),
    "x": ("\N{MULTIPLICATION SIGN}", "is put back"),
    "f": ("\N{BLACK SQUARE}", "has its last token"),
}


@dataclass(frozen=True)
class Row:
    """One request: for each step a letter of MARKS, or a space before it has come and after it has ended."""

    request: Request
    states: str


def timeline(steps: Sequence[Step], came: Mapping[Request, int] | None = None) -> list[Row]:
    """The rows of a run, in the order of the requests' numbers.

    Args:
        steps: all steps of the run, in order.
        came: before which step a request was submitted, counted from 0. One that is not in here came before the first.

    Returns:
        A row for each request that a step or `came` knows. It is `w` while it has come and nothing of it is read, in
        the queue or in a slot; `p` in a step that reads a piece of its prompt, up to the piece behind which a token is
        asked for; `d` in those after it; `x` in a step that puts it back, after which it reads its prompt again; `f` in
        its last step. One that was cancelled ends behind the last step that has read of it.
    """
    came = came or {}
    seen: dict[Request, dict[int, str]] = {request: {} for request in came}
    writes: set[Request] = set()
    for number, step in enumerate(steps):
        for request in step.admitted:
            seen.setdefault(request, {})
        for chunk in step.chunks:
            seen.setdefault(chunk.request, {})[number] = "d" if chunk.request in writes else "p"
            if chunk.scored:
                writes.add(chunk.request)
        for request in step.preempted:
            seen.setdefault(request, {})[number] = "x"
            writes.discard(request)
        for request in step.finished:
            seen[request][number] = "f"
    rows = []
    for request, states in sorted(seen.items(), key=lambda item: item[0].number):
        begin, end = came.get(request, 0), len(steps)
        if request.finished:
            end = max(states, default=begin - 1) + 1
        row = "".join(states.get(number, "w") for number in range(begin, end))
        rows.append(Row(request, (" " * begin + row).ljust(len(steps))))
    return rows


def drawn(rows: Sequence[Row], names: Sequence[str] | None = None, width: int = 79) -> list[str]:
    """The rows as lines of text, none of them longer than `width`: no colours, and what each mark means below.

    Args:
        rows: of a timeline.
        names: what to call each request; None for "request 0" and so on. Long ones are cut to 16 characters.
        width: in characters, at least 30. What has no room goes on below, under a new line of numbers.

    Returns:
        For each part a line of numbers (every tenth step, at its column), and a line for each request that is there in
        that part; last, the marks that stand there. Nothing for no rows.
    """
    if not rows:
        return []
    names = names or [f"request {row.request.number}" for row in rows]
    left = min(16, max(map(len, names)))
    count, room = len(rows[0].states), (max(30, width) - left - 2) // 10 * 10
    lines = []
    for first in range(0, count, room):
        last = min(count, first + room)
        lines.append(" " * (left + 2) + "".join(f"{number:<10}" for number in range(first, last, 10)).rstrip())
        for name, row in zip(names, rows, strict=True):
            states = row.states[first:last].rstrip()
            if states:
                marks = "".join(MARKS[state][0] if state in MARKS else state for state in states)
                lines.append(f"{name[:left]:<{left}}  {marks}")
    there = {state for row in rows for state in row.states}
    legend, words = "", [f"{mark} {what}" for state, (mark, what) in MARKS.items() if state in there]
    for word in words:
        if legend and len(legend) + 3 + len(word) > max(30, width):
            lines.append(legend)
            legend = ""
        legend += f"{'   ' * bool(legend)}{word}"
    return [*lines, legend]
