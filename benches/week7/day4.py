"""Opening a file by its path, and through the root, component by component."""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tiny_llm.workspace.root import Root
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "microseconds to open a file", ("os.open: us", "root: us"))

ROUNDS = 5  # files opened in one measurement, which is so short that few are interrupted


def measure(quick: bool = False) -> Table:
    """Measure files one, four and sixteen folders down, and behind links."""
    depths = [1, 2] if quick else [1, 4, 16]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ("d/" * depths[-1])).mkdir(parents=True)
        paths = {f"{depth} folder{'s' * (depth > 1)}": "d/" * depth + "f" for depth in depths}
        for path in paths.values():
            (folder / path).write_text("a line\n")
        last, target = "d/" * depths[-1], "f"
        for number in range(depths[0], 5):
            (folder / f"link{number}").symlink_to(target)
            target = f"link{number}"
        (folder / "f").write_text("a line\n")
        paths["4 links"] = target
        paths[f"{depths[-1]} folders, and back"] = f"{last}{'../' * depths[-1]}f"
        with Root(folder) as root:
            programs: list[Callable[[], None]] = []
            for path in paths.values():
                programs += [_opened(partial(os.open, folder / path, os.O_RDONLY)), _opened(partial(root.open, path))]
            times = seconds(*programs)
    for i, words in enumerate(paths):
        plain, safe = (1e6 * each / ROUNDS for each in times[2 * i : 2 * i + 2])
        rows.append((words, plain, safe, safe / plain))
    return Table(
        ("path", "os.open: us", "root: us", "ratio"),
        tuple(rows),
        f"Through the root, opening a file {depths[-1]} folders down takes {rows[len(depths) - 1][3]:.0f} times as "
        f"long as by its path, and {rows[0][3]:.0f} times with a single folder.",
    )


def _opened(open_file: Callable[[], int]) -> Callable[[], None]:
    """Return a program that opens and closes a file many times."""

    def run() -> None:
        for _ in range(ROUNDS):
            os.close(open_file())

    return run
