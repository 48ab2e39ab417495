"""`pdm run serve --replicas`: real processes, which are killed, drained and ended."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.course.processes import gone
from tests.course.server_clients import MODEL, SERVE

from tiny_llm_course.serving.routing.metrics import with_label
from tiny_llm_course.serving.routing.upstream import prompt_of
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.servers import running_server

pytestmark = [pytest.mark.maintainers, needs("port")]

ROUTED = [*SERVE, "--replicas", "2", "--max-num-seqs", "4", "--waiting", "4"]


def fleet(port):
    with urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
        return json.loads(answer.read())["replicas"]


def all_ready(port):
    try:
        return [row["state"] for row in fleet(port)] == ["ready", "ready"]
    except (OSError, ValueError):
        return False


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def asked(port, tokens=12, prompt="Once upon a time", path="/v1/completions", **more):
    body = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **more}
    headers = {"Content-Type": "application/json"}
    return urlopen(Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers), timeout=60)


def text_of(port, **more):
    with asked(port, **more) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


class Stream:
    """A streamed answer, read a line at a time."""

    def __init__(self, port, tokens):
        self.answer = asked(port, tokens, stream=True)

    def lines(self):
        return [line[6:].decode().strip() for line in self.answer if line.startswith(b"data: ")]

    def first(self):
        while not (line := self.answer.readline()).startswith(b"data: "):
            assert line
        return line


def restarts(port, name):
    return next(row["restarts"] for row in fleet(port) if row["name"] == name)


def busy(port):
    return next(row for row in fleet(port) if row["running"])


@pytest.fixture(scope="module")
def port():
    with running_server(ROUTED, ready=all_ready, seconds=300) as found:
        yield found


@pytest.fixture(autouse=True)
def _all_idle(request):
    yield
    if "port" in request.fixturenames:
        found = request.getfixturevalue("port")
        until(lambda: all_ready(found) and not any(row["running"] for row in fleet(found)))


def test_it_serves_the_same_api(port):
    text = text_of(port)
    pieces = Stream(port, 12).lines()
    assert pieces[-1] == "[DONE]"
    assert "".join(json.loads(piece)["choices"][0]["text"] for piece in pieces[:-1]) == text
    with urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as answer:
        assert [model["id"] for model in json.loads(answer.read())["data"]] == [MODEL]
        assert answer.headers["x-request-id"]
    with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert b"<html" in answer.read()


def test_a_bad_request_is_not_retried(port):
    before = [row["restarts"] for row in fleet(port)]
    with pytest.raises(HTTPError) as error:
        asked(port, temperature=-1)
    assert error.value.code == 400
    assert json.loads(error.value.read())["error"]["param"] == "temperature"
    assert [row["restarts"] for row in fleet(port)] == before


def test_metrics_are_those_of_all_replicas(port):
    text_of(port)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for name in ("replica-0", "replica-1"):
        assert f'tiny_llm:replica_state{{replica="{name}",state="ready"}} 1' in lines
        assert any(line.startswith(f'vllm:generation_tokens_total{{replica="{name}",') for line in lines)
    assert sum(line.startswith("# TYPE vllm:generation_tokens_total") for line in lines) == 1


def test_requests_at_once_are_spread(port):
    streams = [Stream(port, 300) for _ in range(2)]
    until(lambda: [row["running"] for row in fleet(port)] == [1, 1])
    for stream in streams:
        assert stream.lines()[-1] == "[DONE]"


def test_a_client_that_leaves_releases_its_replica(port):
    stream = Stream(port, 1900)
    stream.first()
    assert busy(port)["running"] == 1
    stream.answer.close()
    until(lambda: not any(row["running"] for row in fleet(port)), 10)


def test_more_than_all_replicas_take_is_rejected(port):
    body = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 1900, "ignore_eos": True}
    clients = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(16)]
    for client in clients:
        client.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    until(lambda: sum(row["running"] for row in fleet(port)) == 16, 10)
    with pytest.raises(HTTPError) as error:
        asked(port)
    assert error.value.code == 429
    assert int(error.value.headers["Retry-After"]) >= 1
    for client in clients:
        client.close()


def test_a_killed_replica_ends_its_stream_with_an_error(port):
    whole, stream = text_of(port, tokens=400), Stream(port, 1900)
    stream.first()
    killed = busy(port)
    os.kill(killed["pid"], signal.SIGKILL)
    *pieces, last = stream.lines()
    assert json.loads(last)["error"]["code"] == "replica_failed"
    assert killed["name"] in json.loads(last)["error"]["message"]
    assert "[DONE]" not in pieces
    assert text_of(port, tokens=400) == whole  # by the other one
    until(lambda: all_ready(port))
    again = next(row for row in fleet(port) if row["name"] == killed["name"])
    assert again["restarts"] == killed["restarts"] + 1
    assert again["pid"] != killed["pid"]


def test_a_killed_replica_before_the_first_token_is_not_noticed(port):
    """Whole answers have no first token before their end."""
    expected = text_of(port, tokens=600)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(text_of, port, tokens=600)
        until(lambda: any(row["running"] for row in fleet(port)), 10)
        os.kill(busy(port)["pid"], signal.SIGKILL)
        assert answer.result() == expected


def test_sigterm_drains_a_replica(port):
    stream = Stream(port, 400)
    stream.first()
    drained = busy(port)
    os.kill(drained["pid"], signal.SIGTERM)
    text_of(port)
    assert stream.lines()[-1] == "[DONE]"
    # Until its process has ended, it still counts as ready.
    until(lambda: all_ready(port) and restarts(port, drained["name"]) > drained["restarts"])
    assert restarts(port, drained["name"]) == drained["restarts"] + 1


def test_all_replicas_dead_is_one_line(port):
    for row in fleet(port):
        os.kill(row["pid"], signal.SIGKILL)
    until(lambda: not _health_is_ok(port), 10)
    with pytest.raises(HTTPError) as error:
        asked(port)
    assert error.value.code == 503
    assert error.value.headers["Retry-After"] == "1"
    assert json.loads(error.value.read())["error"]["message"] == "No replica can answer."
    until(lambda: _health_is_ok(port) and all_ready(port))
    text_of(port)


def _health_is_ok(port):
    try:
        fleet(port)
    except HTTPError:
        return False
    return True


@contextmanager
def started():
    """The router's process, its port, and those of its replicas."""
    command = [part.replace("{port}", "0") for part in ROUTED]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if line.startswith("Serving"):
                    break
            port = int(lines[-1].partition("127.0.0.1:")[2].partition("/")[0])
            yield process, port, [row["pid"] for row in fleet(port)]
        finally:
            process.kill()


def test_ctrl_c_finishes_and_ends_all():
    with started() as (process, port, pids):
        stream = Stream(port, 300)
        stream.first()
        process.send_signal(signal.SIGINT)
        assert stream.lines()[-1] == "[DONE]"
        assert process.wait(20) == 130
        assert all(map(gone, pids))


def test_no_replica_outlives_the_router():
    with started() as (process, _, pids):
        process.kill()
        process.wait()
        until(lambda: all(map(gone, pids)), 20)


def test_a_model_that_does_not_exist_is_one_line():
    command = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--replicas", "2", "--port", "0"]
    done = subprocess.run([*command, "--model", "no/such"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "no/such" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unfinished_router_is_one_line(typed):
    code, _, err = typed("serve", "--replicas", 2, "--port", 0)
    assert code == 1
    assert "6.4.1" in err
    assert "Traceback" not in err


def test_samples_get_the_name_of_their_replica():
    text = '# HELP a What.\n# TYPE a gauge\na{x="1"} 2\na 3\n# HELP b What.\n# TYPE b gauge\nb 0\n'
    assert with_label({"r0": text, "r1": text}).splitlines() == [
        "# HELP a What.",
        "# TYPE a gauge",
        'a{replica="r0",x="1"} 2',
        'a{replica="r0"} 3',
        'a{replica="r1",x="1"} 2',
        'a{replica="r1"} 3',
        "# HELP b What.",
        "# TYPE b gauge",
        'b{replica="r0"} 0',
        'b{replica="r1"} 0',
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model": "m", "prompt": "That is"}', "m\nThat is"),
        (b'{"prompt": [1, 2]}', "\n[1, 2]"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}', "m\n\nuser\nHi\n"),
        (b'{"messages": [3, {"role": "user"}]}', "\n\nuser\nnull\n"),
        (b"[]", ""),
        (b"{", ""),
        (b"[" * 100_000, ""),
        (b'{"text": "a"}', ""),
    ],
)
def test_what_decides_the_prefix(body, expected):
    assert prompt_of(body) == expected
