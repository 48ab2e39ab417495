"""The collectives of the cost model, message by message: when each rank can send and receive."""

from collections.abc import Iterator

ALGORITHMS = ("reduce_scatter", "all_gather", "ring_all_reduce", "one_shot_all_reduce", "central_all_reduce")
Message = tuple[int, int, float]  # from, to, bytes


def messages(name: str, num_bytes: float, ranks: int) -> Iterator[Message]:
    """Yield the messages of a collective in an order in which they can be sent."""
    steps = {"reduce_scatter": 1, "all_gather": 1, "one_shot_all_reduce": 1, "ring_all_reduce": 2}.get(name, 0)
    size = num_bytes if name == "one_shot_all_reduce" else num_bytes / ranks
    for _ in range(steps * (ranks - 1)):
        yield from ((rank, (rank + 1) % ranks, size) for rank in range(ranks))
    if not steps:
        yield from ((rank, 0, num_bytes) for rank in range(1, ranks))
        yield from ((0, rank, num_bytes) for rank in range(1, ranks))


def seconds_of(name: str, num_bytes: float, ranks: int, latency: float, seconds_per_byte: float) -> float:
    """Return when the last message has arrived, if a rank sends one and receives one at a time.

    A rank sends on what it has received: it can send only after its last message has arrived, except on the ring, where
    it sends and receives at once.
    """
    now = [0.0] * ranks  # when each rank is free
    ring = name != "central_all_reduce"
    pending: list[Message] = []
    for message in messages(name, num_bytes, ranks):
        pending.append(message)
        if ring and len(pending) < ranks:
            continue
        ends = {}
        for source, to, size in pending:
            ends[to] = max(now[source], now[to]) + latency + seconds_per_byte * size
            if not ring:
                ends[source] = ends[to]
        for rank, end in ends.items():
            now[rank] = end
        pending = []
    return max(now)
