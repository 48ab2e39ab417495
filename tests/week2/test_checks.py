"""Week 2, the open task: a check of the RMSNorm kernel, run on the variants of that task."""

from tiny_llm.metal import checks
from tiny_llm_course.testkit.judging import rejects_wrong_programs


def test_checks_every_program():
    """Each right program passes, and each wrong one is rejected."""
    rejects_wrong_programs(checks.check_rms_norm, of="2.5.2")
