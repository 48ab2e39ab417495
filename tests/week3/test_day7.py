"""Week 3, day 7: the loop of an engine, who is let in, text while it is written, the figures of a server.

Nothing is measured and nobody waits: an event loop's clock moves when nothing else is left to do, a step takes a second
of it, and what comes of a script of calls is told in lines.
"""

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.engine_room import Chunk, Room, Step, StubScheduler, Worker, asked
from tests.week3.figures_script import Clock, figures, measured, measured_by_formula, random_calls
from tests.week3.gate_script import passes, passes_by_formula, random_ops
from tests.week3.loop_scenes import OUTSIDE, SCENES, played
from tests.week3.stream_script import STREAMS, Script, random_script, streamed, streamed_by_formula
from tests.week3.virtual_time import play

from tiny_llm.server import backpressure, loop, metrics, streaming
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids, same_pieces

# Task 1, the loop


@pytest.mark.parametrize("name", SCENES)
def test_task_1_loop_scene(name):
    """A script of calls, and what each caller hears when."""
    found = again(lambda: played(loop.EngineLoop, name), name.replace("_", " "))
    if outside := [line for line in found if line.endswith(OUTSIDE)]:
        fail(Kind.VALUES, outside[0], _told(name))
    same_pieces(found, SCENES[name][2], _told(name), "lines")


def _told(name):
    _, options, _ = SCENES[name]
    words = name.replace("_", " ")
    return words + "".join(f", {key} {value}" for key, value in options.items())


def check_served(callers, tokens, slots):
    """Each caller gets all tokens of its own, once and in order, and nobody is left."""
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
    same_pieces([held], ["nobody in the scheduler"], case)


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
def test_task_1_loop_leaves_nobody_behind(arrivals, stays, slots, fails):
    """Whoever comes, leaves or fails when: in the end nobody is in the scheduler, and nobody waits."""

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
    if held != "nobody in the scheduler" or others:
        fail(Kind.VALUES, "somebody is left behind", "", f"got       {', '.join([held, *others])}")


def test_task_1_loop_in_a_real_thread():
    """The steps are computed in the worker's thread, and the event loop goes on in the meantime."""
    case = "a scheduler whose step waits for the event loop, in a thread of its own"
    threads, passed = set(), threading.Event()

    class Waiting(StubScheduler):
        def step(self):
            threads.add(threading.get_ident())
            if not passed.wait(5.0):
                raise RuntimeError("the event loop stood still while a step was computed")
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
            fail(Kind.STOPPED, "nothing came within 5 s", case)
        finally:
            passed.set()
    same_ids(found, [101, 102, 103], case)
    if threading.get_ident() in threads:
        fail(Kind.VALUES, "a step was computed in the event loop's own thread", case)


# Task 2, the gate


def check_passes(most, ops):
    shown = ", ".join(f"{at:g} s {what} {count}" for at, what, count in ops[-8:])
    case = f"room for {most}; {'.. ' * (len(ops) > 8)}{shown}"
    same_ids(again(lambda: passes(backpressure.Gate, most, ops), case), passes_by_formula(most, ops), case, "answers")


def test_task_2_gate_room_and_no_room():
    """Two may be inside; before anybody has left, a place is guessed to take a second."""
    ops = [(0, "enter", 1), (0, "enter", 1), (1, "enter", 1), (9, "leave", 1), (9, "enter", 1)]
    same_ids(
        again(lambda: passes(backpressure.Gate, 2, ops), str(ops)),
        [1, 2, -1, 1, 2],
        "room for 2, then no room",
        "answers",
    )


def test_task_2_gate_pace():
    """One leaves every 4 seconds. At 20 s, four seconds after the last, a place takes (20 - 4) / 4 s."""
    ops = [(0, "enter", 1)] * 5 + [(4 * i, what, 1) for i in (1, 2, 3, 4) for what in ("leave", "enter")]
    case = "room for 5, one leaves and one enters at 4, 8, 12 and 16 s, another one comes at 20 s"
    found = again(lambda: passes(backpressure.Gate, 5, [*ops, (20, "enter", 1)]), case)
    same_ids(found[-1:], [-4], f"the last of: {case}", "answers")


@pytest.mark.parametrize(("at", "expected"), [(20.0, 5), (36.0, 9), (100.0, 25), (1000.0, 60)])
def test_task_2_gate_that_stands_still(at, expected):
    """The longer nobody leaves, the longer it takes."""
    ops = [(0.0, "enter", 1)] * 6 + [(float(i), "leave", 1) for i in (0, 4, 8, 12)] + [(12.0, "enter", 1)] * 4
    case = f"room for 6, four leave at 0, 4, 8 and 12 s, four enter, another one comes at {at:g} s"
    found = again(lambda: passes(backpressure.Gate, 6, [*ops, (at, "enter", 1)]), case)
    same_ids(found[-1:], [-expected], f"the last of: {case}", "answers")


def test_task_2_gate_promises():
    """Those who are refused at one time are told different times; who comes back when theirs is over is not counted."""
    ops = [(0.0, "enter", 1)] * 2 + [(8.0, "leave", 2), (8.0, "enter", 2)]
    ops += [(16.0, "enter", 1), (16.0, "enter", 1), (16.0, "enter", 2), (21.0, "enter", 1)]
    case = "room for 2, two leave at 8 s, two enter; refused: 1, 1 and 2 at 16 s, 1 at 21 s"
    found = again(lambda: passes(backpressure.Gate, 2, ops), case)
    same_ids(found[4:], [-4, -8, -16, -26], f"the last four of: {case}", "answers")


def test_task_2_gate_groups():
    """All of a group or none, and more than may ever be inside are told so."""
    ops = [
        (0.0, "enter", 3),
        (0.0, "enter", 2),
        (0.0, "enter", 1),
        (0.0, "enter", 5),
        (2.0, "leave", 4),
        (2.0, "enter", 4),
    ]
    case = "room for 4; groups of 3, 2, 1 and 5, then 4 leave and a group of 4 comes"
    same_ids(again(lambda: passes(backpressure.Gate, 4, ops), case), [3, -1, 4, -1000, 0, 4], case, "answers")
    with raises_error(ValueError, "room for 4, a group of 5", "4"):
        backpressure.Gate(4).enter(5)


def test_task_2_gate_promises_nothing_for_ever():
    """A group that may never come in is promised no places."""
    ops = [(0.0, "enter", 2), (0.0, "enter", 5), (0.0, "enter", 1)]
    case = "room for 2, both inside, a group of 5 comes, and then one"
    same_ids(again(lambda: passes(backpressure.Gate, 2, ops), case), [2, -1000, -1], case, "answers")


def test_task_2_gate_by_its_own_clock():
    """Without a clock it has one, and one at a time is meant where nothing is said."""
    case = "room for 1, no clock"
    with noted(case):
        gate = backpressure.Gate(1)
        gate.enter()
        try:
            gate.enter()
        except Exception as error:
            seconds = getattr(error, "seconds", None)
            if type(error).__name__ != "TooBusy" or type(seconds) is not int:
                fail(Kind.NO_ERROR, f"raised {type(error).__name__}, expected TooBusy with whole seconds", case)
        else:
            fail(Kind.NO_ERROR, "no error was raised, expected TooBusy", case)
        gate.leave()
        gate.enter()


def test_task_2_gate_sweep():
    for n in sizes(M=64, T=64):
        check_passes(n.M, random_ops(n.seed, n.M, n.T))


@property_test
@given(most=st.integers(1, 4), seed=st.integers(0, 999))
def test_task_2_gate_any_day(most, seed):
    check_passes(most, random_ops(seed, most, 30))


# Task 3, the stream of an answer


def pieces_and_end(script, name):
    found = again(lambda: streamed(streaming.TextStream, script, events=False), name)
    calls = [sum(who == i and bool(why) for who, _, _, why in script.turns) for i in range(2)]
    end = f"the news: read to its end; calls of finish: {calls[0]} and {calls[1]}"
    return found, end


@pytest.mark.parametrize("name", STREAMS)
def test_task_3_stream_pieces(name):
    """A piece is: which answer, its text, its tokens, its reason."""
    script, expected = STREAMS[name]
    found, end = pieces_and_end(script, name)
    same_pieces(found, [*expected, end], f"{name}: {script.turns}, held {script.held[0]!r}")


@pytest.mark.parametrize("name", STREAMS)
def test_task_3_stream_events(name):
    """The same pieces as events, and [DONE] behind them."""
    script, _ = STREAMS[name]
    found = again(lambda: streamed(streaming.TextStream, script, events=True), name)
    pieces = again(lambda: streamed(streaming.TextStream, script, events=False), name)
    case = f"the events of {name}: {script.turns}"
    same_pieces([str(len(found)), found[-2], found[-1]], [str(len(pieces) + 1), "[DONE]", pieces[-1]], case)


TWO = [(0, [5], "a \u72d7\n", ""), (0, [6], 'a \u72d7\n"b"', "length")]
EVENTS = [
    '{"text": "a \\u72d7\\n", "tokens": [5], "who": 0, "why": ""}',
    '{"text": "\\"b\\"", "tokens": [6], "who": 0, "why": "length"}',
]
READ = "the news: read to its end; calls of finish: 1 and 0"


def test_task_3_stream_events_in_json():
    """Line ends and quotation marks are within a line of JSON."""
    found = again(lambda: streamed(streaming.TextStream, Script(TWO), events=True), "two pieces")
    same_pieces(found, [*EVENTS, "[DONE]", READ], f"the events of {TWO}")


def test_task_3_stream_something_behind_it():
    found = again(lambda: streamed(streaming.TextStream, Script(TWO, last=True), events=True), "two pieces")
    same_pieces(found, [*EVENTS, '{"usage": 5}', "[DONE]", READ], f"the events of {TWO}, and then usage")


@pytest.mark.parametrize("error", ["EngineFailed", "EngineClosed"])
def test_task_3_stream_that_fails(error):
    """The error is the last event; pieces raise it."""
    script, case = Script(TWO[:1], error=error, last=True), f"{TWO[:1]}, and then {error}"
    found = again(lambda: streamed(streaming.TextStream, script, events=True), case)
    end = "the news: open; calls of finish: 0 and 0"
    same_pieces(found, [EVENTS[0], '{"error": "what has happened"}', end], f"the events of {case}")
    found = again(lambda: streamed(streaming.TextStream, script, events=False), case)
    same_pieces(found[-2:], [f"raised {error}", end], f"the pieces of {case}")


def test_task_3_stream_that_cannot_begin():
    """A ValueError is not the engine's: there is nothing to be told in an event."""
    script, case = Script([], error="ValueError"), "a ValueError before the first news"
    found = again(lambda: streamed(streaming.TextStream, script, events=True), case)
    same_pieces(found, ["raised ValueError", "the news: open; calls of finish: 0 and 0"], case)


@pytest.mark.parametrize("events", [False, True], ids=["pieces", "events"])
def test_task_3_stream_whose_reader_leaves(events):
    """When aclose returns, the news are closed."""
    script = Script([(0, [5], "a", ""), (0, [6], "ab", ""), (0, [7], "abc", "length")], closes=2)
    what = "events" if events else "pieces"
    found = again(lambda: streamed(streaming.TextStream, script, events), what)
    end = "the news: closed; calls of finish: 0 and 0"
    same_pieces(found[-1:], [end], f"{what}, of which the reader takes two and closes them")


def test_task_3_stream_sweep():
    for n in sizes(N=64, W=20):
        script = random_script(n.seed, n.N, n.W)
        name = f"{n.N} news of {n.W} tokens at most, seed {n.seed}"
        found, end = pieces_and_end(script, name)
        same_pieces(found, [*streamed_by_formula(script), end], name)


# Task 4, the figures


def check_figures(calls, prompts, case):
    def run():
        clock = Clock()
        return measured(metrics.Metrics(clock), clock, calls, prompts)

    found = figures(again(run, case))
    expected = measured_by_formula(calls, prompts, metrics.FIRST_TOKEN, metrics.EACH_TOKEN)
    if missing := sorted(expected.keys() - found.keys()):
        count = "a figure is" if len(missing) == 1 else f"{len(missing)} figures are"
        fail(Kind.VALUES, f"{count} missing", case, *(f"missing   {name}" for name in missing[:3]))
    if strange := sorted(found.keys() - expected.keys()):
        count = "a figure" if len(strange) == 1 else f"{len(strange)} figures"
        fail(Kind.VALUES, f"{count} too many", case, *(f"got       {name}" for name in strange[:3]))
    for name, value in expected.items():
        if not math.isclose(found[name], value, rel_tol=1e-9, abs_tol=1e-9):
            fail(Kind.VALUES, f"{name} is wrong", case, f"expected  {value:.10g}", f"got       {found[name]:.10g}")


def test_task_4_metrics_nothing_yet():
    check_figures([], [1], "nobody has come")


def test_task_4_metrics_one_request():
    """It arrives at 10 s, begins at 10.5 s, and has 5 tokens at 12.5 s."""
    calls = [(10.0, "arrived", 0, 0), (10.5, "new", 0, 1)]
    calls += [(10.5 + 0.5 * i, "new", 0, 1) for i in (1, 2, 3)] + [(12.5, "ends", 0, 1), (12.5, "left", 0, 1)]
    check_figures(calls, [7], "a request of 7 tokens at 10 s, tokens at 10.5, 11, 11.5, 12 and 12.5 s")


def test_task_4_metrics_a_prompt_in_chunks():
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 0), (3.0, "new", 0, 0), (4.0, "new", 0, 1), (6.0, "ends", 0, 1)]
    check_figures(calls, [900], "a request at 1 s, steps at 2 and 3 s without a token, tokens at 4 and 6 s")


def test_task_4_metrics_several_tokens_in_a_step():
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 3), (4.0, "new", 0, 4), (5.0, "ends", 0, 2)]
    check_figures(calls, [5], "a request at 1 s, 3 tokens at 2 s, 4 at 4 s, 2 at 5 s")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_task_4_metrics_all_in_one_step(count):
    calls = [(1.0, "arrived", 0, 0), (2.0, "ends", 0, count), (2.0, "left", 0, 0)]
    check_figures(calls, [5], f"a request at 1 s that ends at 2 s with {count} tokens")


def test_task_4_metrics_ends_without_another_token():
    """Two tokens, and a step later the token that ends the text, which is not part of it."""
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 1), (3.0, "new", 0, 1), (6.0, "ends", 0, 0)]
    check_figures(calls, [5], "a request at 1 s, tokens at 2 and 3 s, the end at 6 s")


def test_task_4_metrics_on_the_bounds():
    """A time that is a bucket's bound is in it."""
    calls = []
    for number, seconds in enumerate((0.25, 0.5, 0.75, 1.0)):
        begin = 64.0 * number
        calls += [(begin, "arrived", number, 0), (begin + seconds, "new", number, 1)]
        calls += [(begin + 2 * seconds, "ends", number, 1)]
    check_figures(calls, [1] * 4, "four requests whose times are 0.25, 0.5, 0.75 and 1 s")


def test_task_4_metrics_who_leaves_early():
    """One is gone before its first token, another one after it, and a third is put back once."""
    calls = [(0.0, "arrived", 0, 0), (0.0, "arrived", 1, 0), (0.0, "arrived", 2, 0), (1.0, "new", 1, 1)]
    calls += [(1.5, "left", 0, 2), (1.5, "left", 1, 2), (2.0, "preempted", 2, 0), (3.0, "new", 2, 1)]
    calls += [(3.5, "refused", 0, 0), (5.0, "ends", 2, 1), (5.0, "left", 2, 0)]
    check_figures(calls, [4, 5, 6], "three requests at 0 s: two leave at 1.5 s, one is put back at 2 s")


def test_task_4_metrics_a_step_that_is_told_late():
    """Two are gone before the step is told in which they got a token, for one of them the first."""
    calls = [
        (0.0, "arrived", 0, 0),
        (0.0, "arrived", 1, 0),
        (1.0, "new", 0, 1),
        (1.5, "left", 0, 2),
        (1.5, "left", 1, 2),
    ]
    calls += [(2.0, "new", 0, 1), (2.0, "new", 1, 1)]
    check_figures(calls, [4, 5], "two requests at 0 s leave at 1.5 s, and a step with both is told at 2 s")


def test_task_4_metrics_two_put_back():
    """One step puts back two requests, and a later one of them once more."""
    calls = [(0.0, "arrived", 0, 0), (0.0, "arrived", 1, 0), (0.0, "arrived", 2, 0)]
    calls += [(1.0, "new", 0, 1), (1.0, "preempted", 1, 0), (1.0, "preempted", 2, 0), (2.0, "preempted", 2, 0)]
    check_figures(calls, [4, 5, 6], "three requests at 0 s: two are put back at 1 s, and one of them again at 2 s")


def test_task_4_metrics_large_numbers():
    """All digits of a counter, and of a gauge."""
    check_figures([(0.0, "arrived", 0, 0)], [1000005], "a prompt of 1,000,005 tokens")


def test_task_4_metrics_keeps_nothing():
    """A thousand requests that came and left are no larger than one."""
    case = "1,000 requests that arrive and leave, some of them served"
    with noted(case):
        subject = metrics.Metrics()
        for number in range(1000):
            request = asked(number)
            subject.arrived(request)
            if number % 3:
                subject.stepped(_step_of(request))
            subject.left(request, "stop")
            if number % 3 == 2:  # it has left in the middle of a step
                subject.stepped(_step_of(request))
    held = sum(len(v) for v in vars(subject).values() if isinstance(v, dict | list | set))
    if held > 100:
        fail(Kind.VALUES, "requests that have left are kept", case, f"got       {held} entries in its dicts")


def _step_of(request):
    return Step([Chunk(request, 0, [1], 1)], [[5]])


def test_task_4_metrics_sweep():
    for n in sizes(R=64, S=131):
        check_figures(*random_calls(n.seed, n.R, n.S), f"{n.R} requests, {n.S} steps, seed {n.seed}")
