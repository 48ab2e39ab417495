"""Week 3, the open task: a check of the acceptance rule, held against the known programs of that task."""

from tiny_llm.speculative import checks
from tiny_llm_course.testkit.judging import stops_what_is_wrong


def test_checks_every_program():
    """Each right program passes, and each wrong one is stopped."""
    stops_what_is_wrong(checks.check_accept, of="3.6.1")
