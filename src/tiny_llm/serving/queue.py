"""Requests that wait to be let in."""

from collections import deque

from .request import Request


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
