"""A test rig for `forward`: replicas that follow a script in virtual time, clients, and a log of what happens.

A script has a character a second: a letter is an event, "!" raises ReplicaFailed, a digit raises Rejected with so many
seconds, "?" raises a KeyError, "~" never ends. "/" separates the scripts of a replica's first request, second, ...
"""

import asyncio
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.week3.virtual_time import now, play
from tests.week6.replicas import Replica, fleet, prompt_of

MODULE = "router.forward"


def error(name: str, *args: Any) -> Exception:
    """Return an exception of the router that is caught by its name in the learner's package and in ours."""
    modules = [sys.modules.get(f"{package}.{MODULE}") for package in ("tiny_llm", "tiny_llm_solution")]
    kinds = dict.fromkeys(getattr(module, name) for module in modules if module)
    made: Exception = type(name, tuple(kinds), {})(*args)
    return made


class Rig:
    """Replicas with scripts; `log` has a line for whatever a client or a replica gets, `reports` for each report."""

    def __init__(self, program: Any, replicas: Sequence[Replica], scripts: Sequence[str], attempts: int | None) -> None:
        self._program, self.replicas, self._attempts = program, list(replicas), attempts
        self._given = [(r.state, r.limit) for r in replicas]
        self._scripts = {r.name: each.split("/") for r, each in zip(replicas, scripts, strict=True)}
        self.open, self.ends, self.sent = 0, list[str](), list[str]()
        self._before, self.early = sum(r.running for r in replicas), list[str]()
        self.log, self.reports, self.clients = list[str](), list[str](), list[asyncio.Task[None]]()

    def counts(self) -> str:
        """Return what runs on each replica, and how many answers are open if that is not their sum."""
        running = [r.running for r in self.replicas]
        return f"busy {' '.join(map(str, running))}" + (f", {self.open} open" if self.open != sum(running) else "")

    def changed(self) -> list[str]:
        """Return a line for each replica whose state or limit the program has changed."""
        pairs = zip(self.replicas, self._given, strict=True)
        return [f"{r.name} is {r.state}, limit {r.limit}" for r, given in pairs if (r.state, r.limit) != given]

    def note(self, text: str) -> None:
        """Add a line."""
        self.log.append(f"{now():g} s: {text}")

    async def send(self, replica: Replica, request: str) -> Any:
        """Follow the replica's script."""
        self.open += 1
        self.sent.append(replica.name)
        seen = replica.prefixes.match(prompt_of(9))
        self.note(f"{replica.name} gets {request}, {self.counts()}" + (f", {seen} seen" if seen else ""))
        scripts = self._scripts[replica.name]
        script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        try:
            for step in script:
                await asyncio.sleep(1.0 if step != "~" else 10_000.0)
                if step.isdigit():
                    raise error("Rejected", int(step))
                if step == "?":
                    raise KeyError("a mistake in send")
                if step == "!":
                    raise error("ReplicaFailed")
                yield f"{request}{step}"
        finally:
            if sum(r.running for r in self.replicas) - self._before < self.open:
                self.early.append(f"{replica.name}: the count of {request} was released before its events were closed")
            self.open -= 1

    def report(self, replica: Replica, outcome: str) -> None:
        """Note a report."""
        self.reports.append(f"{now():g} s: {replica.name} {outcome}, {replica.running} running")

    def client(self, request: str, blocks: int = 0, leaves: int = 0, pause: float = 0.0) -> asyncio.Task[None]:
        """Start a client; it closes the answer after `leaves` events, or reads the next one after `pause` seconds."""
        self.clients.append(asyncio.ensure_future(self._read(request, blocks, leaves, pause)))
        return self.clients[-1]

    async def _read(self, request: str, blocks: int, leaves: int, pause: float) -> None:
        more = {} if self._attempts is None else {"attempts": self._attempts}
        events = await events_of(
            self._program(request, prompt_of(blocks), self.replicas, self.send, self.report, **more)
        )
        count, last = 0, None
        try:
            async for event in events:
                count, last = count + 1, event
                self.note(f"{request} reads {self._words(event)}")
                if count == leaves:
                    break
                if pause:
                    await asyncio.sleep(pause)
            await events.aclose()
            end = "left" if count == leaves and leaves else "failed" if not isinstance(last, str) else "answered"
            end = "answered" if last is None else end
        except asyncio.CancelledError:
            with suppress(RuntimeError):
                await events.aclose()
            end = "cancelled"
        except KeyError:  # of `send`
            end = "raised KeyError"
        self.ends.append(f"{request} {end}")
        self.note(f"{request} {end}, {self.counts()}")

    async def finished(self) -> "Rig":
        """Wait until all clients have ended, and a second longer; raise what the program has raised by itself."""
        await asyncio.wait(self.clients)
        await asyncio.sleep(1.0)
        for client in self.clients:
            if not client.cancelled():
                client.result()
        return self

    def _words(self, event: Any) -> str:
        if isinstance(event, str):
            return event
        if type(event).__name__ != "Failure":
            return f"an event that is no Failure: {event!r:.60}"
        names = [r.name for r in self.replicas if r.name in event.message]
        named = f" that names {' '.join(names)}" if names and event.status == 502 else ""
        again = "" if event.retry_after is None else f", retry after {event.retry_after} s"
        return f"Failure {event.status}{named}{again}, {self.counts()}"


async def events_of(answer: Any) -> Any:
    """Return the events of an answer. A function without a yield, such as the stub, returns a coroutine: run it."""
    return await answer if asyncio.iscoroutine(answer) else answer


# by name: the fleet, the scripts, attempts (None: the default), and what happens: at which second, who does what
Scene = tuple[str, list[str], int | None, list[tuple[float, str, dict[str, Any]]]]
TWO, THREE = "ready 0/16 *, ready 0/16 *", "ready 0/16 *, ready 0/16 *, ready 0/16 *"


def alone(text: str, scripts: str, attempts: int | None = None, **client: Any) -> Scene:
    """Return a scene with one client, A."""
    return text, scripts.split(), attempts, [(0.0, "A", client)]


async def run_scene(program: Any, scene: Scene) -> Rig:
    """Run a scene to its end."""
    text, scripts, attempts, script = scene
    rig = Rig(program, fleet(text, prompt_of(9)), scripts, attempts)
    for at, who, client in script:
        await asyncio.sleep(at - now())
        if who == "cancel":
            rig.clients[client["number"]].cancel()
        else:
            rig.client(who, **client)
    return await rig.finished()


def scene_of(program: Any, scene: Scene) -> list[str]:
    """Run a scene; return the log, then the reports, then what is left."""
    rig = play(run_scene(program, scene))
    return [*rig.log, *rig.reports, *rig.early, rig.counts(), *rig.changed()]


def random_scene(seed: int, replicas: int, clients: int) -> Scene:
    """Draw a scene: replicas that fail and clients that leave, at any time."""
    draw = random.Random(seed)
    scripts = [
        "/".join(draw.choice(["ab", "a!", "!", "3", "7", "", "~", "abc"]) for _ in range(4)) for _ in range(replicas)
    ]
    script: list[tuple[float, str, dict[str, Any]]] = []
    for number in range(clients):
        begun = round(0.37 * number, 2)
        leaves = {"leaves": draw.choice([0, 0, 0, 1, 2])}
        script.append((begun, chr(65 + number), {"blocks": draw.choice([0, 3, 6]), **leaves}))
    for number in range(clients):  # those that hang, too
        script.append((draw.choice([2.61, 4.13, 90.0]), "cancel", {"number": number}))
    states = [draw.choice(["ready"] * 4 + ["dead"]) for _ in range(replicas)]
    text = ", ".join(f"{state} 0/{draw.choice([1, 2, 16])} *" for state in states)
    return text, scripts, draw.choice([None, 1, 2]), sorted(script, key=lambda step: step[0])


def by_formula(scene: Scene) -> tuple[list[str], list[str]]:
    """Return what client A, alone and staying, receives, and the replicas that it was sent to, by the docstring."""
    text, scripts, attempts, [(_, _, client)] = scene
    blocks = prompt_of(client.get("blocks", 0))
    left = [(r, script) for r, script in zip(fleet(text, prompt_of(9)), scripts, strict=True)]
    waits, tried, at = list[int](), list[str](), 0
    while len(tried) < (attempts or 3):
        able = [(r, s) for r, s in left if r.state == "ready" and r.running < r.limit]
        if not able:
            break
        seen = [r.prefixes.match(blocks) for r, _ in able]
        least = min(r.running for r, _ in able)
        order = sorted(range(len(able)), key=lambda i: (-seen[i], able[i][0].running, i))
        best = able[order[0]][0]
        cached = seen[order[0]] and 2 * seen[order[0]] >= len(blocks) and best.running <= least + 4
        replica = best if cached else next(r for r, _ in able if r.running == least)
        script = next(s for r, s in able if r is replica)
        left = [(r, s) for r, s in left if r is not replica]
        tried.append(replica.name)
        got = list[str]()
        for step in script:
            at += 1
            if step.isdigit():
                waits.append(int(step))
                break
            if step == "!":
                if got:
                    return [*got, f"{at} s: A reads Failure 502 that names {replica.name}"], tried
                break
            got.append(f"{at} s: A reads A{step}")
        else:
            return got, tried
    if waits:
        return [f"{at} s: A reads Failure 429, retry after {min(waits)} s"], tried
    full = not tried and any(r.state == "ready" for r, _ in left)
    return [f"{at} s: A reads Failure {429 if full else 503}, retry after 1 s"], tried
