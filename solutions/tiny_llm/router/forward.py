"""Forward a request to a replica, and to another one if the first fails before the client has received anything."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from .choice import choose
from .replica import Replica

ATTEMPTS = 3  # replicas that one request may be sent to
RETRY_AFTER = 1  # seconds, if no replica has said when to try again


class ReplicaFailed(Exception):
    """Raised by `send`: the replica refused or broke the connection, or answered with a server error."""


class Rejected(Exception):
    """Raised by `send`: the replica has no capacity. `seconds` is its Retry-After."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the replica is full; try again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Failure:
    """The last event of a request that has no complete answer."""

    status: int  # HTTP's: 429, every replica is full; 503, no replica can answer; 502, the answer broke off
    message: str
    retry_after: int | None = None  # seconds; None if the answer had begun


Outcome = Literal["answered", "failed", "rejected"]
# Sends a request to a replica and yields the events of its answer. It may raise ReplicaFailed or Rejected.
Send = Callable[[Replica, Any], AsyncGenerator[Any, None]]


async def forward(
    request: Any,
    blocks: Sequence[int],
    replicas: Sequence[Replica],
    send: Send,
    report: Callable[[Replica, Outcome], None],
    attempts: int = ATTEMPTS,
) -> AsyncGenerator[Any, None]:
    """Yield the events of a request's answer from one replica, or end with a Failure.

    The request is sent to the replica that `choose` returns. If that one raises ReplicaFailed or Rejected before its
    first event, `choose` picks another one among those not tried yet, up to `attempts` replicas in all. After the first
    event nothing is retried, since the client would receive the beginning twice.

    From before `send` until the replica's events are closed, the request counts in the replica's `running`. Its blocks
    are added to the replica's `prefixes` before it is sent. However the request ends, also if the client closes this
    generator or is cancelled, the events of `send` are closed and the count is released, before the next replica is
    chosen and before a Failure is yielded. A replica's `state` and `limit` are never changed here.

    Yields:
        The events of one replica, as they are. If the answer breaks off after the first event, then a Failure with
        status 502 whose message names the replica. If no replica has sent an event, only a Failure: status 429 if one
        has raised Rejected, with the least of their `seconds`; 429 also if none was tried and one is ready, so all are
        at their limit; otherwise 503; both with RETRY_AFTER seconds.

    Args:
        request: passed on to `send`.
        blocks: the hashes of the prompt's leading blocks.
        send: yields the events of a replica's answer.
        report: called once for each attempt: "answered" when all events were passed on, "failed" after a ReplicaFailed,
            "rejected" after a Rejected; while the request still counts in `running`. Not called if the client left.
    """
    tried, waits = list[Replica](), list[int]()
    while len(tried) < attempts:
        replica = choose([each for each in replicas if each not in tried], blocks)
        if replica is None:
            break
        tried.append(replica)
        begun = False
        replica.running += 1  # at once: the next request must see it
        replica.prefixes.add(blocks)
        try:
            async with aclosing(send(replica, request)) as events:
                async for event in events:
                    begun = True
                    yield event
            report(replica, "answered")
            return
        except Rejected as error:
            waits.append(error.seconds)
            report(replica, "rejected")
        except ReplicaFailed:
            report(replica, "failed")
        finally:
            replica.running -= 1
        if begun:
            yield Failure(502, f"{replica.name} failed in the middle of the answer.")
            return
    if waits or (not tried and any(replica.state == "ready" for replica in replicas)):
        yield Failure(429, "Every replica is full.", min(waits, default=RETRY_AFTER))
    else:
        yield Failure(503, "No replica can answer.", RETRY_AFTER)
