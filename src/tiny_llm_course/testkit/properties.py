"""Property tests: what holds for any inputs, tried on some."""

import functools
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from .cases import noted

# The same examples every time: a grade must not depend on luck. No `explain` phase: it would run the check hundreds of
# times more for words that no verdict shows.
ALWAYS_THE_SAME = settings(
    max_examples=20,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def property_test(test: Any) -> Any:
    """Decorate a test made by `given`: an exception without a case gets the drawn example as its case."""
    inner = test.hypothesis.inner_test

    @functools.wraps(inner)
    def example(*args: Any, **drawn: Any) -> None:
        with noted(", ".join(f"{name} {value!a}"[:60] for name, value in drawn.items())):
            inner(*args, **drawn)

    test.hypothesis.inner_test = example
    return ALWAYS_THE_SAME(test)
