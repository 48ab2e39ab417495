"""Serve until a signal ends it."""

import asyncio
import ipaddress
import logging
import resource
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any
from typing import Protocol as Interface

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..course.registry import UsageError
from ..engine.serving import ServingEngine
from .app import make_app
from .guards import HEADER_BYTES, Access
from .refusals import wrong
from .service import Service

HEAD_SECONDS = 10.0  # for the head of a request, from the connection on or from the answer before
STUCK_SECONDS = 5.0  # beyond the time that requests have: for what is sent to be read, and for a step to end
MOST_CONNECTIONS = 1000
BACKLOG = 128  # connections that the event loop accepts at once, and that wait for it


class Protocol(H11Protocol):
    """A connection by h11, which bounds the size of headers, also where uvicorn would find a faster parser.

    It is closed if a request's head does not arrive in time, or if others need its place while it has sent none.
    """

    most = MOST_CONNECTIONS
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the place of the connection that has waited longest for a head, if all places are taken."""
        super().connection_made(transport)
        self._expect_head()
        here = [one for one in self.connections if isinstance(one, Protocol) and not one.transport.is_closing()]
        if len(here) > self.most:
            waiting = {one: one._late.when() for one in here if one._late}
            min(waiting, key=waiting.__getitem__).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._expect_no_head()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parse what has arrived, and move the deadline."""
        super().handle_events()
        waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        (self._expect_head if waits else self._expect_no_head)()

    def _expect_head(self) -> None:
        self._late = self._late or self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _expect_no_head(self) -> None:
        if self._late:
            self._late.cancel()
        self._late = None

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, and hang up."""
        # An answer may have begun: a request is refused before its whole body has arrived.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = JSONResponse(wrong("This is not valid HTTP.").body())
            headers = [*answer.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=400, reason=b"Bad Request", headers=headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, with port 0 at any free one; raise UsageError if the address is unusable."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # asyncio sets TCP_NODELAY only where the protocol is named. Without it, a small packet, such as a token, can
        # wait 40 ms for the delayed acknowledgement of the one before.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # now: another server could bind the same port while this one loads its model
    except socket.gaierror as error:
        raise UsageError(f"There is no address {host}: {error.strerror}. Try another --host.") from None
    except OSError as error:
        raise _taken(host, port, error) from None
    return listening


def _taken(host: str, port: int, error: OSError) -> UsageError:
    return UsageError(f"Cannot listen at {host}, port {port}: {error.strerror or error}. Try another --port.")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    load: Callable[[], ServingEngine],
    listening: socket.socket,
    access: Access,
    *,
    waiting: int,
    grace: float,
    tell: Callable[[str, ServingEngine], None],
) -> None:
    """Serve until SIGINT or SIGTERM, then let the running requests finish within `grace` seconds.

    Meanwhile new connections are answered with 503, so that a load balancer sees it. A step that hangs is left alone.

    `load` runs in the worker thread, as MLX's streams belong to a thread; `waiting` requests may wait; `tell` gets the
    address once it answers. Raise LearnerError or UsageError if the engine cannot be loaded.
    """
    worker = ThreadPoolExecutor(1, "engine")
    engine = worker.submit(load).result()  # Ctrl-C does not wait for the end of a build
    stuck = False
    try:
        service = Service(engine, worker, engine.checkpoint.folder.resolve().name, waiting)
        where = shown_address(listening)
        server = GracefulServer(config_of(make_app(service, access)), service, grace, lambda: tell(where, engine))
        try:
            server.run(sockets=[listening])
        finally:
            listening.close()
            stuck = server.stuck
    finally:
        worker.shutdown(wait=not stuck)


def config_of(app: ASGIApp) -> uvicorn.Config:
    """Return how an app is served."""
    # A flood must leave descriptors for the answers to others. asyncio prints a traceback for each that is missing.
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    Protocol.most = min(MOST_CONNECTIONS, 3 * descriptors // 8)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    return uvicorn.Config(
        app,
        http=Protocol,
        h11_max_incomplete_event_size=HEADER_BYTES,
        backlog=min(BACKLOG, descriptors // 4),
        ws="none",
        log_level="critical",  # clients get their errors, and `Guard` prints failures
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=int(STUCK_SECONDS),
    )


def shown_address(listening: socket.socket) -> str:
    """Return the address of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Closing(Interface):
    """What is to finish before a server stops."""

    async def close(self, seconds: float) -> None:
        """Let the running requests finish within so many seconds."""


class GracefulServer(uvicorn.Server):
    """Let the engine finish before connections are cut, and new ones refused."""

    stuck = False  # whether a step has not ended

    def __init__(self, config: uvicorn.Config, service: Closing, grace: float, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._grace, self._tell = service, grace, tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and tell the address."""
        try:
            await super().startup(sockets)
        except OSError as error:  # another process has taken the port while the model was loaded
            assert sockets
            host, port = sockets[0].getsockname()[:2]
            raise _taken(host, port, error) from None
        self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self.force_exit = self.should_exit  # the second signal waits no longer
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let the running requests finish, then close the connections."""
        closing: asyncio.Future[Any] = asyncio.ensure_future(self._service.close(self._grace))
        until = time.monotonic() + self._grace + STUCK_SECONDS
        while not closing.done() and not self.force_exit and time.monotonic() < until:
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
        if self.force_exit:
            closing = asyncio.gather(closing, self._service.close(0.0))
        _, late = await asyncio.wait([closing], timeout=STUCK_SECONDS)
        if late:
            self.stuck = True
            print("A step of the engine does not end: the server stops without it.", file=sys.stderr)
