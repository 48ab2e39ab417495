"""The workspace tools over MCP: the official SDK's client, and a server of its own process over stdio."""

import sys
from pathlib import Path

import pytest

from tiny_llm_course.paths import ROOT

pytest.importorskip("mcp")

pytestmark = pytest.mark.maintainers
SERVER = f"""
import sys
sys.path[:0] = [{str(ROOT / "solutions")!r}, *{sys.path!r}]
from pathlib import Path
import anyio
from tiny_llm.workspace.tools import open_workspace
from tiny_llm_course.engine.mcp_tools import serve

tools, _ = open_workspace(Path(sys.argv[1]), Path(sys.argv[2]), approve=lambda action, detail: "no" not in detail)
anyio.run(serve, tools)
"""


def test_a_client_and_a_server_over_stdio(tmp_path: Path) -> None:
    from tiny_llm_course.engine.mcp_tools import remote_tools

    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    with remote_tools([sys.executable, "-c", SERVER, str(folder), str(tmp_path / "undo")]) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert [*by_name] == ["list_files", "read_file", "search_files", "edit_file", "write_file", "run_command"]
        assert by_name["read_file"].parameters["required"] == ["path"]
        assert by_name["read_file"].call({"path": "a.txt"}) == "     1  hello\n[end of file]"
        assert "+bye" in by_name["edit_file"].call({"path": "a.txt", "old": "hello", "new": "bye"})
        assert (folder / "a.txt").read_text() == "bye\n"
        for name, arguments, message in (
            ("read_file", {"path": "../x"}, "leaves the workspace"),
            ("read_file", {}, "read_file needs path"),
            ("edit_file", {"path": "a.txt", "old": "bye", "new": "no"}, "the user refused"),
            ("run_command", {"command": ["echo", "no"]}, "the user refused"),
        ):
            with pytest.raises(ValueError, match=message):
                by_name[name].call(arguments)
    assert (folder / "a.txt").read_text() == "bye\n"
