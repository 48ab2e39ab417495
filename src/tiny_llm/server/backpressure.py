"""Who is let in, and what is said to those that are not: come again, and when."""

import time
from collections.abc import Callable

REMEMBERED = 16  # of the requests that have left, the last ones
FIRST_GUESS = 1.0  # seconds for one to leave, while none has
LONGEST = 60  # seconds that anybody is told


class TooBusy(Exception):
    """There is no room now. `seconds`, a whole number, says when there may be some: HTTP's Retry-After."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {seconds} s")
        self.seconds = seconds


class Gate:
    """Lets in so many requests that those inside are served in good time, and refuses all others at once."""

    inside: int  # how many have entered and not left

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nobody.

        Args:
            most: how many may be inside, those that run and those that wait together.
            clock: gives seconds.
        """
        raise NotImplementedError("3.7.2 When to come again")

    def enter(self, count: int = 1) -> None:
        """Let in some requests that belong together: all of them or none.

        Raises:
            ValueError: there are more of them than may ever be inside; the message says how many may.
            TooBusy: there is no room for all of them. It takes `places * pace` seconds until there is, rounded up, at
                least 1 and at most LONGEST. `places` is how many must leave first: as many as are too many, and before
                them as many as came with others who were refused and whose seconds (before rounding) are not over: all
                of their `count`, since they come again with all of them. `pace` is how long it takes until one leaves:
                the time since the oldest of the last REMEMBERED leavings, divided by how many these are; FIRST_GUESS
                while nobody has left.
        """
        raise NotImplementedError("3.7.2 When to come again")

    def leave(self, count: int = 1) -> None:
        """So many have left, for whatever reason."""
        raise NotImplementedError("3.7.2 When to come again")
