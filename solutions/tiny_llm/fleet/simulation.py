"""A discrete-event simulation of a fleet: the clock jumps from one event to the next."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..router.replica import Replica
from .jobs import Failure, Job, Outcome
from .replica import SimulatedReplica

Choose = Callable[[Sequence[Replica], Sequence[int]], Replica | None]  # as `router.choice.choose`
STEP_END, FAILURE, RESTART, ARRIVAL = range(4)  # kinds of events, in the order in which those of one time happen


def simulate(
    jobs: Sequence[Job], replicas: Sequence[SimulatedReplica], choose: Choose, failures: Iterable[Failure] = ()
) -> list[Outcome]:
    """Serve jobs by a fleet on a simulated clock, and return what became of each, in the order of the jobs.

    Events of one time happen in the order step ends, failures, restarts, arrivals; those of one kind in the order in
    which their steps were started, or in which failures and jobs are given. After all of them, each replica that
    `can_start` starts a step, in the order of the replicas; its end is an event of the time at which the step ends.

    - Arrival: `choose` gets the views of all replicas and the job's blocks. The job is submitted to the chosen one,
      whose name is the outcome's `replica`, and `attempts` grows by one. If it chooses none, the job is rejected: it
      is not tried again.
    - Step end: each request that gets a token has its first token or another one now; it may have ended.
    - Failure: the replica fails, and its step will have no effect. Its requests without a token are sent again, as if
      they arrived, in the order of the jobs and before any other event of this time. Those with a token are lost: a
      client that has read half an answer cannot be given another one. A failure of a dead replica does nothing; the
      replica restarts at each `until`.

    Args:
        jobs: in any order, which stays as it is.
        replicas: idle ones with distinct names; they are modified.
        choose: the router's policy.
        failures: in any order, which stays as it is; of replicas in the fleet.

    Raises:
        ValueError: a failure is that of an unknown replica; the message has its name.
    """
    by_name = {replica.name: replica for replica in replicas}
    order = {replica.name: number for number, replica in enumerate(replicas)}
    views = [replica.view for replica in replicas]
    outcomes = [Outcome(job.arrival, job.max_tokens) for job in jobs]
    held: dict[str, set[int]] = {replica.name: set() for replica in replicas}  # jobs that have not ended
    numbers, busy, touched = itertools.count(), 0, set[str]()
    events: list[tuple[float, int, int, Any]] = []

    def schedule(at: float, kind: int, what: Any) -> None:
        heapq.heappush(events, (at, kind, next(numbers), what))

    def send(number: int) -> None:
        if chosen := choose(views, jobs[number].blocks):
            outcomes[number].replica = chosen.name
            outcomes[number].attempts += 1
            by_name[chosen.name].submit(number, jobs[number])
            held[chosen.name].add(number)
            touched.add(chosen.name)

    for failure in failures:
        if failure.replica not in by_name:
            raise ValueError(f"a failure of {failure.replica!r}, but the fleet has no such replica")
        schedule(failure.at, FAILURE, by_name[failure.replica])
        schedule(failure.until, RESTART, by_name[failure.replica])
    for number, job in enumerate(jobs):
        schedule(job.arrival, ARRIVAL, number)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, kind, _, what = heapq.heappop(events)
            if kind == ARRIVAL:
                send(what)
            elif kind == RESTART:
                what.restart()
            elif kind == FAILURE:
                busy -= what.current is not None
                what.fail()
                left, held[what.name] = sorted(held[what.name]), set()
                for number in left:
                    if outcomes[number].first is None:
                        send(number)
            elif what[0].current is what[1]:  # otherwise the replica has failed since
                replica, _ = what
                busy -= 1
                touched.add(replica.name)
                for number, ended in replica.end_step():
                    outcome = outcomes[number]
                    outcome.first = now if outcome.first is None else outcome.first
                    if ended:
                        outcome.end = now
                        held[replica.name].remove(number)
        for name in sorted(touched, key=order.__getitem__):
            if by_name[name].can_start:
                busy += 1
                step = by_name[name].start_step(busy)
                schedule(now + step.seconds, STEP_END, (by_name[name], step))
        touched.clear()
    return outcomes
