"""`pdm run agent`: let a model work on a task with tools."""

import json
from pathlib import Path
from typing import Any

import click

from ..course.registry import UsageError
from ..terminal.screen import say
from .options import Finite

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
SYSTEM = "You work in a folder, with tools. Use them to find out what you need, then answer in a few sentences."
NEEDS = ("7.2.2", "7.3.1", "7.3.2", "7.3.3")
SHOWN = 5  # lines of a result


@click.command()
@click.argument("task")
@click.option("--url", help="A server that speaks OpenAI's API, such as http://127.0.0.1:8000/v1.")
@click.option("--model", default="", help="The model's name on that server (default: its first one).")
@click.option("--api-key", envvar="TINY_LLM_API_KEY", default="none", help="Its key (default: $TINY_LLM_API_KEY).")
@click.option("--script", type=FILE, help="In place of a server, answers from a file: a JSON list of texts.")
@click.option("--workspace", type=FOLDER, default=".", help="The folder that the tools may read (default: this one).")
@click.option("--steps", type=COUNT, default=30, show_default=True, help="Maximum answers of the model.")
@click.option("--tokens", type=COUNT, default=200_000, show_default=True, help="Maximum tokens, prompts included.")
@click.option("--seconds", type=Finite(min=0), default=600.0, show_default=True, help="Maximum time.")
@click.option("--transcript", type=FILE, help="Append each message to this file, as JSONL, and write a page beside it.")
@click.option("--resume", type=FILE, help="Log each step in this file; if it exists, continue from its end.")
@click.option("--solution", is_flag=True, help="Run our loop instead of yours.")
def agent(
    task: str,
    url: str | None,
    model: str,
    api_key: str,
    script: Path | None,
    workspace: Path,
    steps: int,
    tokens: int,
    seconds: float,
    transcript: Path | None,
    resume: Path | None,
    solution: bool,
) -> int:
    """Let a model work on a task: pdm run agent "What does main.py print?" --url URL --workspace FOLDER.

    The model calls tools that read the folder, until it answers or a limit is reached.
    """
    from ..engine.package import Package

    if (url is None) == (script is None):
        raise UsageError("Expected either --url, a server that speaks OpenAI's API, or --script, a file with answers.")
    package = Package(solution, (*NEEDS, "7.5.1") if resume else NEEDS)
    part = package.part
    try:
        asked: Any = part("agent.client", "ServerModel")(url, model, api_key) if url else _scripted(part, script)
    except OSError as error:
        raise UsageError(f"{error}.") from None
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    limits = part("agent.loop", "Limits")(steps, tokens, seconds)
    with package.learners_code():
        file: Any = part("agent.transcript", "Transcript")(transcript) if transcript else None

        def record(entry: dict[str, Any]) -> None:
            if file:
                file.append(entry)
            _show(entry)

        try:
            for message in messages:
                if file:
                    file.append({"message": message})
            tools = part("agent.files", "reading_tools")(workspace)
            found = _loop(part, resume)(asked, messages, tools, limits, record=record)
        except KeyboardInterrupt:
            if file:
                file.append({"stop": "interrupted", "detail": "", "steps": None, "tokens": None})
            raise
        finally:
            if file and transcript:
                file.close()
                page = part("agent.page", "page")(file.read(transcript), task)
                transcript.with_suffix(".html").write_text(page, encoding="utf-8")
    return 0 if found.reason == "done" else 1


def _loop(part: Any, log: Path | None) -> Any:
    """Return the loop; with a log, the one that continues it, and whose errors say what is wrong with the log."""
    if log is None:
        return part("agent.loop", "run_agent")
    run, diverged = part("agent.resume", "run_durably"), part("agent.durable", "Diverged")
    try:
        part("agent.transcript", "Transcript").read(log) if log.exists() else log.touch()
    except (OSError, ValueError) as error:
        raise UsageError(f"{log} cannot be resumed: {error}.") from None

    def resumed(*arguments: Any, **more: Any) -> Any:
        try:
            return run(log, *arguments, **more)
        except diverged as error:
            raise UsageError(f"{log} cannot be resumed: {error}.") from None
        except BlockingIOError:
            raise UsageError(f"{log} cannot be resumed: another process has it open.") from None

    return resumed


def _scripted(part: Any, script: Path | None) -> Any:
    assert script
    try:
        answers = json.loads(script.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{script} cannot be read: {error}") from None
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        raise UsageError(f"{script} is not a JSON list of texts.")
    return part("agent.model", "ScriptedModel")(answers)


def _show(entry: dict[str, Any]) -> None:
    """Print a message, or the end; the model's and the tools' texts without control characters."""
    if "stop" in entry:
        why = f": {entry['detail']}" if entry["detail"] else ""
        say(f"Stopped: {entry['stop']}{why} ({entry['steps']} steps, {entry['tokens']:,} tokens)", bold=True)
        return
    message = entry["message"]
    if message["role"] == "tool":
        lines = _printable(message["content"]).splitlines() or [""]
        more = f" ... {len(lines) - SHOWN} more lines" if len(lines) > SHOWN else ""
        say("\n".join(f"  {line}" for line in lines[:SHOWN]) + more, dim=True, cut=True)
        return
    if message.get("content"):
        say(_printable(message["content"]))
    for call in message.get("tool_calls") or ():
        say(_printable(f"> {call['function']['name']} {call['function']['arguments']}"), cut=True)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
