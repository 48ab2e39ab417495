"""`generate` and `chat`: the engine in the terminal. Only the model's text goes to stdout, all else to stderr."""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator

from ..checkpoints.chat_template import check_template, render_chat
from ..course.registry import UsageError
from ..course.selection import in_brief
from ..learner import progress
from ..terminal.beside import Flow
from ..terminal.screen import USUAL, columns, nowhere_to_write, say
from .engine import Answer, Engine, Sampling
from .pace import USUAL_TOKENS, slow
from .simulation import HANDFUL, Simulation

Messages = list[dict[str, str]]
HELP = "/reset forgets, /quit or Ctrl-D leaves, Ctrl-C stops an answer."
COMMAND = re.compile(r"/\w*")
COMMANDS = ("/help", "/reset", "/quit")
INTERRUPTED = 130  # the exit code that shells have for Ctrl-C
# Control characters are shown as symbols: a model may emit any.
CONTROLS = {code: 0x2400 + code for code in range(32) if code not in b"\n\t"}
CONTROLS |= dict.fromkeys(range(127, 160), 0xFFFD)


def generate(engine: Engine, prompt: str, max_tokens: int | None, sampling: Sampling, prints: bool = True) -> int:
    """Continue a text on stdout, figures on stderr; return 0, 130 after Ctrl-C, or 141 if the reader has ended.

    Of several ranks, which compute the same text, one `prints`.
    """
    max_tokens = max_tokens or few(engine)
    answer = engine.answer(engine.encode(prompt), max_tokens, engine.sampler(sampling))
    if not prints:
        for _ in answer.pieces:
            pass
        return 0
    simulation = Simulation(answer)
    try:
        note_code(engine)
        pieces = begun(answer, prompt, stops=max_tokens is None)
        show(simulation.text(pieces) if engine.simulated else pieces)
        note(answer.summary())
        if counted := simulation.lines(columns(sys.stderr) or USUAL):
            say("\n".join(counted), err=True, cut=True)
    except OSError as error:
        return nowhere_to_write(error)
    return INTERRUPTED if answer.stopped == "interrupted" else 0


def chat(engine: Engine, max_tokens: int | None, sampling: Sampling) -> int:
    """Talk until the input ends; return 0, 130 after Ctrl-C on piped questions, or 141 if the reader has ended."""
    if engine.checkpoint.chat_template is None:
        raise UsageError(f"{engine.checkpoint.folder} has no chat template; it continues text: pdm run generate")
    check_template(engine.checkpoint.folder, engine.checkpoint.chat_template)
    sampler, max_tokens = engine.sampler(sampling), max_tokens or few(engine)
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
                    note(f"The context is full: the {what} dropped.")
                text = show(Simulation(answer).text(answer.pieces) if engine.simulated else answer.pieces)
                note(answer.summary())
            except UsageError as error:
                note(str(error))
                continue
            except KeyboardInterrupt:
                note("interrupted")
                continue
            if answer.stopped == "interrupted" and not on_terminal():
                return INTERRUPTED
            if text:  # a question without an answer is dropped
                messages = [*asked, {"role": "assistant", "content": text}]
    except OSError as error:
        return nowhere_to_write(error)
    return 0


def few(engine: Engine) -> int | None:
    """Return how many tokens an answer has by default, if its kernels are simulated, and say so."""
    if not engine.simulated:
        return None
    note(f"The Metal kernels run on the simulator, seconds per token: {HANDFUL} by default, more with --max-tokens.")
    return HANDFUL


def fitted(engine: Engine, messages: Messages, max_tokens: int) -> tuple[Messages, list[int]]:
    """Return the newest turns that leave room for an answer, at most a quarter of the context, and their tokens."""
    room = engine.context_length - min(max_tokens, engine.context_length // 4)
    checkpoint = engine.checkpoint
    while True:
        ids = engine.encode(render_chat(checkpoint.chat_template or "", messages, checkpoint.special_tokens))
        if len(ids) <= room or len(messages) <= 2:  # the newest message always stays
            return messages, ids
        messages = messages[2:]  # a question and its answer


def begun(answer: Answer, prompt: str, stops: bool) -> Iterator[str]:
    """Yield the prompt and the answer's pieces, after a note on the expected time if it is long."""
    held = []
    for piece in answer.pieces:
        held.append(piece)
        if answer.pace.is_known(answer.most):
            if answer.timed and (words := slow(answer.pace, answer.most, stops)):
                note(words)
            break
    yield prompt
    yield from held
    yield from answer.pieces


def show(pieces: Iterable[str]) -> str:
    """Stream a text and end its line, also after Ctrl-C; return the text."""
    said = []
    flow = Flow(write, columns(sys.stdout) if sys.stdout else None)
    try:
        for piece in pieces:
            said.append(piece)
            flow.add(piece)
    except KeyboardInterrupt:
        pass
    finally:  # the next message begins a line
        flow.end()
        write("\n")
    return "".join(said)


def write(text: str) -> None:
    """Write some of the model's text to stdout at once, unless it is closed."""
    if (out := sys.stdout) is None:
        return
    text = text.translate(CONTROLS) if out.isatty() else text
    out.write(text.encode(out.encoding, "replace").decode(out.encoding))
    out.flush()


def note(line: str) -> None:
    """Print a line that is not the model's."""
    say(line, dim=True, err=True)


def note_code(engine: Engine) -> None:
    """Print which tasks are borrowed, and which unproven kernels may crash or hang."""
    if engine.borrowed:
        why = progress.why_on_reference(task.id for task in engine.borrowed)
        note(f"⇢ on the reference, as you have {why} them: {in_brief(engine.borrowed)}")
    if engine.unproven and not engine.simulated:  # the simulator reports faults
        names = " ".join(task.id for task in engine.unproven)
        note(f"Not passed: {names}. A wrong kernel may crash, or hang until Ctrl-\\: pdm run test {names}")


def on_terminal() -> bool:
    """Return whether the input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def lines() -> Iterator[str]:
    """Yield the user's lines, with a history on a terminal; Ctrl-C clears a line, and twice it leaves."""
    if sys.stdin is None:
        return
    if not on_terminal():
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # `encode` says what is wrong
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    with contextlib.suppress(ImportError):  # without readline there is no history
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
