"""Week 3, day 7, task 1: the loop.

Nothing is timed and nothing sleeps: the event loop's clock advances when nothing else is left to do.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.engine_room import Room, StubScheduler, Worker, asked
from tests.week3.loop_scenes import OUTSIDE, SCENES, played
from tests.week3.virtual_time import play

from tiny_llm.server import loop
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids, same_pieces


@pytest.mark.parametrize("name", SCENES)
def test_task_1_loop_scene(name):
    """Check what each caller receives, and when, in a script of calls."""
    found = again(lambda: played(loop.EngineLoop, name), name.replace("_", " "))
    if outside := [line for line in found if line.endswith(OUTSIDE)]:
        fail(Kind.VALUES, outside[0], _told(name))
    same_pieces(found, SCENES[name][2], _told(name), "lines")


def _told(name):
    _, options, _ = SCENES[name]
    words = name.replace("_", " ")
    return words + "".join(f", {key} {value}" for key, value in options.items())


def check_served(callers, tokens, slots):
    """Each caller gets all its own tokens, once and in order, and no request is left."""
    case = f"{callers} callers, {tokens} tokens each, {slots} slots"

    async def script():
        room = Room(loop.EngineLoop, slots)
        heard = [[] for _ in range(callers)]

        async def read(number):
            await asyncio.sleep(0.4 * number)
            async for news in room.engine.stream([asked(1000 * number, tokens, gain=1 + number % 3)]):
                heard[number] += news.tokens

        await asyncio.gather(*(read(number) for number in range(callers)))
        await asyncio.sleep(2.0)
        return heard, room.held().partition(": ")[2]

    with noted(case):
        heard, held = play(script(), case)
    for number, each in enumerate(heard):
        same_ids(each, [1000 * number + 1 + i for i in range(tokens)], f"caller {number} of {case}")
    same_pieces([held], ["none in the scheduler"], case)


def test_task_1_loop_sweep():
    for n in sizes(C=20, T=131, K=20):
        check_served(n.C, n.T, n.K)


@property_test
@given(
    arrivals=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.3]), min_size=1, max_size=6),
    stays=st.lists(st.sampled_from([0.2, 1.0, 2.5, 99.0]), min_size=6, max_size=6),
    slots=st.integers(1, 3),
    fails=st.lists(st.integers(1, 6), max_size=2),
)
def test_task_1_loop_leaves_no_request(arrivals, stays, slots, fails):
    """However callers arrive, leave or fail: in the end no request is in the scheduler, and no caller waits."""

    async def script():
        room = Room(loop.EngineLoop, slots, fails)
        callers = []
        for number, pause in enumerate(arrivals):
            await asyncio.sleep(pause)
            caller = room.caller(asked(100 * number, 4), asked(100 * number + 50, 2))
            callers.append(caller)
            asyncio.get_running_loop().call_later(stays[number], caller.cancel)
        await asyncio.wait(callers)
        await asyncio.sleep(1.5)
        ends = {told[-1].partition(": ")[2].partition(",")[0] for told in room.told}
        return room.held().partition(": ")[2], ends - {"through", "cancelled", "EngineFailed"}

    held, others = play(script())
    if held != "none in the scheduler" or others:
        fail(Kind.VALUES, "a request or a caller is left", "", f"got       {', '.join([held, *others])}")


def test_task_1_loop_in_a_real_thread():
    """Steps run in the worker's thread, and the event loop continues meanwhile."""
    case = "a scheduler whose step waits for the event loop, in a thread of its own"
    threads, passed = set(), threading.Event()

    class Waiting(StubScheduler):
        def step(self):
            threads.add(threading.get_ident())
            if not passed.wait(5.0):
                raise RuntimeError("the event loop was blocked during a step")
            return super().step()

    async def script(worker):
        engine = loop.EngineLoop(Waiting(Worker(), 8, (), False), worker)

        async def read():
            return [token async for news in engine.stream([asked(100)]) for token in news.tokens]

        reader = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        passed.set()
        found = await asyncio.wait_for(reader, 5.0)
        await asyncio.wait_for(engine.close(1.0), 5.0)
        return found

    with noted(case), ThreadPoolExecutor(1) as worker:
        try:
            found = asyncio.run(script(worker))
        except TimeoutError:
            fail(Kind.STOPPED, "no update arrived within 5 s", case)
        finally:
            passed.set()
    same_ids(found, [101, 102, 103], case)
    if threading.get_ident() in threads:
        fail(Kind.VALUES, "a step ran in the event loop's own thread", case)
