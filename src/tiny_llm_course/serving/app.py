"""The routes."""

from contextlib import aclosing
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from . import chat
from .guards import Guard, body_of
from .refusals import Refusal, of_engine
from .schema import Asked, Chat, Completion, checked, read_json
from .sending import send_events, unless_gone
from .service import Service
from .shapes import Shapes


class Answering:
    """Answers one route's requests of a kind, which are POSTed."""

    def __init__(self, service: Service, kind: type[Asked]) -> None:
        """Answer by a service; `kind` says what a request may say."""
        self._service, self._kind = service, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as long as the client is there."""
        if scope["method"] != "POST":
            raise Refusal(405, f"{scope['path']} takes POST, and this is {scope['method']}.", headers={"Allow": "POST"})
        request = Request(scope, receive)
        asked = checked(self._kind, read_json(await body_of(request, self._service.closing)))
        if asked.model not in (self._service.name, str(self._service.engine.checkpoint.folder)):
            message = f"There is no model {asked.model!r:.100}; this server has {self._service.name}."
            raise Refusal(404, message, param="model", code="model_not_found")
        await unless_gone(receive, self._answer(asked, scope, receive, send))

    async def _answer(self, asked: Any, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        count = asked.n * (len(asked.prompts) if isinstance(asked, Completion) else 1)
        with service.admitted(count):
            choices = await service.choices(asked)
            shapes = Shapes(service, asked, choices)
            with service.counted(choices):
                stream = service.stream(choices)
                try:
                    if asked.stream:
                        last = shapes.last if asked.with_usage else None
                        events = stream.events(shapes.piece, last, lambda error: of_engine(error).body())
                        await send_events(events, send)
                        return
                    async with aclosing(stream.pieces()) as pieces:
                        found = [piece async for piece in pieces]
                except service.failures as error:
                    raise of_engine(error) from error
                except ValueError as error:  # the scheduler's, in words
                    raise Refusal(400, f"{error}.") from error
        await JSONResponse(shapes.whole(found))(scope, receive, send)


def make_app(service: Service, key: str | None, local: bool) -> ASGIApp:
    """The whole app.

    Args:
        service: what answers.
        key: that clients must have; None for anybody.
        local: whether it is for this machine alone.
    """
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "tiny-llm"}

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        if request.path_params["name"] != service.name:
            raise Refusal(404, f"There is no such model; this server has {service.name}.", code="model_not_found")
        return JSONResponse(model)

    async def health(request: Request) -> Response:
        return (
            JSONResponse({"status": "shutting down"}, 503)
            if service.closing.is_set()
            else JSONResponse({"status": "ok"})
        )

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(service.figures(), media_type="text/plain; version=0.0.4")

    async def state(request: Request) -> Response:
        return JSONResponse(await service.state())

    async def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{error.detail}: {request.method} {request.url.path}"
        return Refusal(error.status_code, message, headers=error.headers).response()

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.response()

    routes = [
        Route("/", chat.page),
        Route("/page/{name}", chat.part),
        Route("/state", state),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
        Route("/v1/completions", Answering(service, Completion)),
        Route("/v1/chat/completions", Answering(service, Chat)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: no_route, Refusal: refused})
    app.router.redirect_slashes = False  # what is asked of another path is refused, as all else that is wrong
    return Guard(app, key, local)
