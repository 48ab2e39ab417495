"""The parts of a server without a socket: what fails in the engine, log-probabilities, events that nobody takes."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import mlx.core as mx
import pytest
from tests.week3.engine_room import Request

from tiny_llm_course.engine.serving import Limits, load_scheduler
from tiny_llm_course.paths import BOOK
from tiny_llm_course.serving.app import make_app
from tiny_llm_course.serving.guards import Access
from tiny_llm_course.serving.logits import LogitOptions, LogitsProcessor, score_rows
from tiny_llm_course.serving.openapi import ENDPOINTS
from tiny_llm_course.serving.run import is_loopback
from tiny_llm_course.serving.schema import Chat, Completion, Detokenize, Tokenize
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
    app = make_app(service, Access())

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
    app = make_app(service, Access())

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
    scheduler = SimpleNamespace(model=None, kv_cache=None, max_num_batched_tokens=8)
    scheduler.sampler = lambda logits, chunks: [[0], [0, 2]]
    processor, first, second = LogitsProcessor(scheduler), LogitOptions(top=1), LogitOptions(top=2)
    processor.ask(one, first)
    processor.ask(other, second)
    chunks = [SimpleNamespace(request=each, start=0, end=2, tokens=[1, 0], num_logits=2) for each in (one, other)]
    assert scheduler.sampler(logits, chunks) == [[0], [0, 2]]
    assert first.scores[0].logprob == pytest.approx(float(mx.log(mx.array(0.5))))
    assert sorted(second.scores) == [2, 3]
    assert [token for token, _ in second.scores[2].top] == [0, 1]
    assert (second.scores[3].token, second.scores[3].rank) == (2, 1)
    processor.forget(one)
    assert scheduler.sampler(logits, chunks) == [[0], [0, 2]]
    assert sorted(first.scores) == [0]


def test_memory_by_default(service, monkeypatch):
    """1 GiB, or as much as all requests may need, up to half of what the weights leave free."""
    sizes = {"num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128}
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=20 << 30))
    needs = partial(service.engine._default_memory, SimpleNamespace(**sizes))
    assert service.engine.limits.kv_cache_bytes == 1 << 30
    assert needs({}, {}) == 8 * 2048 * 2 * 4 * 28 * 8 * 128
    assert needs({}, {"max_num_seqs": 100}) == 10 << 30
    assert needs({"a": mx.zeros((1 << 30,))}, {"max_num_seqs": 100, "draft_model": ()}) == 4 << 30
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1 << 30))
    assert needs({}, {}) == 1 << 30


def test_the_page_of_the_api_has_every_route(service):
    of_the_page = {"/", "/page/{name}"}
    assert {route.path.replace(":path", "") for route in make_app(service, Access())._app.routes} == {
        *ENDPOINTS,
        *of_the_page,
    }
    text = (BOOK / "src" / "serving.md").read_text(encoding="utf-8")
    assert all(f"`{path}`" in text for path in of_the_page)


ODD = [
    -1,
    0,
    10**30,
    1.5,
    1e308,
    True,
    "",
    "x",
    "\ud800",
    [],
    [[]],
    [10**30],
    ["x"],
    [{}],
    {},
    {"x": 1},
    {"5": 10**400},
]


@pytest.mark.parametrize("kind", [Completion, Chat, Tokenize, Detokenize])
def test_no_value_of_a_field_makes_the_server_fail(service, kind):
    path = {Completion: "/v1/completions", Chat: "/v1/chat/completions", Tokenize: "/tokenize"}.get(kind, "/detokenize")
    said, token = [{"role": "user", "content": "hi"}], {"prompt": "hi"}
    body = {Completion: token, Chat: {"messages": said}, Tokenize: token, Detokenize: {"tokens": [5]}}[kind]
    body |= {"model": "tiny-qwen3"} | ({"max_tokens": 1} if kind in (Completion, Chat) else {})
    app = make_app(service, Access())

    async def script():
        for name in kind.model_fields:
            for value in ODD:
                status, text = await asked(app, {**body, name: value}, path)
                assert status in (200, 400, 404), (name, value)
                if status != 200:
                    assert json.loads(text)["error"]["code"], (name, value)

    asyncio.run(script())


@pytest.mark.parametrize("mode", ["continuous", "prefix"])
def test_a_scored_prompt(mode):
    """The logprobs are the model's own, in parts of the token budget, and although a prefix cache has the pages."""
    with ThreadPoolExecutor(1) as worker:
        limits = Limits(max_num_batched_tokens=7)
        engine = worker.submit(load_scheduler, None, True, mode, limits, "float32", kernels=False).result()
        tokens, model = engine.tokenizer.encode("Once upon a time there was a dog, and the dog was happy. " * 3), []

        def directly():
            part = engine.part
            model.append(part("qwen3", "Qwen3Model")(engine._config(engine.checkpoint), engine.checkpoint.weights))
            return score_rows(model[0](mx.array([tokens]))[0][:-1], tokens[1:], 1)

        expected = worker.submit(directly).result()
        app = make_app(Service(engine, worker, "tiny-qwen3", waiting=8), Access())
        body = {"model": "tiny-qwen3", "prompt": [tokens, tokens[:30]], "logprobs": 1, "echo": True}

        async def script():
            return [json.loads((await asked(app, {**body, "max_tokens": count}))[1]) for count in (3, 0)]

        for answer in asyncio.run(script()):
            for choice, length in zip(answer["choices"], (len(tokens), 30), strict=True):
                found = choice["logprobs"]["token_logprobs"][1:length]
                assert found == pytest.approx([each.logprob for each in expected[: length - 1]], abs=2e-4)
        if mode == "prefix":
            assert engine.scheduler.kv_cache.hit_tokens == 0


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("dog", False)]
)
def test_what_only_this_machine_reaches(host, local):
    assert is_loopback(host) is local
