"""Scripts for the stream of an answer: the engine's updates, and the expected pieces."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.week3.engine_room import Request
from tests.week3.virtual_time import play

# a turn is: whose update, its tokens, the visible text by then, its finish reason

Turn = tuple[int, list[int], str, str]


class Text:
    """Stands in for `StopStrings`: its text is the turns'; `finish` shows what was held, and finds a stop string."""

    def __init__(self, held: str, late: bool) -> None:
        self.text, self.held, self.late, self.finished = "", held, late, 0
        self.found: str | None = None

    def finish(self) -> str:
        self.finished += 1
        if self.found:
            return ""
        shown = self.held
        self.text, self.held = self.text + shown, ""
        if self.late:
            self.found = "dog"
        return shown


@dataclass(frozen=True)
class Told:
    """The same as `server.loop.RequestUpdate`."""

    request: Request
    tokens: list[int]
    finish_reason: str


@dataclass
class Script:
    """The turns of a stream; `held` and `late` are the texts' own, `stops` those that have found a stop string.

    `error` is raised after the turns; `closes` is the number of pieces after which the reader closes the stream.
    """

    turns: list[Turn]
    held: Sequence[str] = ("", "")
    late: Sequence[bool] = (False, False)
    stops: Sequence[int] = ()
    error: str = ""
    closes: int = 0
    grows: bool = False  # each text is the next turn's while a piece is sent
    ahead: bool = False  # the scheduler is a step ahead: all texts are complete and all requests finished
    last: bool = False


def streamed(program: Any, script: Script, events: bool) -> list[str]:
    """Return the pieces, or the events, as text, and then the state of the stream and of the texts."""
    loop = _loop_of(program)
    requests = [Request([7] * 3, 9), Request([7] * 3, 9)]
    texts = [Text(held, late) for held, late in zip(script.held, script.late, strict=True)]
    state = ["open"]

    async def news() -> AsyncGenerator[Told, None]:
        try:
            if script.ahead:
                for who, tokens, text, finished in script.turns:
                    texts[who].text, requests[who].finish_reason = text, finished
                    requests[who].output.extend(tokens)
                    texts[who].found = "dog" if who in script.stops else None
            for who, tokens, text, finished in script.turns:
                await asyncio.sleep(1.0)
                if not script.ahead:
                    texts[who].text = text
                    requests[who].output.extend(tokens)
                if finished:
                    requests[who].finish_reason = finished
                    texts[who].found = "dog" if who in script.stops else None
                yield Told(requests[who], tokens, finished)
            if script.error:
                cause = getattr(loop, script.error, ValueError)
                raise cause("what has happened")
            state[0] = "read to its end"
        except GeneratorExit:
            state[0] = "closed"
            raise

    shaped = [0]

    def shape(piece: Any) -> object:
        shaped[0] += 1
        who = requests.index(piece.request)
        return {"who": who, "text": piece.text, "tokens": list(piece.tokens), "why": piece.finish_reason}

    async def read() -> list[str]:
        source, found, kept = news(), list[str](), list[Any]()
        stream = program(source, dict(zip(requests, texts, strict=True)))
        behind = (lambda: {"usage": shaped[0]}) if script.last else None
        reader = stream.events(shape, behind, lambda e: {"error": str(e)}) if events else stream.pieces()
        if asyncio.iscoroutine(reader):
            await reader
        raw, number = b"", 0
        try:
            async for item in reader:
                number += 1
                if script.grows and number < len(script.turns):
                    texts[script.turns[number][0]].text = script.turns[number][2]
                if events:
                    raw += item
                else:
                    kept.append(item)
                if number == script.closes:
                    await reader.aclose()
                    break
        except (ValueError, loop.EngineFailed, loop.EngineClosed) as error:
            found.append(f"raised {type(error).__name__}")
        # the receiver keeps the pieces and reads them at the end
        pieces = [" ".join(f"{value!r}" for value in shape(item).values()) for item in kept]  # type: ignore[attr-defined]
        found = pieces + found + _parsed(raw)
        calls = " and ".join(str(text.finished) for text in texts)
        return [*found, f"the updates: {state[0]}; calls of finish: {calls}"]

    lines: list[str] = play(read(), repr(script))
    return lines


def _loop_of(program: Any) -> Any:
    """Return the module whose errors the program uses: its own package's, the learner's or the solution's."""
    return sys.modules[f"{program.__module__.partition('.')[0]}.server.loop"]


def _parsed(raw: bytes) -> list[str]:
    """Describe Server-Sent Events."""
    found, events = [], raw.decode().replace("\r\n", "\n").split("\n\n")  # both line endings are valid
    for event in events[:-1]:
        data = event.removeprefix("data: ")
        if data == event or "\n" in data or "\r" in data:
            found.append(f"not an event: {event!r}")
        elif data == "[DONE]":
            found.append(data)
        else:
            try:
                found.append(json.dumps(json.loads(data), sort_keys=True))
            except ValueError:
                found.append(f"not JSON: {data!r}")
    return found + [f"does not end: {events[-1]!r}"] * bool(events[-1])


# by name: a script, the expected pieces, and the state of the updates
STREAMS: dict[str, tuple[Script, list[str]]] = {
    "text as it is generated": (
        Script([(0, [5], "That", ""), (0, [6], "That is", ""), (0, [7, 8], "That is a blue", "length")]),
        ["0 'That' [5] ''", "0 ' is' [6] ''", "0 ' a blue' [7, 8] 'length'"],
    ),
    "held-back text is shown at the end": (
        Script([(0, [5], "That", ""), (0, [6], "That", ""), (0, [7], "That", "length")], held=(" do", "")),
        ["0 'That' [5] ''", "0 ' do' [6, 7] 'length'"],
    ),
    "a stop string": (
        Script([(0, [5], "a blue ", ""), (0, [6], "a blue ", "stop")], stops=[0]),
        ["0 'a blue ' [5] ''", "0 '' [6] 'stop'"],
    ),
    "a stop string in the last token of max_tokens": (
        Script([(0, [5], "a blue ", ""), (0, [6], "a blue ", "length")], held=("x", ""), late=(True, False)),
        ["0 'a blue ' [5] ''", "0 'x' [6] 'stop'"],
    ),
    "EOS": (Script([(0, [5], "dog", ""), (0, [], "dog", "stop")]), ["0 'dog' [5] ''", "0 '' [] 'stop'"]),
    "tokens that show nothing": (
        Script([(0, [5], "", ""), (0, [6], "", ""), (0, [7], "\u72d7", ""), (0, [8], "\u72d7", "length")]),
        ["0 '\u72d7' [5, 6, 7] ''", "0 '' [8] 'length'"],
    ),
    "nothing at all": (Script([(0, [], "", "stop")]), ["0 '' [] 'stop'"]),
    "two answers in turn": (
        Script(
            [
                (0, [5], "a", ""),
                (1, [6], "bb", ""),
                (0, [7], "ac", "length"),
                (1, [8], "bb", ""),
                (1, [9], "bb", "length"),
            ],
            held=("", "d"),
        ),
        ["0 'a' [5] ''", "1 'bb' [6] ''", "0 'c' [7] 'length'", "1 'd' [8, 9] 'length'"],
    ),
    "a text that is a step ahead of its update": (
        Script([(0, [5], "That", ""), (0, [6], "That is", "length")], ahead=True),
        ["0 'That is' [5] ''", "0 '' [6] 'length'"],
    ),
    "a stop string found a step before its update": (
        Script([(0, [5], "a blue ", ""), (0, [6], "a blue ", "stop")], stops=[0], ahead=True),
        ["0 'a blue ' [5] ''", "0 '' [6] 'stop'"],
    ),
    "a text that grows while a piece is sent": (
        Script([(0, [5], "That", ""), (0, [6], "That is", ""), (0, [7], "That is it", "length")], grows=True),
        ["0 'That' [5] ''", "0 ' is' [6] ''", "0 ' it' [7] 'length'"],
    ),
}


def streamed_by_formula(script: Script) -> list[str]:
    """Return the pieces of a script without closing and errors."""
    sent, unsent, found = ["", ""], [list[int](), list[int]()], []
    final = {who: text for who, _, text, _ in script.turns}
    for who, tokens, text, finished in script.turns:
        shown = final[who] if script.ahead else text
        if finished and who not in script.stops:
            shown += script.held[who]
        why = "stop" if finished and (who in script.stops or script.late[who]) else finished
        gained, unsent[who] = shown[len(sent[who]) :], unsent[who] + tokens
        if gained or finished:
            found.append(f"{who} {gained!r} {unsent[who]!r} {why!r}")
            sent[who], unsent[who] = sent[who] + gained, []
    return found


def random_script(seed: int, length: int, width: int) -> Script:
    """Draw two answers in turn, with at most `turns` updates of `tokens` tokens."""
    draw, texts, turns = random.Random(seed), ["", ""], list[Turn]()
    reasons = [draw.choice(("stop", "length")) for _ in range(2)]
    for number in range(length):
        who = number % 2
        texts[who] += draw.choice(("", " dog", "\u72d7", "\n", '"'))
        ends = number >= length - 2
        turns.append((who, [draw.randrange(9) for _ in range(draw.randint(0, width))], texts[who], reasons[who] * ends))
    stops = [who for who in range(2) if reasons[who] == "stop" and draw.random() < 0.5]
    return Script(turns, held=[draw.choice(("", " d")) for _ in range(2)], stops=stops)
