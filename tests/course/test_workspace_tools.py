"""The tools of day 7.4: every way out of the workspace through every tool, with what the model is told."""

import contextlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.week7.abuse import BY_PATH, RACES, WAYS, Way
from tests.week7.scenes import SECRET, Adversary, new_scene

from tiny_llm_course.testkit.variants import load_solution


def tools_of(scene: Any, **more: Any) -> tuple[dict[str, Any], Any]:
    load_solution()
    from tiny_llm_solution.workspace.tools import open_workspace

    tools, changes = open_workspace(scene.w, scene.folder / "undo", more.pop("approve", lambda *_: True), **more)
    return {tool.name: tool for tool in tools}, changes


ARGUMENTS: dict[str, dict[str, Any]] = {
    "list_files": {}, "read_file": {}, "search_files": {"text": "SECRET"},
    "edit_file": {"old": "\n", "new": "\n!"}, "write_file": {"text": "written\n"},
}  # fmt: skip


def test_the_table_is_long_enough() -> None:
    """The bar of the day: at least 60 ways, each with its own name."""
    assert len(WAYS) >= 60
    assert len({(way.group, way.name) for way in WAYS}) == len(WAYS)


@pytest.mark.parametrize("way", BY_PATH, ids=lambda way: f"{way.group}: {way.name}")
def test_no_tool_leaves_the_workspace(way: Way) -> None:
    for name, arguments in ARGUMENTS.items():
        with new_scene() as scene:
            way.make(scene)
            tools, changes = tools_of(scene)
            before = scene.others()
            try:
                answer = tools[name].call({"path": way.path, **arguments})
            except ValueError as error:
                answer = str(error)
                assert "\n" not in answer
                assert name != "read_file" or way.happens in answer
            assert SECRET not in answer
            if len(changes.journal):
                changes.undo()
            assert scene.others() == before


@pytest.mark.parametrize("way", RACES, ids=lambda way: way.name)
def test_no_race_leads_a_search_or_a_list_outside(way: Way) -> None:
    assert way.race
    for name, arguments in (("search_files", {"text": "SECRET"}), ("list_files", {"path": "src"}), ("read_file", {})):
        number, acted = 0, True
        while acted and number < 200:
            with new_scene() as scene:
                way.make(scene)
                tools, _ = tools_of(scene)
                other, answer = Adversary(number, partial(way.race, scene)), ""
                with contextlib.suppress(ValueError), other:
                    answer = tools[name].call({"path": way.path} | arguments if name == "read_file" else arguments)
                assert SECRET not in answer, number
                assert "secret.txt" not in answer, number
            acted, number = other.acted, number + 1


def test_nothing_is_done_without_approval_or_in_a_dry_run() -> None:
    for more in ({"approve": lambda *_: False}, {"dry_run": True}):
        with new_scene() as scene:
            tools, changes = tools_of(scene, **more)
            before = sorted((str(path), path.is_file() and path.read_bytes()) for path in scene.w.rglob("*"))
            for name, arguments in (
                ("edit_file", {"path": "notes.txt", "old": "inside", "new": "x"}),
                ("write_file", {"path": "new/file.txt", "text": "x"}),
                ("run_command", {"command": ["touch", "made"]}),
            ):
                if "dry_run" in more:
                    assert tools[name].call(arguments)
                else:
                    with pytest.raises(ValueError, match="the user refused"):
                        tools[name].call(arguments)
            assert sorted((str(path), path.is_file() and path.read_bytes()) for path in scene.w.rglob("*")) == before
            assert len(changes.journal) == 0


def test_everything_can_be_undone() -> None:
    """An edit, a file in a new folder, and a command that changes, creates and deletes."""
    with new_scene() as scene:
        tools, changes = tools_of(scene)
        before = {str(path): path.read_bytes() for path in scene.w.rglob("*") if path.is_file()}
        tools["edit_file"].call({"path": "src/main.py", "old": "1", "new": "2"})
        tools["write_file"].call({"path": "new/folder/file.txt", "text": "x"})
        report = tools["run_command"].call({"command": ["sh", "-c", "echo y > src/main.py; echo z > z; rm -r src/pkg"]})
        assert report == "[exit code 0]"
        while len(changes.journal):
            changes.undo()
        assert {str(path): path.read_bytes() for path in scene.w.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command",
    ["rm linked", "chmod 700 src/main.py", "head -c 2000000 /dev/zero > large", "mkfifo pipe"],
)
def test_undo_loses_nothing_that_a_command_left_alone(command: str) -> None:
    """Links whose other name goes, permissions, and a file beyond the limit of an edit."""
    with new_scene() as scene:
        tools, changes = tools_of(scene)
        (scene.w / "kept").write_text("kept")
        os.link(scene.w / "kept", scene.w / "linked")

        def found() -> dict[str, tuple[bytes, int]]:
            files = [path for path in scene.w.rglob("*") if path.is_file() and path.name != "linked"]
            return {str(path): (path.read_bytes(), path.stat().st_mode) for path in files}

        before = found()
        assert tools["run_command"].call({"command": ["sh", "-c", command]}) == "[exit code 0]"
        while len(changes.journal):
            changes.undo()
        assert found() == before


def test_what_the_user_saves_before_approving_is_not_undone() -> None:
    with new_scene() as scene:

        def approve(action: str, _: str) -> bool:
            (scene.w / "notes.txt").write_text("the user's")
            return True

        tools, changes = tools_of(scene, approve=approve)
        tools["run_command"].call({"command": ["touch", "made"]})
        assert changes.undo() == "undone: made"
        assert (scene.w / "notes.txt").read_text() == "the user's"


def test_a_command_that_is_interrupted_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_scene() as scene:
        tools, changes = tools_of(scene)

        def interrupted(*_: Any) -> None:
            (scene.w / "made").write_text("x")
            raise KeyboardInterrupt

        monkeypatch.setattr("tiny_llm_solution.workspace.tools.run_limited", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tools["run_command"].call({"command": ["make"]})
        assert changes.undo() == "undone: made"
        assert not (scene.w / "made").exists()


def test_bounded_lists_and_searches() -> None:
    with new_scene() as scene:
        for number in range(300):
            (scene.w / "docs" / f"f{number:03}").write_text("needle\n" * 2)
        (scene.w / "docs" / "\x1b[2K").write_text("needle\n")
        tools, _ = tools_of(scene)
        for name, arguments in (("list_files", {"path": "docs"}), ("search_files", {"text": "needle"})):
            lines = tools[name].call(arguments).splitlines()
            assert len(lines) == 201
            assert lines[-1].startswith("[more ")
            assert not any("\x1b" in line for line in lines)
        assert tools["search_files"].call({"text": "(a+)+$"}) == "[not found]"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("read_file", {}, "read_file needs the argument 'path'"),
        ("read_file", {"path": 3}, "The argument 'path' must be of type string"),
        ("read_file", {"path": "notes.txt", "first": True}, "The argument 'first' must be of type integer"),
        ("read_file", {"path": "notes.txt", "line": 1}, "no argument 'line'. Its arguments are path, first, last"),
        ("read_file", {"path": "src"}, "'src' is a folder: list it"),
        ("run_command", {"command": "ls"}, "The argument 'command' must be of type array"),
        ("run_command", {"command": [1]}, "command must be an array of strings"),
        ("run_command", {"command": []}, "a command needs a program"),
    ],
)
def test_arguments_are_checked(name: str, arguments: dict[str, Any], message: str) -> None:
    """By the loop's `call_tool`, and by a tool itself where the loop does not."""
    with new_scene() as scene:
        tools, _ = tools_of(scene)
        from tiny_llm_solution.agent.calls import call_tool
        from tiny_llm_solution.tools.tool import ToolCall

        answer = call_tool(ToolCall(name, json.dumps(arguments)), [*tools.values()])
    assert answer.startswith("Error: ")
    assert message in answer
    assert "\n" not in answer


def test_schemas_are_json() -> None:
    with new_scene() as scene:
        for tool in tools_of(scene)[0].values():
            schema = json.loads(json.dumps(tool.parameters))
            assert schema["type"] == "object"
            assert {*schema["required"]} <= {*schema["properties"]}


def test_the_journal_is_outside(tmp_path: Path) -> None:
    load_solution()
    from tiny_llm_solution.workspace.tools import open_workspace

    os.mkdir(tmp_path / "w")
    with pytest.raises(ValueError, match="keep the journal elsewhere"):
        open_workspace(tmp_path / "w", tmp_path / "w" / "undo", lambda *_: True)
