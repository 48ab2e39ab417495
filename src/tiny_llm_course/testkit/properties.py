"""Properties: what holds for any inputs, tried on some."""

from hypothesis import HealthCheck, Phase, settings

# Properties are tried on the same examples every time: a grade must not depend on luck. Hypothesis does not explain a
# failing one: that runs the check some hundred times more, line by line, for words that no verdict shows.
property_test = settings(
    max_examples=20,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
