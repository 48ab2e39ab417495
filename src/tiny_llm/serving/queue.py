"""Requests that wait to be let in."""

from collections import deque
from typing import Protocol

from .request import Request


class Queue(Protocol):
    """Who waits, and who is next."""

    def __len__(self) -> int:
        """How many wait."""

    def add(self, request: Request) -> None:
        """A new request."""

    def put_back(self, request: Request) -> None:
        """One that has been let in and must wait again."""

    def next(self) -> Request:
        """The one to be let in next, which stays here. There is one."""

    def remove(self, request: Request) -> None:
        """One that has been let in, or does not wait any more. A ValueError if it is not here."""

    def charge(self, request: Request, tokens: int) -> None:
        """So many tokens of it have been read."""


class FirstComeFirstServed:
    """In the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """A new request, which is the last one."""
        self._waiting.append(request)

    def put_back(self, request: Request) -> None:
        """One that has been let in and must wait again: it is the next one."""
        self._waiting.appendleft(request)

    def next(self) -> Request:
        """The one to be let in next, which stays here."""
        return self._waiting[0]

    def remove(self, request: Request) -> None:
        """One that has been let in, or does not wait any more.

        Raises:
            ValueError: it is not here.
        """
        self._waiting.remove(request)

    def charge(self, request: Request, tokens: int) -> None:
        """So many tokens of it have been read. Here nobody counts."""


class FairQueue:
    """Fair among users: the next request is one of the user who has had the fewest tokens.

    Each user has a counter, which begins at 0 and counts the tokens that were read of the user's requests. `counters`
    has those of all users who were ever here, by their names. What a user *claims* is this counter and, on top, the
    unread tokens of those requests of the user that were let in and have not finished: as if they had been read. (The
    virtual token counter of Sheng et al. 2024, "Fairness in Serving Large Language Models", where a token that is
    written may count for more than one that is read; here all count 1. There, too, a prompt counts when it is let in.)
    """

    counters: dict[str, int]  # the counter of every user who was ever here

    def __init__(self) -> None:
        raise NotImplementedError("3.2.2 A fair queue")

    def __len__(self) -> int:
        raise NotImplementedError("3.2.2 A fair queue")

    def add(self, request: Request) -> None:
        """A new request, the last one of its user.

        If none of the user's requests waits, the user has been away, or is new. While others were served, nobody saves
        up tokens: a lower counter is lifted to the lowest counter of the users who have a request here or, if there is
        none, to that of the user whose request was the last to leave this queue.
        """
        raise NotImplementedError("3.2.2 A fair queue")

    def put_back(self, request: Request) -> None:
        """One that has been let in and must wait again: the first one of its user, whose counter stays as it is."""
        raise NotImplementedError("3.2.2 A fair queue")

    def next(self) -> Request:
        """The one to be let in next, which stays here: the first one of the user who claims the fewest tokens.

        Of users with equal claims, it is the one whose first request has the lower number.
        """
        raise NotImplementedError("3.2.2 A fair queue")

    def remove(self, request: Request) -> None:
        """One that has been let in, or does not wait any more; the latter is finished before anybody asks again.

        Raises:
            ValueError: it is not here.
        """
        raise NotImplementedError("3.2.2 A fair queue")

    def charge(self, request: Request, tokens: int) -> None:
        """So many tokens of it have been read, perhaps not for the first time: its user's counter goes up."""
        raise NotImplementedError("3.2.2 A fair queue")
