"""Soak the server: thousands of short requests, including disconnects and malformed ones, beside slow clients.

`pdm run python benches/soak.py` starts `serve` on the embedded model and sends 20,000 of them. At the end every page
must be free, memory and descriptors what they were, each greedy answer the same, and whatever was not served refused in
words. It exits with 1 otherwise.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import datetime
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from tiny_llm_course.measuring.machine import in_words, machine
from tiny_llm_course.testkit.servers import running_server

AT_ONCE = 24  # clients
SLOW = 12  # clients that send a request's head byte by byte, and as many that read a long stream byte by byte
WRONG: list[dict[str, Any]] = [
    {"max_tokens": "many"},
    {"prompt": {"a": 1}},
    {"temperature": -3},
    {"n": 0},
    {"stop": 7},
]
MODEL = "tiny-qwen3"
STORY = "Once upon a time there was a little girl who had a big blue dog. One day they went to the park. "
MEMORY = "8"  # MiB of keys and values: small enough that pages are soon used again
PATIENCE = 60.0  # seconds for one request
LEAVES = 15.0  # seconds until the server has closed every connection: more than it waits for a head
ENOUGH = 5000  # requests, to say anything of memory
SETTLES = 0.2  # of the requests, until the server's memory is what it will be
ALLOWED = 1.02  # times that memory at the end

Headers = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Sort:
    """One sort of request: how often it is sent, what is right for an answer, and whether its sender stays."""

    weight: int
    right: tuple[int, ...]
    leaves: bool = False


SORTS = {
    "whole": Sort(30, (200,)),
    "streamed": Sort(30, (200,)),
    "hangs up": Sort(15, (200,), leaves=True),
    "hangs up at once": Sort(5, (200,), leaves=True),
    "greedy": Sort(10, (200,)),
    "reads slowly": Sort(3, (200,)),
    "writes slowly": Sort(3, (200,)),
    "no JSON": Sort(4, (400, 422)),
    "wrong type": Sort(4, (400, 422)),
    "no such model": Sort(3, (404,)),
    "too long": Sort(3, (400, 413)),
    "no UTF-8": Sort(3, (400, 422)),
}
BUSY = 429  # is right for all of them: it is said in words, and when to come again


def body_of(sort: str, draw: random.Random) -> bytes:
    """What is sent."""
    if sort == "no JSON":
        return draw.choice([b"{", b"[1, 2", b"", b'{"prompt": }', b"\x00" * 40])
    if sort == "no UTF-8":
        return b'{"model": "' + MODEL.encode() + b'", "prompt": "\xff\xfe\xfa"}'
    prompt: Any = STORY[: draw.randint(1, len(STORY))] if draw.random() < 0.5 else STORY
    wanted: dict[str, Any] = {"model": MODEL, "prompt": prompt, "max_tokens": draw.randint(1, 12)}
    if sort == "greedy":
        wanted |= {"prompt": STORY, "max_tokens": 8, "temperature": 0}
        return json.dumps(wanted).encode()
    wanted["stream"] = sort in ("streamed", "hangs up", "reads slowly")
    if draw.random() < 0.3:
        wanted |= {"temperature": 0.8, "seed": draw.randrange(1000)}
    if draw.random() < 0.1:
        wanted |= {"stop": [" dog", "\n"]}
    if draw.random() < 0.05:
        wanted |= {"n": 2}
    if sort == "wrong type":
        wanted |= draw.choice(
            [{"max_tokens": "many"}, {"prompt": {"a": 1}}, {"temperature": -3}, {"n": 0}, {"stop": 7}]
        )
    elif sort == "no such model":
        wanted["model"] = "gpt-0"
    elif sort == "too long":
        wanted["prompt"] = STORY * 1000
    elif sort in ("hangs up", "hangs up at once"):
        wanted["max_tokens"] = 200
    return json.dumps(wanted).encode()


async def one(port: int, sort: str, draw: random.Random, texts: set[str]) -> str:
    """Send a request of a sort; what came of it: its status, "left", or what is wrong. Greedy answers go to `texts`."""
    body = body_of(sort, draw)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        sent = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        pieces = 5 if sort == "writes slowly" else 1
        for at in range(0, len(sent), -(-len(sent) // pieces)):
            writer.write(sent[at : at - (-len(sent) // pieces)])
            await writer.drain()
            await asyncio.sleep(0.05 * (pieces > 1))
        if sort == "hangs up at once":
            await asyncio.sleep(draw.random() * 0.02)
            return "left"
        line = (await reader.readline()).decode(errors="replace")
        found = re.match(r"HTTP/1\.1 (\d+)", line)
        if not found:
            return f"no answer: {line!r}"
        status = int(found[1])
        if sort == "hangs up" and status == 200:
            for _ in range(draw.randint(1, 12)):
                await reader.readline()
            return "left"
        if sort == "reads slowly":
            for _ in range(3):
                await reader.read(20)
                await asyncio.sleep(0.1)
        rest = (await reader.read()).decode(errors="replace")
        if status not in (*SORTS[sort].right, BUSY):
            return f"{status}: {rest[-200:]!r}"
        if status >= 400 and '"message"' not in rest:
            return f"{status} without a word: {rest[-200:]!r}"
        if status == 200 and sort == "streamed" and "[DONE]" not in rest:
            return f"a stream without an end: {rest[-200:]!r}"
        if status == 200 and sort == "greedy":
            texts.add(re.search('"text":"(.*?)"', rest)[1])  # type: ignore[index]
        return str(status)
    finally:
        writer.close()


async def soaked(
    port: int, count: int, seed: int, used: "list[int]", process: psutil.Process
) -> Counter[tuple[str, str]]:
    """Send so many requests, AT_ONCE at a time; what came of them, and the server's memory on the way."""
    texts: set[str] = set()
    found: Counter[tuple[str, str]] = Counter()
    numbers = iter(range(count))
    names, weights = list(SORTS), [sort.weight for sort in SORTS.values()]

    async def client() -> None:
        for number in numbers:
            draw = random.Random(seed * 1_000_003 + number)
            sort = draw.choices(names, weights)[0]
            try:
                outcome = await asyncio.wait_for(one(port, sort, draw, texts), PATIENCE)
            except (OSError, TimeoutError) as error:
                outcome = f"{type(error).__name__}: {error}"
            found[sort, outcome] += 1
            if number % max(count // 50, 1) == 0:
                used.append(process.memory_info().rss)

    slow = [asyncio.ensure_future(_slow(port, reads)) for reads in (False, True) for _ in range(SLOW)]
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    if ended := sum(task.done() for task in slow):
        found["slow clients", "not connected"] += ended
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    if len(texts) > 1:
        found["greedy", f"{len(texts)} different answers"] += 1
    return found


async def _slow(port: int, reads: bool) -> None:
    """Send a head byte by byte, or read a long stream byte by byte; begin again when the server ends it."""
    wanted = {"model": MODEL, "prompt": STORY, "max_tokens": 100, "stream": True, "ignore_eos": True}
    body = json.dumps(wanted).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    sent = head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64)
        with contextlib.suppress(ConnectionError):  # the server has closed it: too slow
            if reads:
                writer.write(sent)
                while await reader.read(1):
                    await asyncio.sleep(0.1)
            else:
                for byte in sent:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.5)
        writer.close()


def state(port: int) -> dict[str, Any]:
    """What the engine says of itself."""
    with urlopen(f"http://127.0.0.1:{port}/state", timeout=PATIENCE) as response:
        found: dict[str, Any] = json.load(response)
    return found


def faults(
    found: Counter[tuple[str, str]], used: list[int], last: dict[str, Any], descriptors: tuple[int, int] = (0, 0)
) -> list[str]:
    """What a server has done that it must not; nothing if it is well."""
    said = [f"{sort}: {outcome}, {count} times" for (sort, outcome), count in found.items() if _wrong(sort, outcome)]
    if last["running"] or last["waiting"]:
        said.append(f"{len(last['running'])} requests run and {last['waiting']} wait when all senders have gone")
    if (pages := last["pages"]) and (held := pages["all"] - pages["free"] - pages["kept"]):
        said.append(f"{held} pages are held by nobody who is there")
    settled = statistics.median(used[int(len(used) * SETTLES) :][:5])
    if found.total() >= ENOUGH and (end := statistics.median(used[-5:])) > ALLOWED * settled:
        said.append(f"memory has grown from {settled / 1e6:.0f} to {end / 1e6:.0f} MB")
    if descriptors[1] > descriptors[0]:
        said.append(f"descriptors have grown from {descriptors[0]} to {descriptors[1]}")
    return said


def _wrong(sort: str, outcome: str) -> bool:
    return sort not in SORTS or outcome not in {str(status) for status in (*SORTS[sort].right, BUSY)} | (
        {"left"} if SORTS[sort].leaves else set()
    )


def main(arguments: list[str] | None = None) -> int:
    """Soak, print what came of it, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000, help="how many are sent (default: 20,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    options = parser.parse_args(arguments)
    command = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--memory", MEMORY, "--port", "{port}"]
    with running_server(command, seconds=PATIENCE) as port:
        server = next(one for one in psutil.Process().children(recursive=True) if _listens(one, port))
        used: list[int] = []
        state(port)
        time.sleep(0.5)  # until its connection is closed
        before = server.num_fds()
        begun = time.perf_counter()
        found = asyncio.run(soaked(port, options.requests, options.seed, used, server))
        seconds = time.perf_counter() - begun
        time.sleep(1.0)  # whoever has hung up last is noticed
        last = state(port)
        until = time.monotonic() + LEAVES
        while server.num_fds() > before and time.monotonic() < until:
            time.sleep(0.2)
        descriptors = before, server.num_fds()
        wrong = faults(found, used, last, descriptors)
    print(f"{options.requests:,} requests in {seconds:.0f} s, {AT_ONCE} at once")
    for (sort, outcome), count in sorted(found.items()):
        print(f"  {sort:18} {outcome:10} {count:>8,}")
    print(
        f"memory: {used[0] / 1e6:.0f} MB at first, {max(used) / 1e6:.0f} MB at most, {used[-1] / 1e6:.0f} MB at the end"
    )
    print(f"descriptors: {descriptors[0]} at first, {descriptors[1]} at the end")
    print(in_words(machine()))
    for line in wrong:
        print(f"WRONG: {line}")
    if options.json:
        rows = [{"sort": sort, "outcome": outcome, "count": count} for (sort, outcome), count in sorted(found.items())]
        record = {"date": datetime.date.today().isoformat(), "machine": machine(), "requests": options.requests}
        record |= {"descriptors": descriptors, "seconds": seconds, "rows": rows, "memory": used, "wrong": wrong}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong))


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        return any(one.laddr.port == port for one in process.net_connections() if one.status == psutil.CONN_LISTEN)
    except psutil.Error:
        return False


if __name__ == "__main__":
    sys.exit(main())
