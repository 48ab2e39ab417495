"""Scripts of calls of a pool, a memory and a scheduler: what came of each call, as numbers, and as a plain model says.

A row is what can be seen after a call, by name: what it gave, and what the object says of itself. -1 stands for a
ValueError.
"""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

Row = dict[str, Any]
Script = Sequence[tuple[Any, ...]]
REFUSED = -1


def words(script: Iterable[tuple[Any, ...]]) -> str:
    """A script as one would type it: `take(2), drop([0])`."""
    return ", ".join(f"{name}({', '.join(map(str, args))})" for name, *args in script)


def numbers(rows: list[Row]) -> mx.array:
    """All rows, one behind the other, for a probe."""
    flat: list[int] = []
    for row in rows:
        for value in row.values():
            flat += [-9, *(value if isinstance(value, list) else [value])]
    return mx.array([_number(n) for n in flat], mx.int32)


def _number(value: Any) -> int:
    return {None: 0, False: -2, True: -3}[value] if value is None or isinstance(value, bool) else int(value)


def played_alike(play: Callable[..., list[Row]], plain: Callable[..., list[Row]], setting: Row, script: Script) -> None:
    """Check that a script comes to what the plain model says; else say after which call it does not, and in what."""
    told = ", ".join(f"{name} {value}" for name, value in setting.items())
    with noted(_short(f"{told}: {words(script)}")):
        rows = play(**setting, script=script)
    for number, (row, right) in enumerate(zip(rows, plain(**setting, script=script), strict=True)):
        case = _short(f"{told}: {words(script[: number + 1])}")
        for name, expected in right.items():
            actual = row[name]
            if type(actual) is type(expected) and actual == expected:
                continue
            lines = [f"{label:<10}{_said(value)}" for label, value in (("expected", expected), ("got", actual))]
            headline = f"after call {number + 1}, {words(script[number : number + 1])[:60]}: {name} is wrong"
            raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, len(script)))


def _said(value: Any) -> str:
    text = "a ValueError" if value == REFUSED and type(value) is int else str(value)
    return text if len(text) < 90 else f"{text[:86]} ..."


def _short(case: str) -> str:
    return case if len(case) < 220 else f"{case[:60]} ... {case[-150:]}"


# The pool


def play_pool(make: Callable[[int], Any], pages: int, script: Script) -> list[Row]:
    """What take, hold and drop come to. An iterator is handed over where the script says `iter`."""
    pool, rows = make(pages), []
    for name, argument in script:
        given = iter(list(argument)) if isinstance(argument, tuple) else argument
        kept = list(argument) if isinstance(argument, list) else None
        try:
            answer = getattr(pool, name)(given)
        except ValueError:
            answer = REFUSED
        row = {"what it gave": answer if name == "take" or answer == REFUSED else None, "free": pool.free}
        row["holders"] = [pool.holders(page) for page in range(pages)]
        if kept is not None:
            row["the caller's list"] = given
        rows.append(row)
    return rows


class PlainPool:
    """The same, as a list of counts says."""

    def __init__(self, pages: int) -> None:
        self.held = [0] * pages

    def call(self, name: str, argument: Any) -> Row:
        """What comes of one call."""
        after = list(self.held)
        answer: Any = None
        if name == "take":
            answer = [page for page, count in enumerate(after) if not count][:argument]
            if len(answer) < argument:
                answer = REFUSED
            else:
                after = [1 if page in set(answer) else count for page, count in enumerate(after)]
        else:
            for page in argument:
                after[page] += 1 if name == "hold" else -1
            if min(after) < 0 or (name == "hold" and any(not self.held[page] for page in argument)):
                answer, after = REFUSED, list(self.held)
        self.held = after
        row = {"what it gave": answer, "free": after.count(0), "holders": after}
        return row | ({"the caller's list": list(argument)} if isinstance(argument, list) else {})


def plain_pool(pages: int, script: Script) -> list[Row]:
    """A script, call by call."""
    pool = PlainPool(pages)
    return [pool.call(*call) for call in script]


def pool_script(seed: int, pages: int, calls: int) -> list[tuple[Any, ...]]:
    """Drawn calls, of which some must be refused."""
    draw, pool, script = np.random.default_rng(seed), PlainPool(pages), []
    for _ in range(calls):
        name = ("take", "take", "hold", "drop", "drop", "drop")[draw.integers(6)]
        if name == "take":
            call: tuple[Any, ...] = (name, int(draw.integers(0, max(2, pages // 2) + 1)))
        else:
            some = [page for page, count in enumerate(pool.held) for _ in range(count)] or [0]
            chosen = draw.choice(some, min(len(some), int(draw.integers(0, 6))), replace=False).tolist()
            if draw.integers(5) == 0:
                chosen.append(int(draw.integers(pages)))
            call = (name, tuple(chosen) if draw.integers(2) else chosen)
        script.append(call)
        pool.call(*call)
    return script


# The memory


class Shelves:
    """A storage that keeps nothing: it notes what it is asked for."""

    def __init__(self, page: int, pages: int) -> None:
        self.page, self.pages = page, pages
        self.asked: list[Any] = []

    def attend(self, *arguments: Any) -> str:
        """What a memory must give back as it is."""
        self.asked.append(arguments)
        return "attended"


def request_of(prompt: int, max_tokens: int = 8) -> Any:
    """A request, as far as a memory and a scheduler look at it."""
    from tiny_llm.serving.request import Request

    return Request(list(range(prompt)), max_tokens)


def play_memory(make: Callable[[Any], Any], page: int, pages: int, script: Script) -> list[Row]:
    """What a memory makes of requests a, b, c. Also: `read(a, 3)` and `write(a, 1)`, tokens that the scheduler counts,
    `others_hold(a)`, somebody else who holds a's first page, `others_take(2)`, pages that are somebody else's."""
    memory, requests, rows = make(Shelves(page, pages)), dict[str, Any](), []
    for name, *args in script:
        if name in ("reserve", "shorten", "release", "others_hold") and requests[args[0]] not in memory.tables:
            break  # it was not let in, as it should have been: what was said then is told, and not what comes of it
        answer: Any = None
        try:
            match name, *args:
                case "check", prompt, max_tokens:
                    memory.check(request_of(prompt, max_tokens))
                case "request", who, prompt, *written:
                    requests[who] = request_of(prompt)
                    requests[who].output += range(sum(written))
                case "begin", who:
                    answer = memory.begin(requests[who])
                case "read", who, count:
                    requests[who].read += count
                case "write", who, count:
                    requests[who].output += range(count)
                case "others_hold", who:
                    memory.pool.hold(memory.tables[requests[who]][:1])
                case "others_take", count:
                    memory.pool.take(count)
                case "reserve", who, count:
                    answer = memory.reserve(requests[who], count)
                case _, who, *rest:
                    getattr(memory, name)(requests[who], *rest)
        except ValueError:
            answer = REFUSED
        row = {"what it gave": answer, "pool.free": memory.pool.free}
        row |= {f"{who}'s pages": memory.tables.get(each, [REFUSED])[:] for who, each in requests.items()}
        row |= {f"{who}.read": each.read for who, each in requests.items()}
        rows.append(row)
    return rows


class PlainMemory:
    """The same, counted on fingers."""

    def __init__(self, page: int, pages: int) -> None:
        self.page, self.held = page, [0] * pages
        self.tables: dict[str, list[int]] = {}
        self.requests: dict[str, Any] = {}

    def rounded(self, tokens: int) -> int:
        """The pages that so many tokens need."""
        return (tokens + self.page - 1) // self.page

    def taken(self, who: str, needed: int) -> bool:
        """Whether a request can have so many pages in all; then it has."""
        free = [number for number, count in enumerate(self.held) if not count]
        more = max(0, needed - len(self.tables.get(who, [])))
        if more > len(free):
            return False
        self.tables.setdefault(who, []).extend(free[:more])
        for number in free[:more]:
            self.held[number] = 1
        return True

    def cut(self, who: str, kept: int) -> None:
        """Give back all pages behind the first ones."""
        for number in self.tables[who][kept:]:
            self.held[number] -= 1
        self.tables[who] = self.tables[who][:kept]

    def call(self, name: str, *args: Any) -> Row:
        """What comes of one call."""
        answer: Any = None
        match name, *args:
            case "check", prompt, max_tokens:
                answer = REFUSED if prompt + max_tokens > self.page * len(self.held) else None
            case "request", who, prompt, *written:
                self.requests[who] = SimpleNamespace(length=prompt + sum(written), read=0)
            case "begin", who:
                needed = self.rounded(self.requests[who].length)
                answer = needed + len(self.tables) <= self.held.count(0) and self.taken(who, needed)
                self.requests[who].read = 0 if answer else self.requests[who].read
            case "reserve", who, count:
                answer = self.taken(who, self.rounded(self.requests[who].read + count))
            case "shorten", who, length:
                self.cut(who, self.rounded(length))
            case "release", who:
                self.cut(who, 0)
                del self.tables[who]
            case "read", who, count:
                self.requests[who].read += count
            case "write", who, count:
                self.requests[who].length += count
            case "others_hold", who:
                self.held[self.tables[who][0]] += 1
            case "others_take", count:
                for number in [n for n, held in enumerate(self.held) if not held][:count]:
                    self.held[number] = 1
        row = {"what it gave": answer, "pool.free": self.held.count(0)}
        row |= {f"{who}'s pages": list(self.tables.get(who, [REFUSED])) for who in self.requests}
        return row | {f"{who}.read": each.read for who, each in self.requests.items()}


def plain_memory(page: int, pages: int, script: Script) -> list[Row]:
    """A script, call by call."""
    memory = PlainMemory(page, pages)
    return [memory.call(*call) for call in script]


def memory_script(seed: int, page: int, pages: int, calls: int) -> list[tuple[Any, ...]]:
    """Drawn requests that come, read, write, are shortened and go."""
    draw, memory, script = np.random.default_rng(seed), PlainMemory(page, pages), []

    def called(*call: Any) -> Any:
        script.append(call)
        return memory.call(*call)["what it gave"]

    for number in range(calls):
        kind, here = int(draw.integers(8)), sorted(memory.tables)
        who = here[draw.integers(len(here))] if here else ""
        if kind < 2 or not here:
            called("request", f"r{number}", int(draw.integers(1, 2 * page + 2)))
            called("begin", f"r{number}")
        elif kind < 6:
            request = memory.requests[who]
            unread = request.length - request.read
            if called("reserve", who, unread):
                called("read", who, unread)
                called("write", who, 1)
        elif kind == 6:
            called("shorten", who, memory.requests[who].read)
        else:
            called("release", who)
    return script


# The scheduler


class Places:
    """A memory of so many places, a token in each, that somebody counts."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.held: dict[Any, int] = {}

    @property
    def free(self) -> int:
        """How many hold nothing."""
        return self.places - sum(self.held.values())

    def reserve(self, request: Any, count: int) -> bool:
        """As `Memory.reserve`."""
        if request not in self.held:
            raise KeyError("room is reserved for a request that has been released")
        more = max(0, request.read + count - self.held[request])
        if more > self.free:
            return False
        self.held[request] += more
        return True

    def release(self, request: Any) -> None:
        """As `Memory.release`."""
        del self.held[request]


def play_preemption(
    scheduler: Callable[..., Any],
    make_room: Callable[..., bool],
    step: Any,
    places: int,
    read: list[int],
    script: Script,
) -> list[Row]:
    """What becomes of requests that run, of which `read` says how many tokens each has in memory, the oldest first.

    Args:
        scheduler: makes one.
        make_room: of it, a function of scheduler, chunk and step.
        step: makes a Step.
        places: of the memory.
        read: by each request.
        script: calls `room(0, 2)`, of a chunk of two tokens of request 0.
    """
    from tiny_llm.serving.request import Chunk

    memory = Places(places)
    one = scheduler(None, memory)
    requests = [request_of(5, 99) for _ in read]
    for number, (request, count) in enumerate(zip(requests, read, strict=True)):
        request.number, request.read = number, count
        request.output += range(max(0, count - 4))
        memory.held[request] = count
    one.running = list(requests)
    waiting = request_of(3)
    waiting.number = len(requests)
    one.waiting.add(waiting)
    rows = []
    for _, number, count in script:
        request, told = requests[number], step()
        chunk = Chunk(request, request.read, [1] * count, 1)
        answer = memory.reserve(request, count) or make_room(one, chunk, told)
        queue = []
        while one.waiting:
            queue.append(one.waiting.next())
            one.waiting.remove(queue[-1])
        for each in queue:
            one.waiting.add(each)
        rows.append(
            {
                "what it gave": answer,
                "running": [each.number for each in one.running],
                "waiting": [each.number for each in queue],
                "step.preempted": [each.number for each in told.preempted],
                "what each has read": [each.read for each in requests],
                "the output of each": [len(each.output) for each in requests],
                "what each holds": [memory.held.get(each, REFUSED) for each in requests],
            }
        )
    return rows


def plain_preemption(places: int, read: list[int], script: Script) -> list[Row]:
    """The same, by the rule: the youngest goes, until there is room or it was the one that asked."""
    running, waiting, read, rows = list(range(len(read))), [len(read)], list(read), []
    held, output = list(read), [max(0, count - 4) for count in read]
    for _, number, count in script:
        gone, answer = [], True
        while places - sum(n for n in held if n > 0) < read[number] + count - held[number]:
            youngest = running.pop()
            waiting.insert(0, youngest)
            gone.append(youngest)
            read[youngest], held[youngest] = 0, REFUSED
            if youngest == number:
                answer = False
                break
        else:
            held[number] = max(held[number], read[number] + count)
        rows.append(
            {
                "what it gave": answer,
                "running": list(running),
                "waiting": list(waiting),
                "step.preempted": gone,
                "what each has read": list(read),
                "the output of each": list(output),
                "what each holds": list(held),
            }
        )
    return rows
