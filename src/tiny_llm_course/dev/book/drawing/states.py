"""State diagrams: states on a grid, and labeled transitions between them as level and upright lines."""

from collections.abc import Collection, Sequence

from .canvas import FONT, SMALL, Canvas, width_of

Cell = tuple[int, int]
Point = tuple[float, float]
HIGH, APART = 28.0, 6.0  # of a state; of two transitions in opposite directions from the middle
LANE = 24.0  # above a row, for transitions that pass states
Transition = tuple[str, str, str]  # from, to, label: lines of words


def states(
    canvas: Canvas,
    grid: Sequence[Sequence[str]],
    transitions: Sequence[Transition],
    *,
    lit: Collection[str] = (),
    step: float = 64.0,
) -> None:
    """Draw each name of `grid`, rows x columns, as a state, and a line for each transition.

    A name may have a second line. States `lit` have a thick border; a name that begins with a space has none. Columns
    fill the canvas, rows are `step` apart. A transition to the next state of its row or column is straight; one that
    would cross a state passes above its row; any other has its bend in an empty cell.
    """
    cells = {name: (i, j) for i, row in enumerate(grid) for j, name in enumerate(row) if name}
    count = max(map(len, grid))
    widths = [max(_width(name) for name, (_, j) in cells.items() if j == column) for column in range(count)]
    gap = (canvas.width - 8 - sum(widths)) / max(1, count - 1)
    over = any(_passes(cells, cells[start], cells[end]) for start, end, _ in transitions)
    top = (LANE + SMALL + 8 if over else 0.0) + 4
    middles = {}
    for name, (i, j) in cells.items():
        middles[name] = (4 + sum(widths[:j]) + gap * j + widths[j] / 2, top + i * (HIGH + step) + HIGH / 2)
    pairs = {(start, end) for start, end, _ in transitions}
    drawn = set[tuple[str, str]]()
    for start, end, label in transitions:
        both = APART if (end, start) in pairs else 0.0
        points, said, anchor = _way(cells, middles, start, end, both, top)
        canvas.path(points, "line", arrow=True)
        if (end, label) not in drawn or not _passes(cells, cells[start], cells[end]):
            _label(canvas, said, label, anchor)
        drawn.add((end, label))
    for name, (x, y) in middles.items():
        wide, high = _width(name), _height(name)
        if not name.startswith(" "):
            canvas.rect(x - wide / 2, y - high / 2, wide, high, "ring", 14)
        if name in lit:
            canvas.rect(x - wide / 2 + 3, y - high / 2 + 3, wide - 6, high - 6, "ring", 11)
        first, *others = name.strip().split("\n")
        canvas.text(x, y + FONT / 3 - (8 if others else 0), first, "strong", "middle")
        for words in others:
            canvas.text(x, y + FONT / 3 + 7, words, "small", "middle")


def _way(
    cells: dict[str, Cell], middles: dict[str, Point], start: str, end: str, both: float, top: float
) -> tuple[list[Point], Point, str]:
    """Return a transition's points, and the place and anchor of its label."""
    (row, column), (goal, other) = cells[start], cells[end]
    (x, y), (u, v) = middles[start], middles[end]
    half, breadth = _width(start) / 2, _width(end) / 2
    leave, enter = _height(start) / 2, _height(end) / 2
    if _passes(cells, cells[start], cells[end]):
        lane = top - LANE
        return [(x, y - leave), (x, lane), (u, lane), (u, v - enter)], ((x + u) / 2, lane - 7), "middle"
    side, down = 1 if u > x else -1, 1 if v > y else -1
    if row == goal:
        level, ends = y - both * side, (x + half * side, u - breadth * side)
        said = sum(ends) / 2, level - 6 if side > 0 or not both else level + SMALL + 4
        return [(ends[0], level), (ends[1], level)], said, "middle"
    if column == other:
        across = x - both * down
        anchor = "end" if both and down > 0 else "start"
        said = across + (-6 if anchor == "end" else 6), (y + v) / 2 + SMALL / 3
        return [(across, y + leave * down), (across, v - enter * down)], said, anchor
    if (goal, column) not in cells.values():  # down or up first
        far = u - breadth * side
        return [(x, y + leave * down), (x, v), (far, v)], ((x + far) / 2, v - 6), "middle"
    near = x + half * side
    return [(near, y), (u, y), (u, v - enter * down)], ((near + u) / 2, y - 6), "middle"


def _passes(cells: dict[str, Cell], start: Cell, end: Cell) -> bool:
    """Return whether another state is between two of one row."""
    low, high = sorted((start[1], end[1]))
    return start[0] == end[0] and any(i == start[0] and low < j < high for i, j in cells.values())


def _label(canvas: Canvas, place: Point, label: str, anchor: str) -> None:
    """Write a label, whose last line is at `place`, or whose lines are around it beside an upright line."""
    words = label.split("\n")
    high = SMALL + 2
    first = place[1] - high * (len(words) - 1) * (1.0 if anchor == "middle" else 0.5)
    for i, line in enumerate(words):
        canvas.text(place[0], first + high * i, line, "small halo", anchor)


def _width(name: str) -> float:
    first, *others = name.strip().split("\n")
    return max(HIGH, width_of(first) + 18, *(width_of(words, SMALL) + 16 for words in others))


def _height(name: str) -> float:
    return HIGH + (SMALL + 2) * name.count("\n")
