"""Sending while it is watched whether anybody is there: work for a client that has gone is ended at once."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.types import Receive, Send

PATIENCE = 60.0  # seconds that a client may read nothing of what it is sent


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """What some work gives; None if the client has gone before, and then the work is cancelled."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def send_events(events: AsyncGenerator[bytes, None], send: Send) -> None:
    """Server-Sent Events, the first of which decides whether the status is 200."""
    begun = False
    try:
        async for event in events:
            if not begun:
                headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                begun = True
            body = {"type": "http.response.body", "body": event, "more_body": True}
            await asyncio.wait_for(send(body), PATIENCE)
    finally:
        await events.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
