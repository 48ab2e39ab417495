"""`generate` and `chat`: the engine in the terminal. Only the model's text goes to stdout, all else to stderr."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator

from ..checkpoints.chat_template import render_chat
from ..course.registry import UsageError
from ..course.selection import in_brief
from ..terminal.beside import Flow
from ..terminal.screen import columns, say
from .engine import Answer, Engine, Sampling
from .pace import USUAL_TOKENS, slow

Messages = list[dict[str, str]]
HELP = "/reset forgets, /quit or Ctrl-D leaves, Ctrl-C stops an answer."
COMMAND = re.compile(r"/\w*")
COMMANDS = ("/help", "/reset", "/quit")
INTERRUPTED, NO_READER = 130, 141  # exit codes as shells have them for Ctrl-C, and for a closed pipe
# What would move the cursor or change colours is shown as a sign: a model may say anything.
CONTROLS = {code: 0x2400 + code for code in range(32) if code not in b"\n\t"}
CONTROLS |= dict.fromkeys(range(127, 160), 0xFFFD)


def generate(engine: Engine, prompt: str, max_tokens: int | None, sampling: Sampling) -> int:
    """Continue a text, streaming it to stdout; the figures go to stderr. `Engine.answer` says what no max_tokens means.

    Returns:
        The exit code: 0, or 130 if Ctrl-C ended the text, or 141 if whoever read it has gone.
    """
    answer = engine.answer(engine.encode(prompt), max_tokens, engine.sampler(sampling))
    try:
        note_code(engine)
        show(begun(answer, prompt, stops=max_tokens is None))
        note(answer.summary())
    except OSError as error:
        return nowhere_to_write(error)
    return INTERRUPTED if answer.stopped == "interrupted" else 0


def chat(engine: Engine, max_tokens: int | None, sampling: Sampling) -> int:
    """Talk until the input ends.

    Returns:
        The exit code: 0, or 130 if Ctrl-C ended an answer to piped questions, or 141 if whoever read has gone.
    """
    if engine.checkpoint.chat_template is None:
        raise UsageError(f"{engine.checkpoint.folder} has no chat template; it continues text: pdm run generate")
    sampler = engine.sampler(sampling)
    messages: Messages = []
    try:
        if on_terminal():
            note(f"{engine.checkpoint.folder.resolve().name}. {HELP}")
        note_code(engine)
        for line in lines():
            match line.strip():
                case "":
                    continue
                case "/quit":
                    break
                case "/help":
                    note(HELP)
                    continue
                case "/reset":
                    messages = []
                    note("The conversation is forgotten.")
                    continue
                case word if COMMAND.fullmatch(word) or word.split()[0] in COMMANDS:
                    note(f"There is no command {word}; /help lists them.")
                    continue
            asked: Messages = [*messages, {"role": "user", "content": line}]
            try:
                asked, prompt = fitted(engine, asked, max_tokens or USUAL_TOKENS)
                answer = engine.answer(prompt, max_tokens, sampler)
                if forgotten := (len(messages) + 1 - len(asked)) // 2:
                    what = "oldest question is" if forgotten == 1 else f"{forgotten} oldest questions are"
                    note(f"The context is full: the {what} forgotten.")
                text = show(answer.pieces)
                note(answer.summary())
            except UsageError as error:
                note(str(error))
                continue
            except KeyboardInterrupt:
                note("interrupted")
                continue
            if answer.stopped == "interrupted" and not on_terminal():
                return INTERRUPTED
            if text:  # a question without any answer is as if not asked
                messages = [*asked, {"role": "assistant", "content": text}]
    except OSError as error:
        return nowhere_to_write(error)
    return 0


def fitted(engine: Engine, messages: Messages, max_tokens: int) -> tuple[Messages, list[int]]:
    """The newest turns that leave an answer room in the context, and their tokens.

    An answer claims no more than a quarter of the context: otherwise a large --max-tokens would leave none of it for
    the conversation. The newest message stays even if it leaves no room.
    """
    room = engine.context_length - min(max_tokens, engine.context_length // 4)
    checkpoint = engine.checkpoint
    while True:
        ids = engine.encode(render_chat(checkpoint.chat_template or "", messages, checkpoint.special_tokens))
        if len(ids) <= room or len(messages) <= 2:
            return messages, ids
        messages = messages[2:]  # a question and its answer


def begun(answer: Answer, prompt: str, stops: bool) -> Iterator[str]:
    """The prompt and the answer's pieces, after a note on how long they will take: amid the text it would tear it."""
    held = []
    for piece in answer.pieces:
        held.append(piece)
        if answer.pace.is_known(answer.most):
            if words := slow(answer.pace, answer.most, stops):
                note(words)
            break
    yield prompt
    yield from held
    yield from answer.pieces


def show(pieces: Iterable[str]) -> str:
    """Stream a text and end its line; Ctrl-C ends it. Gives the text."""
    said = []
    flow = Flow(write, columns(sys.stdout) if sys.stdout else None)
    try:
        for piece in pieces:
            said.append(piece)
            flow.add(piece)
    except KeyboardInterrupt:
        pass
    finally:  # whatever is said next begins a line
        flow.end()
        write("\n")
    return "".join(said)


def write(text: str) -> None:
    """Put some of the model's text on stdout, at once; if the shell has closed it, nowhere."""
    if (out := sys.stdout) is None:
        return
    text = text.translate(CONTROLS) if out.isatty() else text
    out.write(text.encode(out.encoding, "replace").decode(out.encoding))
    out.flush()


def note(line: str) -> None:
    """Say something that is not the model's."""
    say(line, dim=True, err=True)


def note_code(engine: Engine) -> None:
    """Say what of the learner's engine is not the learner's, and what of it may end the process or hang."""
    if engine.borrowed:
        note(f"⇢ on the reference, as you have borrowed them: {in_brief(engine.borrowed)}")
    if engine.unproven:
        names = " ".join(task.id for task in engine.unproven)
        note(f"Not passed: {names}. A wrong kernel may crash, or hang until Ctrl-\\: pdm run test {names}")


def nowhere_to_write(error: OSError) -> int:
    """The exit code when stdout or stderr is a closed pipe, of which nothing is said, or a full disk.

    Both files are led to nowhere: Python would complain when it flushes them at its end.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if isinstance(error, BrokenPipeError):
        return NO_READER
    note(f"The text cannot be written: {error.strerror}")
    return 2


def on_terminal() -> bool:
    """Whether somebody types."""
    return sys.stdin is not None and sys.stdin.isatty()


def lines() -> Iterator[str]:
    """What the user types, line by line, with a history on a terminal; Ctrl-C clears a line, and twice it leaves."""
    if sys.stdin is None:
        return
    if not on_terminal():
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # `encode` says what is wrong
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    with contextlib.suppress(ImportError):  # a Python without readline has no history, and works
        import readline  # noqa: F401  (input() edits and remembers lines once this is imported)
    cleared = False
    while True:
        try:
            line = input("> ")
        except EOFError:
            note("")
            return
        except KeyboardInterrupt:
            note("")
            if cleared:
                return
            cleared = True
            note("Ctrl-C once more leaves.")
            continue
        cleared = False
        yield line
