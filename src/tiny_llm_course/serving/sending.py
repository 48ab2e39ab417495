"""Send answers, and end the work for a client that has disconnected at once."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.types import Receive, Send

PATIENCE = 60.0  # seconds that a client may not read


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


async def send_events(events: AsyncGenerator[bytes, None], send: Send) -> None:
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
