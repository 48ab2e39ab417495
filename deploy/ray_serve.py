"""Replicas of the course's server under Ray Serve: each starts a server, and passes requests on to it.

From the root of the repository, in an environment with `ray[serve]`: serve run deploy/ray_serve.yaml
"""

import asyncio
import socket
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

import aiohttp
from ray import serve
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

COURSE = Path(__file__).resolve().parents[1]
COMMAND = ("pdm", "run", "serve", "--solution", "--host", "127.0.0.1", "--grace", "30", "--port")
START_SECONDS = 300  # the first start compiles the kernels
HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


@serve.deployment
class Server:
    """One replica: the course's server in a process of its own, on a free port."""

    def __init__(self) -> None:
        """Start the server, and return when /health answers; raise RuntimeError if it does not start."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._session: aiohttp.ClientSession | None = None
        self._process = subprocess.Popen([*COMMAND, str(self._port)], cwd=COURSE)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self._process.kill()
                raise RuntimeError("The course's server has not started.")
            time.sleep(0.2)

    async def __call__(self, request: Request) -> Response:
        """Forward a request to the server, and stream its answer."""
        self._session = self._session or aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        url = str(request.url.replace(scheme="http", hostname="127.0.0.1", port=self._port))
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        answer = await self._session.request(request.method, url, headers=headers, data=await request.body())
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        pieces, closing = answer.content.iter_any(), BackgroundTask(answer.close)
        return StreamingResponse(pieces, answer.status, headers, background=closing)

    async def check_health(self) -> None:
        """Raise RuntimeError if the server does not answer; after three times Ray replaces this replica."""
        if self._process.poll() is not None or not await asyncio.to_thread(self._answers):
            raise RuntimeError("The course's server does not answer.")

    def __del__(self) -> None:
        """Stop the server. Ray calls this when the replica's requests have ended, or their time is up."""
        self._process.terminate()
        self._process.wait()

    def _answers(self) -> bool:
        """Return whether /health answers with 200."""
        try:
            return urlopen(f"http://127.0.0.1:{self._port}/health", timeout=2).status == 200
        except OSError:  # no connection, or 503 while it shuts down
            return False


app = Server.bind()
