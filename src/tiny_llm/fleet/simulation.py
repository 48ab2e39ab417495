"""A discrete-event simulation of a fleet: the clock jumps from one event to the next."""

from collections.abc import Callable, Iterable, Sequence

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
    raise NotImplementedError("6.5.2 Discrete-event simulation")
