"""A server whose engine fails, hangs or dies: what its clients and its operator see.

A request that asks for FATAL tokens triggers the fault in the step that computes it.
"""

import http.client
import json
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import pytest

from tiny_llm_course.testkit.marks import needs

pytestmark = [pytest.mark.maintainers, needs("port")]
FATAL = 77
SERVER = """
import os, sys, time
from tiny_llm_course.commands.cli import main
from tiny_llm_course.engine import serving
fault, load = sys.argv.pop(1), serving.load_scheduler

def faulty(*args, **kwargs):
    engine = load(*args, **kwargs)
    step = engine.scheduler.step
    def new_step():
        if any(request.max_tokens == FATAL for request in engine.scheduler.running):
            exec(fault)
        return step()
    engine.scheduler.step = new_step
    return engine

serving.load_scheduler = faulty
main()
""".replace("FATAL", str(FATAL))


METRICS = """
from tiny_llm_course.engine.package import Package
part = Package.part

class Slip:
    def __init__(self, *args): pass
    def arrived(self, request): pass
    def finished(self, request, reason): pass
    def stepped(self, step): raise KeyError("a slip")
    exposition = stepped

Package.part = lambda self, module, name: Slip if name == "Metrics" else part(self, module, name)
"""


class Running:
    """A server with a fault, and its clients."""

    def __init__(self, fault, *options, port=0, script=SERVER):
        words = ["serve", "--solution", "--port", str(port), *options]
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, fault, *words], stderr=subprocess.PIPE, text=True
        )
        told = self.process.stderr.readline()
        self.port = int(told.partition("127.0.0.1:")[2].partition("/")[0])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def get(self, path):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read().decode()

    def ask(self, tokens):
        """The status of a completion, and its error's code or its number of tokens."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = {"model": "tiny-qwen3", "prompt": "Once", "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        client.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = client.getresponse()
        found = json.loads(answer.read())
        return answer.status, found["error"]["code"] if "error" in found else found["usage"]["completion_tokens"]

    def at_once(self, *tokens):
        """The answers to requests of so many tokens that are sent together."""
        found = {}
        threads = [
            threading.Thread(target=lambda at=at, n=n: found.__setitem__(at, self.ask(n)))
            for at, n in enumerate(tokens)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[at] for at in range(len(tokens))]


@pytest.mark.parametrize("error", ["RuntimeError('no')", "MemoryError()"])
def test_a_step_that_raises(error):
    """Those in the step get an error, all others an answer, and the operator one traceback: all fail alike."""
    with Running(f"raise {error}", "--max-num-seqs", "2") as server:
        for _ in range(2):
            assert server.ask(FATAL) == (500, "engine_failed")
            assert server.ask(5) == (200, 5)
        answers = server.at_once(FATAL, *[400] * 6)
        assert answers[0] == (500, "engine_failed")
        assert [status for status, _ in answers].count(500) <= 2, "at most the slots"
        assert (200, 400) in answers
        assert server.get("/health")[0] == 200
        server.process.terminate()
        assert server.process.wait(30) == 143
        written = server.process.stderr.read()
        assert written.count("Traceback") == written.count(error.partition("(")[0]) == 1, written


def test_metrics_that_raise():
    """The learner's own: requests are served all the same, and the operator sees it once."""
    script = SERVER.replace("main()\n", METRICS + "main()\n")
    with Running("pass", script=script) as server:
        assert [server.ask(5) for _ in range(3)] == [(200, 5)] * 3
        assert server.get("/metrics")[0] == 500
        server.process.terminate()
        assert server.process.wait(30) == 143
        assert server.process.stderr.read().count("KeyError: 'a slip'") == 2, "one of a step, one of /metrics"


def test_a_step_that_hangs_for_a_while():
    """All that needs no step is answered meanwhile."""
    with Running("time.sleep(2 * (len(engine.scheduler.running[0].output) == 1))") as server:
        asking = threading.Thread(target=server.ask, args=[FATAL])
        asking.start()
        waits = []
        while asking.is_alive() and len(waits) < 40:
            before = time.perf_counter()
            assert server.get(("/health", "/metrics", "/v1/models")[len(waits) % 3])[0] == 200
            waits.append(time.perf_counter() - before)
            time.sleep(0.02)
        assert len(waits) == 40
        assert statistics.median(waits) < 0.1
        asking.join()


def test_a_step_that_hangs_for_good():
    """A client may leave, and the server ends on SIGTERM."""
    with Running("time.sleep(1000)", "--grace", "0.5") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            body = json.dumps({"model": "tiny-qwen3", "prompt": "Once", "max_tokens": FATAL}).encode()
            head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.5)
        assert server.get("/health") == (200, '{"status":"ok"}')
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 143
        assert server.process.stderr.read() == "A step of the engine does not end: the server stops without it.\n"


def test_an_engine_that_dies():
    """Its clients see it at once, and the next server gets the port."""
    with Running("os.abort()") as server:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            server.ask(FATAL)
        assert server.process.wait(10) == -signal.SIGABRT
        with Running("pass", port=server.port) as second:
            assert second.ask(5) == (200, 5)


def test_a_model_that_does_not_load():
    """One line: the port is free again."""
    script = SERVER.replace("    engine = load(", "    raise MemoryError('no memory')\n    engine = load(")
    done = subprocess.run(
        [sys.executable, "-c", script, "pass", "serve", "--solution", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "There is not enough memory: no memory.\n"
