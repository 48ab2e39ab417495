"""One replica: a process of `serve` on a free port of this machine."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence

SERVES = re.compile(r"Serving (\S+) at (http://\S+?)/v1 ")  # what `serve` prints when it answers


class ReplicaProcess:
    """A process that leads a group of its own, so that Ctrl-C reaches only the router, which then ends it.

    It ends itself if the router is gone: the system closes its stdin then.
    """

    def __init__(self, options: Sequence[str], say: Callable[[str], None]) -> None:
        """Prepare a process of `serve` with these options; `say` gets the lines that it prints once it serves."""
        self._options, self._say = options, say
        self._process: asyncio.subprocess.Process | None = None
        self.model = self.url = ""  # once it serves
        self.output = list[str]()  # what it printed before
        self.serving = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def run(self) -> int:
        """Start it, and return its exit code, negative for a signal, when it has ended. Cancelling kills it."""
        command = [sys.executable, "-m", "tiny_llm_course", "serve", "--port", "0", "--end-with-stdin"]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            *self._options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            process_group=0,
            env={**os.environ, "COLUMNS": "1000"},  # its lines are read by a program
        )
        try:
            assert self._process.stderr
            async for line in self._process.stderr:
                self._read(line.decode(errors="replace").rstrip())
            return await self._process.wait()
        finally:
            self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to its group, if it runs."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _read(self, line: str) -> None:
        if self.serving.is_set():
            self._say(line)
        elif found := SERVES.match(line):
            self.model, self.url = found.groups()
            self.serving.set()
        else:
            self.output.append(line)
