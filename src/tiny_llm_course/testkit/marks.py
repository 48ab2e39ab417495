"""Marks of the graded tests: what a check needs of the machine, where it computes, and in which dtypes."""

from typing import Literal

import pytest

from ..course.requirements import known
from .inputs import DTYPES

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def needs(*words: str) -> pytest.MarkDecorator:
    """The check is run where all of these are, words of `requirements`; elsewhere it is "not run here"."""
    return pytest.mark.needs(*known(words))


def on(device: Literal["cpu", "gpu"]) -> pytest.MarkDecorator:
    """While the check is called this is MLX's default device, which is the CPU otherwise; "gpu" needs one."""
    return pytest.mark.on(device)
