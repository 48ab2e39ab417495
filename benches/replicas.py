"""Measure the router of day 6.4 with real processes: `pdm run python benches/replicas.py`; takes about six minutes.

Three parts, written to benches/week6/replicas.json. Overhead: the same requests to a replica directly and through the
router, in turns, with the model that comes with the course and with random weights in the shape of Qwen3-0.6B. Kill: a
steady load, in the middle of which a replica is killed with SIGKILL; every request is checked against the text that the
model gives when nothing fails. Conversations: three conversations of six turns over two replicas, routed with and
without their prefixes.
"""

import argparse
import asyncio
import datetime
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from decode_engines import write_checkpoint

from tiny_llm_course.measuring.machine import machine
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.servers import running_server

load_solution()
from tiny_llm_solution.router.choice import choose  # noqa: E402
from tiny_llm_solution.router.replica import Replica, prefix_blocks  # noqa: E402

RECORD = ROOT / "benches" / "week6" / "replicas.json"
COMMAND = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--port", "{port}", "--replicas", "2"]
BAR = 3.0  # percent of overhead at p50
TAIL_BAR = 2.0  # p95 with a kill, relative to without
TOKENS = 96
TURNS = 40  # of the overhead
LARGE, LARGE_TOKENS, LARGE_TURNS = "qwen3-0.6b", 32, 12
WITH_TEXT = {"300": 100}  # the bias of a token that has a text: of most random ones, nothing would be streamed
RATE, SECONDS, KILL_AT = 1.6, 30.0, 10.0  # requests a second, and the kill
STARTS = ("Once upon a time", "One day, a dog", "The little girl", "Tom had a red ball", "In a big forest", "Anna")
# Three conversations; the pauses in seconds are those of the users.
TOPICS = (
    "Anna and her dog Max lived in a small house near the forest. Every morning they walked to the river. ",
    "Tom had a red ball. He took it to the park, where he met a boy with a blue kite and a girl with a drum. ",
    "The old bear was sad, since all of his friends slept. He sat on a stone and looked at the moon and stars. ",
)
NEXT = (
    " The next day, it rained. ",
    " Then a little bird came. ",
    " But mom said no. ",
    " In the evening, they ate cake. ",
)
TURNS_EACH, ANSWER, PAUSES = 6, 40, (0.05, 0.5)


def asked(prompt: str, tokens: int = TOKENS, **more: Any) -> dict[str, Any]:
    """Return the body of a request."""
    return {"model": "tiny-qwen3", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}


def percentile(values: list[float], percent: float) -> float:
    """Return a percentile, between neighbors."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(percent) - 1]


async def conversations(url: str, prefixes: bool) -> dict[str, Any]:
    """Hold conversations over the replicas themselves, routed by `choose` with or without the prompts' prefixes."""
    draw = random.Random(7)
    pauses = [[draw.uniform(*PAUSES) for _ in range(TURNS_EACH)] for _ in TOPICS]
    async with httpx.AsyncClient(timeout=120) as client:
        urls = {row["name"]: row["url"] for row in await fleet(client, url)}
        replicas = [Replica(name, "ready") for name in urls]
        begun, rows = time.perf_counter(), list[dict[str, Any]]()

        async def one(number: int) -> None:
            prompt = f"{prefixes}: {TOPICS[number]}"
            for turn, pause in enumerate(pauses[number]):
                await asyncio.sleep(pause)
                blocks = prefix_blocks(prompt)
                replica = choose(replicas, blocks if prefixes else ())
                assert replica
                replica.running += 1
                replica.prefixes.add(blocks)
                at = time.perf_counter() - begun
                body = asked(prompt, ANSWER)
                answer = (await client.post(f"{urls[replica.name]}/v1/completions", json=body)).json()
                replica.running -= 1
                usage = answer["usage"]
                row = {"conversation": number, "turn": turn, "replica": replicas.index(replica), "at": round(at, 3)}
                row |= {"end": round(time.perf_counter() - begun, 3), "prompt": usage["prompt_tokens"]}
                rows.append(row | {"cached": usage["prompt_tokens_details"]["cached_tokens"]})
                prompt += answer["choices"][0]["text"] + NEXT[turn % len(NEXT)]

        await asyncio.gather(*map(one, range(len(TOPICS))))
    prompt, cached = (sum(row[name] for row in rows) for name in ("prompt", "cached"))
    rows.sort(key=lambda row: row["at"])
    return {"prompt_tokens": prompt, "cached_tokens": cached, "prefilled_tokens": prompt - cached, "requests": rows}


async def fleet(client: httpx.AsyncClient, url: str) -> Any:
    """Return what the router says of its replicas."""
    return (await client.get(f"{url}/health")).json()["replicas"]


async def streamed(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> tuple[float, str, str]:
    """Return a request's seconds, its text, and how it ended: "answered", "error event", "cut" or a status."""
    begun, text, end = time.perf_counter(), "", "cut"
    try:
        async with client.stream("POST", f"{url}/v1/completions", json=body | {"stream": True}) as answer:
            if answer.status_code != 200:
                await answer.aread()
                return time.perf_counter() - begun, "", str(answer.status_code)
            async for line in answer.aiter_lines():
                if line == "data: [DONE]":
                    end = "answered"
                elif line.startswith("data: ") and "error" in (event := json.loads(line[6:])):
                    end = "error event"
                elif line.startswith("data: "):
                    text += "".join(choice["text"] for choice in event["choices"])
    except httpx.HTTPError:
        end = "cut"
    return time.perf_counter() - begun, text, end


async def overhead(url: str, turns: int, tokens: int = TOKENS, **more: Any) -> dict[str, Any]:
    """Compare one replica, directly and through the router, for whole and streamed answers."""
    result: dict[str, Any] = {"tokens": tokens, "turns": turns}
    async with httpx.AsyncClient(timeout=120) as client:
        direct = (await fleet(client, url))[0]["url"]
        for kind in ("whole", "streamed"):
            times: dict[str, list[float]] = {"direct": [], "router": []}
            for turn in range(turns + 2):
                ways = [("direct", direct), ("router", url)]
                for name, where in ways if turn % 2 else reversed(ways):
                    body = asked(f"{name} {kind} {turn}: {STARTS[turn % len(STARTS)]}", tokens, **more)
                    begun = time.perf_counter()
                    if kind == "streamed":
                        await streamed(client, where, body)
                    else:
                        (await client.post(f"{where}/v1/completions", json=body)).raise_for_status()
                    if turn >= 2:  # the first ones warm up
                        times[name].append(time.perf_counter() - begun)
            p50 = {name: statistics.median(each) for name, each in times.items()}
            result[kind] = {
                "direct_ms": round(1000 * p50["direct"], 2),
                "router_ms": round(1000 * p50["router"], 2),
                "percent": round(100 * (p50["router"] / p50["direct"] - 1), 2),
            }
    return result


async def loaded(url: str, seconds: float, kill: float | None) -> dict[str, Any]:
    """Send a steady load; kill a replica that is busy, and check every answer."""
    draw = random.Random(5)
    arrivals, at = list[float](), 0.0
    while at < seconds:
        arrivals.append(at)
        at += draw.expovariate(RATE)
    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        expected = {start: (await streamed(client, url, asked(start)))[1] for start in STARTS}
        before = {row["name"]: row["restarts"] for row in await fleet(client, url)}
        begun, killed = time.perf_counter(), 0.0

        async def one(number: int, at: float) -> tuple[float, str, str, str]:
            await asyncio.sleep(at)
            start = STARTS[number % len(STARTS)]
            return *(await streamed(client, url, asked(start))), start

        async def killer() -> None:
            nonlocal killed
            assert kill is not None
            await asyncio.sleep(kill)
            while True:
                busy = max(await fleet(client, url), key=lambda row: row["running"])
                if busy["running"]:
                    break
                await asyncio.sleep(0.01)
            killed = time.perf_counter() - begun
            os.kill(busy["pid"], signal.SIGKILL)

        tasks = [one(number, at) for number, at in enumerate(arrivals)]
        found = await asyncio.gather(*tasks, *([killer()] if kill is not None else []))
        answers = [each for each in found if each]
        while any(row["state"] != "ready" for row in await fleet(client, url)):
            await asyncio.sleep(0.05)
        recovered = time.perf_counter() - begun - killed if kill is not None else None
        restarts = sum(row["restarts"] - before[row["name"]] for row in await fleet(client, url))
        running = [row["running"] for row in await fleet(client, url)]
    ends = Counter(end for _, _, end, _ in answers)
    wrong = sum(text != expected[start] for _, text, end, start in answers if end == "answered")
    no_prefix = sum(not expected[start].startswith(text) for _, text, _, start in answers)
    times = [seconds for seconds, _, end, _ in answers if end == "answered"]
    return {
        "requests": len(answers),
        "ends": dict(ends),
        "wrong": wrong + no_prefix,
        "p50_s": round(statistics.median(times), 3),
        "p95_s": round(percentile(times, 95), 3),
        "restarts": restarts,
        "ready_again_s": recovered and round(recovered, 2),
        "running_after": running,
    }


def main() -> int:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write the record there (default: {RECORD})")
    parser.add_argument("--quick", action="store_true", help="fewer requests, and no record")
    options = parser.parse_args()
    record: dict[str, Any] = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "machine": machine()}
    with running_server(COMMAND, ready=all_ready, seconds=300) as port:
        url = f"http://127.0.0.1:{port}"
        record["overhead"] = {"tiny-qwen3": asyncio.run(overhead(url, 6 if options.quick else TURNS))}
        for name, prefixes in (("least_loaded", False), ("prefix_aware", True)):
            record[name] = asyncio.run(conversations(url, prefixes))
        seconds = 8.0 if options.quick else SECONDS
        record["undisturbed"] = asyncio.run(loaded(url, seconds, None))
        record["killed"] = asyncio.run(loaded(url, seconds, 3.0 if options.quick else KILL_AT))
    with tempfile.TemporaryDirectory() as made:
        command = [*COMMAND, "--memory", "512", "--model", str(write_checkpoint(Path(made) / LARGE))]
        with running_server(command, ready=all_ready, seconds=300) as port:
            turns = 2 if options.quick else LARGE_TURNS
            of_large = overhead(f"http://127.0.0.1:{port}", turns, LARGE_TOKENS, model=LARGE, logit_bias=WITH_TEXT)
            record["overhead"][LARGE] = asyncio.run(of_large)
    tail = record["killed"]["p95_s"] / record["undisturbed"]["p95_s"]
    record["p95_ratio"] = round(tail, 2)
    for model, found in record["overhead"].items():
        for kind in ("whole", "streamed"):
            row = found[kind]
            ways = f"p50 {row['direct_ms']} ms directly, {row['router_ms']} ms through the router"
            print(f"{model}, {kind}: {ways}: {row['percent']} % (bar: {BAR} %)")
    for name in ("least_loaded", "prefix_aware"):
        print(f"{name}: {record[name]['prefilled_tokens']} of {record[name]['prompt_tokens']} prompt tokens prefilled")
    for name in ("undisturbed", "killed"):
        print(f"{name}: {record[name]}")
    print(f"p95 with a kill: {tail:.2f} times that without (bar: {TAIL_BAR})")
    if not options.quick or options.json:
        (options.json or RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def all_ready(port: int) -> bool:
    """Return whether all replicas are ready."""
    try:
        rows = httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).json()["replicas"]
    except (httpx.HTTPError, ValueError):
        return False
    return all(row["state"] == "ready" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
