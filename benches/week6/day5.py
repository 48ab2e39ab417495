"""Speed of the simulator: steps of the real scheduler per second, for fleets of 1 to 1,000 replicas."""

import time

from tiny_llm.fleet.cost import StepCost
from tiny_llm.fleet.jobs import Traffic, arrivals
from tiny_llm.fleet.replica import Resources, SimulatedReplica
from tiny_llm.fleet.simulation import simulate
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = ("bars", "simulated seconds of one replica for each second of the simulation", ("replica seconds/s",))

COST = StepCost(0.004, 0.0005, 0.0004, 1e-6)
RATE, OUTPUT = 5.0, 16.0  # requests per second of one replica; tokens


def measure(quick: bool = False) -> Table:
    """Simulate fleets of growing size, each with four requests per replica and at least 200."""
    rows = []
    for count in (1, 10) if quick else (1, 10, 100, 1000):
        jobs = arrivals(Traffic(RATE * count, max(20 if quick else 200, 3 * count), output=OUTPUT))
        steps = 0

        def seconds(chunks: object, busy: int) -> float:
            nonlocal steps
            steps += 1
            return COST.seconds(COST.work(chunks))  # type: ignore[arg-type]

        fleet = [SimulatedReplica(f"r{n}", seconds, Resources(prefix_cache=False)) for n in range(count)]
        begun = time.perf_counter()
        outcomes = simulate(jobs, fleet, lambda views, blocks: min(views, key=lambda view: view.running))
        taken = time.perf_counter() - begun
        simulated = max(outcome.end or 0.0 for outcome in outcomes)
        rows.append(
            (f"{count:,} replica{'s' * (count > 1)}", len(jobs), steps, 1e-3 * steps / taken, simulated * count / taken)
        )
    return Table(
        ("fleet", "requests", "steps", "thousand steps/s", "replica seconds/s"),
        tuple(rows),
        f"The simulator runs {rows[-1][3]:.1f} thousand steps of the real scheduler per second for {rows[-1][0]}, "
        f"and {rows[0][3]:.1f} thousand for {rows[0][0]}.",
    )
