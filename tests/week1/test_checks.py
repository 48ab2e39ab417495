"""Week 1, the open task: a check of scaled dot-product attention, run on the variants of that task."""

from tiny_llm import checks
from tiny_llm_course.testkit.judging import rejects_wrong_programs


def test_checks_every_program():
    """Each right program passes, and each wrong one is rejected."""
    rejects_wrong_programs(checks.check_attention, of="1.1.2")
