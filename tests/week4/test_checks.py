"""Week 4, the open task: a check of masked attention, held against the known programs of that task."""

from tiny_llm.masks import checks
from tiny_llm_course.testkit.judging import stops_what_is_wrong


def test_checks_every_program():
    """Each right program passes, and each wrong one is stopped."""
    stops_what_is_wrong(checks.check_masked_attention, of="4.1.2")
