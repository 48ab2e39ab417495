"""Runs a load on a scheduler in this process, or sends it to an OpenAI-compatible server."""

import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...course.registry import UsageError
from ...engine.serving import ServingEngine
from .outcome import Answer, Outcome
from .workload import Arrival

PATIENCE = 120.0  # seconds without data
UNNAMED = "default_model"
STREAMED = {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}


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
