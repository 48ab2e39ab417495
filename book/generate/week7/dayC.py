"""The count in the chapter of week 7's open task: what the plain loop solves of the small suite."""

from tests.week7.weak_models import CASES, KINDS, worked

from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.loop import Limits, run_agent  # noqa: E402
from tiny_llm_solution.agent.model import Answer  # noqa: E402


def generated_parts() -> Parts:
    """Return how many cases the plain loop solves with each model."""
    lines = ["| Model | Solved by the plain loop |", "|---|---|"]
    for kind in KINDS:
        solved = sum(worked(run_agent, case, kind, Answer, Limits).solved for case in CASES)
        lines.append(f"| {kind} | {solved} of {len(CASES)} |")
    return {"plain": "\n".join([*lines, ""])}
