"""Send a client's request to a replica, and read the events of its answer."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from ...engine.package import Package

PASSED_ON = ("accept", "authorization", "content-type", "x-request-id")  # of a request's headers
NOT_PASSED_BACK = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "x-request-id"}
CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class Forwarded:
    """A client's request."""

    method: str
    target: str  # path and query
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Part:
    """One event of an answer: its head, which is the same in all parts of it, and some of its body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    streams: bool  # whether it is one of several Server-Sent Events


class Upstream:
    """The replicas, as seen by an HTTP client; `urls` maps a replica's name to its current address."""

    def __init__(self, package: Package, urls: Mapping[str, str]) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=5.0)
        # No limit for reading: the health checks kill a replica that hangs, which breaks its connections.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        self._client = httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False)
        self._urls = urls
        self._failed = package.part("router.forward", "ReplicaFailed")
        self._rejected = package.part("router.forward", "Rejected")

    async def send(self, replica: Any, request: Forwarded) -> AsyncGenerator[Part, None]:
        """Yield the events of a replica's answer: each Server-Sent Event, or the whole body at once.

        Raise Rejected for a 429, and ReplicaFailed for a status from 500 or a connection that fails.
        """
        url = f"{self._urls[replica.name]}{request.target}"
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        try:
            async with self._client.stream(
                request.method, url, headers=headers, content=request.body or None
            ) as answer:
                status = answer.status_code
                if status == 429:
                    wait = answer.headers.get("retry-after", "")
                    raise self._rejected(int(wait) if wait.isdigit() else 1)
                if status >= 500 and request.target != "/health":
                    raise self._failed(f"{replica.name} answered {status}")
                head = (
                    status,
                    tuple(pair for pair in answer.headers.raw if pair[0].decode().lower() not in NOT_PASSED_BACK),
                )
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    yield Part(*head, await answer.aread(), streams=False)
                    return
                rest = b""
                async for piece in answer.aiter_raw():
                    whole, found, rest = (rest + piece).rpartition(b"\n\n")
                    if found:  # half an event is not passed on: an error may have to follow
                        yield Part(*head, whole + found, streams=True)
        except httpx.HTTPError as error:
            raise self._failed(f"{replica.name}: {type(error).__name__}") from error

    async def get(self, name: str, path: str) -> str:
        """Return what a replica answers to a GET, or "" if it fails."""
        with suppress(httpx.HTTPError):
            answer = await self._client.get(f"{self._urls[name]}{path}", timeout=CONNECT_SECONDS)
            if answer.status_code == 200:
                return answer.text
        return ""

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def prompt_of(body: bytes) -> str:
    """Return the text that decides which cached prefix a request can use; "" if there is none."""
    try:
        params = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(params, dict):
        return ""
    model = str(params.get("model", ""))
    if isinstance(messages := params.get("messages"), list):
        tools = json.dumps(params["tools"]) if params.get("tools") else ""
        said = (f"{m.get('role')}\n{_text(m.get('content'))}\n" for m in messages if isinstance(m, dict))
        return f"{model}\n{tools}\n{''.join(said)}"
    return f"{model}\n{_text(params['prompt'])}" if "prompt" in params else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
