"""Right kernels of many shapes give what NumPy gives, and no report."""

import pytest

from .case import Case
from .right import elementwise, matrices, reductions, sequences

CASES = [*elementwise.CASES, *reductions.CASES, *matrices.CASES, *sequences.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_kernel(case: Case):
    _, made = case.run()
    case.check(made)
    _, again = case.run()
    case.check(again)


def test_there_are_thirty():
    assert len({case.name for case in CASES}) >= 30
