"""`pdm run agent`: a scripted model and a real server, the tools' folder, the transcript and its page."""

import json
import sys

import pytest
from tests.course.terminal import CTRL_C, Terminal

from tiny_llm_course.programs.packages import load_solution

READ = '<tool_call>\n{"name": "read_file", "arguments": {"path": "%s"}}\n</tool_call>'


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


EDIT = call("edit_file", path="cat.py", old="red", new="blue")
COMMAND = call("run_command", command=["sh", "-c", "echo two > made.txt"])
WORK = [EDIT, COMMAND, call("write_file", path="new/notes.md", text="Blue.\n"), "Done."]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    (folder / "colors").mkdir(parents=True)
    (folder / "dog.py").write_text("<script>alert(1)</script>\x1b[31m\n", encoding="utf-8")
    (folder / "cat.py").write_text("red\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def script_of(workspace, answers):
    script = workspace.parent / "script.json"
    script.write_text(json.dumps(answers), encoding="utf-8")
    return "agent", "What is in dog.py?", "--workspace", workspace, "--script", script


def run(typed, workspace, answers, *more):
    return typed(*script_of(workspace, answers), "--solution", *more)


def test_a_run(typed, workspace):
    code, out, _ = run(typed, workspace, ["Let me look.\n" + READ % "dog.py", "A script."])
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["Let me look.", '> read_file {"path": "dog.py"}']
    assert lines[2:5] == ["       1  <script>alert(1)</script>?[31m", "  [end of file]", "A script."]
    assert lines[5].startswith("Stopped: done (2 steps, ")
    assert "undo" not in out
    assert not any(workspace.parent.joinpath("home").rglob("*.json"))  # nothing was changed, and nothing is kept


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
        READ % path for path in ("../secret.txt", "/etc/hosts", "link/secret.txt", "none.py", "colors", "a\\u0000")
    ]
    _, out, _ = run(typed, workspace, [*answers, "No."])
    assert "secret\n" not in out
    for words in ("leaves the workspace", "is absolute", "No such file", "'colors' is a folder", "control character"):
        assert words in out


def test_changes_are_approved_and_undone(typed, workspace, monkeypatch):
    """On a terminal: yes, a wrong key, no, and then all."""
    before, answers = files(workspace), iter(["y", "x", "n", "a"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    code, out, _ = run(typed, workspace, WORK)
    assert code == 0
    assert "edit cat.py\n  --- a/cat.py\n  +++ b/cat.py\n  @@ -1 +1 @@\n  -red\n  +blue\n> run_command" in out
    assert "run\n  sh -c 'echo two > made.txt'\n  Error: run: the user refused\n" in out
    assert "make folder\n  new\nwrite new/notes.md\n" in out  # the second of them is covered by "all"
    assert files(workspace) == before | {"cat.py": b"blue\n", "new/notes.md": b"Blue.\n"}
    assert out.splitlines()[-1].startswith("    pdm run agent --undo --workspace ")
    code, out, _ = typed("agent", "--undo", "--solution", "--workspace", workspace)
    assert (code, out) == (0, "undone: new/notes.md\nundone: cat.py\nremoved: new/\n")
    assert files(workspace) == before
    assert not (workspace / "new").exists()
    assert (workspace / "colors").exists()  # it was empty before
    code, _, err = typed("agent", "--undo", "--solution", "--workspace", workspace)
    assert (code, "There is nothing to undo" in err) == (2, True)


def test_undo_takes_the_last_run_and_no_file_that_has_changed_since(typed, workspace):
    before = files(workspace)
    assert run(typed, workspace, [EDIT, "Done."], "--yes")[0] == 0
    assert (
        run(typed, workspace, [COMMAND, call("edit_file", path="cat.py", old="blue", new="grey"), "."], "--yes")[0] == 0
    )
    assert files(workspace) == before | {"cat.py": b"grey\n", "made.txt": b"two\n"}
    (workspace / "cat.py").write_text("mine\n", encoding="utf-8")
    code, _, err = typed("agent", "--undo", "--solution", "--workspace", workspace)
    assert (code, err) == (2, "'cat.py' has changed since: it is not undone. Nothing more was undone.\n")
    (workspace / "cat.py").write_text("grey\n", encoding="utf-8")
    for _ in range(2):
        assert typed("agent", "--undo", "--solution", "--workspace", workspace)[0] == 0
    assert files(workspace) == before


def test_undo_deletes_the_new_folders_that_are_empty(typed, workspace):
    """Those of a written file and of a command, but none that now has a file of the user."""
    made = call("run_command", command=["sh", "-c", "mkdir -p d/e kept && echo 1 > d/e/f"])
    assert run(typed, workspace, [call("write_file", path="a/b/c.py", text="x"), made, "."], "--yes")[0] == 0
    (workspace / "kept" / "mine").write_text("mine", encoding="utf-8")
    code, out, _ = typed("agent", "--undo", "--solution", "--workspace", workspace)
    assert (code, out) == (0, "undone: d/e/f\nundone: a/b/c.py\nremoved: a/b/, d/e/, a/, d/\n")
    assert sorted(path.name for path in workspace.iterdir() if path.is_dir()) == ["colors", "kept"]


def test_a_new_folder_alone_can_be_undone(typed, workspace):
    _, out, _ = run(typed, workspace, [call("run_command", command=["mkdir", "d"]), "."], "--yes")
    assert "--undo" in out
    assert typed("agent", "--undo", "--solution", "--workspace", workspace)[1] == "removed: d/\n"
    assert not any(workspace.parent.joinpath("home").rglob("*.json"))


def test_only_the_last_runs_can_be_undone(typed, workspace, monkeypatch):
    from tiny_llm_course.engine import workspaces

    monkeypatch.setattr(workspaces, "MOST_RUNS", 2)
    for number in range(4):
        assert run(typed, workspace, [call("write_file", path=f"{number}.txt", text="x"), "."], "--yes")[0] == 0
    undone = [typed("agent", "--undo", "--solution", "--workspace", workspace)[0] for _ in range(4)]
    assert undone == [0, 0, 0, 2]  # the run that is under way is the third


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--dry-run", "--yes")], ids=" ".join)
def test_nothing_is_changed_without_a_terminal_or_in_a_dry_run(typed, workspace, monkeypatch, more):
    before = files(workspace)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    code, out, err = run(typed, workspace, WORK, *more)
    assert code == 0
    assert files(workspace) == before
    assert "  -red\n  +blue\n" in out
    assert "  +Blue.\n" in out or not more
    assert err.count("There is no terminal to ask on") == (0 if more else 3)
    assert out.count("the user refused") == (0 if more else 3)


def test_what_is_approved_is_shown_as_it_is(workspace):
    """On a narrow terminal nothing is cut, and an escape sequence is visible."""
    text = "x = 1" + " " * 200 + "; import os\x1b[2K"
    words = script_of(workspace, [call("write_file", path="a.py", text=text), "Done."])
    with Terminal(*map(str, words), "--solution", columns=60) as terminal:
        shown = terminal.wait_for("[a]ll of this run: ")
        terminal.type("y\n")
        terminal.wait_for("To undo")
        assert terminal.end() == 0
    assert "+x = 1" + " " * 200 + "; import os\\x1b[2K" in shown.replace("\n", "")
    assert files(workspace)["a.py"] == text.encode()


def test_ctrl_c_at_the_question(workspace):
    """What was approved before can be undone, and the transcript says how the run ended."""
    before, transcript = files(workspace), workspace.parent / "run.jsonl"
    words = [*map(str, script_of(workspace, WORK)), "--solution", "--transcript", str(transcript)]
    with Terminal(*words) as terminal:
        for keys in ("y\n", CTRL_C):
            terminal.wait_for("[a]ll of this run: ")
            terminal.type(keys)
        terminal.wait_for("\nStopped: interrupted\n")
        terminal.wait_for("--undo")
        assert terminal.end() == 130
    assert json.loads(transcript.read_text().splitlines()[-1])["stop"] == "interrupted"
    with Terminal("agent", "--undo", "--solution", "--workspace", str(workspace)) as terminal:
        terminal.wait_for("undone: cat.py")
        assert terminal.end() == 0
    assert files(workspace) == before


def test_before_day_4_the_tools_only_read(typed, workspace):
    """The loop is borrowed, the workspace tools are not; then they are."""
    words = script_of(workspace, [READ % "cat.py", EDIT, "Red."])
    assert typed("borrow", "7.2", "7.3")[0] == 0
    _, out, err = typed(*words)
    assert "7.4.1 A root that no path leaves has not passed" in err
    assert "  red\n" in out
    assert "There is no tool 'edit_file'. The tools are list_files, read_file." in out
    for more in (["--yes"], ["--dry-run"]):
        code, _, err = typed(*words, *more)
        assert (code, f"{more[0]} needs the workspace tools, and 7.4.1" in err) == (1, True)
    assert typed("agent", "--undo", "--workspace", workspace)[0] == 1
    assert typed("borrow", "7.4")[0] == 0
    assert typed(*words, "--yes")[0] == 0
    assert files(workspace)["cat.py"] == b"blue\n"
    code, out, _ = typed("agent", "--undo", "--workspace", workspace)
    assert (code, out) == (0, "undone: cat.py\n")


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
        (("--url", "http://127.0.0.1:1/v1"), "http://127.0.0.1:1/v1 cannot be reached: Connection refused."),
        (("--url", "localhost:8000"), "localhost:8000 is not an address such as http"),
        (("--script", "none.json"), "none.json cannot be read"),
        (("--undo",), "--undo takes no task."),
    ],
)
def test_what_cannot_be_run(typed, workspace, more, words):
    code, _, err = typed("agent", "Look.", "--solution", "--workspace", workspace, *more)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_files_that_cannot_be_used(typed, workspace, tmp_path, monkeypatch):
    (tmp_path / "damaged.jsonl").write_text("no\n", encoding="utf-8")
    for more, words in (
        (("--transcript", tmp_path / "run.html"), "is the name of the page"),
        (("--transcript", tmp_path / "damaged.jsonl"), "cannot be continued: line 1"),
        (("--transcript", tmp_path / "none" / "run.jsonl"), "cannot be continued: "),
        (("--workspace", tmp_path), "cannot be a workspace: it contains "),
    ):
        code, _, err = run(typed, workspace, ["Done."], *more)
        assert (code, len(err.splitlines()), words in err) == (2, 1, True), err
    code, _, err = typed("agent", "--solution")
    assert (code, "Missing argument 'TASK'" in err) == (2, True)


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
            if len(asked) == 4:
                call["function"]["arguments"] = {"zone": "UTC"}  # which is no text
            return self.answer(200, {} if len(asked) == 3 else {"choices": [choice], "usage": {"total_tokens": 7}})

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
        said = [{"role": "user", "content": "Hi"}]
        assert asked[0] == {"model": "dog-1", "messages": said, "tools": tools, "tool_choice": "auto"}
        with pytest.raises(OSError, match="status 400, too long"):
            model([], [])
        with pytest.raises(OSError, match="not in OpenAI's format"):
            model([], [])
        assert model([], []).message["tool_calls"][0]["function"]["arguments"] == '{"zone": "UTC"}'
        assert asked[3] == {"model": "dog-1", "messages": []}
    finally:
        server.shutdown()
        server.server_close()
