"""Day 7's figures, timelines of requests and of the two threads; its widget, a queue with a limit; and tokens computed
for disconnected clients.
"""

import asyncio
from typing import Any

from tests.week3.engine_room import Request, Room, Step, asked
from tests.week3.figures_script import MODEL, Clock, measured
from tests.week3.virtual_time import now, play

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.variants import load_variants

LEFT, ROW = 22.0, 58.0  # pixels
SLOTS, SEEN = 2, 3  # seconds of the second figure
# For each caller: its arrival time, prefill steps before the one that yields its first token, and max tokens.
CALLERS = {"A": (0.0, 0, 6), "B": (0.4, 2, 3), "C": (1.5, 0, 3)}

# The widget's load: that many clients, whose outputs have these lengths in turn, arrive so many seconds apart, under
# limits of the queue.
CLIENTS, OUTPUTS = 16, (6, 3, 3, 5, 2, 4, 7, 3)
SETTINGS = {"a client every": (1, 2, 3), "queue limit": (0, 1, 2, 4, 8)}
FIRST = 0.1  # seconds; the first client's arrival


def generated_parts() -> Parts:
    """Return the figures, their numbers, what /metrics says of them, the widget, and the table of "Break it"."""
    return {
        "way": way(),
        "threads": threads(),
        "times": times(),
        "exposed": exposed(),
        "queue-limit": queue_limit(),
        "broken": broken(),
    }


def traced() -> tuple[dict[str, list[float]], dict[str, float], float]:
    """Return each caller's token times, when it was scheduled, and the end, in the loop's virtual time."""
    from tiny_llm_solution.server.loop import EngineLoop

    async def script() -> tuple[dict[str, list[float]], dict[str, float], float]:
        room, tokens = Room(EngineLoop, SLOTS), {name: list[float]() for name in CALLERS}
        requests = {name: asked(100, most, before=before) for name, (_, before, most) in CALLERS.items()}
        begun: dict[str, float] = {}

        async def reads(name: str) -> None:
            await asyncio.sleep(CALLERS[name][0])
            async for news in room.engine.stream([requests[name]]):
                tokens[name] += [now()] * len(news.tokens)

        readers = [asyncio.ensure_future(reads(name)) for name in CALLERS]
        while not all(reader.done() for reader in readers):
            await asyncio.sleep(0.1)
            for name, request in requests.items():
                if request.num_computed_tokens and name not in begun:
                    begun[name] = float(int(now() + 0.05))  # a step begins on the second
        return tokens, begun, max(max(each) for each in tokens.values())

    found: tuple[dict[str, list[float]], dict[str, float], float] = play(script())
    return found


def worked() -> list[tuple[float, str]]:
    """Return what the worker begins, and when, with the figure's callers: `submit A`, `step`."""
    from tiny_llm_solution.server.loop import EngineLoop

    async def script() -> list[tuple[float, str]]:
        room, begun = Room(EngineLoop, SLOTS), list[tuple[float, str]]()
        requests = {name: asked(100, most, before=before) for name, (_, before, most) in CALLERS.items()}
        submit, step = room.scheduler.submit, room.scheduler.step

        def submits(request: Request) -> None:
            (name,) = (name for name, each in requests.items() if each is request)
            begun.append((now(), f"submit {name}"))
            submit(request)

        def steps() -> Step:
            begun.append((now(), "step"))
            return step()

        room.scheduler.submit, room.scheduler.step = submits, steps  # type: ignore[method-assign]

        async def reads(name: str) -> None:
            await asyncio.sleep(CALLERS[name][0])
            async for _ in room.engine.stream([requests[name]]):
                pass

        await asyncio.gather(*map(reads, CALLERS))
        return begun

    found: list[tuple[float, str]] = play(script())
    return found


def threads() -> str:
    """Draw the first seconds of the same requests: clients, event loop, task queue and worker."""
    begun = [(at, task) for at, task in worked() if at < SEEN]
    submitted = {task[-1]: at for at, task in begun if task != "step"}
    updates = sorted({at for each in traced()[0].values() for at in each if at <= SEEN})
    clients, loop, queue, worker = 14.0, 64.0, 114.0, 164.0  # the heights of the rows

    def draw(canvas: Canvas) -> None:
        left = 86.0
        second = (canvas.width - left - 24) / SEEN

        def x(seconds: float) -> float:
            return left + 6 + second * seconds

        for level, name in ((clients, "clients"), (loop, "event loop"), (queue, "task queue"), (worker, "worker")):
            canvas.text(0, level + 5, name, "strong")
        canvas.path([(left, loop), (x(SEEN), loop)], "axis")
        for name, at in submitted.items():
            came = CALLERS[name][0]
            canvas.circle(x(came), clients, 10, "frame")
            canvas.text(x(came), clients + 5, name, "strong", "middle")
            canvas.path([(x(came), clients + 11), (x(came), loop - 6)], "line", arrow=True)
            canvas.circle(x(came), loop, 4.5, "fill series-0")
            canvas.path([(x(came), loop + 6), (x(came), queue), (x(at), queue)], "line series-0")
            canvas.path([(x(at), queue), (x(at), worker - 14)], "line series-0", arrow=True)
            canvas.rect(x(at) - 4, worker - 12, 8, 24, "fill series-0")
            if at > came:
                said = f"submit {name}" if second > 120 else name  # on a phone, the name alone fits
                canvas.text((x(came) + x(at)) / 2 - 4, queue - 6, said, "small", "middle")
        number = 0
        for at, task in begun:
            if task == "step":
                number += 1
                canvas.rect(x(at) + 8, worker - 12, second - 16, 24, "frame", 3)
                canvas.text(x(at + 0.5), worker + 5, f"step {number}", "", "middle")
        for at in updates:
            canvas.path([(x(at) - 11, worker - 14), (x(at) - 11, loop + 6)], "line series-2", arrow=True)
            canvas.circle(x(at) - 11, loop, 4.5, "fill series-0")
            canvas.path([(x(at) - 11, loop - 6), (x(at) - 11, clients + 4)], "line series-2", arrow=True)
        for each in range(SEEN + 1):
            canvas.path([(x(each), worker + 20), (x(each), worker + 25)], "axis")
            canvas.text(x(each), worker + 25 + SMALL, f"{each} s", "small", "middle")

    about = "; ".join(
        f"{name} arrives at {CALLERS[name][0]} s and is submitted at {at} s" for name, at in submitted.items()
    )
    about = f"Four rows over time. {about}. A step takes a second, and after each step, tokens go to the clients."
    caption = (
        "Each disc is the event loop at work, which takes milliseconds. Between the discs, the event loop waits for "
        "the next event. It queues the <code>submit</code> of each request, and a narrow bar marks where the worker "
        "runs it. The worker never runs two tasks at once. Dotted lines are the new tokens of a step on their way to "
        "the clients. The run was recorded from the solution's engine loop."
    )
    return at_both_widths(draw).figure("threads-3-7", "The event loop and the worker thread", about, caption)


def _times(name: str, tokens: list[float]) -> tuple[float, float]:
    return tokens[0] - CALLERS[name][0], (tokens[-1] - tokens[0]) / (len(tokens) - 1)


def exposed() -> str:
    """Return the figure's queue times in the text format of Prometheus, without the empty buckets at first."""
    from tiny_llm_solution.server.metrics import FIRST_STEP, Metrics

    tokens, begun, _ = traced()
    calls = [(came, "arrived", who, 0) for who, (came, _, _) in enumerate(CALLERS.values())]
    for who, name in enumerate(CALLERS):
        first, *later, last = tokens[name]
        steps = [begun[name] + 1 + number for number in range(int(first - begun[name] - 1))]  # without a token
        calls += [(at, "new", who, 0) for at in steps] + [(at, "new", who, 1) for at in (first, *later)]
        calls.append((last, "ends", who, 1))
    clock = Clock()
    text: str = measured(Metrics(MODEL, clock), clock, sorted(calls), [100] * len(CALLERS))
    lines = [line for line in text.splitlines() if FIRST_STEP in line]
    shown = [line for line in lines if not line.endswith(" 0")]
    return "\n".join(["```text", *shown[:2], "...", *shown[2:], "```", ""])


def way() -> str:
    """Draw a row for each caller: its wait, its prefill and its tokens; below them, TTFT and TPOT."""
    tokens, begun, end = traced()

    def draw(canvas: Canvas) -> None:
        second = (canvas.width - LEFT - 10) / end

        def x(seconds: float) -> float:
            return LEFT + second * seconds

        for row, (name, (came, before, _)) in enumerate(CALLERS.items()):
            level = ROW * row + 16
            canvas.text(0, level + 5, name, "strong")
            canvas.path([(x(came), level - 9), (x(came), level + 9)], "axis")
            for fifth in range(1, int((begun[name] - came) * 5)):
                canvas.circle(x(came + fifth / 5), level, 1.2, "dot")
            canvas.rect(x(begun[name]) + 1, level - 7, second * (before + 1) - 5, 14, "fill series-0")
            canvas.path([(x(tokens[name][0]), level), (x(tokens[name][-1]), level)], "axis")
            for at in tokens[name]:
                canvas.circle(x(at), level, 4, "fill series-1")
            first, last = x(tokens[name][0]), x(tokens[name][-1])
            canvas.path([(x(came), level + 17), (first - 2, level + 17)], "axis", arrow=True)
            canvas.text((x(came) + first) / 2, level + 31, "TTFT", "small", "middle")
            canvas.path([(first + 2, level + 17), (last, level + 17)], "axis", arrow=True)
            gaps = len(tokens[name]) - 1
            canvas.text((first + last) / 2, level + 31, f"{gaps} x TPOT", "small", "middle")
        level = ROW * len(CALLERS) + 12
        canvas.path([(x(0), level), (x(end), level)], "axis")
        for each in range(round(end) + 1):
            canvas.path([(x(each), level), (x(each), level + 5)], "axis")
            canvas.text(x(each), level + SMALL + 7, str(each), "small", "middle")
        canvas.text(x(end), level + SMALL + FONT + 9, "seconds; each step takes 1 s", "small", "end")

    about = (
        "Three requests on a timeline. A arrives at 0 s and gets a token in every step. B arrives during the first "
        "step and prefills in three chunks. C finds both slots in use and waits until B has finished."
    )
    caption = (
        "A vertical line marks an arrival, small dots mark queueing, a bar marks a prefill, and a disc marks a token "
        "that reaches the client. The run was recorded from the solution's engine loop, with a scheduler whose steps "
        "take one second."
    )
    return at_both_widths(draw).figure("way-3-7", "TTFT and TPOT of three requests", about, caption)


def times() -> str:
    """Return the numbers of the figure."""
    tokens, begun, _ = traced()
    lines = ["| Request | Arrival | Scheduled | TTFT | Tokens | TPOT |", "|:--|--:|--:|--:|--:|--:|"]
    for name, (came, _, _) in CALLERS.items():
        ttft, tpot = _times(name, tokens[name])
        count = len(tokens[name])
        lines.append(f"| {name} | {came:.1f} s | {begun[name]:.1f} s | {ttft:.1f} s | {count} | {tpot:.1f} s |")
    return "\n".join(lines) + "\n"


def overload(every: float, limit: int) -> list[dict[str, Any]]:
    """Serve the widget's load in virtual time; a rejected client returns after its Retry-After.

    Args:
        every: seconds from one arrival to the next.
        limit: the maximum number of waiting requests; the gate also admits those that run.

    Returns:
        For each client its `tries`, [time, Retry-After] of each rejection; when it was `admitted`; its `tokens`' times.
    """
    from tiny_llm_solution.server.backpressure import Gate, TooBusy
    from tiny_llm_solution.server.loop import EngineLoop

    async def script() -> list[dict[str, Any]]:
        room, gate = Room(EngineLoop, SLOTS), Gate(SLOTS + limit, now)
        found: list[dict[str, Any]] = [{"tries": [], "admitted": 0.0, "tokens": []} for _ in range(CLIENTS)]

        async def client(number: int) -> None:
            own = found[number]
            await asyncio.sleep(FIRST + number * every)
            while not own["admitted"]:
                try:
                    gate.enter()
                    own["admitted"] = now()
                except TooBusy as busy:
                    own["tries"].append([round(now(), 1), busy.seconds])
                    await asyncio.sleep(busy.seconds)
            async for update in room.engine.stream([asked(100, OUTPUTS[number % len(OUTPUTS)])]):
                own["tokens"] += [round(now(), 1)] * len(update.tokens)
            gate.leave()

        await asyncio.gather(*map(client, range(CLIENTS)))
        return [each | {"admitted": round(each["admitted"], 1)} for each in found]

    played: list[dict[str, Any]] = play(script())
    return played


def queue_limit() -> str:
    """Return the widget with all its runs, and a table of those with the most clients."""
    (_, arrivals), (_, limits) = SETTINGS.items()
    runs = [[overload(every, limit) for limit in limits] for every in arrivals]
    rows = []
    for limit, clients in zip(limits, runs[0], strict=True):
        ttft = max(each["tokens"][0] - each["admitted"] for each in clients)
        waits = max(each["tokens"][0] - FIRST - place * arrivals[0] for place, each in enumerate(clients))
        ends, rejections = max(each["tokens"][-1] for each in clients), sum(len(each["tries"]) for each in clients)
        rows.append([str(limit), str(rejections), *(number(x, 1) for x in (ttft, waits, ends))])
    head = [
        "queue limit",
        "rejections",
        "max TTFT, s",
        "max wait since the first attempt, s",
        "time of the last token, s",
    ]
    data = {"first": FIRST, "slots": SLOTS, "settings": SETTINGS, "runs": runs}
    return element("queue-limit", data, table(f"{CLIENTS} clients, one every second, and {SLOTS} slots", head, rows))


def broken() -> str:
    """Compare tokens computed for disconnected clients, in the solution and with a known mistake."""
    from tiny_llm_solution.server.loop import EngineLoop

    known = load_variants(load_course().task("3.7.1"))
    mistake = next(each for each in known.wrong_programs if each.name == "disconnect-not-cancelled")
    lines = [
        "| Loop | Tokens delivered | Tokens for disconnected clients | Last token of the other client |",
        "|:--|--:|--:|--:|",
    ]
    for name, program in (("correct", EngineLoop), (f"`{mistake.name}`", mistake.program)):
        read, computed, ends = play(_gone(program))
        lines.append(f"| {name} | {read} | {computed - read} | {ends:g} s |")
    return "\n".join(lines) + "\n"


async def _gone(program: Any) -> tuple[int, int, float]:
    """Fill both slots with clients that disconnect after their first of 50 tokens; a third client wants 3."""
    room = Room(program, SLOTS)
    requests = [asked(100, 50), asked(200, 50), asked(300, 3)]
    ends, read = 0.0, 0

    async def reads() -> None:
        nonlocal ends, read
        async for news in room.engine.stream([requests[2]]):
            read, ends = read + len(news.tokens), now()

    for request in requests[:2]:
        room.caller(request, leaves=1)
    await asyncio.sleep(0.5)
    await reads()
    await asyncio.sleep(100.0)
    return read + 2, sum(len(request.output) for request in requests), ends
