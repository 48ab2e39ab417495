"""The routes, the files of the chat page, and how answers are sent: work for a client that has left ends at once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .guards import Access, Guard, body_of
from .openapi import openapi, page
from .refusals import Refusal
from .responses import ResponseBuilder
from .schema import Chat, Completion, Detokenize, GenerationRequest, Tokenize, checked, read_json
from .service import Service

PATIENCE = 60.0  # seconds that a client may not read
CHAT_PAGE = Path(__file__).with_name("chat_page")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    # The page shows a model's output as text; if some became a script all the same, it would not run.
    "Content-Security-Policy": "default-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILES = {file.name: file.read_bytes() for file in CHAT_PAGE.iterdir() if file.suffix in KINDS}
DASHBOARD = Path(__file__).with_name("dashboard.json")  # for Grafana


class Endpoint:
    """Answer the POST requests of one route; `kind` is the schema of their bodies."""

    def __init__(self, service: Service, kind: type[GenerationRequest | Tokenize | Detokenize]) -> None:
        self._service, self._kind = service, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request while the client is connected."""
        if scope["method"] != "POST":
            raise Refusal(405, f"{scope['path']} takes POST, not {scope['method']}.", headers={"Allow": "POST"})
        body = await body_of(Request(scope, receive), self._service.closing)
        params = await asyncio.to_thread(lambda: checked(self._kind, read_json(body)))  # the loop serves others
        if params.model not in (None, *self._service.names, str(self._service.engine.checkpoint.folder)):
            message = f"There is no model {params.model!r:.100}; this server has {', '.join(self._service.names)}."
            raise Refusal(404, message, param="model", code="model_not_found")
        await unless_disconnected(receive, self._answer(params, scope, receive, send))

    async def _answer(self, params: Any, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        if isinstance(params, Tokenize | Detokenize):
            convert: Any = service.tokenize if isinstance(params, Tokenize) else service.detokenize
            await JSONResponse(await asyncio.to_thread(convert, params))(scope, receive, send)
            return
        count = params.n * (len(params.prompts) if isinstance(params, Completion) else 1)
        with service.admitted(count):
            choices = await service.choices(params)
            builder = ResponseBuilder(service, params, choices)
            with service.counted(choices):
                stream = service.stream(choices)
                try:
                    if params.stream:
                        last = builder.last if params.with_usage else None
                        events = stream.events(builder.piece, last, lambda error: service.failed(error).body())
                        await _send_events(events, send)
                        return
                    async with aclosing(stream.pieces()) as pieces:
                        found = [piece async for piece in pieces]
                except service.failures as error:
                    raise service.failed(error) from error
                except ValueError as error:  # the scheduler's message
                    raise Refusal(400, f"{error}.", param="max_tokens", code="context_length_exceeded") from error
                finally:
                    scope["state"]["log"] |= builder.figures()
        await JSONResponse(builder.whole(found))(scope, receive, send)


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of some work; None, and cancel it, if the client disconnects first."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _send_events(events: AsyncGenerator[bytes, None], send: Send) -> None:
    """Send Server-Sent Events; an error before the first one can still change the status."""
    begun = False
    try:
        async for event in events:
            if not begun:
                headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                begun = True
            body = {"type": "http.response.body", "body": event, "more_body": True}
            async with asyncio.timeout(PATIENCE):  # Python 3.11's wait_for may swallow a cancellation
                await send(body)
    finally:
        await events.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def make_app(service: Service, access: Access) -> ASGIApp:
    """Return the whole app."""
    # max_model_len: tokens of prompt and answer, as vLLM reports it; parent: of an adapter, likewise.
    model: dict[str, Any] = {"object": "model", "created": 0, "owned_by": "tiny-llm"}
    model["max_model_len"] = service.engine.max_model_len
    models = {name: {"id": name, **model} for name in service.names}
    for adapter in service.engine.adapters:
        models[adapter]["parent"] = service.name
    checkpoint = service.engine.checkpoint  # its special tokens by their names in a tokenizer_config.json, as in vLLM
    tokenizer_info = {"eos_token": None, **checkpoint.special_tokens, "chat_template": checkpoint.chat_template}

    async def part_of_page(request: Request) -> Response:
        if (name := request.path_params.get("name", "index.html")) not in FILES:
            raise Refusal(404, f"The page has no part {name!r:.100}.")
        return Response(FILES[name], media_type=KINDS[Path(name).suffix], headers=HEADERS)

    async def one_model(request: Request) -> Response:
        if (name := request.path_params["name"]) not in models:
            message = f"There is no such model; this server has {', '.join(models)}."
            raise Refusal(404, message, code="model_not_found")
        return JSONResponse(models[name])

    async def health(request: Request) -> Response:
        closing = service.closing.is_set()
        return JSONResponse({"status": "shutting down" if closing else "ok"}, 503 if closing else 200)

    async def metrics(request: Request) -> Response:
        text = service.metrics.exposition(service.monitor.metrics())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def fixed(response: Response) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return response

        return answer

    async def state(request: Request) -> Response:
        return JSONResponse(await service.state())

    async def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{error.detail}: {request.method} {request.url.path}"
        return Refusal(error.status_code, message, headers=error.headers).response()

    async def failed(request: Request, error: Exception) -> Response:  # `Guard` prints it
        return Refusal(500, "The server failed.", code="server_failed").response()

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.response()

    routes = [
        Route("/", part_of_page),
        Route("/page/{name}", part_of_page),
        Route("/state", state),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/dashboard.json", fixed(Response(DASHBOARD.read_bytes(), media_type="application/json"))),
        Route("/openapi.json", fixed(JSONResponse(openapi()))),
        Route("/docs", fixed(HTMLResponse(page(), headers=HEADERS))),
        Route("/v1/models", fixed(JSONResponse({"object": "list", "data": [*models.values()]}))),
        Route("/v1/models/{name:path}", one_model),
        Route("/tokenizer_info", fixed(JSONResponse(tokenizer_info))),
        Route("/tokenize", Endpoint(service, Tokenize)),
        Route("/detokenize", Endpoint(service, Detokenize)),
        Route("/v1/completions", Endpoint(service, Completion)),
        Route("/v1/chat/completions", Endpoint(service, Chat)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: no_route, Refusal: refused, Exception: failed})
    app.router.redirect_slashes = False  # another path is an error
    return Guard(app, access)
