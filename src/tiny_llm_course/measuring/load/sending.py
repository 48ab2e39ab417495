"""Synthetic load: requests, run on a scheduler in this process or sent to a server, and the times of their tokens."""

import dataclasses
import http.client
import json
import random
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ...checkpoints.held_out import shipped_stories
from ...course.registry import UsageError
from ...engine.serving import ServingEngine

SHARED = 192  # tokens of the prefix that half of the requests share
OWN = (8, 64)  # unshared prompt tokens: minimum, maximum
WRITTEN = (4, 64, 256)  # output tokens: minimum, mean, maximum (shifted exponential)


class Arrival(NamedTuple):
    """One request."""

    at: float  # seconds, or steps, after the first
    prompt: tuple[int, ...]
    max_tokens: int


class Load(NamedTuple):
    """The size and rate of a load."""

    requests: int = 32
    rate: float | None = None  # requests per second, Poisson arrivals; None: all at once
    shared: int = SHARED
    seed: int = 1


def arrivals(serving: ServingEngine, load: Load) -> list[Arrival]:
    """Return the requests in order of arrival, the same for a seed: prompts from stories, half with a shared prefix."""
    draw, (shortest, mean, longest) = random.Random(load.seed), WRITTEN
    with serving.learners_code():
        text = serving.tokenizer.encode("\n\n".join(shipped_stories()))
    most = min(serving.context_length, 1 << 20) - WRITTEN[2] - OWN[1]
    shared = text[: min(load.shared, most, len(text) // 2)]
    found, now = [], 0.0
    for number in range(load.requests):
        count = draw.randint(*OWN)
        begin = draw.randrange(len(shared), max(len(shared) + 1, len(text) - count))
        own = text[begin : begin + count] or text[:1]
        prompt = [*shared, *own] if number % 2 else own
        written = min(longest, shortest + round(draw.expovariate(1 / (mean - shortest))))
        found.append(Arrival(now, tuple(prompt), written))
        if load.rate:
            now += draw.expovariate(load.rate)
    return found


PERCENTILES = (50, 95, 99)
PATIENCE = 120.0  # seconds without data
UNNAMED = "default_model"
STREAMED = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}


@dataclasses.dataclass
class Answer:
    """One request's times, in seconds since the start of the load."""

    at: float  # when it was sent
    tokens: list[float] = dataclasses.field(default_factory=list)  # arrival time of each
    failed: str = ""  # why tokens are missing
    counted: int = 0  # output tokens by the server's own count, if any: a chunk may hold several

    @property
    def first(self) -> float:
        """Return the time to first token (TTFT), from sending."""
        return self.tokens[0] - self.at

    @property
    def each(self) -> float:
        """Return the time per output token (TPOT): the mean time between tokens after the first."""
        return (self.tokens[-1] - self.tokens[0]) / (max(self.counted, len(self.tokens)) - 1)


@dataclasses.dataclass
class Outcome:
    """The result of a load."""

    answers: list[Answer]
    preemptions: int = 0
    hits: float | None = None  # prefix-cache hit rate, by prompt tokens; None without a cache

    @property
    def served(self) -> list[Answer]:
        """Return the requests that were answered in full."""
        return [answer for answer in self.answers if answer.tokens and not answer.failed]

    @property
    def throughput(self) -> float:
        """Return the output tokens per second, from the first request to the last token."""
        last = max((answer.tokens[-1] for answer in self.served), default=0.0)
        written = sum(answer.counted or len(answer.tokens) for answer in self.served)
        return written / (last - min(answer.at for answer in self.answers)) if last else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the statistics as JSON data; times in seconds."""
        found: dict[str, Any] = {
            "failed": len(self.answers) - len(self.served),
            "ttft": percentiles([answer.first for answer in self.served]),
            "tpot": percentiles([answer.each for answer in self.served if len(answer.tokens) > 1]),
            "preemptions": self.preemptions,
        }
        return found | ({} if self.hits is None else {"hits": self.hits})


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99; {} for no values."""
    return {f"p{p}": float(np.percentile(seconds, p)) for p in PERCENTILES} if seconds else {}


def send(url: str, model: str, serving: ServingEngine, load: Sequence[Arrival]) -> Outcome:
    """Send each request at its time on its own connection; return its token times. UsageError if none is answered."""
    host, port = _place(url)
    answers = [Answer(arrival.at) for arrival in load]
    with serving.learners_code():
        texts = [serving.tokenizer.decode(list(arrival.prompt)) for arrival in load]
    begun = time.perf_counter()

    def one(number: int) -> None:
        arrival, answer = load[number], answers[number]
        time.sleep(max(0.0, begun + arrival.at - time.perf_counter()))
        wanted = {"model": model, "prompt": texts[number], "max_tokens": arrival.max_tokens}
        try:
            for event in _events(host, port, wanted | STREAMED):
                if any(choice.get("text") for choice in event.get("choices") or []):
                    answer.tokens.append(time.perf_counter() - begun)
                answer.counted = (event.get("usage") or {}).get("completion_tokens") or answer.counted
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer.failed = str(error) or type(error).__name__

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(len(load))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome = Outcome(answers)
    if not outcome.served:
        raise UsageError(f"{url} answered no request: {answers[0].failed or 'no tokens arrived'}.")
    return outcome


def model_at(url: str) -> str:
    """Return the server's first model; UNNAMED if it lists none, as mlx-lm may; UsageError if no server answers."""
    host, port = _place(url)
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/v1/models")
        said = connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        what = f"No server answers at {url} ({type(error).__name__}). To start ours: pdm run serve --solution"
        raise UsageError(what) from error
    finally:
        connection.close()
    try:
        return str(json.loads(said)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        return UNNAMED


def _place(url: str) -> tuple[str, int]:
    where = urlsplit(url if "//" in url else f"http://{url}")
    try:
        port = where.port or 80
    except ValueError:
        port = 0
    if where.scheme != "http" or not where.hostname or not port:
        raise UsageError(f"{url} is not a server's URL; an example: http://127.0.0.1:8000.")
    return where.hostname, port


def _events(host: str, port: int, wanted: dict[str, object]) -> Iterator[dict[str, Any]]:
    """Yield the server's streamed events; raise ValueError with its message if it answers with an error."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(wanted), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"{response.status}: {response.read(300).decode(errors='replace').strip()}")
        for line in response:
            if line.startswith(b"data: ") and (data := line[6:].strip()) != b"[DONE]":
                yield json.loads(data)
    finally:
        connection.close()


def play(serving: ServingEngine, load: Sequence[Arrival]) -> Outcome:
    """Submit requests at their times, and step the scheduler while it has requests."""
    scheduler, coming, preemptions = serving.scheduler, deque(load), 0
    answers: dict[Any, Answer] = {}
    with serving.learners_code():
        request = serving.part("serving.request", "Request")
        begun = time.perf_counter()
        while coming or scheduler.running or len(scheduler.waiting):
            now = time.perf_counter() - begun
            while coming and coming[0].at <= now:
                arrival = coming.popleft()
                sent = request(list(arrival.prompt), arrival.max_tokens)
                scheduler.submit(sent)
                answers[sent] = Answer(arrival.at)
            if not (scheduler.running or len(scheduler.waiting)):
                time.sleep(max(0.0, coming[0].at - now))
                continue
            step = scheduler.step()
            now = time.perf_counter() - begun
            preemptions += len(step.preempted)
            for chunk, new in zip(step.chunks, step.new, strict=True):
                answers[chunk.request].tokens += [now] * len(new)
    memory = scheduler.kv_cache
    hits = memory.hit_tokens / max(memory.queried_tokens, 1) if hasattr(memory, "queried_tokens") else None
    return Outcome(list(answers.values()), preemptions, hits)


def replay(serving: ServingEngine, load: Sequence[Arrival]) -> tuple[list[Any], dict[Any, int]]:
    """Return the steps of a load whose times count steps, and the step before which each request arrived."""
    scheduler, coming = serving.scheduler, deque(load)
    steps: list[Any] = []
    came: dict[Any, int] = {}
    with serving.learners_code():
        request = serving.part("serving.request", "Request")
        while coming or scheduler.running or len(scheduler.waiting):
            while coming and coming[0].at <= len(steps):
                arrival = coming.popleft()
                scheduler.submit(sent := request(list(arrival.prompt), arrival.max_tokens))
                came[sent] = len(steps)
            steps.append(scheduler.step())
    return steps, came
