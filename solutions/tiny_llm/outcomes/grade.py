"""The grade of a run."""

from dataclasses import dataclass
from typing import Literal

# "passed": at least one test, and all passed. "failed": a test failed. "skipped": none failed, but one was skipped.
# "no tests": the report is empty. "no report": the process ended without one. "limit": it was stopped.
Verdict = Literal["passed", "failed", "skipped", "no tests", "no report", "limit"]


@dataclass(frozen=True)
class Grade:
    """What the hidden tests say about a workspace."""

    verdict: Verdict
    failed: tuple[str, ...] = ()  # names of the tests that did not pass, skipped ones included, in the report's order
    output: str = ""  # what the tests printed

    @property
    def solved(self) -> bool:
        """Whether the run counts as a success."""
        return self.verdict == "passed"
