"""A routing policy of your own, measured by simulation."""

from collections.abc import Sequence

from ..router.replica import Replica

PRICE = 4.0  # prompt blocks that are worth computing again rather than waiting for one more request
USUAL = 16  # the limit of a replica of usual speed


def choose(replicas: Sequence[Replica], blocks: Sequence[int]) -> Replica | None:
    """Return the replica that should get a prompt, or None if no replica can take another request.

    As `router.choice.choose`, a replica can take one if it is ready and `running` is below its `limit`. Which of these
    is chosen is up to you: it must serve more requests within the goal. A replica's `limit` tells its size as well:
    small ones are slower. The result depends on the arguments alone, and nothing is changed.

    Args:
        replicas: all replicas, in any state.
        blocks: the hashes of the prompt's leading blocks.
    """
    raise NotImplementedError("6.C Write a routing policy that serves better")
