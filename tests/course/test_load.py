"""`pdm run bench serve`: a load that is always the same, what is said of its answers, and a server at an address."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine.serving import Limits, load_scheduler
from tiny_llm_course.measuring.load.sending import (
    SHARED,
    UNNAMED,
    Answer,
    Arrival,
    Load,
    Outcome,
    arrivals,
    model_at,
    play,
    replay,
    send,
)
from tiny_llm_course.measuring.load.speed import there

pytestmark = pytest.mark.maintainers


@pytest.fixture(scope="module")
def engine():
    return load_scheduler(None, solution=True, mode="prefix", limits=Limits(kv_cache_bytes=16 << 20), kernels=False)


def test_a_load_is_the_same_for_the_same_seed(engine):
    found = arrivals(engine, Load(9, rate=5.0, seed=3))
    assert found == arrivals(engine, Load(9, rate=5.0, seed=3))
    assert found != arrivals(engine, Load(9, rate=5.0, seed=4))
    assert [arrival.at for arrival in found] == sorted({arrival.at for arrival in found})
    assert len({arrival.prompt[:SHARED] for arrival in found[1::2]}) == 1
    assert {arrival.at for arrival in arrivals(engine, Load(9))} == {0.0}


def test_a_load_s_pace_is_the_rate(engine):
    last = arrivals(engine, Load(4000, rate=50.0))[-1].at
    assert 3999 / 50 * 0.95 < last < 3999 / 50 * 1.05


def test_each_request_gets_what_it_asks_for(engine):
    load = [Arrival(0.0, (5, 6, 7), 4), Arrival(0.01, (8,) * 40, 1), Arrival(0.02, (5, 6, 7), 6)]
    outcome = play(engine, load)
    assert [len(answer.tokens) for answer in outcome.answers] == [4, 1, 6]
    assert all(answer.tokens == sorted(answer.tokens) and answer.first > 0 for answer in outcome.answers)
    assert outcome.hits is not None


def test_a_replay_counts_steps(engine):
    steps, came = replay(engine, [Arrival(0.0, (5,), 3), Arrival(2.0, (6,), 1)])
    assert list(came.values()) == [0, 2]
    assert [len(step.finished) for step in steps] == [0, 0, 2]


def test_what_is_said_of_an_outcome():
    outcome = Outcome([Answer(0.0, [1.0, 1.5, 2.0]), Answer(1.0, [1.5]), Answer(1.0, failed="429: busy")], 3, 0.25)
    assert outcome.throughput == 2.0
    found = outcome.summary()
    assert (found["failed"], found["preemptions"], found["hits"]) == (1, 3, 0.25)
    assert found["ttft"]["p50"] == 0.75
    assert found["tpot"] == {"p50": 0.5, "p95": 0.5, "p99": 0.5}
    assert Outcome([Answer(0.0, failed="gone")]).summary()["ttft"] == {}
    assert Answer(0.0, [1.0, 3.0], counted=5).each == 0.5


class Echo(BaseHTTPRequestHandler):
    """Streams as many pieces as tokens are asked for, in pairs; refuses prompts of one letter."""

    def do_GET(self):
        self.reply(200, b'{"data": []}' if self.server.unnamed else b'{"data": [{"id": "echo"}]}')

    def do_POST(self):
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if wanted["max_tokens"] == 1:
            self.reply(429, b'{"error": {"message": "too many"}}')
            return
        pieces = [{"choices": [{"text": "ab"}]}] * (wanted["max_tokens"] // 2)
        pieces += [{"choices": [{"text": ""}]}, {"choices": [], "usage": {"completion_tokens": wanted["max_tokens"]}}]
        events = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
        self.reply(200, "".join([": hello\n\n", *events, "data: [DONE]\n\n"]).encode())

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def echo(unnamed=False):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.unnamed = unnamed
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_load_is_sent(engine):
    with echo() as url:
        assert model_at(url) == "echo"
        outcome = send(url, "echo", engine, [Arrival(0.0, (50,), 6), Arrival(0.05, (51,), 1), Arrival(0.0, (52,), 4)])
    assert [(len(answer.tokens), answer.counted) for answer in outcome.answers] == [(3, 6), (0, 0), (2, 4)]
    assert outcome.answers[1].failed == '429: {"error": {"message": "too many"}}'
    with echo(unnamed=True) as url:
        assert model_at(url) == UNNAMED


def test_nobody_answers(engine):
    with echo() as url:
        pass
    with pytest.raises(UsageError, match="No server answers at"):
        model_at(url)
    with pytest.raises(UsageError, match="answered no request"):
        send(url, "echo", engine, [Arrival(0.0, (50,), 6)])
    for wrong in ("ftp://here", "http://", "http://here:none"):
        with pytest.raises(UsageError, match="is not a server's URL"):
            model_at(wrong)


def test_the_command(typed, tmp_path):
    file, drawing = tmp_path / "found.json", tmp_path / "found.svg"
    status, out, _ = typed("bench", "serve", "--solution", "--quick", "--json", file, "--svg", drawing)
    assert status == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [row["name"] for row in found["rows"]] == [mode.name for mode in there(True)]
    assert all(row["tokens/s"] > 0 and row["failed"] == 0 for row in found["rows"])
    assert all(row["name"] in out for row in found["rows"])
    assert drawing.read_text(encoding="utf-8").startswith("<svg ")
    assert "too small for meaningful numbers" in out


def test_a_replay_is_printed(typed):
    status, out, _ = typed("bench", "serve", "--solution", "--replay", "--stage", "static", "--requests", 3)
    assert status == 0
    assert "Stage static" in out
    assert [line.split()[1] for line in out.splitlines() if line.startswith("request ")][:3] == ["0", "1", "2"]
    assert typed("bench", "serve", "--solution", "--replay", "--stage", "static", "--requests", 3)[1] == out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1.1", "--rate", "3"], "--rate applies to a load of requests: pdm run bench serve"),
        (["serve", "--replay", "--url", "http://127.0.0.1:1"], "--replay and --url combine neither"),
        (["serve", "--stage", "paged"], "All stages are measured"),
        (["serve", "--url", "http://127.0.0.1:1"], "No server answers at"),  # whose code is there is not asked
        (["serve", "--rate", "none"], "--rate"),
    ],
)
def test_what_cannot_be_measured(typed, words, said):
    status, _, told = typed("bench", *words)
    assert (status, said in told) == (2, True), told
