"""Day 4's figure, table and widget, of conversations over two replicas in virtual time; and what was measured."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from tests.week3.virtual_time import now, play

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import SMALL
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.machine import in_words
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.router.forward import Failure, ReplicaFailed, forward  # noqa: E402
from tiny_llm_solution.router.health import Health  # noqa: E402
from tiny_llm_solution.router.replica import Replica  # noqa: E402

NAMES = "ABC"
POLICIES = ("Least loaded", "Prefix-aware")

# The widget's world, in quarters of a second: a block of 16 tokens is prefilled in one, a token is decoded in one.
QUARTER = 0.25
FIRST, MORE, TURNS = 6, 4, 4  # blocks of a first prompt, blocks that each turn adds, turns
DECODED, PAUSE = 8, 3  # tokens of an answer; quarters until the user's next turn
RESTART = 16  # quarters until a killed replica is ready again
SECONDS = 22  # at which a replica may be killed, at most


def generated_parts() -> Parts:
    """Return the figure, the table, the widget, and the numbers of the record."""
    return {
        "choices": choices(),
        "saved": saved(),
        "router-steps": router_steps(),
        "overhead": overhead(),
        "killed": killed(),
    }


def record() -> dict[str, Any]:
    """Return what benches/replicas.py has recorded."""
    found: dict[str, Any] = json.loads((ROOT / "benches" / "week6" / "replicas.json").read_text(encoding="utf-8"))
    return found


def conversations() -> str:
    """Draw which replica serves which turn, over time, without and with prefixes."""
    runs = {title: played(title == "Prefix-aware") for title in POLICIES}
    last = max(row[5] for rows in runs.values() for row in rows) * QUARTER
    row_height, left = 24.0, 22.0

    def draw(canvas: Canvas) -> None:
        per_second = (canvas.width - left - 16) / last
        y = 0.0
        for title, rows in runs.items():
            canvas.text(0, y + 12, title, "strong")
            y += 20
            for user, name in enumerate(NAMES):
                canvas.text(0, y + row_height * user + 14, name)
            for conversation, turn, replica, begin, first, end, *_ in rows:
                at, middle, to = (left + per_second * QUARTER * time for time in (begin, first, end))
                top = y + row_height * conversation
                canvas.rect(at, top, middle - at, 18, f"fill series-{replica}")
                canvas.rect(middle, top, to - middle, 18, f"hollow series-{replica}")
                canvas.circle((at + middle) / 2, top + 9, 7, f"hollow series-{replica}")
                canvas.text((at + middle) / 2, top + 13, str(replica + 1), "small", "middle")
                canvas.text((middle + to) / 2, top + 13, f"{NAMES[conversation]}{turn + 1}", "small", "middle")
            y += row_height * len(NAMES) + 12
        canvas.path([(left, y), (left + per_second * last, y)], "axis")
        for second in range(0, int(last) + 1, 5):
            canvas.path([(left + per_second * second, y), (left + per_second * second, y + 4)], "axis")
            canvas.text(left + per_second * second, y + 5 + SMALL, f"{second} s", "small", "middle")

    about = "; ".join(f"{title}: {_served(rows)}" for title, rows in runs.items())
    caption = (
        "Twelve turns of three users, simulated with each of two routers. Each replica has a color and a digit. "
        "The filled part of a turn is its prefill, the hollow part its decoding."
    )
    return at_both_widths(draw).figure("conversations-6-4", "Which replica serves which turn", about, caption)


def _served(rows: list[list[int]]) -> str:
    return ", ".join(f"{NAMES[conversation]}{turn + 1} on {replica + 1}" for conversation, turn, replica, *_ in rows)


def choices() -> str:
    """Return what the prefix-aware router knows when it chooses a replica for the first turns."""
    world = World(True, None, 0)
    play(world.run())
    head = ["Time, s", "Request", "Blocks", "Seen by 1, 2", "Running on 1, 2", "Sent to"]
    lines = [f"| {' | '.join(head)} |", "|--:|---|--:|---|---|---|"]
    for (conversation, turn, blocks, seen, running), row in zip(world.known, world.rows, strict=True):
        if turn < 2:
            name, time = f"{NAMES[conversation]}{turn + 1}", f"{row[3] * QUARTER:g}"
            each = [time, name, str(blocks), *(", ".join(map(str, pair)) for pair in (seen, running)), str(row[2] + 1)]
            lines.append(f"| {' | '.join(each)} |")
    return "\n".join([*lines, ""])


def saved() -> str:
    """Return how many tokens were prefilled with each policy."""
    found = record()
    least, aware = found["least_loaded"], found["prefix_aware"]
    share = 100 * (1 - aware["prefilled_tokens"] / least["prefilled_tokens"])
    return (
        f"On two real servers, three conversations of six turns had {least['prompt_tokens']:,} prompt tokens with the "
        f"least-loaded policy and {aware['prompt_tokens']:,} with the prefix-aware one. The servers prefilled "
        f"{least['prefilled_tokens']:,} and {aware['prefilled_tokens']:,} of them: {share:.0f} % fewer. (This and "
        f"what follows: {in_words(found['machine'])}, {found['date']}.)\n"
    )


def overhead() -> str:
    """Return the router's overhead."""
    found = record()
    rows = [
        f"| {model}, {of['tokens']} tokens | {kind} | {of[kind]['direct_ms']:.0f} ms | {of[kind]['router_ms']:.0f} ms "
        f"| {of[kind]['percent']:.0f} % |"
        for model, of in found["overhead"].items()
        for kind in ("whole", "streamed")
    ]
    head = ["| Model | Answer | Replica alone, p50 | Through the router, p50 | Overhead |", "|---|---|--:|--:|--:|"]
    words = "Requests sent alternately to one replica and through the router"
    return "\n".join([f"{words}:", "", *head, *rows, ""])


def killed() -> str:
    """Return what became of a load in which a replica was killed."""
    found = record()
    calm, hard = found["undisturbed"], found["killed"]
    ends = dict(hard["ends"])
    answered, events = ends.pop("answered", 0), ends.pop("error event", 0)
    others = ", ".join(f"{count} with {name}" for name, count in ends.items()) or "none ended in any other way"
    return (
        f"Of {hard['requests']} requests, {answered} were answered, {events} ended with an error event, and {others}. "
        f"{hard['wrong']} answers differed from those of an undisturbed run. The p95 of the answered requests was "
        f"{1e3 * hard['p95_s']:.0f} ms, against {1e3 * calm['p95_s']:.0f} ms without a kill, a ratio of "
        f"{found['p95_ratio']:.2f}. The killed replica was ready again after {hard['ready_again_s']:.1f} s, "
        f"and the router counted {sum(hard['running_after'])} running requests at the end.\n"
    )


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


def router_steps() -> str:
    """Return the widget, with the figure as its still."""
    runs = []
    for aware in (False, True):
        kills = [[played(aware, victim, second) for second in range(1, SECONDS + 1)] for victim in range(2)]
        runs.append({"calm": played(aware), "kills": kills})
    data = {
        "names": list(NAMES),
        "policies": list(POLICIES),
        "first": FIRST,
        "more": MORE,
        "restart": RESTART,
        "runs": runs,
    }
    return element("router-steps", data, conversations().rstrip())
