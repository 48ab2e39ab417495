"""The processes that grade. One can be started ahead: it imports what every test needs, then waits for its one job."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from typing import Any

from ..paths import ROOT
from .limits import Tree

# Written where native code writes, before each check: what stands behind the last one belongs to that check.
CHECK_BEGINS = "\x1e"


class Worker:
    """A child process in a process group of its own; it ends by itself when its parent is gone before the job came."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.events, to_events = os.pipe()
        self.trace, to_trace = os.pipe()
        self._pipes = {"events": to_events, "trace": to_trace}
        self.process = subprocess.Popen(
            # -P: a scratch file of the learner's, random.py say, must not be taken for the library's.
            [sys.executable, "-P", "-m", "tiny_llm_course.grading.child"],
            cwd=ROOT,
            # Plugins of other packages in the environment take half a second to import, and grade nothing.
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONBREAKPOINT": "0", **os.environ, "PYTEST_ADDOPTS": ""},
            pass_fds=list(self._pipes.values()),
            process_group=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for pipe in self._pipes.values():
            os.close(pipe)
        self.tree = Tree(self.process.pid)

    def begin(self, **job: Any) -> None:
        """Hand it its job; if it has died meanwhile, whoever waits for its events will see that."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(json.dumps({**self._pipes, "secret": self.secret, **job}).encode())

    def end(self) -> None:
        """End it and all that it started, and leave nothing behind."""
        self.tree.end()
        self.process.wait()

    def dismiss(self) -> None:
        """End it although it never had a job."""
        self.end()
        os.close(self.events)
        os.close(self.trace)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
