"""A scheduler's run as a chart: a row for each request, a column for each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .request import Request
from .step import Step

# What a request does in a step: its mark, and the same in words.
MARKS = {
    "w": ("\N{MIDDLE DOT}", "waits"),
    "p": ("\N{DARK SHADE}", "prefills"),
    "d": ("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "decodes"),
    "x": ("\N{MULTIPLICATION SIGN}", "is preempted"),
    "f": ("\N{BLACK SQUARE}", "finishes"),
}


@dataclass(frozen=True)
class Row:
    """One request: for each step a letter of MARKS, or a space before its arrival and after its end."""

    request: Request
    states: str


def timeline(steps: Sequence[Step], arrivals: Mapping[Request, int] | None = None) -> list[Row]:
    """Return the rows of a run, in the order of `request_id`.

    Args:
        steps: all steps of the run, in order.
        arrivals: before which step, from 0, each request was submitted. One that is missing came before the first.

    Returns:
        A row for each request that occurs in a step or in `arrivals`. It is `w` from its arrival until a step computes
        tokens of it, in the queue or in the batch; `p` in a step that prefills, including the one that yields its first
        token; `d` in those after it; `x` in a step that preempts it, after which it prefills again; `f` in its last
        step. A cancelled request ends after the last step that computed tokens of it.
    """
    arrivals = arrivals or {}
    seen: dict[Request, dict[int, str]] = {request: {} for request in arrivals}
    decoding: set[Request] = set()
    for number, step in enumerate(steps):
        for request in step.admitted:
            seen.setdefault(request, {})
        for chunk in step.chunks:
            seen.setdefault(chunk.request, {})[number] = "d" if chunk.request in decoding else "p"
            if chunk.num_logits:
                decoding.add(chunk.request)
        for request in step.preempted:
            seen.setdefault(request, {})[number] = "x"
            decoding.discard(request)
        for request in step.finished:
            seen[request][number] = "f"
    rows = []
    for request, states in sorted(seen.items(), key=lambda item: item[0].request_id):
        begin, end = arrivals.get(request, 0), len(steps)
        if request.finish_reason:
            end = max(states, default=begin - 1) + 1
        row = "".join(states.get(number, "w") for number in range(begin, end))
        rows.append(Row(request, (" " * begin + row).ljust(len(steps))))
    return rows


def render(rows: Sequence[Row], names: Sequence[str] | None = None, width: int = 79) -> list[str]:
    """Return the rows as lines of plain text, none longer than `width`, followed by a legend.

    Args:
        rows: of a timeline.
        names: of the requests; None for "request 0" and so on. Long ones are cut to 16 characters.
        width: in characters, at least 30. Steps that do not fit continue below, under a new line of step numbers.

    Returns:
        For each part a line of step numbers (every tenth step, at its column), and a line for each request present in
        that part; last, a legend of the marks that occur. Nothing for no rows.
    """
    if not rows:
        return []
    names = names or [f"request {row.request.request_id}" for row in rows]
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
