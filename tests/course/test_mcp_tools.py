"""The workspace tools over MCP: the official SDK's client, and a server of its own process over stdio."""

import json
import sys
from pathlib import Path

import pytest

from tiny_llm_course.paths import ROOT

pytest.importorskip("mcp")

pytestmark = pytest.mark.maintainers
# A client starts a server with few of its own variables.
SERVE = f"env PYTHONPATH={ROOT / 'src'} {sys.executable} -m tiny_llm_course mcp --solution --workspace"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.txt").write_text("hello\n")
    return tmp_path / "w"


def test_a_client_and_a_server_over_stdio(folder: Path) -> None:
    from tiny_llm_course.engine.mcp_tools import remote_tools

    asked = list[tuple[str, str]]()

    def approve(action: str, details: str) -> bool:
        asked.append((action, details))
        return "no" not in details

    with remote_tools(f"{SERVE} {folder} --yes", ["read_file"], approve) as tools:
        by_name = {tool.name: tool for tool in tools}
        names = ["list_files", "read_file_2", "search_files", "edit_file", "write_file", "run_command"]
        assert [*by_name] == names
        assert by_name["read_file_2"].parameters["required"] == ["path"]
        assert by_name["read_file_2"].call({"path": "a.txt"}) == "     1  hello\n[end of file]"
        assert asked == [("call read_file_2", '{"path": "a.txt"}')]
        assert "+bye" in by_name["edit_file"].call({"path": "a.txt", "old": "hello", "new": "bye"})
        assert (folder / "a.txt").read_text() == "bye\n"
        for name, arguments, message in (
            ("read_file_2", {"path": "../x"}, "leaves the workspace"),
            ("read_file_2", {}, "read_file needs the argument 'path'"),
            ("read_file_2", {"path": 1}, "must be of type string"),
            ("edit_file", {"path": "a.txt", "old": "bye", "new": "no"}, "call edit_file: the user refused"),
            ("run_command", {"command": ["echo", "no"]}, "the user refused"),
        ):
            with pytest.raises(ValueError, match=message):
                by_name[name].call(arguments)
    assert (folder / "a.txt").read_text() == "bye\n"
    with remote_tools(f"{SERVE} {folder}", [], lambda *_: pytest.fail("asked"), dry_run=True) as tools:
        assert [tool.name for tool in tools] == ["list_files", "read_file", "search_files"]  # no --yes
        assert tools[0].call({}) == "dry run: would call list_files {}"


def test_the_agent_uses_a_server(typed, folder: Path) -> None:
    """The tools of a second folder beside those of the workspace; what a server changed can be undone there."""
    other, script = folder.with_name("other"), folder.with_name("script.json")
    other.mkdir()
    (other / "b.txt").write_text("red\n")
    calls = [("read_file", {"path": "a.txt"}), ("edit_file_2", {"path": "b.txt", "old": "red", "new": "blue"})]
    answers = [f"<tool_call>{json.dumps({'name': n, 'arguments': a})}</tool_call>" for n, a in calls]
    script.write_text(json.dumps([*answers, "Done."]))
    words = ["agent", "Look.", "--solution", "--workspace", folder, "--script", script, "--yes"]
    code, out, _ = typed(*words, "--mcp", f"{SERVE} {other} --yes")
    assert code == 0
    assert "     1  hello\n" in out
    assert "call edit_file_2\n" in out
    assert (other / "b.txt").read_text() == "blue\n"
    assert typed("agent", "--undo", "--solution", "--workspace", other)[0] == 0
    assert (other / "b.txt").read_text() == "red\n"


@pytest.mark.parametrize("command", ["no-such-program", "true", '"', "", f"{sys.executable} -c 'print(1)'"])
def test_a_server_that_cannot_be_used(typed, folder: Path, command: str) -> None:
    script = folder.with_name("script.json")
    script.write_text('["Done."]')
    words = ["agent", "Look.", "--solution", "--workspace", folder, "--script", script]
    code, _, err = typed(*words, "--mcp", command)
    assert code == 2
    assert err.startswith(f"The MCP server {command!r} cannot be used: ")
    assert len(err.splitlines()) == 1


def test_without_the_package(typed, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tiny_llm_course.engine.mcp_tools", raising=False)
    monkeypatch.delattr("tiny_llm_course.engine.mcp_tools", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    code, _, err = typed("mcp", "--solution", "--workspace", folder)
    assert (code, err) == (2, 'MCP needs a package that is not installed: pdm run pip install "mcp>=2.3"\n')
