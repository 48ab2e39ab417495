"""Choose the replica for a request: the one that has its prefix cached, unless that one is overloaded."""

from collections.abc import Sequence

from .replica import Replica

ENOUGH = 0.5  # share of a prompt's blocks that a replica must have seen to be preferred for them
MARGIN = 4  # how many more requests than the least loaded replica it may then have


def choose(replicas: Sequence[Replica], blocks: Sequence[int]) -> Replica | None:
    """Return the replica that should get a prompt, or None if no replica can take another request.

    A replica can take one if it is ready and `running` is below its `limit`. The least loaded of these has the smallest
    `running`. The preferred one has seen the most leading blocks of the prompt; of equals, the one with the smallest
    `running`. It is chosen if it has seen at least one block and at least the share ENOUGH of all blocks, and has at
    most MARGIN more requests running than the least loaded one. Otherwise the least loaded one is chosen. All ties go
    to the first replica. Nothing is changed: the caller counts the request.

    Args:
        replicas: all replicas, in any state.
        blocks: the hashes of the prompt's leading blocks, from `prefix_blocks`.
    """
    raise NotImplementedError("6.4.1 Choose a replica")
