"""Checks before the routes: the API key, the host name, the size of a body; the access log; OpenAI's errors."""

import asyncio
import datetime
import hmac
import json
import re
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from .refusals import Refusal
from .schema import LARGEST

OPEN = ("/", "/health", "/docs", "/page/")  # no key needed, also below the last one
LOCAL = {"localhost", "127.0.0.1", "[::1]"}
HEARD_OUT = 16 * LARGEST  # bytes read before hanging up: many clients read an answer only after sending the whole body
READING = 30.0  # seconds for a body
HEADERS, HEADER_BYTES = 100, 16 << 10
VERSIONS = ("1.0", "1.1")
REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")  # another one is replaced
DISCONNECTED = 499  # in the access log, as nginx has it: the client has left before the end of its answer


class AccessLog:
    """Append a line of JSON per request to a file, or to stderr for "-"; nothing of a prompt, an answer or a key.

    If it cannot be written, say so once; requests are served as before.
    """

    def __init__(self, file: str) -> None:
        """Open the file; raise OSError if that fails."""
        self._to = sys.stderr
        if file != "-":
            self._to = Path(file).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 # until the server ends
        self._failed = False

    def write(self, **entry: Any) -> None:
        """Write one request."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        try:
            self._to.write(json.dumps({"time": now, **entry}) + "\n")
        except OSError as error:
            if not self._failed:
                print(f"The access log cannot be written: {error.strerror}.", file=sys.stderr)
            self._failed = True


class Access(NamedTuple):
    """Who may use a server, and by which names and paths."""

    key: str | None = None  # that clients must send
    hosts: Collection[str] | None = ()  # accepted besides this machine's names; None accepts all. Against DNS rebinding
    root_path: str = ""  # which some proxies remove from the paths that they pass on: both are accepted
    log: AccessLog | None = None


class Guard:
    """Give each request an id, and log it; require the API key, if any, and a known host name."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root_path, log = self._access.root_path, self._access.log
        if root_path and scope["path"].startswith(f"{root_path}/"):
            scope["path"] = scope["path"].removeprefix(root_path)
        request, started, status, ended = Request(scope), time.perf_counter(), 0, False
        given = request.headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        # The endpoint fills "log".
        scope["state"] = {**scope.get("state", {}), "log": {}, "request_id": request_id}

        async def sending(message: Any) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._answer(request, receive, sending, lambda: bool(status))
        finally:
            if log:
                log.write(
                    request_id=request_id,
                    client=request.client.host if request.client else None,
                    method=request.method,
                    path=request.url.path,
                    status=status if ended else DISCONNECTED,
                    seconds=round(time.perf_counter() - started, 6),
                    **scope["state"]["log"],
                )

    async def _answer(self, request: Request, receive: Receive, send: Send, begun: Callable[[], bool]) -> None:
        scope = request.scope
        try:
            self._check(request)
            await self._app(scope, receive, send)
        except Refusal as refusal:
            if not begun():
                await refusal.response()(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception:
            traceback.print_exc(file=sys.stderr)
            if begun():
                raise
            await Refusal(500, "The server failed.", code="server_failed").response()(scope, receive, send)

    def _check(self, request: Request) -> None:
        close = {"Connection": "close"}
        if (version := request.scope["http_version"]) not in VERSIONS:
            raise Refusal(505, f"This server speaks HTTP/1.1, not HTTP/{version}.", headers=close)
        count, size = len(request.headers), sum(len(name) + len(value) for name, value in request.headers.raw)
        if count > HEADERS or size > HEADER_BYTES:
            message = f"{count} headers of {size} bytes; expected at most {HEADERS}, of {HEADER_BYTES} bytes in all."
            raise Refusal(431, message, headers=close)
        if "content-length" in request.headers and "transfer-encoding" in request.headers:
            raise Refusal(400, "Content-Length and Transfer-Encoding exclude each other.", headers=close)
        host = request.headers.get("host", "").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        key, hosts = self._access.key, self._access.hosts
        if hosts is not None and name not in {*LOCAL, *hosts}:
            message = f"{name!r:.100} is no name of this server."
            raise Refusal(421, f"{message} --allowed-host allows it; --host serves other machines.")
        if key is None or (request.url.path in OPEN or request.url.path.startswith(OPEN[-1])):
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # Constant time: no guessing it character by character.
        same = hmac.compare_digest(given.strip().encode(), key.encode())
        if scheme.lower() != "bearer" or not same:
            headers = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "The API key is missing or wrong.", code="invalid_api_key", headers=headers)


async def body_of(request: Request, closing: asyncio.Event) -> bytes:
    """Return a request's body; raise Refusal if it is not JSON, too large or too slow, or if `closing` is set."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"The Content-Type is {kind or 'missing'}, expected application/json.")
    if (packed := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Refusal(415, f"The Content-Encoding is {packed}, expected none.")
    too_large = Refusal(413, f"The body is larger than {LARGEST} bytes.", headers={"Connection": "close"})
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > HEARD_OUT):
        raise too_large

    async def read() -> bytes:
        body, count = bytearray(), 0
        async for part in request.stream():
            count += len(part)
            if count > HEARD_OUT:
                break
            if count <= LARGEST:
                body += part
        if count > LARGEST:
            raise too_large
        return bytes(body)

    reading, ending = asyncio.ensure_future(read()), asyncio.ensure_future(closing.wait())
    either: list[asyncio.Future[Any]] = [reading, ending]
    try:
        await asyncio.wait(either, timeout=READING, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
    finally:
        reading.cancel()
        ending.cancel()
    headers = {"Connection": "close"}
    if closing.is_set():
        raise Refusal(503, "The server is shutting down.", code="shutting_down", headers=headers)
    raise Refusal(408, f"The body did not arrive within {READING:g} s.", headers=headers)
