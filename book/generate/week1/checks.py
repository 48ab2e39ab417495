"""The check in the chapter of the open task, as it grows line by line, and what it stops, which is counted here."""

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.judging import let_through
from tiny_llm_course.testkit.variants import load_variants

SHAPE = """\
def check_attention(attention):
    query, key, value = mx.ones((2, 3, 6)), mx.ones((2, 6, 6)), mx.ones((2, 6, 6))
    result = attention(query, key, value)
    assert result.shape == (2, 3, 6)
"""
ORACLE = """\
def check_attention(attention):
    query, key, value = (mx.random.normal((2, 1, rows, 6)) for rows in (3, 6, 6))
    expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5)
    result = attention(query, key, value)
    assert result.shape == expected.shape
    assert mx.allclose(result, expected, atol=1e-5)
"""
MASK = """\
def check_attention(attention):
    query, key, value = (mx.random.normal((2, 1, rows, 6)) for rows in (3, 5, 5))
    hidden = mx.array([[0, 0, 0, -mx.inf, -mx.inf], [0, 0, 0, 0, -mx.inf], [0, 0, 0, 0, 0]])
    for mask in (None, hidden):
        expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5, mask=mask)
        result = attention(query, key, value, mask=mask)
        assert result.shape == expected.shape
        assert mx.allclose(result, expected, atol=1e-5)
"""
STEPS = {
    "shape": SHAPE,
    "ones": f"{SHAPE}    assert mx.allclose(result, mx.ones((2, 3, 6)))\n",
    "oracle": ORACLE,
    "sizes": ORACLE.replace("(3, 6, 6)", "(3, 5, 5)"),
    "mask": MASK,
    "bias": MASK.replace("(None, hidden)", "(None, hidden, mx.random.normal((3, 5)))"),
    "exact": ORACLE.replace("mx.allclose(result, expected, atol=1e-5)", "mx.array_equal(result, expected)"),
}


class Count(NamedTuple):
    """How many of the known programs a check treats as it should."""

    stopped: int
    wrong: int
    passed: int
    right: int

    def __str__(self) -> str:
        wrong = f"{self.stopped} of {self.wrong} wrong programs are stopped"
        return f"{wrong}, {self.passed} of {self.right} right ones pass"


def generated_parts(course: Course) -> Parts:
    """The check of each step, and what it stops."""
    day = course.day_of(course.open_task(1)).name
    code = {(day, name): f"```python\n{text}```\n" for name, text in STEPS.items()}
    return code | {(day, f"{name}-count"): f"**{counted(course, text)}.**\n" for name, text in STEPS.items()}


def counted(course: Course, text: str) -> Count:
    """What the check that a text defines makes of the programs of the task that the open task judges."""
    of = course.open_task(1).judges
    names: dict[str, Any] = {"mx": mx}
    exec(text, names)
    check: Callable[..., None] = names["check_attention"]
    mx.random.seed(0)
    passes: list[bool] = np.array(let_through(check, of) > 0).tolist()
    wrong = len(load_variants(course.task(of)).wrong_programs)
    return Count(passes[-wrong:].count(False), wrong, sum(passes[:-wrong]), len(passes) - wrong)
