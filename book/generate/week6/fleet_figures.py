"""What day 5's figures and tables are drawn from: simulated fleets of one kind of machine."""

from collections.abc import Callable, Sequence
from typing import Any

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.fleet.capacity import Goal  # noqa: E402
from tiny_llm_solution.fleet.cost import StepCost  # noqa: E402
from tiny_llm_solution.fleet.jobs import Outcome, Traffic  # noqa: E402
from tiny_llm_solution.fleet.replica import Resources, SimulatedReplica  # noqa: E402

COST = StepCost(0.004, 0.0005, 0.0004, 1e-6)  # seconds: a small model on a CPU
GOAL = Goal(0.2, 0.015)  # seconds
TRAFFIC = Traffic(1.0, 300, prompt=(16, 128), output=24.0, longest=96)
Policy = Callable[[Sequence[Any], Sequence[int]], Any]


def fleet(count: int, cost: StepCost = COST, **limits: Any) -> list[SimulatedReplica]:
    """Return idle replicas named r0, r1, ..."""
    resources = Resources(**({"prefix_cache": False} | limits))
    return [
        SimulatedReplica(f"r{n}", lambda chunks, busy: cost.seconds(cost.work(chunks)), resources) for n in range(count)
    ]


def least_loaded(views: Sequence[Any], _blocks: Sequence[int]) -> Any:
    """Return the ready replica with the fewest requests."""
    ready = [view for view in views if view.state == "ready" and view.running < view.limit]
    return min(ready, key=lambda view: view.running, default=None)


def rank(numbers: Sequence[float], percent: int) -> float:
    """Return a percentile by nearest rank, as week 3's `Latency.percentile`."""
    return sorted(numbers)[-(-percent * len(numbers) // 100) - 1]


def ttft(outcomes: Sequence[Outcome]) -> list[float]:
    """Return the times to first token."""
    return [outcome.first - outcome.arrival for outcome in outcomes if outcome.first is not None]


def tpot(outcomes: Sequence[Outcome]) -> list[float]:
    """Return the times per output token of finished requests."""
    found = [o for o in outcomes if o.end is not None and o.first is not None and o.tokens > 1]
    return [(o.end - o.first) / (o.tokens - 1) for o in found]


def latency(outcomes: Sequence[Outcome]) -> list[float]:
    """Return the times from arrival to last token of finished requests."""
    return [outcome.end - outcome.arrival for outcome in outcomes if outcome.end is not None]
