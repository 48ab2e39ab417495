"""`generate` and `chat`: the engine in the terminal."""

import contextlib
import sys
from collections.abc import Iterator

import click

from .chat_template import render_chat
from .engine import Answer, Engine, Sampling
from .registry import UsageError

HELP = "/reset forgets the conversation, /quit or Ctrl-D leaves; Ctrl-C stops an answer."


def generate(
    prompt: str, model: str | None, solution: bool, dtype: str | None, max_tokens: int, sampling: Sampling
) -> int:
    """Continue a text, streaming it to stdout; the figures go to stderr."""
    engine = load_engine(model, solution, dtype)
    answer = engine.answer(engine.encode(prompt), max_tokens, engine.sampler(sampling))
    click.echo(prompt, nl=False)
    show(answer)
    click.echo(answer.summary(), err=True)
    return 0


def show(answer: Answer) -> str:
    """Stream an answer; Ctrl-C ends it. Gives what was shown."""
    shown = []
    try:
        for piece in answer.pieces:
            shown.append(piece)
            sys.stdout.write(piece)
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    finally:
        click.echo()
    return "".join(shown)


def chat(engine: Engine, max_tokens: int, sampling: Sampling) -> int:
    """Talk until the input ends."""
    if engine.checkpoint.chat_template is None:
        raise UsageError(f"{engine.checkpoint.folder} has no chat template; it continues text: pdm run generate")
    sampler = engine.sampler(sampling)
    if sys.stdin.isatty():
        click.echo(f"{engine.checkpoint.folder.name}. {HELP}", err=True)
    messages: list[dict[str, str]] = []
    for line in lines():
        match line.strip():
            case "":
                continue
            case "/quit":
                break
            case "/help":
                click.echo(HELP)
                continue
            case "/reset":
                messages = []
                click.echo("The conversation is forgotten.")
                continue
            case command if command.startswith("/"):
                click.echo(f"There is no command {command}. {HELP}")
                continue
        messages.append({"role": "user", "content": line})
        prompt = fitted(engine, messages, max_tokens)
        answer = engine.answer(prompt, max_tokens, sampler)
        messages.append({"role": "assistant", "content": show(answer)})
        click.echo(click.style(answer.summary(), dim=sys.stderr.isatty()), err=True)
    return 0


def lines() -> Iterator[str]:
    """What the user types, line by line, with a history on a terminal; Ctrl-C clears a line, and twice it leaves."""
    terminal = sys.stdin.isatty()
    if terminal:
        with contextlib.suppress(ImportError):  # a Python without readline has no history, and works
            import readline  # noqa: F401  (input() edits and remembers lines once this is imported)
    cleared = False
    while True:
        try:
            line = input("> " if terminal else "")
        except EOFError:
            if terminal:
                click.echo()
            return
        except KeyboardInterrupt:
            click.echo()
            if cleared:
                return
            cleared = True
            click.echo("Ctrl-C once more leaves.", err=True)
            continue
        cleared = False
        yield line


def fitted(engine: Engine, messages: list[dict[str, str]], max_tokens: int) -> list[int]:
    """The conversation's tokens; the oldest turns are dropped from it until an answer fits into the context."""
    template = engine.checkpoint.chat_template or ""
    ids = engine.encode(render_chat(template, messages))
    dropped = 0
    while len(ids) + max_tokens > engine.context_length and len(messages) > 2:
        del messages[:2]
        dropped += 1
        ids = engine.encode(render_chat(template, messages))
    if dropped:
        click.echo(f"(Too long for the context: the first {dropped} of your questions forgotten.)", err=True)
    return ids
