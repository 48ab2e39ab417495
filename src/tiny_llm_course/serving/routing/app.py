"""The router's routes: everything is passed on to a replica, except what concerns all of them."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...engine.package import Package
from ..app import PATIENCE, unless_disconnected
from ..guards import Access, Guard, body_of
from ..refusals import Refusal
from .fleet import Fleet
from .metrics import router_metrics, with_label
from .upstream import Forwarded, Part, Upstream, prompt_of

GENERATES = ("/v1/completions", "/v1/chat/completions")  # whose prompts have prefixes
CODES = {429: "rate_limit_exceeded", 502: "replica_failed", 503: "no_replica"}


class Router:
    """Answers a client's request by the learner's `forward` and `choose`."""

    def __init__(self, package: Package, fleet: Fleet) -> None:
        self.fleet = fleet
        self.upstream = Upstream(package, _Urls(fleet))
        self._forward = package.part("router.forward", "forward")
        self._blocks = package.part("router.replica", "prefix_blocks")
        self.closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request, path = Request(scope, receive), scope["path"]
        if path == "/health":
            await self._health()(scope, receive, send)
        elif path == "/metrics":
            await (await self._metrics())(scope, receive, send)
        elif self.closing.is_set():
            raise Refusal(503, "The server is shutting down.", code="shutting_down")
        else:
            body = await body_of(request, self.closing) if scope["method"] == "POST" else b""
            query = f"?{request.url.query}" if request.url.query else ""
            headers = {**request.headers, "x-request-id": scope["state"]["request_id"]}
            forwarded = Forwarded(scope["method"], f"{path}{query}", headers, body)
            blocks = self._blocks(prompt_of(body)) if path in GENERATES else []
            await unless_disconnected(receive, self._answer(forwarded, blocks, scope, send))

    async def close(self, seconds: float) -> None:
        """Accept no new requests, let the running ones finish within so many seconds, and end the replicas."""
        self.closing.set()
        await self.fleet.close(seconds)
        await self.upstream.close()

    async def _answer(self, request: Forwarded, blocks: list[int], scope: Scope, send: Send) -> None:
        log = scope["state"]["log"]

        def report(replica: Any, outcome: str) -> None:
            log.setdefault("replicas", []).append(f"{replica.name} {outcome}")
            self.fleet.report(replica, outcome)

        begun, whole = False, None
        async with aclosing(self._forward(request, blocks, self.fleet.replicas, self.upstream.send, report)) as events:
            async for event in events:
                if not isinstance(event, Part):
                    refusal = _refusal(event)
                    if not begun:
                        raise refusal
                    await _send_body(send, f"data: {json.dumps(refusal.body())}\n\n".encode(), more=True)
                elif event.streams:
                    if not begun:
                        await _send_head(send, event)
                    begun = True
                    await _send_body(send, event.body, more=True)
                else:
                    whole = event
        # Only now is the request over: a client that has its whole answer may disconnect, which cancels this.
        if whole:
            await _send_head(send, whole)
        await _send_body(send, whole.body if whole else b"", more=False)

    def _health(self) -> JSONResponse:
        members = self.fleet.members.values()
        some = any(replica.state == "ready" for replica in self.fleet.replicas)
        status = "shutting down" if self.closing.is_set() else "ok" if some else "no replica is ready"
        rows = [
            {
                "name": each.replica.name,
                "state": each.replica.state,
                "running": each.replica.running,
                "limit": each.replica.limit,
                "restarts": each.restarts,
                "pid": each.process.pid,
                "url": each.process.url,
            }
            for each in members
        ]
        return JSONResponse({"status": status, "replicas": rows}, 200 if status == "ok" else 503)

    async def _metrics(self) -> PlainTextResponse:
        names = [replica.name for replica in self.fleet.replicas if replica.state in ("ready", "draining")]
        texts = await asyncio.gather(*(self.upstream.get(name, "/metrics") for name in names))
        text = router_metrics(self.fleet) + with_label(dict(zip(names, texts, strict=True)))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


class _Urls(dict[str, str]):
    """The current address of each replica by name."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def __getitem__(self, name: str) -> str:
        return self._fleet.members[name].process.url


def _refusal(failure: Any) -> Refusal:
    """Return the HTTP error of the learner's Failure."""
    after = {"Retry-After": str(failure.retry_after)} if failure.retry_after is not None else None
    return Refusal(failure.status, failure.message, code=CODES[failure.status], headers=after)


async def _send_head(send: Send, part: Part) -> None:
    await send({"type": "http.response.start", "status": part.status, "headers": part.headers})


async def _send_body(send: Send, body: bytes, more: bool) -> None:
    async with asyncio.timeout(PATIENCE):
        await send({"type": "http.response.body", "body": body, "more_body": more})


def make_router_app(router: Router, access: Access) -> ASGIApp:
    """Return the whole app."""
    return Guard(router, access)
