"""Right kernels of many shapes give what NumPy gives, and no report."""

import pytest

from .case import Case
from .right import elementwise, matrices, matvecs, reductions, scans, sequences

FILES = (elementwise, reductions, scans, matrices, matvecs, sequences)
CASES = [case for file in FILES for case in file.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_kernel(case: Case):
    _, made = case.run()
    case.check(made)
    _, again = case.run()
    case.check(again)


def test_there_are_thirty():
    assert len({case.name for case in CASES}) >= 30
