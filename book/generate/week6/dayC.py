"""The table in the chapter of week 6's open task: what simple policies serve."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.week6.routing import LOADS, SEEDS, share_of

from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.fleet import capacity, cost, jobs, replica, simulation  # noqa: E402
from tiny_llm_solution.router import choice  # noqa: E402

FLEET = SimpleNamespace(capacity=capacity, cost=cost, jobs=jobs, replica=replica, simulation=simulation)


def round_robin() -> Any:
    """Return a policy that takes the open replicas in turn."""
    turn = 0

    def policy(views: Sequence[Any], _blocks: Sequence[int]) -> Any:
        nonlocal turn
        turn += 1
        ready = [view for view in views if view.state == "ready" and view.running < view.limit]
        return ready[turn % len(ready)] if ready else None

    return policy


def least_loaded(views: Sequence[Any], _blocks: Sequence[int]) -> Any:
    """Return the open replica with the fewest requests."""
    ready = [view for view in views if view.state == "ready" and view.running < view.limit]
    return min(ready, key=lambda view: view.running, default=None)


def generated_parts() -> Parts:
    """Return the share of each policy on each load."""
    policies: dict[str, Any] = {
        "round robin": round_robin,
        "least loaded": lambda: least_loaded,
        "day 4": lambda: choice.choose,
    }
    rows = [f"| Policy | {' | '.join(LOADS)} | mean |", f"|:--|{'--:|' * (len(LOADS) + 1)}"]
    for name, make in policies.items():
        shares = [100 * sum(share_of(make(), load, FLEET, seed) for seed in SEEDS) / len(SEEDS) for load in LOADS]
        cells = " | ".join(f"{share:.0f}" for share in (*shares, sum(shares) / len(shares)))
        rows.append(f"| {name} | {cells} |")
    return {"policies": "\n".join([*rows, ""])}
