"""Processes of an agent, killed with kill -9 at random moments; its log; and its other given parts of day 7.5."""

import json

import pytest
from tests.week7.killing import killed_runs

from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.compaction import compacting  # noqa: E402
from tiny_llm_solution.agent.durable import Diverged  # noqa: E402
from tiny_llm_solution.agent.model import Answer  # noqa: E402
from tiny_llm_solution.agent.parallel import apply_merge, work_on_copies  # noqa: E402
from tiny_llm_solution.agent.resume import run_durably  # noqa: E402
from tiny_llm_solution.workspace.changes import Changes  # noqa: E402
from tiny_llm_solution.workspace.journal import Journal  # noqa: E402
from tiny_llm_solution.workspace.root import Root  # noqa: E402

TASK = [{"role": "user", "content": "Go."}]


@pytest.mark.maintainers
def test_killed_at_random_moments(tmp_path):
    damage = killed_runs(tmp_path, 20, SOLUTION.parent)
    assert damage.kills == 20
    assert (damage.lost, damage.repeated, damage.wrong) == (0, 0, 0), damage
    assert sum(count for moment, count in damage.moments.items() if moment.startswith("intent")) >= 3, damage


def answering(*texts):
    given = iter(texts)
    return lambda messages, tools: Answer({"role": "assistant", "content": next(given)}, "stop", 1)


def test_a_finished_run_is_replayed(tmp_path):
    log = tmp_path / "log.jsonl"
    first = run_durably(log, answering("Done."), TASK, [])
    again = run_durably(log, answering(), TASK, [])
    assert first == again
    assert log.read_bytes().count(b"\n") == 2


def test_another_conversation_is_refused(tmp_path):
    log = tmp_path / "log.jsonl"
    run_durably(log, answering("Done."), TASK, [])
    with pytest.raises(Diverged, match="another conversation"):
        run_durably(log, answering(), [{"role": "user", "content": "Stop."}], [])


def test_two_processes_cannot_have_one_log(tmp_path):
    log = tmp_path / "log.jsonl"

    def model(messages, tools):
        with pytest.raises(BlockingIOError):
            run_durably(log, answering("Done."), TASK, [])
        return Answer({"role": "assistant", "content": "Done."}, "stop", 1)

    assert run_durably(log, model, TASK, []).reason == "done"


def test_notes_are_written_once():
    """And the model reads the same beginning as long as no more turns are replaced."""
    prompts, notes = [], []

    def model(messages, tools):
        prompts.append(list(messages))
        return Answer({"role": "assistant", "content": "Hm."}, "stop", 1)

    def write(messages):
        notes.append(len(messages))
        return f"note {len(notes)}"

    asked = compacting(model, 200, write)
    history = list(TASK)
    for number in range(20):
        asked(history, [])
        history.append({"role": "assistant", "content": f"{number} " + "word " * 20})
    assert notes == sorted(set(notes))
    summaries = {message["content"] for prompt in prompts for message in prompt if "Summary" in message["content"]}
    assert len(summaries) == len(notes) >= 2


def test_agents_on_copies(tmp_path):
    folder = tmp_path / "w"
    (folder / "new").mkdir(parents=True)
    (folder / "dog.py").write_text("a = 1\nb = 2\nc = 3\n")
    (folder / "cat.py").write_text("x = 1\n")
    (folder / "old.py").write_text("")

    def work(name, copy):
        text = (copy / "dog.py").read_text()
        (copy / "dog.py").write_text(text.replace(*{"one": ("a = 1", "a = 10"), "two": ("c = 3", "c = 30")}[name]))
        (copy / "cat.py").write_text(f"x = '{name}'\n")
        (copy / "sub").mkdir()
        (copy / f"sub/{name}.py").write_text("y = 1\n")
        (copy / "old.py").unlink(missing_ok=True)

    merge = work_on_copies(folder, ["one", "two"], work)
    assert (folder / "dog.py").read_text() == "a = 1\nb = 2\nc = 3\n"
    assert [(each.path, each.copies, each.line) for each in merge.conflicts] == [("cat.py", ("one", "two"), 1)]
    with Root(folder) as root:
        changes = Changes(root, Journal(tmp_path / "undo"), lambda action, diff: True)
        assert apply_merge(merge, changes) == ["old.py"]
        assert (folder / "dog.py").read_text() == "a = 10\nb = 2\nc = 30\n"
        assert (folder / "sub/two.py").read_text() == "y = 1\n"
        for _ in range(3):
            changes.undo()
    assert (folder / "dog.py").read_text() == "a = 1\nb = 2\nc = 3\n"


LOOK = '<tool_call>\n{"name": "list_files", "arguments": {"path": "."}}\n</tool_call>'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def agent(typed, tmp_path, answers, *more):
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(answers), encoding="utf-8")
    (tmp_path / "w").mkdir(exist_ok=True)
    where = ("--workspace", tmp_path / "w", "--script", script, "--resume", log)
    return typed("agent", more[0] if more else "Look.", "--solution", *where)


def test_the_command_resumes(typed, tmp_path):
    code, out, _ = agent(typed, tmp_path, [LOOK])
    assert (code, out.splitlines()[-1].split(" (")[0]) == (1, "Stopped: model: the script has no more answers")
    code, out, _ = agent(typed, tmp_path, ["It is empty."])
    assert code == 0
    assert out.splitlines()[-2] == "It is empty."
    assert "(2 steps, " in out.splitlines()[-1]


def test_logs_that_cannot_be_resumed(typed, tmp_path):
    agent(typed, tmp_path, [LOOK])
    code, _, err = agent(typed, tmp_path, ["Done."], "Look again.")
    assert code == 2
    assert "cannot be resumed" in err
    assert "another conversation" in err
    (tmp_path / "w").rename(tmp_path / "elsewhere")
    (tmp_path / "w").symlink_to(tmp_path / "elsewhere")
    code, _, err = agent(typed, tmp_path, ["Done."])
    assert code == 2
    assert "or workspace" in err
    (tmp_path / "log.jsonl").write_text("{\n[]\n")
    code, _, err = agent(typed, tmp_path, ["Done."])
    assert code == 2
    assert "line 1 of" in err
    assert len(err.splitlines()) <= 2
