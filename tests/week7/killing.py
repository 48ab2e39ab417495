"""Real processes that run an agent with a log, killed with kill -9 at random moments, and what became of their work.

`python -m tests.week7.killing FOLDER` is one such process. It works in FOLDER/w, and each call of `post` adds a line
to FOLDER/posts, which no log and no journal can take back.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STEPS = 12
QUESTION = [{"role": "user", "content": "Count to twelve."}]


def calls_of(step: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of a step: a read, an edit, a new file, and a side effect that cannot be compared."""
    old, new = f"count = {step}\n", f"count = {step + 1}\n"
    return [
        ("read_file", {"path": "count.py"}),
        ("edit_file", {"path": "count.py", "old": old, "new": new}),
        ("write_file", {"path": f"notes/{step}.txt", "text": f"step {step}\n" * 200}),
        ("post", {"n": step}),
    ]


def model(messages: Sequence[Any], _tools: Any) -> Any:
    """Answer by the number of answers so far: a model that is asked again says the same."""
    from tiny_llm.agent.model import Answer

    step = sum(message["role"] == "assistant" for message in messages)
    if step == STEPS:
        return Answer({"role": "assistant", "content": "Twelve."}, "stop", 1)
    calls = [
        {"id": f"{step}_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls_of(step))
    ]
    return Answer({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls", 1)


class Post:
    """Adds a line to a file, in one system call."""

    name, description = "post", "Post a number."
    parameters: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}  # noqa: RUF012

    def __init__(self, file: Path) -> None:
        self.file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def call(self, arguments: dict[str, Any]) -> str:
        """Post."""
        os.write(self.file, f"{arguments['n']}\n".encode())
        return f"posted {arguments['n']}"


def work(folder: Path) -> None:
    """Run the agent, or resume it, and print when it begins."""
    from tiny_llm.agent.resume import run_durably
    from tiny_llm.workspace.tools import open_workspace

    found, changes = open_workspace(folder / "w", folder / "undo", lambda action, detail: True)
    tools: list[Any] = [*found, Post(folder / "posts")]
    print("ready", flush=True)
    run_durably(folder / "log.jsonl", model, QUESTION, tools, changes=changes)


@dataclass
class Damage:
    """What went wrong, counted; all numbers but the first two must be 0."""

    kills: int = 0
    interrupted: int = 0  # calls reported as interrupted: the only ones whose outcome is unknown
    lost: int = 0  # entries of the log that a later process does not have, and results without an effect
    repeated: int = 0  # posts and steps made twice, undo steps too many
    wrong: int = 0  # files with other contents, and errors
    moments: Counter[str] = field(default_factory=Counter)  # the kind of the last entry when the process was killed


def start(folder: Path, package: Path) -> "subprocess.Popen[str]":
    """Start a process, and return when it begins to work."""
    path = os.pathsep.join(map(str, (package, ROOT, ROOT / "src")))
    process = subprocess.Popen(
        [sys.executable, "-m", "tiny_llm_course.testkit.processes", "tests.week7.killing", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
    )
    assert process.stdout
    assert process.stderr
    if process.stdout.readline() != "ready\n":
        raise AssertionError(process.stderr.read())
    return process


def killed_runs(top: Path, kills: int, package: Path, seed: int = 0, longest: float = 0.06) -> Damage:
    """Kill processes at random moments, each at most `longest` seconds after its beginning, and count the damage.

    Args:
        top: an empty folder.
        kills: how many processes. Those that end before are not counted.
        package: the folder that has `tiny_llm`.
    """
    random_delay, damage, runs = random.Random(seed), Damage(), 0
    while damage.kills < kills:
        folder, runs = top / str(runs), runs + 1
        (folder / "w" / "notes").mkdir(parents=True)
        (folder / "w" / "count.py").write_text("count = 0\n")
        before, done = list[Any](), False
        while not done:
            process = start(folder, package)
            if damage.kills < kills:
                time.sleep(random_delay.uniform(0, longest))
                process.kill()
            _, errors = process.communicate()
            done = process.returncode == 0
            if process.returncode > 0:
                raise AssertionError(errors)
            entries = _entries(folder / "log.jsonl")
            damage.lost += entries[: len(before)] != before
            if not done:
                damage.kills += 1
                damage.moments[_kind(entries)] += 1
            before = entries
        _inspect(folder, before, damage)
    return damage


def _entries(log: Path) -> list[Any]:
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def _kind(entries: list[Any]) -> str:
    if not entries:
        return "nothing"
    last = entries[-1]
    return f"intent of {last['call']}" if "call" in last else next(iter(last))


def _inspect(folder: Path, entries: list[Any], damage: Damage) -> None:
    """Compare a finished run's log with what has really happened."""
    posts = Counter((folder / "posts").read_text().split()) if (folder / "posts").exists() else Counter()
    damage.repeated += sum(count - 1 for count in posts.values())
    answers = sum("answer" in entry for entry in entries)
    damage.lost += max(0, STEPS + 1 - answers)
    damage.repeated += max(0, answers - STEPS - 1)
    for intent, end in itertools.pairwise(entries):
        if intent.get("call") == "post" and "result" in end and not posts[str(intent["arguments"]["n"])]:
            damage.lost += 1
        elif intent.get("call") == "post" and "error" in end:
            damage.interrupted += 1
        elif "error" in end:
            damage.wrong += 1
    w = folder / "w"
    damage.wrong += (w / "count.py").read_text() != f"count = {STEPS}\n"
    damage.wrong += sorted(path.name for path in w.iterdir()) != ["count.py", "notes"]
    damage.wrong += len(list((w / "notes").iterdir())) != STEPS
    damage.repeated += abs(len(list((folder / "undo").glob("*.json"))) - 2 * STEPS)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
