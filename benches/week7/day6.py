"""What it costs to grade in a process of its own: the same tests in this process, and by grade_run."""

import tempfile
from pathlib import Path
from typing import Any

from tiny_llm.outcomes.grading import grade_run
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "milliseconds to grade", ("here: ms", "grade_run: ms"))

MODULE = "def triangle(n):\n    return sum(range(n + 1))\n"
TEST = "def test_{i}():\n    assert triangle({i}) == {i} * ({i} + 1) // 2\n"


def measure(quick: bool = False) -> Table:
    """Grade one module by more and more tests."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "triangle.py").write_text(MODULE, encoding="utf-8")
        for count in (1, 10) if quick else (1, 30, 1000):
            tests = "".join(TEST.format(i=i) for i in range(count))
            whole = "from triangle import triangle\n" + tests

            def here(tests: str = tests) -> None:
                names: dict[str, Any] = {}
                exec(compile(MODULE + tests, "here", "exec"), names)
                for each in [test for what, test in names.items() if what.startswith("test_")]:
                    each()

            def apart(whole: str = whole) -> None:
                assert grade_run(folder, whole).solved

            plain, safe = (1e3 * each for each in seconds(here, apart))
            rows.append((f"{count:,} test{'s' * (count > 1)}", plain, safe, safe - plain))
    return Table(
        ("tests", "here: ms", "grade_run: ms", "difference: ms"),
        tuple(rows),
        f"A process of its own adds {rows[0][3]:.0f} ms to a grade by one test, and {rows[-1][3]:.0f} ms to one by "
        f"{rows[-1][0]}.",
    )
