"""Scenes for an engine loop: scripts of calls in virtual time, and the log expected from each."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.week3.engine_room import Request, Room, asked
from tests.week3.virtual_time import now, play

OUTSIDE = " of the scheduler was called outside the worker"

Scene = Callable[[Room], Awaitable[list[str]]]
# by name: the script, the rig's settings, and the expected log
SCENES: dict[str, tuple[Scene, dict[str, Any], list[str]]] = {}


def scene(*expected: str, **room: Any) -> Callable[[Scene], Scene]:
    def keep(script: Scene) -> Scene:
        SCENES[script.__name__] = script, room, list(expected)
        return script

    return keep


def played(program: Any, name: str) -> list[str]:
    """Return the log of a scene: the script's own lines, then those of each caller."""
    script, options, _ = SCENES[name]

    async def whole() -> list[str]:
        room = Room(program, **options)
        own = await script(room)
        await asyncio.sleep(100.0)
        lines = [*own, *(line for told in room.told for line in told), room.held()]
        return lines + [f"{what}{OUTSIDE}" for what in sorted(room.scheduler.outside)]

    found: list[str] = play(whole(), name.replace("_", " "))
    return found


@scene(
    "1 s: 100 gets 101, 1 watched",
    "2 s: 100 gets 102, 2 watched",
    "3 s: 100 gets 103 length, 3 watched",
    "3 s: through",
    "103 s: none in the scheduler",
)
async def one_caller(room: Room) -> list[str]:
    await room.caller(asked(100))
    return []


@scene(
    "1 s: 100 gets 101, 1 watched",
    "2 s: 100 gets 102, 2 watched",
    "3 s: 100 gets 103 length, 3 watched",
    "3 s: through",
    "2 s: 200 gets 201, 2 watched",
    "3 s: 200 gets 202 length, 3 watched",
    "3 s: through",
    "103 s: none in the scheduler",
)
async def another_one_in_the_middle_of_a_step(room: Room) -> list[str]:
    first = room.caller(asked(100))
    await asyncio.sleep(0.5)
    second = room.caller(asked(200, 2))
    await asyncio.wait([first, second])
    return []


@scene(
    "1 s: 200 gets 201 202, 1 watched",
    "2 s: 200 gets 203 204, 2 watched",
    "3 s: 100 gets 101, 3 watched",
    "3 s: 200 gets 205 length, 3 watched",
    "4 s: 100 gets 102 length, 4 watched",
    "4 s: through",
    "104 s: none in the scheduler",
)
async def two_requests_of_one_caller(room: Room) -> list[str]:
    """One prefills for two steps, the other gains two tokens per step."""
    await room.caller(asked(100, 2, before=2), asked(200, 5, gain=2))
    return []


@scene(
    "1 s: 100 gets 101 length, 1 watched",
    "1 s: through",
    "11 s: 200 gets 201, 2 watched",
    "12 s: 200 gets stop, 3 watched",
    "12 s: through",
    "112 s: none in the scheduler",
)
async def the_next_one_after_a_while_ends_with_an_eos_token(room: Room) -> list[str]:
    """No request is there in between, and no step runs. The EOS token is not output."""
    await room.caller(asked(100, 1))
    await asyncio.sleep(9.0)
    await room.caller(Request([200, 1, 0], 3, eos_ids=(202,)))
    return []


@scene(
    "1 s: 100 gets 101, 1 watched",
    "4.5 s: 100 gets 102 103 104, 4 watched",
    "5 s: 100 gets 105 length, 5 watched",
    "5 s: through",
    "1 s: 200 gets 201, 1 watched",
    "2 s: 200 gets 202, 2 watched",
    "3 s: 200 gets 203, 3 watched",
    "4 s: 200 gets 204, 4 watched",
    "5 s: 200 gets 205 length, 5 watched",
    "5 s: through",
    "105 s: none in the scheduler",
)
async def a_slow_reader(room: Room) -> list[str]:
    await asyncio.wait([room.caller(asked(100, 5), rests=3.5), room.caller(asked(200, 5))])
    return []


@scene(
    "9 s: none in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "11 s: 100 gets 102 103 length, 3 watched",
    "11 s: through",
    "111 s: none in the scheduler",
)
async def a_reader_who_comes_back_when_all_is_done(room: Room) -> list[str]:
    reader = room.caller(asked(100), rests=10.0)
    await asyncio.sleep(9.0)
    found = [room.held()]
    await reader
    return found


@scene(
    "2.5 s: 200 in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "1 s: leaves",
    "1 s: 200 gets 201, 1 watched",
    "2 s: 200 gets 202, 2 watched",
    "3 s: 200 gets 203, 3 watched",
    "4 s: 200 gets 204 length, 4 watched",
    "4 s: through",
    "104 s: none in the scheduler",
)
async def a_caller_who_stops_reading(room: Room) -> list[str]:
    """`aclose` after the first update, while the next step runs."""
    room.caller(asked(100, 50), leaves=1)
    other = room.caller(asked(200, 4))
    await asyncio.sleep(2.5)
    found = [room.held()]
    await other
    return found


@scene(
    "1.7 s: 100 and 200 in the scheduler",
    "2.5 s: 200 in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "1.5 s: cancelled",
    "1 s: 200 gets 201, 1 watched",
    "2 s: 200 gets 202, 2 watched",
    "3 s: 200 gets 203, 3 watched",
    "4 s: 200 gets 204 length, 4 watched",
    "4 s: through",
    "104 s: none in the scheduler",
)
async def a_caller_who_is_cancelled_during_a_step(room: Room) -> list[str]:
    gone, other = room.caller(asked(100, 50)), room.caller(asked(200, 4))
    await asyncio.sleep(1.5)
    gone.cancel()
    await asyncio.sleep(0.2)
    found = [room.held()]
    await asyncio.sleep(0.8)
    found.append(room.held())
    await other
    return found


@scene(
    "2.5 s: none in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "1 s: 200 gets 201, 1 watched",
    "1.5 s: cancelled",
    "102.5 s: none in the scheduler",
)
async def a_caller_of_two_who_is_cancelled_twice(room: Room) -> list[str]:
    """As a server does when it closes a connection. The second cancellation comes before the step ends."""
    gone = room.caller(asked(100, 50), asked(200, 50))
    await asyncio.sleep(1.5)
    gone.cancel()
    await asyncio.sleep(0.0)
    gone.cancel()
    await asyncio.sleep(1.0)
    return [room.held()]


@scene(
    "2.5 s: 100 in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "2 s: 100 gets 102, 2 watched",
    "3 s: 100 gets 103, 3 watched",
    "4 s: 100 gets 104 length, 4 watched",
    "4 s: through",
    "0.7 s: cancelled",
    "104 s: none in the scheduler",
)
async def a_caller_who_is_gone_before_its_turn(room: Room) -> list[str]:
    """It is submitted during a step, and cancelled before the step ends."""
    first = room.caller(asked(100, 4))
    await asyncio.sleep(0.5)
    gone = room.caller(asked(200, 50))
    await asyncio.sleep(0.2)
    gone.cancel()
    await asyncio.sleep(1.8)
    found = [room.held()]
    await first
    return found


@scene(
    "1.5 s: none in the scheduler",
    "0 s: ValueError",
    "2.5 s: 300 gets 301 length, 1 watched",
    "2.5 s: through",
    "102.5 s: none in the scheduler",
)
async def a_second_request_that_is_refused(room: Room) -> list[str]:
    """The scheduler rejects the second of two, so the first is not served either."""
    await room.caller(asked(100, 50), Request([200], 3))
    await asyncio.sleep(1.5)
    found = [room.held()]
    await room.caller(asked(300, 1))
    return found


@scene(
    "1 s: 100 gets 101, 1 watched",
    "2 s: EngineFailed, from RuntimeError",
    "1 s: 200 gets 201, 1 watched",
    "2 s: EngineFailed, from RuntimeError",
    "3 s: 300 gets 301, 2 watched",
    "4 s: 300 gets 302 length, 3 watched",
    "4 s: through",
    "104 s: none in the scheduler",
    slots=2,
    fails=[2],
)
async def a_step_that_fails(room: Room) -> list[str]:
    """The third caller waits for a slot meanwhile, and is not affected."""
    await asyncio.wait([room.caller(asked(100)), room.caller(asked(200)), room.caller(asked(300, 2))])
    return []


@scene(
    "1 s: EngineFailed, from RuntimeError",
    "1 s: EngineFailed, from RuntimeError",
    "3 s: 300 gets 301 length, 1 watched",
    "3 s: through",
    "103 s: none in the scheduler",
    fails=[1],
    early=True,
)
async def a_step_that_fails_before_anybody_runs(room: Room) -> list[str]:
    await asyncio.wait([room.caller(asked(100)), room.caller(asked(200))])
    await asyncio.sleep(1.0)
    await room.caller(asked(300, 1))
    return []


@scene(
    "3 s: closed",
    "1 s: 100 gets 101, 1 watched",
    "2 s: 100 gets 102, 2 watched",
    "3 s: 100 gets 103 length, 3 watched",
    "3 s: through",
    "1.5 s: EngineClosed",
    "3 s: EngineClosed",
    "103 s: none in the scheduler",
)
async def closed_with_time_enough(room: Room) -> list[str]:
    first = room.caller(asked(100))
    await asyncio.sleep(0.5)
    closing = asyncio.create_task(room.engine.close(10.0))
    await asyncio.sleep(1.0)
    room.caller(asked(200))
    await closing
    found = [f"{now():g} s: closed"]
    await asyncio.wait([first, room.caller(asked(300))])
    return found


@scene(
    "3 s: closed",
    "3 s: none in the scheduler",
    "3 s: EngineClosed",
    "1 s: 200 gets 201 length, 1 watched",
    "1 s: through",
    "103 s: none in the scheduler",
    slots=2,
)
async def closed_before_all_have_ended(room: Room) -> list[str]:
    """After 1.7 s, in the middle of a step, which is the last one."""
    room.caller(asked(100, 50, before=40))
    room.caller(asked(200, 1))
    await asyncio.sleep(0.5)
    await room.engine.close(1.7)
    return [f"{now():g} s: closed", room.held()]


@scene(
    "1 s: closed",
    "1 s: 100 gets 101, 1 watched",
    "1 s: EngineClosed",
    "1 s: 200 gets 201, 1 watched",
    "1 s: EngineClosed",
    "101 s: none in the scheduler",
)
async def closed_in_the_middle_of_a_step(room: Room) -> list[str]:
    """That step's tokens are reported before the callers get the error, and no other step follows."""
    room.caller(asked(100, 50))
    room.caller(asked(200, 50))
    await asyncio.sleep(0.5)
    await room.engine.close(0.0)
    return [f"{now():g} s: closed"]


@scene("1 s: closed", "1 s: none in the scheduler", "0.5 s: cancelled", "101 s: none in the scheduler")
async def closed_when_the_last_one_has_left(room: Room) -> list[str]:
    """The step with its request is still running."""
    gone = room.caller(asked(100, 50))
    await asyncio.sleep(0.5)
    gone.cancel()
    await asyncio.sleep(0.2)
    await room.engine.close(0.0)
    return [f"{now():g} s: closed", room.held()]


@scene(
    "1 s: closed",
    "1 s: none in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "1 s: EngineClosed",
    "1 s: EngineClosed",
    "101 s: none in the scheduler",
)
async def closed_while_two_are_on_their_way(room: Room) -> list[str]:
    """Both are one caller's. The first is submitted after the running step, the second not at all."""
    room.caller(asked(100, 50))
    await asyncio.sleep(0.5)
    room.caller(asked(200, 50), asked(300, 50))
    await asyncio.sleep(0.2)
    await room.engine.close(0.0)
    return [f"{now():g} s: closed", room.held()]


@scene(
    "1 s: closed",
    "1 s: none in the scheduler",
    "1 s: 100 gets 101, 1 watched",
    "1 s: EngineClosed",
    "1 s: EngineClosed",
    "101 s: none in the scheduler",
)
async def closed_while_one_is_on_its_way(room: Room) -> list[str]:
    """It is submitted after the running step, and also gets the error."""
    room.caller(asked(100, 50))
    await asyncio.sleep(0.5)
    room.caller(asked(200, 50))
    await asyncio.sleep(0.2)
    await room.engine.close(0.0)
    return [f"{now():g} s: closed", room.held()]


@scene(
    "1 s: 100 gets 101, 1 watched",
    "4.5 s: 100 gets 102, 2 watched",
    "4.5 s: EngineFailed, from RuntimeError",
    "104.5 s: none in the scheduler",
    fails=[3],
)
async def a_step_that_fails_while_a_reader_rests(room: Room) -> list[str]:
    """The updates that have arrived are read first, and the error comes after them."""
    await room.caller(asked(100, 50), rests=3.5)
    return []


@scene("0 s: through", "100 s: none in the scheduler")
async def no_requests_at_all(room: Room) -> list[str]:
    await room.caller()
    return []


@scene("0 s: closed", "0 s: EngineClosed", "100 s: none in the scheduler")
async def closed_with_nobody_there(room: Room) -> list[str]:
    await room.engine.close(5.0)
    found = [f"{now():g} s: closed"]
    await room.caller(asked(100))
    return found
