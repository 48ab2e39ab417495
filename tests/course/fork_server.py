"""Forks the course's programs for the tests: the time that starting Python and importing libraries takes is spent once.

This file is the server, a process of its own that has imported the libraries and done nothing else, and what asks it.
A program that it has forked is a child of the tests' process, as if that had started it. Only Linux can do that;
elsewhere, and with TINY_LLM_FORK=0, every program is started as a learner starts it.
"""

import ctypes
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

# Without MLX: before it is imported, `bench` and others load what multiplies for it.
LIBRARIES = (
    "click", "hypothesis", "jinja2", "numpy", "psutil", "pytest", "regex", "rich.console", "rich.live",
    "rich.markdown", "rich.syntax", "rich.table", "hypothesis.strategies", "_pytest.python", "tomllib", "difflib",
)  # fmt: skip
PR_SET_CHILD_SUBREAPER = 36
LONGEST = 1 << 20  # bytes of a request

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from fork_process import Program, fork, leave  # type: ignore[import-not-found]

    sys.path.pop(0)
else:
    from tests.course.fork_process import Program, really_start, set_popen


def serve(requests: socket.socket) -> None:
    """Fork a program for each request, as long as somebody asks."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        request, opened, _, _ = socket.recv_fds(requests, LONGEST, 64)
        if not request:
            return
        fields = json.loads(request)
        program = Program(**{**fields, "files": tuple(fields["files"])})
        number, tell = os.pipe()
        between = os.fork()
        if between == 0:  # whose end makes the program a child of whoever asks
            requests.close()
            os.write(tell, str(fork(program, opened[:3], opened[3:])).encode())
            leave(0)
        os.waitpid(between, 0)
        requests.send(os.read(number, 32))
        for descriptor in (number, tell, *opened):
            os.close(descriptor)


class Server:
    """The server, as who asks it sees it."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
        self._lock = threading.Lock()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._process = really_start(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment | {"PYTHONUTF8": "1"},
        )  # fmt: skip
        theirs.close()

    def start(self, program: Program, streams: Sequence[int]) -> int:
        """Start a program, with these standard streams, and give its number."""
        with self._lock:
            _adopts(True)
            try:
                socket.send_fds(self._requests, [json.dumps(asdict(program)).encode()], [*streams, *program.files])
                return int(self._requests.recv(32))
            finally:
                _adopts(False)


def _adopts(whether: bool) -> None:
    """Whether a process below this one whose parent ends becomes this one's child."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)


def fork_from_now_on() -> None:
    """Let `subprocess.Popen` fork the course's programs where that can be."""
    if sys.platform == "linux" and os.environ.get("TINY_LLM_FORK") != "0":
        server = cache(Server)
        set_popen(lambda program, streams: server().start(program, streams))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
