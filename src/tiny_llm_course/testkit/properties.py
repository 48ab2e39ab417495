"""Properties: what holds for any inputs, tried on some."""

import functools
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from .cases import noted

# Properties are tried on the same examples every time: a grade must not depend on luck. Hypothesis does not explain a
# failing one: that runs the check some hundred times more, line by line, for words that no verdict shows.
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
    """Decorate what `given` has made: an exception that carries no case gets the drawn example for one."""
    test.hypothesis.inner_test = _with_case(test.hypothesis.inner_test)
    return ALWAYS_THE_SAME(test)


def _with_case(inner: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(inner)
    def example(*args: Any, **drawn: Any) -> None:
        with noted(", ".join(f"{name} {value!a}"[:60] for name, value in drawn.items())):
            inner(*args, **drawn)

    return example
