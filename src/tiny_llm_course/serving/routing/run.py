"""Serve several replicas through the router until a signal ends it."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from ...engine.package import Package
from ..guards import Access
from ..run import GracefulServer, config_of, shown_address
from .app import Router, make_router_app
from .fleet import TASKS, Fleet


class FirstStartFailed(Exception):
    """Raised if a replica ends before it serves, at the first start; `code` and `output` are its own."""

    def __init__(self, code: int, output: list[str]) -> None:
        super().__init__(code, output)
        self.code, self.output = code, output


def serve_replicas(
    count: int,
    solution: bool,
    options: Sequence[str],
    listening: socket.socket,
    access: Access,
    *,
    limit: Callable[[Package], int],
    grace: float,
    say: Callable[[str], None],
) -> None:
    """Serve `count` replicas with these options of `serve` until SIGINT or SIGTERM; see `run.serve`.

    The first signal lets the running requests finish within `grace` seconds, the second one ends all at once. Raise
    LearnerError if the router is not finished, FirstStartFailed if a replica cannot start.
    """
    package = Package(solution, TASKS)
    with package.learners_code():
        _find_stubs(package)
        fleet = Fleet(package, count, limit(package), options, say)
        router = Router(package, fleet)
    tasks = list[asyncio.Task[None]]()

    async def announce() -> None:
        await fleet.ready.wait()
        say(f"Serving {fleet.model} at {shown_address(listening)}/v1 with {count} replicas. Ctrl-C stops.")

    async def watch() -> None:
        await fleet.failed.wait()
        server.should_exit = True

    def begin() -> None:
        fleet.start()
        tasks.extend(asyncio.create_task(each) for each in (announce(), watch()))

    server = GracefulServer(config_of(make_router_app(router, access)), router, grace, begin)
    try:
        server.run(sockets=[listening])
    finally:
        fleet.kill()
    if fleet.failed_start:
        raise FirstStartFailed(*fleet.failed_start)
    if fleet.error:
        with package.learners_code():
            raise fleet.error


def _find_stubs(package: Package) -> None:
    """Call each part once, so that stubs are found now, and not by the first client."""
    package.part("router.choice", "choose")([], [])
    package.part("router.health", "Health")(package.part("router.replica", "Replica")("none")).observe("probe passed")

    async def ask() -> None:
        events = package.part("router.forward", "forward")(None, [], [], None, lambda replica, outcome: None)
        if asyncio.iscoroutine(events):  # a stub, without a yield
            await events
        async for _ in events:
            pass

    asyncio.run(ask())
