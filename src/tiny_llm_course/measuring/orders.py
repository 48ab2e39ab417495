"""Engines in processes of their own, which are told by lines of JSON what to do, and answer with seconds.

Such a process makes its model, says in one line what it is, and then reads orders: {"prefill": 128},
{"decode": 16, "context": 128}, {"write": 200, "prompt": 4, "limit": 10.0}. This stands on the standard library, as one
of them may run in another environment.
"""

import json
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOKENS = 64  # different ones, which every vocabulary has


class Obeying(ABC):
    """An engine, seen from within its process."""

    read = 0  # tokens that its cache holds

    @abstractmethod
    def forget(self) -> None:
        """Empty the cache."""

    @abstractmethod
    def append(self, tokens: Sequence[int]) -> None:
        """Read tokens, up to the logits of the last one."""

    def prefill(self, tokens: int) -> float:
        """Seconds for a prompt of so many."""
        self.forget()
        self.read = 0
        return self._seconds(tokens)

    def decode(self, steps: int, context: int) -> float:
        """Seconds for one token after so many: the median of a few."""
        if not context <= self.read <= context + 16 * steps:
            self.prefill(context)
        return statistics.median(self._seconds(1) for _ in range(steps))

    def write(self, tokens: int, prompt: int, limit: float) -> tuple[int, float]:
        """How many tokens were written after a prompt, its own seconds included, until the limit was passed."""
        taken = self.prefill(prompt)
        written = 1
        while written < tokens and taken <= limit:
            taken += self._seconds(1)
            written += 1
        return written, taken

    def _seconds(self, tokens: int) -> float:
        ids = [(self.read + i) % TOKENS for i in range(tokens)]
        begun = time.perf_counter()
        self.append(ids)
        self.read += tokens
        return time.perf_counter() - begun


def obey(engine: Obeying, title: str) -> None:
    """Say what it is, and do what is told until nothing more comes."""
    print(json.dumps(title), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        if "write" in told:
            done: Any = engine.write(told["write"], told["prompt"], told["limit"])
        elif "decode" in told:
            done = engine.decode(told["decode"], told["context"])
        else:
            done = engine.prefill(told["prefill"])
        print(json.dumps(done), flush=True)


class Process:
    """Such a process, seen from outside.

    Raises:
        RuntimeError: it has ended, as it does if what it needs is not installed.
    """

    def __init__(self, command: Iterable[str], environment: Mapping[str, str] | None = None) -> None:
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen([*command], stdin=pipe, stdout=pipe, stderr=quiet, text=True, env=environment)
        self.title: str = self._heard()

    def tell(self, **order: float) -> Any:
        """Let it do something, and wait for its answer."""
        assert self.process.stdin
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return self._heard()

    def end(self) -> None:
        """Let go of it."""
        self.process.kill()
        self.process.communicate()

    def _heard(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.end()
            raise RuntimeError("an engine has ended")
        return json.loads(line)
