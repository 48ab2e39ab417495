"""A server under slow and oversized clients: the others are served as before, and nothing is printed."""

import json
import socket
import statistics
import subprocess
import sys
import threading
import time

import pytest

from tiny_llm_course.serving.run import HEAD_SECONDS
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.servers import running_server

pytestmark = [pytest.mark.maintainers, needs("port")]
SERVE = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--stage", "paged", "--port", "{port}"]
FEW = ["sh", "-c", 'ulimit -n 128 && exec "$@"', "sh"]  # descriptors
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
COMPLETION = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


def first_line(port, sent):
    """The first line of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(sent)
        return client.recv(1000).partition(b"\r\n")[0].decode()


def healthy(port):
    try:
        return " 200 " in first_line(port, HEALTH + b"\r\n")
    except OSError:
        return False


def is_closed(client):
    """Linux resets a connection whose last bytes the server has not read."""
    with client:
        try:
            return client.recv(10) == b""
        except ConnectionResetError:
            return True


def completion(**fields):
    body = json.dumps({"model": "tiny-qwen3", **fields}).encode()
    head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return COMPLETION + head.encode() + body


@pytest.fixture(scope="module")
def port():
    with running_server([*FEW, *SERVE], ready=healthy, seconds=300) as found:
        yield found


def test_slow_heads_and_huge_lists_keep_nobody_waiting(port):
    """200 partial heads, more than there are descriptors, and eight bodies of 170,000 prompts."""
    slow = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(200)]
    begun = time.monotonic()
    for client in slow:
        client.sendall(b"GET /health HT")
    answers, waits = [], []
    huge, small = completion(prompt=["a"] * 170_000), completion(prompt="Once", max_tokens=8)
    threads = [
        threading.Thread(target=lambda sent=sent: answers.append(first_line(port, sent)))
        for sent in [huge] * 8 + [small]
    ]
    for thread in threads:
        thread.start()
    for _ in range(30):
        before = time.perf_counter()
        assert healthy(port)
        waits.append(time.perf_counter() - before)
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["HTTP/1.1 200 OK", *["HTTP/1.1 400 Bad Request"] * 8]
    assert statistics.median(waits) < 0.1
    time.sleep(max(0.0, begun + HEAD_SECONDS + 2 - time.monotonic()))
    assert all(is_closed(client) for client in slow), "the deadline of every head has passed"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEALTH.replace(b"1.1", b"9.9") + b"\r\n", 505),
        (HEALTH + b"".join(b"X-%d: a\r\n" % i for i in range(101)) + b"\r\n", 431),
        (HEALTH + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431),
        (COMPLETION + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
    ids=["version", "many headers", "long header", "two lengths"],
)
def test_heads_that_are_refused(port, sent, status):
    assert f" {status} " in first_line(port, sent)
    assert healthy(port)


def test_a_flood_prints_no_traceback():
    command = [word.replace("{port}", "0") for word in [*FEW, *SERVE]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        told = server.stderr.readline()
        port = int(told.partition("127.0.0.1:")[2].partition("/")[0])
        clients = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(200)]
        assert healthy(port)
        for client in clients:
            client.close()
        server.terminate()
        assert server.stderr.read().count("\n") <= 1
