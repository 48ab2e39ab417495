"""Marks of graded tests: what a check needs of the machine, its device and its dtypes."""

from typing import Literal

import pytest

from ..course.requirements import known
from .inputs import DTYPES

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def needs(*words: str) -> pytest.MarkDecorator:
    """Run the check only where all of these words of `requirements` hold; elsewhere report "not run here"."""
    return pytest.mark.needs(*known(words))


def on(device: Literal["cpu", "gpu"]) -> pytest.MarkDecorator:
    """Make this MLX's default device while the check runs (the CPU otherwise); "gpu" needs one."""
    return pytest.mark.on(device)
