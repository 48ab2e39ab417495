"""Conversations for task 7.5.2, facts that must survive, and what the rules of compaction make of them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

Turn = list[dict[str, Any]]
SYSTEM = {"role": "system", "content": "Work in the folder."}
TASK = {"role": "user", "content": "Make the dog blue."}


def user(text: str) -> Turn:
    """Return a turn of the user."""
    return [{"role": "user", "content": text}]


def said(text: str) -> Turn:
    """Return an answer without calls."""
    return [{"role": "assistant", "content": text}]


def did(*calls: tuple[str, dict[str, Any], str], text: str | None = None) -> Turn:
    """Return a turn with calls: a name, arguments, and a result. Ids repeat in each turn, as some servers' do."""
    made = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments, _) in enumerate(calls)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"call_{i}", "content": result} for i, (_, _, result) in enumerate(calls)
    ]
    return [{"role": "assistant", "content": text, "tool_calls": made}, *results]


def read(path: str, result: str = "x = 1") -> tuple[str, dict[str, Any], str]:
    """Return a call that reads."""
    return "read_file", {"path": path}, result


def edit(path: str, result: str = "--- a\n+++ b") -> tuple[str, dict[str, Any], str]:
    """Return a call that edits."""
    return "edit_file", {"path": path, "old": "a", "new": "b"}, result


def run(result: str, *command: str) -> tuple[str, dict[str, Any], str]:
    """Return a call that runs a command."""
    return "run_command", {"command": list(command or ("pytest", "-q"))}, result


GREEN, RED = "3 passed\n[exit code 0]", "dog.py: E\n\n1 failed, 2 passed\n[exit code 1]"
REFUSED = "Error: the old text does not occur in 'dog.py': it must occur exactly once"

# A conversation that no program would want to lose the facts of, in turns of one token a message.
WORK: list[Turn] = [
    did(read("dog.py"), read("cat.py")),
    did(run(RED)),
    did(edit("dog.py", REFUSED)),
    did(edit("dog.py"), text="Now it fits."),
    user("Leave cat.py as it is."),
    did(("write_file", {"path": "colors.py", "text": "DOG = 1"}, "--- /dev/null\n+++ b/colors.py")),
    did(run("Error: run: the user refused", "rm", "-r", "a b")),
    did(edit("dog.py")),
    did(run(RED.replace("1 failed, 2", "2 failed, 1"))),
    said("I look again."),
    did(edit("dog.py")),
    did(run(GREEN), run(RED, "ruff", "check")),
    user("And use tabs."),
    did(edit("cat.py", "Error: edit cat.py: the user refused")),
]
# Questions, and what the text must contain once all turns but the last are replaced, or must not.
QUESTIONS = {
    "What is the task?": ("Make the dog blue.", True),
    "What else does the user want?": ("Leave cat.py as it is.", True),
    "And then?": ("And use tabs.", True),
    "Which files are different now?": ("Files changed: dog.py, colors.py\n", True),
    "Which check fails?": ("Failed: run_command ruff check: 1 failed, 2 passed [exit code 1]", True),
    "What did the user refuse to run?": ("Failed: run_command rm -r 'a b': Error: run: the user refused", True),
    "Do the tests fail?": ("pytest", False),
    "Does the edit of dog.py fail?": ("Failed: edit_file dog.py", False),
    "What did the last call return?": ("Error: edit cat.py: the user refused", True),
}


def one(_message: dict[str, Any]) -> int:
    """Count a token for each message."""
    return 1


def conversation(turns: Sequence[Turn], head: Sequence[dict[str, Any]] = (SYSTEM, TASK)) -> list[dict[str, Any]]:
    """Return the messages."""
    return [*head, *(message for turn in turns for message in turn)]


def expected(
    turns: Sequence[Turn],
    budget: int,
    count: Callable[[dict[str, Any]], int] = one,
    notes: str | None = None,
    head: Sequence[dict[str, Any]] = (SYSTEM, TASK),
) -> list[dict[str, Any]]:
    """Return the compacted conversation, by the rules one after the other."""
    begin = boundary(turns, budget, count, head)
    parts: list[Turn] = [list(head)]
    if begin:
        parts.append([summary_of(turns[:begin], notes)])
    return [message for part in [*parts, *turns[begin:]] for message in part]


def boundary(
    turns: Sequence[Turn], budget: int, count: Callable[[dict[str, Any]], int], head: Sequence[dict[str, Any]]
) -> int:
    """Return how many turns are replaced: after one turn more, as many as before, or so many that half is enough."""
    if not turns:
        return 0
    before = boundary(turns[:-1], budget, count, head)

    def size(*parts: Sequence[dict[str, Any]]) -> int:
        return sum(count(message) for part in parts for message in part)

    summary = [summary_of(turns[:before], None)] if before else []
    if size(head, summary, *turns[before:]) <= budget:
        return before
    choices = [i for i in range(before, len(turns)) if size(*turns[i:]) <= budget // 2]
    return choices[0] if choices else len(turns) - 1


def summary_of(turns: Sequence[Turn], notes: str | None) -> dict[str, Any]:
    """Return the summary."""
    messages = [message for turn in turns for message in turn]
    lines = [f"Summary of {len(messages)} earlier messages:"]
    lines += ["The user said: " + message["content"] for message in messages if message["role"] == "user"]
    calls = []
    for turn in turns:
        for call, result in zip(turn[0].get("tool_calls", []), turn[1:], strict=True):
            arguments = json.loads(call["function"]["arguments"])
            words = [f"'{word}'" if " " in word else word for word in arguments.get("command", [])]
            who = f"{call['function']['name']} {arguments.get('path') or ' '.join(words)}".rstrip()
            bad = result["content"].startswith("Error: ") or (
                who.startswith("run_command") and not result["content"].endswith("[exit code 0]")
            )
            calls.append((who, bad, result["content"]))
    changed = [who.split()[1] for who, bad, _ in calls if not bad and who.startswith(("edit_file", "write_file"))]
    if changed:
        lines.append("Files changed: " + ", ".join(sorted(set(changed), key=changed.index)))
    for number, (who, bad, result) in enumerate(calls):
        if bad and who not in [later for later, _, _ in calls[number + 1 :]]:
            lines.append(f"Failed: {who}: " + " ".join([line for line in result.split("\n") if line.strip()][-2:]))
    if notes is not None:
        lines.append(f"Notes: {notes}")
    return {"role": "user", "content": "\n".join(lines)}


def lines_of(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return messages as lines: the role, a line of the text, and the names of calls."""
    found = []
    for message in messages:
        calls = [call["function"]["name"] for call in message.get("tool_calls", [])]
        texts = str(message.get("content")).split("\n")
        found += [f"{message['role']}: {text}" for text in texts] + [f"{message['role']} calls {calls}"] * bool(calls)
    return found
