"""`pdm run agent`: let a model work on a task with tools."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ..course.registry import UsageError, with_commands
from ..paths import shell_path
from ..terminal.screen import say
from .approval import Approval, show_details
from .options import FOLDER, Finite, server_model

FILE = click.Path(dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
CHOICES = click.Choice(["auto", "required"])
SYSTEM = """\
You work on a task in one folder, the workspace, with tools. Look before you change something: list, search and read. \
Change as little as the task needs, and run the tests if there are any. A refused call was refused by the user: do not \
repeat it. When the task is done, answer in a few sentences, without a call."""
NEEDS = ("7.2.2", "7.3.1", "7.3.2", "7.3.3")
UNDO = "Undo the last run's changes to the workspace. The last 50 runs of all workspaces can be undone."
SHOWN = 5  # lines of a result


@click.command()
@click.argument("task", required=False)
@click.option("--url", help="A server that speaks OpenAI's API, such as http://127.0.0.1:8000/v1.")
@click.option("--model", default="", help="The model's name on the server (default: its first model).")
@click.option("--api-key", envvar="TINY_LLM_API_KEY", default="none", help="API key (default: $TINY_LLM_API_KEY).")
@click.option("--tool-choice", type=CHOICES, default="auto", help="With required, every answer must be a tool call.")
@click.option("--script", type=FILE, help="Replay answers from this file, a JSON list of strings; no server.")
@click.option("--workspace", type=FOLDER, default=".", help="The folder for the tools (default: the current one).")
@click.option("--yes", is_flag=True, help="Allow all changes and commands without asking.")
@click.option("--dry-run", is_flag=True, help="Show all changes and commands without executing them.")
@click.option("--undo", is_flag=True, help=UNDO)
@click.option("--mcp", multiple=True, metavar="COMMAND", help="Add the tools of an MCP server; may be repeated.")
@click.option("--steps", type=COUNT, default=30, show_default=True, help="Maximum number of model answers.")
@click.option("--tokens", type=COUNT, default=200_000, show_default=True, help="Maximum tokens, including prompts.")
@click.option("--seconds", type=Finite(min=0), default=600.0, show_default=True, help="Maximum time in seconds.")
@click.option("--transcript", type=FILE, help="Append each message to this JSONL file, and write a page next to it.")
@click.option("--resume", type=FILE, help="Log each step in this file; if it exists, continue from its end.")
@click.option("--solution", is_flag=True, help="Run our code instead of yours.")
def agent(
    task: str | None,
    workspace: Path,
    transcript: Path | None,
    resume: Path | None,
    yes: bool,
    dry_run: bool,
    undo: bool,
    mcp: tuple[str, ...],
    solution: bool,
    **options: Any,
) -> int:
    """Let a model work on a task: pdm run agent "Fix the failing test" --url URL --workspace FOLDER.

    The model calls tools that read and change the folder until it answers or reaches a limit. Each change and each
    command is shown first, and you decide whether to allow it. All changes can be undone.
    """
    from ..engine import workspaces
    from ..engine.package import Package

    if undo:
        if task is not None:
            raise UsageError("--undo takes no task.")
        workspaces.must_be_finished("--undo", solution)
        package = Package(solution, workspaces.TASKS)
        with package.learners_code():
            for line in workspaces.undo(package, workspace):
                say(line)
        return 0
    if task is None:
        raise click.MissingParameter(param_type="argument", param_hint="'TASK'")
    if resume and dry_run:
        raise UsageError("--resume logs what was done, and --dry-run does nothing: omit one of them.")
    limits = [options.pop(name) for name in ("steps", "tokens", "seconds")]
    package, approval = Package(solution, (*NEEDS, "7.5.1") if resume else NEEDS), Approval(yes)
    asked = _model(package.part, seconds=limits[-1], **options)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    with ExitStack() as stack:
        stack.enter_context(package.learners_code())
        if yes or dry_run:
            workspaces.must_be_finished("--yes" if yes else "--dry-run", solution)
        tools: list[Any]
        if tasks := workspaces.unfinished(solution):
            say(f"The tools are read-only because {tasks[0]} has not passed.", err=True)
            tools, changes = package.part("agent.files", "reading_tools")(workspace), None
        else:
            opened = workspaces.opened(package, workspace, approval, dry_run=dry_run, log=resume)
            tools, changes = stack.enter_context(opened)
        tools = [*tools, *_remote(mcp, stack, approval, dry_run, tools)]
        record = _recording(package.part, stack, transcript, task, approval)
        for message in messages:
            record({"message": message})
        try:
            bounds = package.part("agent.loop", "Limits")(*limits)
            found = _loop(package.part, resume, workspace, changes)(asked, messages, tools, bounds, record=record)
        except KeyboardInterrupt:
            record({"stop": "interrupted", "detail": "", "steps": None, "tokens": None})
            raise
        except UsageError:
            changes = None  # the log is another run's, and this one has changed nothing
            raise
        finally:
            if changes and workspaces.can_be_undone(changes.journal.folder):
                command = f"pdm run agent --undo --workspace {shell_path(workspace)}{' --solution' * solution}"
                say(with_commands("To undo what it changed:", command))
    return 0 if found.reason == "done" else 1


def _model(
    part: Any, url: str | None, model: str, api_key: str, tool_choice: str, script: Path | None, seconds: float
) -> Any:
    """Return the model: a server's, or a script."""
    if (url is None) == (script is None):
        raise UsageError("Expected either --url, a server that speaks OpenAI's API, or --script, a file with answers.")
    if script is None:
        # The loop looks at the time between calls only, so one answer may take no longer than the whole run.
        return server_model(part, url or "", model, api_key, max(seconds, 1.0), tool_choice)
    try:
        answers = json.loads(script.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{script} cannot be read: {_reason(error)}.") from None
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        raise UsageError(f"{script} is not a JSON list of strings.")
    return part("agent.model", "ScriptedModel")(answers)


def _loop(part: Any, log: Path | None, workspace: Path, changes: Any) -> Any:
    """Return the loop; with a log, a loop that resumes from the log and reports its errors."""
    if log is None:
        return part("agent.loop", "run_agent")
    run, diverged = part("agent.resume", "run_durably"), part("agent.durable", "Diverged")
    try:
        part("agent.transcript", "Transcript").read(log) if log.exists() else log.touch()
    except (OSError, ValueError) as error:
        raise UsageError(f"{log} cannot be resumed: {_reason(error)}.") from None

    def resumed(*arguments: Any, **more: Any) -> Any:
        try:
            return run(log, *arguments, changes=changes, about={"workspace": str(workspace.resolve())}, **more)
        except diverged as error:
            raise UsageError(f"{log} cannot be resumed: {error}.") from None
        except BlockingIOError:
            raise UsageError(f"{log} cannot be resumed: another process has it open.") from None

    return resumed


def _remote(commands: tuple[str, ...], stack: ExitStack, approval: Approval, dry_run: bool, tools: list[Any]) -> Any:
    """Return the tools of MCP servers, each of which runs until the end."""
    found: list[Any] = []
    for command in commands:
        from ..engine.mcp_tools import remote_tools

        names = [tool.name for tool in (*tools, *found)]
        found += stack.enter_context(remote_tools(command, names, approval, dry_run=dry_run))
    return found


def _recording(
    part: Any, stack: ExitStack, transcript: Path | None, task: str, approval: Approval
) -> Callable[[dict[str, Any]], None]:
    """Return a function that shows an entry and appends it to the transcript; write the page at the end."""
    if transcript is None:
        return lambda entry: _show(entry, approval)
    if transcript.suffix == ".html":
        raise UsageError(f"{transcript} is the name of the page: name a file such as run.jsonl.")
    kind = part("agent.transcript", "Transcript")
    try:
        file: Any = kind(transcript)
        kind.read(transcript)
    except (OSError, ValueError) as error:
        raise UsageError(f"{transcript} cannot be continued: {_reason(error)}.") from None

    def write_page() -> None:
        file.close()
        page = part("agent.page", "page")(kind.read(transcript), task)
        transcript.with_suffix(".html").write_text(page, encoding="utf-8")

    def record(entry: dict[str, Any]) -> None:
        file.append(entry)
        _show(entry, approval)

    stack.callback(write_page)
    return record


def _show(entry: dict[str, Any], approval: Approval) -> None:
    """Print a message or a stop without control characters; skip the instructions and a repeated diff."""
    if "stop" in entry:
        why = f": {_printable(entry['detail'])}" if entry["detail"] else ""
        used = f" ({entry['steps']} steps, {entry['tokens']:,} tokens)" if entry["steps"] is not None else ""
        say(f"Stopped: {entry['stop']}{why}{used}", bold=True)
        return
    message = entry["message"]
    text = _printable(message.get("content") or "")
    if message["role"] == "tool":
        if text.startswith("--- "):
            if text != approval.shown:
                show_details(text)
            return
        lines = text.splitlines() or [""]
        more = [f"... {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
        say("\n".join(f"  {line}" for line in (*lines[:SHOWN], *more)), dim=True, cut=True)
    elif message["role"] == "assistant":
        if text:
            say(text)
        for call in message.get("tool_calls") or ():
            say(_printable(f"> {call['function']['name']} {call['function']['arguments']}"), cut=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)
