"""The pytest plugin of `pdm run test --full`: below each failed check stand the arrays of its case."""

from collections.abc import Generator
from contextlib import suppress

import pytest

from ..programs.packages import NotImportable, program
from .kept_case import kept_case, with_numbers
from .plugin import TASK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the case."""
    report = yield
    if call.excinfo and report.failed and TASK in item.stash:
        with suppress(NotImportable, AttributeError):  # a file or a function that is not there
            case = kept_case(call.excinfo.value, program(item.stash[TASK].program))
            report.sections.append(("the case", "\n".join(with_numbers(case))))
    return report
