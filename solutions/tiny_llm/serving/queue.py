"""Queues of requests that wait for admission: first come, first served, or fair among users."""

from collections import deque
from typing import Protocol

from .request import Request


class Queue(Protocol):
    """Holds the waiting requests and decides which is admitted next."""

    def __len__(self) -> int:
        """Return how many requests wait."""

    def add(self, request: Request) -> None:
        """Add a new request."""

    def requeue(self, request: Request) -> None:
        """Add a preempted request."""

    def peek(self) -> Request:
        """Return the request to be admitted next, without removing it. The queue is not empty."""

    def remove(self, request: Request) -> None:
        """Remove a request that was admitted or cancelled; raise ValueError if it is not here."""

    def charge(self, request: Request, tokens: int) -> None:
        """Record that `tokens` tokens of a request were computed."""


class FirstComeFirstServed:
    """A queue in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Append a new request."""
        self._waiting.append(request)

    def requeue(self, request: Request) -> None:
        """Put a preempted request first."""
        self._waiting.appendleft(request)

    def peek(self) -> Request:
        """Return the first request, without removing it."""
        return self._waiting[0]

    def remove(self, request: Request) -> None:
        """Remove a request that was admitted or cancelled.

        Raises:
            ValueError: it is not here.
        """
        self._waiting.remove(request)

    def charge(self, request: Request, tokens: int) -> None:
        """Do nothing: the order does not depend on the tokens."""


class FairQueue:
    """A queue that is fair among users: the next request is one of the user with the fewest tokens.

    Each user has a counter, which starts at 0 and counts the computed tokens of the user's requests. `counters` has
    those of all users ever seen, by name. A user's *claim* is this counter plus the uncomputed tokens of the user's
    requests that are admitted and not finished, as if they had been computed. (The virtual token counter of Sheng et
    al. 2024, "Fairness in Serving Large Language Models", where an output token may weigh more than a prompt token;
    here all weigh 1. There, too, a prompt counts once it is admitted.)
    """

    counters: dict[str, int]  # of every user ever seen

    def __init__(self) -> None:
        self.counters = {}
        self._waiting: dict[str, deque[Request]] = {}  # by user, for users with a waiting request
        self._admitted: list[Request] = []
        self._last = ""  # the user of the request that left last

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, request: Request) -> None:
        """Add a new request, the last one of its user.

        If none of the user's requests waits, the user is new or was idle. Idle users must not save up tokens: a lower
        counter is raised to the lowest counter of the users with a waiting request or, if there is none, to that of
        the user whose request was the last to leave this queue.
        """
        user = request.user
        if user not in self._waiting:
            least = min((self.counters[one] for one in self._waiting), default=self.counters.get(self._last, 0))
            self.counters[user] = max(self.counters.get(user, 0), least)
        self._waiting.setdefault(user, deque()).append(request)

    def requeue(self, request: Request) -> None:
        """Put a preempted request first among its user's. The user's counter does not change."""
        self._admitted.remove(request)
        self._waiting.setdefault(request.user, deque()).appendleft(request)

    def peek(self) -> Request:
        """Return the request to be admitted next, without removing it: the first one of the user with the lowest claim.

        Of users with equal claims, it is the one whose first request has the lower `request_id`.
        """
        return min(
            (line[0] for line in self._waiting.values()), key=lambda one: (self._claim(one.user), one.request_id)
        )

    def remove(self, request: Request) -> None:
        """Remove a request that was admitted or cancelled; the latter is finished before the next call of `peek`.

        Raises:
            ValueError: it is not here.
        """
        line = self._waiting.get(request.user, deque())
        line.remove(request)
        if not line:
            del self._waiting[request.user]
        self._admitted.append(request)
        self._last = request.user

    def charge(self, request: Request, tokens: int) -> None:
        """Add computed tokens, recomputed ones included, to the counter of the request's user."""
        self.counters[request.user] += tokens

    def _claim(self, user: str) -> int:
        self._admitted = [request for request in self._admitted if not request.finish_reason]
        return self.counters[user] + sum(one.num_uncomputed_tokens for one in self._admitted if one.user == user)
