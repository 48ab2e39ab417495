"""Engines in processes of their own, which receive requests as JSON lines and answer with seconds.

Such a process loads its model, prints its title, and then reads requests: {"prefill": 128}, {"decode": 16, "context":
128}, {"write": 200, "prompt": 4, "limit": 10.0}. Standard library only, so that it can run in another environment.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LLAMA_CPP = Path(__file__).parents[3] / "benches" / "llama_engine.py"
TOKENS = 64  # distinct ids, within every vocabulary


class Obeying(ABC):
    """An engine, inside its process."""

    cached = 0  # tokens in the KV cache

    @abstractmethod
    def forget(self) -> None:
        """Clear the KV cache."""

    @abstractmethod
    def append(self, tokens: Sequence[int]) -> None:
        """Process tokens, computing the logits of the last one."""

    def prefill(self, tokens: int) -> float:
        """Return the seconds to prefill this many tokens."""
        self.forget()
        self.cached = 0
        return self._seconds(tokens)

    def decode(self, steps: int, context: int) -> float:
        """Return the median seconds of a decode step after `context` tokens."""
        if not context <= self.cached <= context + 16 * steps:
            self.prefill(context)
        return statistics.median(self._seconds(1) for _ in range(steps))

    def write(self, tokens: int, prompt: int, limit: float) -> tuple[int, float]:
        """Return the tokens generated after a prompt, and the seconds, prefill included; stop after `limit` seconds."""
        taken = self.prefill(prompt)
        written = 1
        while written < tokens and taken <= limit:
            taken += self._seconds(1)
            written += 1
        return written, taken

    def _seconds(self, tokens: int) -> float:
        ids = [(self.cached + i) % TOKENS for i in range(tokens)]
        begun = time.perf_counter()
        self.append(ids)
        self.cached += tokens
        return time.perf_counter() - begun


def obey(engine: Obeying, title: str) -> None:
    """Print the title, and answer requests until the input ends."""
    print(json.dumps(title), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "write" in request:
            done: Any = engine.write(request["write"], request["prompt"], request["limit"])
        elif "decode" in request:
            done = engine.decode(request["decode"], request["context"])
        else:
            done = engine.prefill(request["prefill"])
        print(json.dumps(done), flush=True)


class Process:
    """Such a process, from outside; raises RuntimeError if it exits, as when its packages are not installed."""

    def __init__(self, command: Iterable[str], environment: Mapping[str, str] | None = None) -> None:
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen([*command], stdin=pipe, stdout=pipe, stderr=quiet, text=True, env=environment)
        self.title: str = self._receive()

    def tell(self, **request: float) -> Any:
        """Send a request and return its answer."""
        assert self.process.stdin
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self._receive()

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()

    def _receive(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.end()
            raise RuntimeError("an engine process exited")
        return json.loads(line)


def llama_cpp(config: dict[str, Any], folder: Path, python: str = sys.executable) -> Process:
    """Return the process of llama.cpp, run by a Python that has its packages; raise RuntimeError if it cannot start."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [python, str(LLAMA_CPP), json.dumps(config), str(folder)]
    return Process(command, {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
