"""Week 4, the open task: a check of masked attention, run against the known programs of that task."""

from tiny_llm.masks import checks
from tiny_llm_course.testkit.judging import rejects_wrong_programs


def test_checks_every_program():
    """Each right program passes, and each wrong one fails."""
    rejects_wrong_programs(checks.check_masked_attention, of="4.1.2")
