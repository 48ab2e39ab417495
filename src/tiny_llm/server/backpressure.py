"""Admission control: reject requests beyond a limit, and estimate when to try again (Retry-After)."""

import time
from collections.abc import Callable

REMEMBERED = 16  # how many of the latest departures count
FIRST_GUESS = 1.0  # seconds per departure, before the first one
LONGEST = 60  # seconds, the maximum Retry-After


class TooBusy(Exception):
    """Raised when the limit is reached. `seconds`, an integer, says when to try again: HTTP's Retry-After."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {seconds} s")
        self.seconds = seconds


class Gate:
    """Limits the number of requests inside, running or waiting, and rejects all others at once."""

    inside: int  # how many have entered and not left

    def __init__(self, max_inside: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a gate with no requests inside.

        Args:
            max_inside: the maximum number of requests inside, running and waiting together.
            clock: returns seconds.
        """
        raise NotImplementedError("3.7.2 Backpressure")

    def enter(self, count: int = 1) -> None:
        """Admit `count` requests that belong together: all of them or none.

        Raises:
            ValueError: count exceeds max_inside; the message gives max_inside.
            TooBusy: there is no capacity for all of them. The estimate is `places * pace` seconds, rounded up, at least
                1. `places` is how many must leave first: the number in excess, plus the `count` of every call that was
                rejected less than its `places * pace` seconds ago, since those requests will come back. `pace` is the
                time per departure: the time since the oldest of the last REMEMBERED departures, divided by how many
                these are; FIRST_GUESS before the first departure. An estimate above LONGEST becomes `LONGEST // 2 +
                estimate % (LONGEST // 2)`: below LONGEST, and different estimates mostly stay different.
        """
        raise NotImplementedError("3.7.2 Backpressure")

    def leave(self, count: int = 1) -> None:
        """Record that `count` requests have left, for any reason."""
        raise NotImplementedError("3.7.2 Backpressure")
