"""The parts of a server without a socket: what fails in the engine, log-probabilities, events that nobody takes."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import mlx.core as mx
import pytest
from tests.week3.engine_room import Request

from tiny_llm_course.engine.serving import load_scheduler
from tiny_llm_course.serving.app import make_app
from tiny_llm_course.serving.monitoring import LogprobRecorder
from tiny_llm_course.serving.run import is_loopback
from tiny_llm_course.serving.service import Service


@pytest.fixture(scope="module")
def service():
    with ThreadPoolExecutor(1) as worker:
        engine = worker.submit(load_scheduler, None, True, "paged", kernels=False).result()
        yield Service(engine, worker, "tiny-qwen3", waiting=8)


async def asked(app, body, path="/v1/completions", leaves_after=None):
    """The status and the body of an answer; a client may leave after so many messages."""
    sent, gone = [], asyncio.Event()
    messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if len(sent) == leaves_after:
            gone.set()

    headers = [(b"host", b"localhost:8000"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    scope |= {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "server": ("localhost", 8000)}
    await asyncio.wait_for(app(scope, receive, send), 60)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


STORY = {"model": "tiny-qwen3", "prompt": "Once upon a time", "max_tokens": 6}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_model_that_fails(service, stream, monkeypatch):
    """The client is told, and the next one is served."""
    right, steps = service.engine.scheduler.model, []

    def failing(chunks, memory):
        steps.append(len(chunks))
        if len(steps) == 3:
            raise RuntimeError("a matrix is too small")
        return right(chunks, memory)

    monkeypatch.setattr(service.engine.scheduler, "model", failing)
    app = make_app(service, None, local=True)

    async def script():
        first = await asked(app, {**STORY, "stream": stream})
        return first, await asked(app, STORY)

    (status, body), (later, _) = asyncio.run(script())
    assert later == 200
    assert status == (200 if stream else 500)
    last = body.split("data: ")[-1]
    assert json.loads(last)["error"]["code"] == "engine_failed"
    assert "[DONE]" not in body
    assert service.engine.scheduler.kv_cache.pool.num_free == service.engine.scheduler.kv_cache.pool.pages
    assert service.gate.inside == 0


def test_a_client_that_leaves(service):
    """When the answer is given up, its request is out of the engine with the next step, and out of the gate at once."""
    app = make_app(service, None, local=True)

    async def script():
        await asked(app, {**STORY, "max_tokens": 1000, "ignore_eos": True, "stream": True}, leaves_after=3)
        inside = service.gate.inside
        await asked(app, STORY)
        return inside

    assert asyncio.run(script()) == 0
    pool = service.engine.scheduler.kv_cache.pool
    assert (service.engine.scheduler.running, pool.num_free) == ([], pool.pages)


def test_scores_of_several_tokens_in_a_step():
    """Rows of logits are counted by what was scored, also where fewer tokens were taken."""
    logits = mx.log(mx.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]))
    one, other = Request([1], 9, output=[]), Request([1], 9, output=[9, 9])
    scores = LogprobRecorder(lambda logits, chunks: [[0], [0, 2]])
    first, second = scores.ask(one, 1), scores.ask(other, 2)
    chunks = [SimpleNamespace(request=one, num_logits=2), SimpleNamespace(request=other, num_logits=2)]
    assert scores(logits, chunks) == [[0], [0, 2]]
    assert first[0].logprob == pytest.approx(float(mx.log(mx.array(0.5))))
    assert sorted(second) == [2, 3]
    assert [token for token, _ in second[2].top] == [0, 1]
    assert second[3].token == 2
    scores.forget(one)
    assert scores(logits, chunks) == [[0], [0, 2]]
    assert sorted(first) == [0]


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("dog", False)]
)
def test_what_only_this_machine_reaches(host, local):
    assert is_loopback(host) is local
