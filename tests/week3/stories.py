"""A memory of words, a model that can be foretold, and a scheduler that is told what to do, step by step."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

VOCAB = 23


class Notebook:
    """A memory that keeps the tokens themselves; `room` is how many requests it holds, None for any."""

    def __init__(self, room: int | None = None, case: str = "") -> None:
        self.room, self.case = room, case
        self.texts: dict[Any, list[int]] = {}
        self.asked: list[int] = []  # how many tokens room was reserved for

    def check(self, request: Any) -> None:
        """Every request is served."""

    def begin(self, request: Any) -> bool:
        """Let it in, if there is room for one more."""
        if self.room is not None and len(self.texts) >= self.room:
            return False
        self.texts[request] = []
        request.read = 0
        return True

    def reserve(self, request: Any, count: int) -> bool:
        """There always is."""
        self.asked.append(count)
        return True

    def shorten(self, request: Any, length: int) -> None:
        """Forget the last ones."""
        del self.texts[request][length:]

    def release(self, request: Any) -> None:
        """Let it go."""
        del self.texts[request]


class Places(Notebook):
    """A notebook with places for so many tokens of all requests together."""

    def __init__(self, places: int, case: str = "") -> None:
        super().__init__(None, case)
        self.places = places
        self.kept: dict[Any, int] = {}

    def begin(self, request: Any) -> bool:
        """Let it in, if all its tokens have a place."""
        if sum(self.kept.values()) + request.length > self.places:
            return False
        self.kept[request] = 0
        return super().begin(request)

    def reserve(self, request: Any, count: int) -> bool:
        """Keep places for so many tokens more, if there are."""
        if request not in self.kept:
            headline = "room is reserved for a request that memory has not begun, or has released"
            raise CheckFailed(Finding(Kind.VALUES, headline, (), self.case))
        needed = request.read + count
        if sum(self.kept.values()) - self.kept[request] + needed > self.places:
            return False
        self.kept[request] = needed
        return super().reserve(request, count)

    def shorten(self, request: Any, length: int) -> None:
        """Forget the last ones, with their places."""
        super().shorten(request, length)
        self.kept[request] = length

    def release(self, request: Any) -> None:
        """Let it go, with its places."""
        super().release(request)
        del self.kept[request]


class Teller:
    """A model: `follow` gives the next token for a whole text. What a chunk says is held against what memory has."""

    def __init__(self, follow: Callable[[list[int]], int], case: str = "", fails: Sequence[int] = ()) -> None:
        self.follow, self.case, self.fails, self.calls = follow, case, fails, 0

    def __call__(self, chunks: list[Any], memory: Notebook) -> mx.array:
        """Read the chunks into the notebook. The calls whose numbers are in `fails` end in an error, half way."""
        self.calls += 1
        rows = []
        for chunk in chunks:
            if chunk.request not in memory.texts:
                self._refuse("the model was given a chunk of a request that memory has not begun, or has released")
            text = memory.texts[chunk.request]
            if len(text) != chunk.start:
                headline = f"a chunk begins at position {chunk.start}, but memory has {len(text)} tokens of its request"
                self._refuse(headline)
            if not chunk.tokens:
                self._refuse("the model was given a chunk without tokens")
            text += chunk.tokens
            if self.calls in self.fails:
                raise RuntimeError("the model has failed")
            scored = range(len(text) - chunk.scored + 1, len(text) + 1)
            rows += [self.logits(text[:end]) for end in scored]
        return mx.stack(rows) if rows else mx.zeros((0, VOCAB))

    def logits(self, text: list[int]) -> mx.array:
        """V, signed, the largest at the token that follows."""
        row = np.random.default_rng(len(text)).uniform(-2, 2, VOCAB)
        row[self.follow(text)] = 3.0
        return mx.array(row.astype(np.float32))

    def _refuse(self, headline: str) -> None:
        raise CheckFailed(Finding(Kind.VALUES, headline, (), self.case))


def add_up(text: list[int]) -> int:
    """A next token that hangs on all tokens, and on how many they are. Never 0 or 1, which may end a text."""
    return 2 + (7 * sum(text) + 3 * len(text)) % (VOCAB - 2)


def count_up(text: list[int]) -> int:
    """The token behind the last one."""
    return (text[-1] + 1) % VOCAB


def alone(follow: Callable[[list[int]], int], prompt: list[int], max_tokens: int, eos: Sequence[int] = ()) -> list[int]:
    """What a request gets by itself."""
    text = list(prompt)
    for _ in range(max_tokens):
        token = follow(text)
        if token in eos:
            break
        text.append(token)
    return text[len(prompt) :]


def greedy(logits: mx.array, chunks: list[Any]) -> list[list[int]]:
    """The likeliest token of each row, without the package's own sampling."""
    tokens: list[int] = mx.argmax(logits, axis=-1).tolist()  # type: ignore[assignment]
    rest = iter(tokens)
    return [[next(rest) for _ in range(chunk.scored)] for chunk in chunks]


REASONS = ("", "stop", "length", "cancelled")


def numbers_of(step: Any) -> list[int]:
    """A step as numbers: what was read, who has gained what, who came in and who has ended; -1 between."""
    found: list[int] = []
    for chunk in step.chunks:
        found += [chunk.request.number, chunk.start, len(chunk.tokens), chunk.scored]
    for tokens in step.new:
        found += [-1, *tokens]
    for some in (step.admitted, step.preempted, step.finished):
        found += [-2, *(one.number for one in some)]
    return found


def ends_of(requests: Sequence[Any], scheduler: Any) -> list[int]:
    """How far all have come: texts, why they ended, how much was read, and what is left behind."""
    found: list[int] = []
    for one in requests:
        found += [-3, *one.output, -1, REASONS.index(one.finished), one.read if not one.finished else -1]
    found += [-4, *(one.number for one in scheduler.running), -4, len(scheduler.waiting), -4]
    for one, text in sorted(scheduler.memory.texts.items(), key=lambda item: int(item[0].number)):
        found += [one.number, len(text)]
    return found


class Spelling:
    """A detokenizer: token i is the i-th of some pieces of text, and `tail` is what comes at the end."""

    def __init__(self, pieces: Sequence[str], tail: str = "") -> None:
        self.pieces, self.tail = pieces, tail

    def add(self, token: int) -> str:
        """The piece."""
        return self.pieces[token]

    def finish(self) -> str:
        """The tail, once."""
        tail, self.tail = self.tail, ""
        return tail


def shown_until(text: str, stops: Sequence[str], ended: bool) -> tuple[str, str | None]:
    """Return what may be shown of a text so far, and the stop string that ends it.

    Stop strings are looked for at every character; of those that end at the same one, the longest counts.
    """
    for end in range(1, len(text) + 1):
        if complete := [stop for stop in stops if text.endswith(stop, 0, end)]:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    held = 0 if ended else max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
    return text[: len(text) - held], None
