"""Fleets and loads for task 6.5.2, and a simulation of them without a heap.

Times are multiples of 1/64 s, so that sums are exact and events do happen at one time.
"""

import random
from typing import Any, NamedTuple


class Scene(NamedTuple):
    """A fleet, a load and failures."""

    jobs: list[tuple[float, int, int]]  # arrival, prompt tokens, output tokens
    replicas: int = 1
    slots: int = 8  # running requests of each
    limit: int = 1 << 30  # requests that the router allows each
    failures: list[tuple[float, str, float]] = []  # noqa: RUF012
    step: float = 1.0  # seconds
    token: float = 0.0  # seconds for each token of a step
    shares: float = 0.0  # how much longer a step takes for each other busy replica, as a share


SCENES = {
    "one request": Scene([(0.5, 4, 3)]),
    "two requests at one time": Scene([(0.0, 4, 3), (0.0, 5, 2)]),
    "a request during a step": Scene([(0.0, 4, 4), (1.5, 3, 2)]),
    "a request when a step ends": Scene([(0.0, 4, 4), (2.0, 3, 2)]),
    "one slot": Scene([(0.0, 4, 2), (0.25, 3, 2), (0.5, 2, 1)], slots=1),
    "two replicas": Scene([(0.0, 4, 3), (0.25, 3, 2), (0.5, 5, 1), (1.25, 2, 4)], replicas=2),
    "jobs that are not in order": Scene([(3.0, 4, 2), (0.5, 3, 3), (1.0, 2, 1)]),
    "replicas that share cores": Scene([(0.0, 4, 3), (0.0, 4, 3), (0.5, 9, 2), (4.0, 2, 2)], replicas=3, shares=0.5),
    "no place for a request": Scene([(0.0, 4, 3), (0.25, 4, 3), (3.0, 4, 2)], limit=1),
    "a failure before the first token": Scene([(0.0, 4, 3)], replicas=2, failures=[(0.5, "r0", 9.0)]),
    "a failure after the first token": Scene([(0.0, 4, 3)], replicas=2, failures=[(1.5, "r0", 9.0)]),
    "a failure when a step ends": Scene([(0.0, 4, 3), (0.0, 4, 3)], replicas=2, failures=[(1.0, "r0", 9.0)]),
    "a failure when the last token comes": Scene([(0.0, 4, 2)], failures=[(2.0, "r0", 9.0)]),
    "a short failure": Scene([(0.0, 4, 3), (0.5, 4, 2)], failures=[(0.25, "r0", 0.375)]),
    "no replica left": Scene([(0.0, 4, 3), (1.25, 4, 2), (3.0, 4, 2)], failures=[(0.5, "r0", 3.0)]),
    "two requests fail together": Scene([(0.0, 4, 3), (1.25, 5, 2), (1.5, 6, 2)], slots=2, replicas=3, limit=3,
                                        failures=[(1.75, "r0", 5.0), (1.75, "r1", 2.5), (2.0, "r1", 4.0)]),
    "a failure of busy replicas that share cores": Scene([(0.0, 4, 6), (0.0, 4, 6), (3.0, 4, 3), (8.0, 4, 2)],
                                                         replicas=2, shares=0.5, failures=[(2.25, "r1", 3.0)]),
    "the same replica twice": Scene([(0.0, 9, 4)], replicas=2, failures=[(0.5, "r0", 2.0), (0.75, "r1", 1.0)]),
    "a retry when others arrive": Scene([(0.5, 4, 2), (0.0, 4, 2), (0.5, 4, 2)], replicas=2, limit=1,
                                        failures=[(0.5, "r0", 9.0)]),
    "a retry when a replica restarts": Scene([(1.0, 4, 2), (1.0, 4, 2)], replicas=3,
                                             failures=[(0.25, "r1", 1.25), (1.25, "r0", 9.0)]),
    "a failure of a dead replica": Scene([(2.25, 4, 2)], failures=[(0.5, "r0", 9.0), (1.0, "r0", 2.0)]),
}  # fmt: skip

# What the first scenes come to, by hand: the times of the first and of the last token of each request.
BY_HAND = {
    "one request": [(1.5, 3.5)],
    "two requests at one time": [(1.0, 3.0), (1.0, 2.0)],
    "a request during a step": [(1.0, 4.0), (3.0, 4.0)],
    "a request when a step ends": [(1.0, 4.0), (3.0, 4.0)],
    "one slot": [(1.0, 2.0), (3.0, 4.0), (5.0, 5.0)],
    "replicas that share cores": [(1.0, 5.0), (1.5, 5.5), (2.5, 4.5), (6.5, 7.5)],
    "no place for a request": [(1.0, 3.0), (None, None), (4.0, 5.0)],
    "a failure before the first token": [(1.5, 3.5)],
    "a failure after the first token": [(1.0, None)],
    "a failure when a step ends": [(1.0, None), (1.0, 3.0)],
    "a failure when the last token comes": [(1.0, 2.0)],
}


def drawn(seed, jobs):
    """Return a random scene in which many events happen at one time."""
    draw = random.Random(seed)
    replicas, end = draw.randint(1, 5), jobs * 0.5
    names = [f"r{draw.randrange(replicas)}" for _ in range(draw.choice((0, 1, 3, 8)))]
    begins = [draw.randint(0, round(4 * end)) / 4 for _ in names]
    return Scene(
        [(draw.randint(0, round(4 * end)) / 4, draw.randint(1, 90), draw.randint(1, 9)) for _ in range(jobs)],
        replicas,
        draw.choice((1, 2, 8)),
        draw.choice((2, 4, 99)),
        [(at, name, at + draw.randint(1, 12) / 4) for at, name in zip(begins, names, strict=True)],
        draw.choice((0.25, 0.5)),
        draw.choice((0.0, 1 / 64)),
        draw.choice((0.0, 0.5)),
    )


def least_loaded(views, _blocks):
    """Return the ready replica with the fewest requests, the first of equals; None if all are full or dead."""
    ready = [view for view in views if view.state == "ready" and view.running < view.limit]
    return min(ready, key=lambda view: view.running, default=None)


def fleet_of(scene: Any, replica: Any, resources: Any) -> Any:
    """Build the replicas of a scene, with the classes of `fleet.replica`."""

    def seconds(chunks, busy):
        count = sum(len(chunk.tokens) for chunk in chunks)
        return (scene.step + scene.token * count) * (1 + scene.shares * (busy - 1))

    limits = resources(max_num_seqs=scene.slots, pages=256, prefix_cache=False, limit=scene.limit)
    return [replica(f"r{n}", seconds, limits) for n in range(scene.replicas)]


def jobs_of(scene: Any, job: Any) -> Any:
    """Build the jobs of a scene; no two prompts begin alike."""
    return [job(at, (1000 + n,) * prompt, output) for n, (at, prompt, output) in enumerate(scene.jobs)]


def simulated(jobs, replicas, choose, failures, make: Any) -> list[Any]:
    """Simulate with a list of what is still to come, from which the next event is searched every time.

    Args:
        make: the class `Outcome`.
    """
    found = [make(job.arrival, job.max_tokens) for job in jobs]
    coming = [(failure.at, 1, n, failure) for n, failure in enumerate(failures)]
    coming += [(failure.until, 2, n, failure) for n, failure in enumerate(failures)]
    coming += [(job.arrival, 3, n, n) for n, job in enumerate(jobs)]
    steps: list[tuple[float, int, int, Any]] = []  # those that run: the end, 0, a number, the replica
    inside: dict[int, str] = {}  # the replica of each job that is in one
    begun = 0

    def send(number):
        view = choose([replica.view for replica in replicas], jobs[number].blocks)
        if view is not None:
            next(replica for replica in replicas if replica.view is view).submit(number, jobs[number])
            inside[number], found[number].replica = view.name, view.name
            found[number].attempts += 1

    while coming or steps:
        now = min(event[0] for event in coming + steps)
        for event in sorted((each for each in coming + steps if each[0] == now), key=lambda each: each[:3]):
            _, kind, _, what = event
            if kind == 0:
                steps.remove(event)
                for number, ended in what.end_step():
                    if found[number].first is None:
                        found[number].first = now
                    if ended:
                        found[number].end = now
                        del inside[number]
                continue
            coming.remove(event)
            if kind == 3:
                send(what)
                continue
            replica = next(each for each in replicas if each.name == what.replica)
            if kind == 2:
                replica.restart()
                continue
            replica.fail()
            steps = [step for step in steps if step[3] is not replica]
            gone = sorted(number for number, name in inside.items() if name == replica.name)
            for number in gone:
                del inside[number]
            for number in gone:
                if found[number].first is None:
                    send(number)
        for replica in replicas:
            if replica.can_start:
                begun += 1
                steps.append((now + replica.start_step(len(steps) + 1).seconds, 0, begun, replica))
    return found
