"""All replicas: start them, probe them, replace the dead ones, and end them."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from ...engine.package import Package
from .process import ReplicaProcess

TASKS = ("6.4.1", "6.4.2", "6.4.3")
PROBE_SECONDS = 0.5  # between two probes
PROBE_TIMEOUT = 2.0
END_SECONDS = 3.0  # for an idle process to end by itself
LOOK = 0.02  # between two looks
LONGEST_PAUSE = 30.0  # seconds before a replica that does not start is started again


@dataclass
class Member:
    """A replica with its health, both of the learner's, and its process."""

    replica: Any  # router.replica.Replica
    health: Any  # router.health.Health
    process: ReplicaProcess
    restarts: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("answered", "failed", "rejected"), 0))


class Fleet:
    """Several replicas of one server."""

    def __init__(
        self, package: Package, count: int, limit: int, options: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """Prepare `count` replicas, each with at most `limit` requests; `options` are those of `serve`.

        `say` gets a line about whatever happens to one.
        """
        self._options, self._say = options, say
        self._replica, self._health = package.part("router.replica", "Replica"), package.part("router.health", "Health")
        self.members = {name: self._member(name, limit) for name in (f"replica-{i}" for i in range(count))}
        self.replicas = [member.replica for member in self.members.values()]
        self.failed_start: tuple[int, list[str]] | None = None  # exit code and output of the first start
        self.error: BaseException | None = None  # of the learner's code
        self.ready, self.failed = asyncio.Event(), asyncio.Event()  # all have been ready once; one of the two above
        self._client = httpx.AsyncClient(timeout=PROBE_TIMEOUT, trust_env=False)
        self._tasks = list[asyncio.Task[None]]()
        self._closing = False

    def _member(self, name: str, limit: int) -> Member:
        replica = self._replica(name, limit=limit)
        return Member(replica, self._health(replica), self._process(name))

    def _process(self, name: str) -> ReplicaProcess:
        return ReplicaProcess(self._options, lambda line: self._say(f"{name}: {line}"))

    @property
    def model(self) -> str:
        """The name of the model, once a replica serves it."""
        return next((member.process.model for member in self.members.values() if member.process.model), "")

    def start(self) -> None:
        """Start all replicas: the first one alone, since it may have to compile."""
        self._begin(self._start_all())

    def report(self, replica: Any, outcome: str) -> None:
        """Count how a request has ended on a replica, and tell its health."""
        member = self.members[replica.name]
        member.outcomes[outcome] += 1
        self.observe(member, outcome)

    def observe(self, member: Member, event: str) -> None:
        """Tell a replica's health of an event. A dead replica's process is killed: what hangs in it ends."""
        before = member.replica.state
        member.health.observe(event)
        after, name = member.replica.state, member.replica.name
        if after != before and event not in ("exited", "started") and not self._closing:
            about = f" (process {member.process.pid}, {member.process.url})" if after == "ready" else ""
            self._say(f"{name} is {after}{about}.")
        if after == "dead":
            member.process.send_signal(signal.SIGKILL)

    async def close(self, seconds: float) -> None:
        """Let the running requests finish within so many seconds, and end all processes."""
        self._closing = True
        await _until(lambda: not any(replica.running for replica in self.replicas), seconds)
        for member in self.members.values():
            member.process.send_signal(signal.SIGKILL if member.replica.running else signal.SIGTERM)
        await _until(lambda: not any(member.process.pid for member in self.members.values()), END_SECONDS)
        for task in self._tasks:
            task.cancel()  # which kills the processes that are left
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    def kill(self) -> None:
        """Kill all processes at once."""
        for member in self.members.values():
            member.process.send_signal(signal.SIGKILL)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task whose exception ends the fleet."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()):
                self.error = self.error or error
                self.failed.set()

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self._tasks.append(task)
        return task

    async def _start_all(self) -> None:
        first, *others = self.members.values()
        self._begin(self._keep(first))
        await first.process.serving.wait()
        for member in others:
            self._begin(self._keep(member))
        while any(replica.state == "starting" for replica in self.replicas):
            await asyncio.sleep(LOOK)
        self.ready.set()

    async def _keep(self, member: Member) -> None:
        """Run a replica's process, and another one whenever it has ended."""
        pause = 0.0
        while not self._closing:
            probing = self._begin(self._probe(member))
            try:
                code = await member.process.run()
            finally:
                probing.cancel()
                self._tasks.remove(probing)
            served = member.process.serving.is_set()
            if not served and not self.ready.is_set():
                self.failed_start = code, member.process.output
                self.failed.set()
                return
            self.observe(member, "exited")
            if self._closing:
                return
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            said = "" if served else f": {' '.join(member.process.output[:1])}"
            pause = 0.0 if served else min(LONGEST_PAUSE, 2 * pause or 1.0)
            when = f" in {pause:g} s" if pause else ""
            self._say(f"{member.replica.name} {how}{said}; it is started again{when}.")
            await asyncio.sleep(pause)
            member.restarts += 1
            member.process = self._process(member.replica.name)
            self.observe(member, "started")

    async def _probe(self, member: Member) -> None:
        """Ask a replica for its health, again and again."""
        await member.process.serving.wait()
        while True:
            event = "probe failed"
            try:
                answer = await self._client.get(f"{member.process.url}/health")
                if answer.status_code == 200:
                    event = "probe passed"
                elif answer.status_code == 503:  # it got SIGTERM, and finishes its requests
                    event = "drain"
            except httpx.HTTPError:
                pass
            self.observe(member, event)
            await asyncio.sleep(PROBE_SECONDS if member.replica.state != "starting" else LOOK)


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, for so many seconds at most."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK)
