"""Boxes with arrows, laid out from a grid of names, without coordinates."""

from collections.abc import Mapping, Sequence

from .canvas import FONT, SMALL, Canvas, looks_of, width_of

Cell = tuple[int, int]
Frame = tuple[float, float, float, float]
# A box: one or two lines of words, perhaps with its role.
Box = str | tuple[str, str]
Boxes = dict[str, Box]  # by their names in the grid
TIMES = "\N{MULTIPLICATION SIGN}"
RINGS = (["+"], [TIMES])  # a sum and a product: no box, a ring
GAP, STEP = 12.0, 22.0  # between columns and between rows, where the arrows go


def flow(
    canvas: Canvas,
    grid: Sequence[Sequence[str]],
    boxes: Mapping[str, Box],
    arrows: Sequence[tuple[str, ...]],
    *,
    gap: float = GAP,
    corner: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Frame]:
    """Draw each name of `grid`, rows x columns, as its box, and the arrows: two names, and perhaps a label.

    A name in neighboring cells is one wide box; "" is empty. Arrows are straight, have one bend, or two in the gap
    below their first row. Words that begin with a space have no frame.
    Return each name's box: x, y, width, height.
    """
    cells: dict[str, list[Cell]] = {}
    for i, row in enumerate(grid):
        for j, name in enumerate(row):
            if name:
                cells.setdefault(name, []).append((i, j))
    texts = {name: _lines(boxes[name]) for name in cells}
    count = max(len(row) for row in grid)
    widths = [
        max([30.0, *(_width(texts[name]) for name, at in cells.items() if len(at) == 1 and at[0][1] == j)])
        for j in range(count)
    ]
    heights = [max([10.0, *(_height(texts[name]) for name in row if name)]) for row in grid]
    lefts = [corner[0] + sum(widths[:j]) + gap * j for j in range(count)]
    tops = [corner[1] + sum(heights[:i]) + STEP * i for i in range(len(grid))]
    frames = {}
    for name, at in cells.items():
        (level, first), last = at[0], at[-1][1]
        right, height = lefts[last] + widths[last], _height(texts[name])
        width = right - lefts[first] if len(at) > 1 else min(widths[first], _width(texts[name]))
        middle = (lefts[first] + right) / 2
        frames[name] = (middle - width / 2, tops[level] + (heights[level] - height) / 2, width, height)
    taken = {cell for at in cells.values() for cell in at}
    for start, end, *label in arrows:
        ring = texts[end] in RINGS
        points = _way(frames[start], frames[end], cells[start], cells[end], taken, ring)
        role = boxes[start][1] if isinstance(boxes[start], tuple) else None
        canvas.path(points, f"line {looks_of(role)}".strip(), arrow=True)
        if label:
            (x0, y0), (x1, y1) = points[-2:]
            canvas.text(max(x0, x1) + 6, (y0 + y1) / 2 + SMALL / 3, label[0], "small mono")
    for name, (x, y, width, height) in frames.items():
        box = boxes[name]
        role = looks_of(box[1]) if isinstance(box, tuple) else ""
        if texts[name] in RINGS:
            canvas.circle(x + width / 2, y + height / 2, height / 2, f"frame {role}".strip())
        elif not texts[name][0].startswith(" "):
            canvas.rect(x, y, width, height, f"frame {role}".strip(), 5)
        for i, line in enumerate(texts[name]):
            looks = f"{'small mono' if i else 'strong'} {role}".strip()
            canvas.text(x + width / 2, y + 6 + (FONT + 4) * i + FONT - 2, line.strip(), looks, "middle")
    return frames


def _way(
    start: Frame, end: Frame, start_cells: list[Cell], end_cells: list[Cell], taken: set[Cell], ring: bool
) -> list[tuple[float, float]]:
    """Return the points of an arrow from one frame to another. A ring is entered from the side."""
    (x, y, width, height), (u, v, breadth, depth) = start, end
    (row, _), (goal, _) = start_cells[0], end_cells[0]
    columns, goals = ({j for _, j in cells} for cells in (start_cells, end_cells))
    if row == goal:
        level = y + height / 2
        return [(x + width, level), (u, level)] if u > x else [(x, level), (u + breadth, level)]
    down = goal > row
    leave, enter = (y + height, v) if down else (y, v + depth)
    if columns & goals:  # stacked: a vertical arrow through the narrower one
        across = x + width / 2 if width <= breadth else u + breadth / 2
        return [(across, leave), (across, enter)]
    side, far = (x + width, u) if min(goals) > max(columns) else (x, u + breadth)
    between = range(min(row, goal), max(row, goal) + 1)
    across_first = not any((i, j) in taken for i in between if i != goal for j in goals) and len(goals) == 1
    if across_first and not ring:
        return [(side, y + height / 2), (u + breadth / 2, y + height / 2), (u + breadth / 2, enter)]
    if ring and not any((i, j) in taken for i in between if i != row for j in columns):
        return [(x + width / 2, leave), (x + width / 2, v + depth / 2), (far, v + depth / 2)]
    bend = leave + STEP / 2 if down else leave - STEP / 2
    return [(x + width / 2, leave), (x + width / 2, bend), (u + breadth / 2, bend), (u + breadth / 2, enter)]


def _lines(box: Box) -> list[str]:
    return (box[0] if isinstance(box, tuple) else box).split("\n")


def _width(texts: list[str]) -> float:
    if texts in RINGS:
        return _height(texts)
    widths = [width_of(line, FONT) if not i else 1.1 * width_of(line, SMALL) for i, line in enumerate(texts)]
    return max(widths) + 14


def _height(texts: list[str]) -> float:
    return (FONT + 4) * len(texts) + 8
