"""Conversations over two replicas in virtual time, of which one may be killed."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from tests.week3.virtual_time import now, play

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.router.forward import Failure, ReplicaFailed, forward  # noqa: E402
from tiny_llm_solution.router.health import Health  # noqa: E402
from tiny_llm_solution.router.replica import Replica  # noqa: E402

NAMES = "ABC"

# The widget's world, in quarters of a second: a block of 16 tokens is prefilled in one, a token is decoded in one.
QUARTER = 0.25
FIRST, MORE, TURNS = 6, 4, 4  # blocks of a first prompt, blocks that each turn adds, turns
DECODED, PAUSE = 8, 3  # tokens of an answer; quarters until the user's next turn
RESTART = 16  # quarters until a killed replica is ready again


class World:
    """Two replicas and three users in virtual time; replica `victim` is killed after `second` seconds, if any."""

    def __init__(self, aware: bool, victim: int | None, second: int) -> None:
        self.aware, self.victim, self.second = aware, victim, second
        self.replicas = [Replica(f"replica {number}", "ready") for number in (1, 2)]
        self.healths = [Health(replica) for replica in self.replicas]
        self.caches: list[set[int]] = [set(), set()]
        self.alive = [True, True]
        self.died = [asyncio.Event(), asyncio.Event()]
        self.rows: list[list[int]] = []  # conversation, turn, replica, from, first token, to, cached blocks, end
        self.known: list[tuple[int, int, int, list[int], list[int]]] = []  # before each choice: blocks seen, running

    async def send(self, replica: Replica, request: tuple[int, int, list[int]]) -> AsyncGenerator[str, None]:
        """Prefill what is not cached, then decode; raise ReplicaFailed when the process is killed."""
        number = self.replicas.index(replica)
        conversation, turn, blocks = request
        cached = next((i for i, block in enumerate(blocks) if block not in self.caches[number]), len(blocks))
        row = [conversation, turn, number, round(now() / QUARTER), -1, -1, cached, 0]
        self.rows.append(row)
        try:
            await self._work(number, len(blocks) - cached)
            self.caches[number] |= set(blocks)
            row[4] = round(now() / QUARTER)
            for _ in range(DECODED):
                await self._work(number, 1)
                yield "token"
            row[7] = 1
        finally:
            row[5] = round(now() / QUARTER)

    async def _work(self, number: int, quarters: int) -> None:
        """Wait, or fail as soon as the replica is killed."""
        if not self.alive[number]:
            raise ReplicaFailed
        dying = asyncio.ensure_future(self.died[number].wait())
        done, _ = await asyncio.wait([dying], timeout=QUARTER * quarters)
        dying.cancel()
        if done:
            raise ReplicaFailed

    async def user(self, conversation: int) -> None:
        """Hold a conversation; after an error event, send the turn again."""
        await asyncio.sleep(QUARTER * 2 * conversation)
        turn = 0
        while turn < TURNS:
            blocks = [1000 * conversation + i for i in range(FIRST + MORE * turn)]
            seen = [replica.prefixes.match(blocks) for replica in self.replicas]
            running = [replica.running for replica in self.replicas]
            self.known.append((conversation, turn, len(blocks), seen, running))
            events = forward(
                (conversation, turn, blocks), blocks if self.aware else (), self.replicas, self.send, self.report
            )
            failed = [event async for event in events if isinstance(event, Failure)]
            await asyncio.sleep(QUARTER * PAUSE)
            turn += not failed

    def report(self, replica: Replica, outcome: Any) -> None:
        """Tell the replica's health."""
        self.healths[self.replicas.index(replica)].observe(outcome)

    async def run(self) -> list[list[int]]:
        """Return the attempts of all requests."""
        for health in self.healths:
            health.observe("probe passed")
        users = [asyncio.ensure_future(self.user(number)) for number in range(len(NAMES))]
        if self.victim is not None:
            await asyncio.sleep(self.second)
            self.alive[self.victim] = False
            self.died[self.victim].set()
            self.caches[self.victim] = set()
            self.healths[self.victim].observe("exited")
            await asyncio.sleep(QUARTER * RESTART)
            self.died[self.victim], self.alive[self.victim] = asyncio.Event(), True
            for event in ("started", "probe passed", "probe passed"):
                self.healths[self.victim].observe(event)
        await asyncio.wait(users)
        return self.rows


def played(aware: bool, victim: int | None = None, second: int = 0) -> list[list[int]]:
    """Return the attempts of a run."""

    async def script() -> list[list[int]]:
        return await World(aware, victim, second).run()

    found: list[list[int]] = play(script())
    return found
