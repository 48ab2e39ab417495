"""Running a collected check once more, on whatever stands in the place of its task's target by then."""

import pytest
from _pytest.runner import runtestprotocol


def run_again(item: pytest.Item) -> bool:
    """Run a check with fresh fixtures, and say whether it passes. One that is skipped does."""
    item._initrequest()  # type: ignore[attr-defined]
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))
