"""A replica's health: a state machine that is fed with the results of probes and requests."""

from typing import Literal

from .replica import Replica, State

UP = 2  # successful probes in a row that make a replica ready
DOWN = 3  # failed probes in a row, or failed requests with none answered in between, that make it dead

Event = Literal["started", "probe passed", "probe failed", "answered", "failed", "rejected", "drain", "exited"]


class Health:
    """Sets a replica's `state` and `limit`; the router's other parts only read them."""

    replica: Replica

    def __init__(self, replica: Replica, up: int = UP, down: int = DOWN) -> None:
        """Watch a replica whose `limit` is the largest that it may have."""
        self.replica, self._up, self._down = replica, up, down
        self._limit = replica.limit
        self._reset()

    def _reset(self) -> None:
        self._passed, self._failed_probes = 0, 0  # probes in a row
        self._failed_requests = 0  # since the last answered one

    def observe(self, event: Event) -> None:
        """Update the state after an event. `running` is never changed: each request is counted until it ends.

        "started": a new process was started; a dead replica is starting.
        "probe passed": `up` of them in a row make a starting or dead replica ready.
        "probe failed": `down` of them in a row make a ready or draining replica dead. A starting one may take its time.
        "failed": a request has failed. `down` of them, without an "answered" in between, make a ready or draining
            replica dead, whatever its probes say: a server whose engine is broken still answers probes.
        "answered": a request was answered; `limit` grows by 1, up to its first value.
        "rejected": the replica was full; `limit` becomes the number of its other running requests, at least 1, if that
            is smaller.
        "drain": a starting or ready replica is draining: it gets no new requests and finishes those it has. Passed
            probes do not make it ready.
        "exited": its process has ended: it is dead.

        Whenever the state changes, and at every "exited", all counts begin at zero. A replica that becomes dead, or is
        dead already when its process ends, forgets its prefixes, and its limit is the first one again.
        """
        state = self.replica.state
        match event:
            case "started" if state == "dead":
                self._enter("starting")
            case "probe passed":
                self._passed, self._failed_probes = self._passed + 1, 0
                if state in ("starting", "dead") and self._passed >= self._up:
                    self._enter("ready")
            case "probe failed":
                self._passed, self._failed_probes = 0, self._failed_probes + 1
                self._check(self._failed_probes)
            case "failed":
                self._failed_requests += 1
                self._check(self._failed_requests)
            case "answered":
                self._failed_requests = 0
                self.replica.limit = min(self.replica.limit + 1, self._limit)
            case "rejected":
                self.replica.limit = min(self.replica.limit, max(1, self.replica.running - 1))
            case "drain" if state in ("starting", "ready"):
                self._enter("draining")
            case "exited":
                self._enter("dead")

    @property
    def drained(self) -> bool:
        """Whether the replica is draining and has finished all its requests, so that it can be stopped."""
        return self.replica.state == "draining" and not self.replica.running

    def _check(self, failures: int) -> None:
        """Declare a serving replica dead after too many failures."""
        if self.replica.state in ("ready", "draining") and failures >= self._down:
            self._enter("dead")

    def _enter(self, state: State) -> None:
        """Change the state, and start all counts at zero."""
        self.replica.state = state
        self._reset()
        if state == "dead":
            self.replica.prefixes.clear()
            self.replica.limit = self._limit
