"""Week 5, the open task: a check of the gradient of cross-entropy, run against the known programs of that task."""

from tiny_llm.dataset import checks
from tiny_llm_course.testkit.judging import rejects_wrong_programs


def test_checks_every_program():
    """Each right program passes, and each wrong one fails."""
    rejects_wrong_programs(checks.check_cross_entropy_vjp, of="5.2.5")
