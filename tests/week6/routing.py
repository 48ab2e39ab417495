"""Four loads for week 6's open task, each of which asks something else of a routing policy."""

from typing import Any, NamedTuple

PAGES = 96  # of each replica's KV cache: a few prefixes fit, not all
COST = (0.004, 0.0005, 0.0004, 1e-6)  # seconds: of a step, a prefilled token, a decoding request, a cached token
FIRST, PER_TOKEN = 0.25, 0.02  # the goal of each request, seconds


class Load(NamedTuple):
    """A fleet and its traffic."""

    about: str
    traffic: dict[str, Any]  # of `fleet.jobs.Traffic`
    slots: tuple[int, ...] = (8, 8, 8, 8)  # of each replica: running requests; the router allows twice as many
    slowness: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # how many times longer the steps of each take
    failures: tuple[tuple[float, str, float], ...] = ()


LOADS = {
    "skewed": Load("24 long prefixes, a few of them popular", {"rate": 30.0, "prefixes": 24, "shared": 224}),
    "short prefixes": Load(
        "prefixes of less than half of a prompt",
        {"rate": 19.0, "prefixes": 12, "shared": 144, "prompt": (150, 190)},
    ),
    "unequal replicas": Load(
        "two fast replicas and three slow ones",
        {"rate": 27.0, "prefixes": 8, "shared": 128},
        (12, 12, 4, 4, 4),
        (1.0, 1.0, 3.0, 3.0, 3.0),
    ),
    "failures": Load(
        "two fast replicas, which die, and two slow ones",
        {"rate": 18.0, "prefixes": 8, "shared": 192},
        (12, 12, 4, 4),
        (1.0, 1.0, 3.0, 3.0),
        ((2.0, "r0", 3.0), (4.5, "r1", 5.5), (7.0, "r0", 7.5)),
    ),
}
REQUESTS, OUTPUT = 120, 12.0
SEEDS = (1, 2)
DAY_4 = {"skewed": 0.695, "short prefixes": 0.555, "unequal replicas": 0.78, "failures": 0.615}  # what day 4's reaches
NEEDED, WORSE = 0.71, 0.05  # the mean share of all loads, and how far below day 4 the share of one may be
_MEANS: dict[Any, float] = {}


def mean(policy: Any, name: str, fleet: Any) -> float:
    """Return the mean share of a load's requests that meet the goal, computed once for a policy."""
    key = policy, name
    if key not in _MEANS:
        _MEANS[key] = sum(share_of(policy, name, fleet, seed) for seed in SEEDS) / len(SEEDS)
    return _MEANS[key]


def share_of(policy: Any, name: str, fleet: Any, seed: int) -> float:
    """Return the share of a load's requests that meet the goal, from 0 to 1.

    Args:
        policy: as `router.choice.choose`.
        name: of the load.
        fleet: has the modules jobs, replica, simulation, capacity and cost of the package `fleet`.
        seed: of the traffic.
    """
    load = LOADS[name]
    jobs = fleet.jobs.arrivals(
        fleet.jobs.Traffic(requests=REQUESTS, output=OUTPUT, longest=40, **({"prompt": (16, 96)} | load.traffic)), seed
    )
    cost = fleet.cost.StepCost(*COST)

    def replica(number: int) -> Any:
        slots, slow = load.slots[number], load.slowness[number]
        limits = fleet.replica.Resources(max_num_seqs=slots, pages=PAGES, limit=2 * slots)
        return fleet.replica.SimulatedReplica(
            f"r{number}", lambda chunks, busy: slow * cost.seconds(cost.work(chunks)), limits
        )

    replicas = [replica(number) for number in range(len(load.slots))]
    failures = [fleet.jobs.Failure(*each) for each in load.failures]
    outcomes = fleet.simulation.simulate(jobs, replicas, policy, failures)
    goal = fleet.capacity.Goal(FIRST, PER_TOKEN)
    return float(sum(map(goal.met_by, outcomes)) / len(outcomes))


def views():
    """Return replicas as (name, state, running, limit, seen blocks), the blocks of a prompt, and who may be chosen."""
    one, two = [11, 12, 13, 14], [21, 22]
    return [
        ([("a", "ready", 0, 4, [])], one, ["a"]),
        ([("a", "ready", 4, 4, one)], one, [None]),
        ([("a", "dead", 0, 4, one), ("b", "ready", 3, 4, [])], one, ["b"]),
        ([("a", "draining", 0, 4, one), ("b", "ready", 8, 9, two)], one, ["b"]),
        ([("a", "starting", 0, 4, []), ("b", "dead", 0, 4, [])], two, [None]),
        ([("a", "ready", 16, 16, one), ("b", "ready", 1, 2, []), ("c", "dead", 0, 99, one)], one, ["b"]),
        ([("a", "ready", 1, 4, two), ("b", "ready", 1, 4, two)], [], ["a", "b"]),
        ([], one, [None]),
    ]
