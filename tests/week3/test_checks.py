"""Week 3, the open task: a check of the acceptance rule, run against the known programs of that task."""

from tiny_llm.speculative import checks
from tiny_llm_course.testkit.judging import rejects_wrong_programs


def test_checks_every_program():
    """Each right program passes, and each wrong one fails."""
    rejects_wrong_programs(checks.check_accept, of="3.6.1")
