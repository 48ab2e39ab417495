"""Scripts of calls on a pool, a KV cache and a scheduler: the results of each call as numbers, and by a plain model.

A row holds what can be observed after a call, by name: its result and the object's state. -1 stands for a ValueError.
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
    """Return a script as one would type it: `allocate(2), release([0])`. A tuple stands for an iterator."""
    typed = (
        (name, [f"iter({[*each]})" if isinstance(each, tuple) else str(each) for each in args])
        for name, *args in script
    )
    return ", ".join(f"{name}({', '.join(args)})" for name, args in typed)


def numbers(rows: list[Row]) -> mx.array:
    """Flatten all rows, for a probe."""
    flat: list[int] = []
    for row in rows:
        for value in row.values():
            flat += [-9, *(value if isinstance(value, list) else [value])]
    return mx.array([_number(n) for n in flat], mx.int32)


def _number(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return {None: 0, False: -2, True: -3}[value] if value is None or isinstance(value, bool) else int(value)


def played_alike(play: Callable[..., list[Row]], plain: Callable[..., list[Row]], setting: Row, script: Script) -> None:
    """Check that a script's results match the plain model's; else report the first call and property that differ."""
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
    """Run allocate, retain and release. A tuple argument is passed as an iterator."""
    pool, rows = make(pages), []
    for name, argument in script:
        given = iter(list(argument)) if isinstance(argument, tuple) else argument
        kept = list(argument) if isinstance(argument, list) else None
        try:
            answer = getattr(pool, name)(given)
        except ValueError:
            answer = REFUSED
        row = {"the result": answer if name == "allocate" or answer == REFUSED else None, "num_free": pool.num_free}
        row["ref_count of each page"] = [pool.ref_count(page) for page in range(pages)]
        if kept is not None:
            row["the caller's list"] = given
        rows.append(row)
    return rows


class PlainPool:
    """The same by a list of counts."""

    def __init__(self, pages: int) -> None:
        self.held = [0] * pages

    def call(self, name: str, argument: Any) -> Row:
        """Return the row of one call."""
        after = list(self.held)
        answer: Any = None
        if name == "allocate":
            answer = [page for page, count in enumerate(after) if not count][:argument]
            if len(answer) < argument:
                answer = REFUSED
            else:
                after = [1 if page in set(answer) else count for page, count in enumerate(after)]
        else:
            for page in argument:
                after[page] += 1 if name == "retain" else -1
            if min(after) < 0 or (name == "retain" and any(not self.held[page] for page in argument)):
                answer, after = REFUSED, list(self.held)
        self.held = after
        row = {"the result": answer, "num_free": after.count(0), "ref_count of each page": after}
        return row | ({"the caller's list": list(argument)} if isinstance(argument, list) else {})


def plain_pool(pages: int, script: Script) -> list[Row]:
    """Run a script, call by call."""
    pool = PlainPool(pages)
    return [pool.call(*call) for call in script]


def pool_script(seed: int, pages: int, calls: int) -> list[tuple[Any, ...]]:
    """Draw calls, some of them invalid."""
    draw, pool, script = np.random.default_rng(seed), PlainPool(pages), []
    for _ in range(calls):
        name = ("allocate", "allocate", "retain", "release", "release", "release")[draw.integers(6)]
        if name == "allocate":
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


# The KV cache


class Shelves:
    """A storage that stores nothing, but records its arguments."""

    def __init__(self, page: int, pages: int) -> None:
        self.page_size, self.pages = page, pages
        self.asked: list[Any] = []

    def attend(self, *arguments: Any) -> str:
        """The value that a KV cache must return unchanged."""
        self.asked.append(arguments)
        return "attended"


def request_of(prompt: int, max_tokens: int = 8) -> Any:
    """The part of a request that a KV cache and a scheduler use."""
    from tiny_llm.serving.request import Request

    return Request(list(range(prompt)), max_tokens)


def play_memory(make: Callable[[Any], Any], page: int, pages: int, script: Script) -> list[Row]:
    """Run a KV cache on requests a, b, c.

    Besides its methods: `read(a, 3)` and `write(a, 1)`, tokens that the scheduler counts; `others_hold(a)`, which
    retains a's first page; `others_take(2)`, which allocates pages for another owner.
    """
    kv_cache, requests, rows = make(Shelves(page, pages)), dict[str, Any](), []
    for name, *args in script:
        if name in ("reserve", "truncate", "release", "others_hold") and requests[args[0]] not in kv_cache.block_tables:
            break  # wrongly not admitted: report that, not its consequences
        answer: Any = None
        try:
            match name, *args:
                case "validate", prompt, max_tokens:
                    kv_cache.validate(request_of(prompt, max_tokens))
                case "request", who, prompt, *written:
                    requests[who] = request_of(prompt)
                    requests[who].output += range(sum(written))
                case "admit", who:
                    answer = kv_cache.admit(requests[who])
                case "read", who, count:
                    requests[who].num_computed_tokens += count
                case "write", who, count:
                    requests[who].output += range(count)
                case "others_hold", who:
                    kv_cache.pool.retain(kv_cache.block_tables[requests[who]][:1])
                case "others_take", count:
                    kv_cache.pool.allocate(count)
                case "reserve", who, count:
                    answer = kv_cache.reserve(requests[who], count)
                case _, who, *rest:
                    getattr(kv_cache, name)(requests[who], *rest)
        except ValueError:
            answer = REFUSED
        row = {"the result": answer, "pool.num_free": kv_cache.pool.num_free}
        row |= {f"{who}'s pages": kv_cache.block_tables.get(each, [REFUSED])[:] for who, each in requests.items()}
        row |= {f"{who}.num_computed_tokens": each.num_computed_tokens for who, each in requests.items()}
        rows.append(row)
    return rows


class PlainMemory:
    """The same by counting."""

    def __init__(self, page: int, pages: int) -> None:
        self.page_size, self.held = page, [0] * pages
        self.block_tables: dict[str, list[int]] = {}
        self.requests: dict[str, Any] = {}

    def rounded(self, tokens: int) -> int:
        """Return the pages that a number of tokens needs."""
        return (tokens + self.page_size - 1) // self.page_size

    def taken(self, who: str, needed: int) -> bool:
        """Return whether a request gets that many pages in all, and allocate them if so."""
        free = [number for number, count in enumerate(self.held) if not count]
        more = max(0, needed - len(self.block_tables.get(who, [])))
        if more > len(free):
            return False
        self.block_tables.setdefault(who, []).extend(free[:more])
        for number in free[:more]:
            self.held[number] = 1
        return True

    def cut(self, who: str, kept: int) -> None:
        """Release all pages after the first ones."""
        for number in self.block_tables[who][kept:]:
            self.held[number] -= 1
        self.block_tables[who] = self.block_tables[who][:kept]

    def call(self, name: str, *args: Any) -> Row:
        """Return the row of one call."""
        answer: Any = None
        match name, *args:
            case "validate", prompt, max_tokens:
                answer = REFUSED if prompt + max_tokens > self.page_size * len(self.held) else None
            case "request", who, prompt, *written:
                self.requests[who] = SimpleNamespace(num_tokens=prompt + sum(written), num_computed_tokens=0)
            case "admit", who:
                needed = self.rounded(self.requests[who].num_tokens)
                answer = needed + len(self.block_tables) <= self.held.count(0) and self.taken(who, needed)
                self.requests[who].num_computed_tokens = 0 if answer else self.requests[who].num_computed_tokens
            case "reserve", who, count:
                answer = self.taken(who, self.rounded(self.requests[who].num_computed_tokens + count))
            case "truncate", who, length:
                self.cut(who, self.rounded(length))
            case "release", who:
                self.cut(who, 0)
                del self.block_tables[who]
            case "read", who, count:
                self.requests[who].num_computed_tokens += count
            case "write", who, count:
                self.requests[who].num_tokens += count
            case "others_hold", who:
                self.held[self.block_tables[who][0]] += 1
            case "others_take", count:
                for number in [n for n, held in enumerate(self.held) if not held][:count]:
                    self.held[number] = 1
        row = {"the result": answer, "pool.num_free": self.held.count(0)}
        row |= {f"{who}'s pages": list(self.block_tables.get(who, [REFUSED])) for who in self.requests}
        return row | {f"{who}.num_computed_tokens": each.num_computed_tokens for who, each in self.requests.items()}


def plain_memory(page: int, pages: int, script: Script) -> list[Row]:
    """Run a script, call by call."""
    kv_cache = PlainMemory(page, pages)
    return [kv_cache.call(*call) for call in script]


def memory_script(seed: int, page: int, pages: int, calls: int) -> list[tuple[Any, ...]]:
    """Draw requests that are admitted, prefill, decode, are truncated and released."""
    draw, kv_cache, script = np.random.default_rng(seed), PlainMemory(page, pages), []

    def called(*call: Any) -> Any:
        script.append(call)
        return kv_cache.call(*call)["the result"]

    for number in range(calls):
        kind, here = int(draw.integers(8)), sorted(kv_cache.block_tables)
        who = here[draw.integers(len(here))] if here else ""
        if kind < 2 or not here:
            called("request", f"r{number}", int(draw.integers(1, 2 * page + 2)))
            called("admit", f"r{number}")
        elif kind < 6:
            request = kv_cache.requests[who]
            unread = request.num_tokens - request.num_computed_tokens
            if called("reserve", who, unread):
                called("read", who, unread)
                called("write", who, 1)
        elif kind == 6:
            called("truncate", who, kv_cache.requests[who].num_computed_tokens)
        else:
            called("release", who)
    return script


# The scheduler


class Places:
    """A KV cache of counted slots, one per token."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.held: dict[Any, int] = {}
        self.released: list[int] = []  # num_computed_tokens of each request at its release

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self.places - sum(self.held.values())

    def reserve(self, request: Any, count: int) -> bool:
        """As `KVCacheManager.reserve`."""
        if request not in self.held:
            raise KeyError("slots are reserved for a request that has been released")
        more = max(0, request.num_computed_tokens + count - self.held[request])
        if more > self.free:
            return False
        self.held[request] += more
        return True

    def truncate(self, request: Any, length: int) -> None:
        """As `KVCacheManager.truncate`."""
        self.held[request] = min(length, self.held[request])

    def release(self, request: Any) -> None:
        """As `KVCacheManager.release`."""
        del self.held[request]
        self.released.append(request.num_computed_tokens)


def play_preemption(
    scheduler: Callable[..., Any],
    preempt_until_reserved: Callable[..., bool],
    step: Any,
    places: int,
    read: list[int],
    script: Script,
) -> list[Row]:
    """Run preemptions on running requests, oldest first; `num_computed_tokens` is how many tokens of each are cached.

    Args:
        scheduler: makes one.
        preempt_until_reserved: its method, as a function of scheduler, chunk and step.
        step: makes a Step.
        places: KV slots.
        read: computed tokens of each request.
        script: calls `reserve(0, 2)`, for a chunk of two tokens of request 0.
    """
    from tiny_llm.serving.request import Chunk

    kv_cache = Places(places)
    one = scheduler(None, kv_cache)
    requests = [request_of(5, 99) for _ in read]
    for number, (request, count) in enumerate(zip(requests, read, strict=True)):
        request.request_id, request.num_computed_tokens = number, count
        request.output += range(max(0, count - 4))
        kv_cache.held[request] = count
    one.running = list(requests)
    waiting = request_of(3)
    waiting.request_id = len(requests)
    one.waiting.add(waiting)
    rows = []
    for _, number, count in script:
        request, told = requests[number], step()
        chunk = Chunk(request, request.num_computed_tokens, [1] * count, 1)
        answer = kv_cache.reserve(request, count) or preempt_until_reserved(one, chunk, told)
        queue = []
        while one.waiting:
            queue.append(one.waiting.peek())
            one.waiting.remove(queue[-1])
        for each in queue:
            one.waiting.add(each)
        rows.append(
            {
                "the result": answer,
                "running": [each.request_id for each in one.running],
                "waiting": [each.request_id for each in queue],
                "step.preempted": [each.request_id for each in told.preempted],
                "num_computed_tokens of each": [each.num_computed_tokens for each in requests],
                "the output of each": [len(each.output) for each in requests],
                "finish_reason of each": [each.finish_reason for each in requests],
                "slots of each": [kv_cache.held.get(each, REFUSED) for each in requests],
                "num_computed_tokens at each release": list(kv_cache.released),
            }
        )
    return rows


def plain_preemption(places: int, read: list[int], script: Script) -> list[Row]:
    """The same by the rule: preempt the youngest until there is capacity, or the chunk's own request is preempted."""
    running, waiting, read, rows = list(range(len(read))), [len(read)], list(read), []
    held, output, released = list(read), [max(0, count - 4) for count in read], list[int]()
    for _, number, count in script:
        gone, answer = [], True
        while places - sum(n for n in held if n > 0) < read[number] + count - held[number]:
            youngest = running.pop()
            waiting.insert(0, youngest)
            gone.append(youngest)
            released.append(read[youngest])
            read[youngest], held[youngest] = 0, REFUSED
            if youngest == number:
                answer = False
                break
        else:
            held[number] = max(held[number], read[number] + count)
        rows.append(
            {
                "the result": answer,
                "running": list(running),
                "waiting": list(waiting),
                "step.preempted": gone,
                "num_computed_tokens of each": list(read),
                "the output of each": list(output),
                "finish_reason of each": [""] * len(read),
                "slots of each": list(held),
                "num_computed_tokens at each release": list(released),
            }
        )
    return rows
