"""`pdm run agent`: a scripted model and a real server, the tools' folder, the transcript and its page."""

import json

import pytest

from tiny_llm_course.programs.packages import load_solution

READ = '<tool_call>\n{"name": "read_file", "arguments": {"path": "%s"}}\n</tool_call>'


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    (folder / "colours").mkdir(parents=True)
    (folder / "dog.py").write_text("<script>alert(1)</script>\x1b[31m\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


def run(typed, workspace, answers, *more):
    script = workspace.parent / "script.json"
    script.write_text(json.dumps(answers), encoding="utf-8")
    return typed("agent", "What is in dog.py?", "--solution", "--workspace", workspace, "--script", script, *more)


def test_a_run(typed, workspace):
    code, out, _ = run(typed, workspace, ["Let me look.\n" + READ % "dog.py", "A script."])
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["Let me look.", '> read_file {"path": "dog.py"}']
    assert lines[3] == "A script."
    assert lines[4].startswith("Stopped: done (2 steps, ")
    assert "\x1b[31m" not in out  # a tool's text does not control the terminal


def test_another_end_is_exit_code_1(typed, workspace):
    code, out, _ = run(typed, workspace, [READ % "dog.py"] * 9)
    assert (code, out.splitlines()[-1].split(" (")[0]) == (1, "Stopped: repeats")
    code, out, _ = run(typed, workspace, [READ % "dog.py"] * 9, "--steps", 2)
    assert (code, out.splitlines()[-1].split(" (")[0]) == (1, "Stopped: steps")
    code, out, _ = run(typed, workspace, [])
    assert (code, out.splitlines()[-1].split(" (")[0]) == (1, "Stopped: model: the script has no more answers")


def test_the_tools_stay_in_the_folder(typed, workspace):
    (workspace / "link").symlink_to(workspace.parent)
    answers = [
        READ % path for path in ("../secret.txt", "/etc/hosts", "link/secret.txt", "none.py", "colours", "a\\u0000")
    ]
    _, out, _ = run(typed, workspace, [*answers, "No."])
    assert "secret\n" not in out
    assert out.count("is not inside the folder") == 4
    assert "There is no 'none.py'" in out
    assert "'colours' is a folder" in out


def test_a_transcript_and_its_page(typed, workspace, tmp_path):
    file = tmp_path / "run.jsonl"
    code, _, _ = run(typed, workspace, [READ % "dog.py", READ % "no.py", "A script."], "--transcript", file)
    assert code == 0
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    roles = [entry["message"]["role"] for entry in entries[:-1]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert entries[-1]["stop"] == "done"
    page = file.with_suffix(".html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count('<section class="error">') == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "Expected either --url"),
        (("--url", "http://127.0.0.1:1/v1"), "http://127.0.0.1:1/v1 cannot be reached"),
        (("--script", "none.json"), "none.json cannot be read"),
    ],
)
def test_what_cannot_be_run(typed, workspace, more, words):
    code, _, err = typed("agent", "Look.", "--solution", "--workspace", workspace, *more)
    assert code == 2
    assert words in err


def test_answers_of_a_server():
    """A client of OpenAI's API by the standard library: messages, tools, and the errors of a server."""
    import http.server
    import threading

    load_solution()
    from tiny_llm_solution.agent.client import ServerModel

    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(200, {"data": [{"id": "dog-1"}]})

        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if len(asked) == 2:
                return self.answer(400, {"error": {"message": "too long"}})
            call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
            message = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
            choice = {"message": message, "finish_reason": "tool_calls"}
            return self.answer(200, {"choices": [choice], "usage": {"total_tokens": 7}} if len(asked) == 1 else {})

        def answer(self, status, body):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        model = ServerModel(f"http://127.0.0.1:{server.server_port}/v1/")
        tools = [{"type": "function", "function": {"name": "now"}}]
        found = model([{"role": "user", "content": "Hi"}], tools)
        assert (found.finish_reason, found.tokens) == ("tool_calls", 7)
        assert found.message["tool_calls"][0]["function"]["name"] == "now"
        assert found.message["content"] is None
        assert asked[0] == {"model": "dog-1", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
        with pytest.raises(OSError, match="status 400, too long"):
            model([], [])
        with pytest.raises(OSError, match="not in OpenAI's format"):
            model([], [])
    finally:
        server.shutdown()
        server.server_close()
