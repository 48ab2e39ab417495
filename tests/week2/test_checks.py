"""Week 2, the open task: a check of RMSNorm as a kernel, held against the known programs of that task."""

from tiny_llm.metal import checks
from tiny_llm_course.testkit.judging import stops_what_is_wrong


def test_checks_every_program():
    """Each right program passes, and each wrong one is stopped."""
    stops_what_is_wrong(checks.check_rms_norm, of="2.5.2")
