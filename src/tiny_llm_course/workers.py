"""The processes that grade. One can be started ahead: it imports what every test needs, then waits for its one job."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .paths import ROOT


class Worker:
    """A child process in a process group of its own; it ends by itself when its parent is gone before the job came."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tiny-llm-")
        self.crash_file = Path(self._folder.name, "crash")
        self.events, write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tiny_llm_course.child", str(write)],
            cwd=ROOT,
            # Plugins of other packages in the environment take half a second to import, and grade nothing.
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONBREAKPOINT": "0", **os.environ, "PYTEST_ADDOPTS": ""},
            pass_fds=[write],
            process_group=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.close(write)

    def begin(self, **job: Any) -> None:
        """Hand it its job; if it has died meanwhile, whoever waits for its events will see that."""
        assert self.process.stdin
        line = json.dumps({"crash_file": str(self.crash_file), **job}) + "\n"
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(line.encode())

    def end(self) -> None:
        """End it and all that it started, and leave nothing behind."""
        # Its whole group: what it started goes with it. (macOS refuses for a group that has ended.)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._folder.cleanup()

    def dismiss(self) -> None:
        """End it although it never had a job."""
        self.end()
        os.close(self.events)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
