"""What an operator sees of the server: ids, the access log, cached tokens, and a proxy before it."""

import http.client
import json
import re
import socket
import sys
import time

import pytest

from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.servers import running_server

load_solution()
from tiny_llm_solution.server.metrics import HELP  # noqa: E402

pytestmark = [pytest.mark.maintainers, needs("port")]
SERVE = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--stage", "prefix", "--port", "{port}"]
LONG = "Once upon a time there was a dog named Max. " * 8


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("log") / "access.jsonl"


@pytest.fixture(scope="module")
def port(log):
    options = ["--access-log", str(log), "--allowed-host", "LLM.example", "--root-path", "/llm"]
    with running_server([*SERVE, *options], seconds=300) as found:
        yield found


def asked(port, path="/v1/completions", headers=(), **fields):
    """The answer's status, headers and body; a GET without fields."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"model": "tiny-qwen3", "max_tokens": 4, "temperature": 0, **fields}) if fields else None
    client.request("POST" if body else "GET", path, body, {"Content-Type": "application/json", **dict(headers)})
    answer = client.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


def logged(log, request_id):
    """The entry of a request, which is written when its answer has been sent."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if found := [
            entry for entry in map(json.loads, log.read_text().splitlines()) if entry["request_id"] == request_id
        ]:
            assert len(found) == 1
            return found[0]
        time.sleep(0.02)
    raise AssertionError(f"{request_id} is not in the log")


def test_cached_tokens(port):
    """Whole pages of 16 tokens, and never the last token; the same in streams."""
    usage = [json.loads(asked(port, prompt=LONG)[2])["usage"] for _ in range(2)]
    count = usage[0]["prompt_tokens"]
    assert [each["prompt_tokens_details"] for each in usage] == [
        {"cached_tokens": 0},
        {"cached_tokens": (count - 1) // 16 * 16},
    ]
    streamed = asked(port, prompt=LONG, stream=True, stream_options={"include_usage": True})[2]
    last = json.loads(streamed.split("\n\n")[-3].removeprefix("data: "))
    assert last["usage"] == usage[1]
    several = json.loads(asked(port, prompt=[LONG, "A cat"], n=2)[2])["usage"]
    assert several["prompt_tokens_details"] == usage[1]["prompt_tokens_details"]


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-1", True), ("a" * 128, True), ("a" * 129, False), ("two words", False), ("", False)]
)
def test_request_ids(port, given, kept):
    for path, fields, status in (("/health", {}, 200), ("/nowhere", {}, 404), ("/v1/completions", {"prompt": 5}, 400)):
        answer = asked(port, path, {"X-Request-Id": given}, **fields)
        assert answer[0] == status
        assert (answer[1]["x-request-id"] == given) == kept
        assert answer[1]["x-request-id"]


def test_the_access_log(port, log):
    """What was asked is not in it, nor is a key."""
    headers = {"X-Request-Id": "logged", "Authorization": "Bearer secret"}
    asked(port, headers=headers, prompt="A purple elephant", stream=True)
    entry = logged(log, "logged")
    assert entry.pop("time").endswith("+00:00")
    assert 0 < entry.pop("seconds") < 60
    assert 0 < entry.pop("prompt_tokens") < 16
    assert entry == {
        "request_id": "logged",
        "client": "127.0.0.1",
        "method": "POST",
        "path": "/v1/completions",
        "status": 200,
        "completion_tokens": 4,
        "cached_tokens": 0,
        "finish_reasons": ["length"],
    }
    assert not any(word in log.read_text() for word in ("purple", "secret"))


def test_a_client_that_leaves_is_logged(port, log):
    body = json.dumps({"model": "tiny-qwen3", "prompt": "Once", "max_tokens": 1500, "ignore_eos": True}).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-Id: left\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.2)
    entry = logged(log, "left")
    assert entry["status"] == 499
    assert entry["completion_tokens"] < 1500


@pytest.mark.parametrize(
    ("host", "status"), [("llm.example", 200), ("LLM.example:80", 200), ("localhost", 200), ("other.example", 421)]
)
def test_host_names(port, host, status):
    assert asked(port, "/health", {"Host": host})[0] == status


def test_behind_a_proxy(port):
    """Whether it removes the prefix or not; the page's own addresses are relative."""
    assert asked(port, "/llm/v1/models")[2] == asked(port, "/v1/models")[2]
    assert asked(port, "/llmv1/models")[0] == 404
    assert asked(port, "/llm/")[2] == asked(port, "/")[2]
    for name in ("index.html", "chat.js", "engine.js"):
        text = asked(port, f"/llm/page/{name}")[2]
        assert not any(absolute in text for absolute in ('href="/', 'src="/', 'fetch("/', 'from "/'))


def test_a_log_that_cannot_be_opened(typed, tmp_path):
    code, out, err = typed("serve", "--solution", "--port", 0, "--access-log", tmp_path)
    assert (code, out) == (2, "")
    assert "Is a directory" in err


def test_the_dashboard_shows_metrics_that_exist(port):
    """In Prometheus' own words: each metric of a query is one of /metrics, once it has a help and a kind."""
    shown = json.loads(asked(port, "/dashboard.json")[2])
    queries = " ".join(target["expr"] for panel in shown["panels"] for target in panel["targets"])
    names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"(?:vllm|tiny_llm):\w+", queries)}
    text = asked(port, "/metrics")[2]
    kinds, helps = (re.findall(f"^# {what} (\\S+) \\S", text, re.MULTILINE) for what in ("TYPE", "HELP"))
    assert kinds == helps
    assert len(kinds) == len(set(kinds))
    assert names - set(kinds) == {
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_draft_tokens_total",
    }
    assert set(kinds) <= set(HELP)


def test_what_the_metrics_count(port):
    """Cached prefixes take no page from requests, and an error of a client is not one of the engine."""
    asked(port, prompt=LONG)
    asked(port, prompt=5)
    found = dict(re.findall(r'^(\S+)\{model_name="tiny-qwen3"\} (\S+)$', asked(port, "/metrics")[2], re.MULTILINE))
    assert float(found["vllm:kv_cache_usage_perc"]) == 0
    assert float(found["tiny_llm:free_pages"]) < float(found["tiny_llm:pages"])
    assert 0 < float(found["vllm:prefix_cache_hits_total"]) < float(found["vllm:prefix_cache_queries_total"])
    ended, queued = (
        found[f"{name}_seconds_count"] for name in ("vllm:e2e_request_latency", "tiny_llm:request_first_step")
    )
    assert 0 < float(ended) <= float(queued)
    assert 'finished_reason="error"' not in asked(port, "/metrics")[2]


def test_openapi_describes_every_route(port):
    """And the page shows every parameter; what a schema names is defined."""
    described = json.loads(asked(port, "/openapi.json")[2])
    assert described["openapi"] == "3.1.0"
    for path, operations in described["paths"].items():
        (method,) = operations
        status = asked(port, path.replace("{name}", "tiny-qwen3"), **({"best_of": 2} if method == "post" else {}))[0]
        assert status == (400 if method == "post" else 200), path
    schemas = described["components"]["schemas"]
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert referred <= set(schemas)
    page = asked(port, "/docs")[2]
    for name in ("Completion", "Chat", "Tokenize", "Detokenize"):
        for field in schemas[name]["properties"]:
            assert f"<td><code>{field}</code></td>" in page
    assert not re.search('(?:src|href)="(?!\\./|data:|page/|openapi)', page)
