"""A memory that keeps the tokens themselves, models whose answers can be foretold, and drafters of every kind.

The models look at what memory has, and not at the request: whatever stands there by mistake changes what they say.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.rounding import Array64

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "temp 1": {"temp": 1.0, "seed": 5},
    "top-k, top-p": {"temp": 0.7, "top_k": 5, "top_p": 0.9, "seed": 8},
    "penalty, min-p": {"temp": 1.2, "repetition_penalty": 3.0, "min_p": 0.05, "seed": 3},
    "greedy, penalty": {"repetition_penalty": 2.5},
}


def setting_words(settings: dict[str, Any]) -> str:
    """Return the settings of a request as a case shows them."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "greedy"


def refuse(headline: str, case: str = "", *lines: str) -> None:
    """What a stand-in was given cannot be."""
    raise CheckFailed(Finding(Kind.VALUES, headline, lines, case))


class Notes:
    """A memory of tokens, with room for so many; None: for all.

    A `lenient` one takes what cannot be, as arrays would: the program is to be known by what becomes of it. With
    `found`, it finds so many tokens of each text that it lets in, but never the last one.
    """

    def __init__(self, room: int | None = None, case: str = "", lenient: bool = False, found: int = 0) -> None:
        self.room, self.case, self.lenient, self.found = room, case, lenient, found
        self.held: dict[Any, list[int]] = {}
        self.promised: dict[Any, int] = {}
        self.most = 0  # tokens, at once

    @property
    def lengths(self) -> list[int]:
        """How many tokens each request has, in the order in which they were let in."""
        return [len(tokens) for tokens in self.held.values()]

    def check(self, request: Any) -> None:
        """Everyone is served."""

    def begin(self, request: Any) -> bool:
        """Nothing is there yet, or what is found."""
        if request in self.held and not self.lenient:
            refuse("memory was to begin a request that it has already", self.case)
        if self.room is not None and sum(self.promised.values()) >= self.room:
            return False
        count = min(self.found, request.length - 1)
        self.held[request], self.promised[request] = request.tokens(0, count), count
        request.read = count
        return True

    def reserve(self, request: Any, count: int) -> bool:
        """Whether there is room."""
        wanted = len(self._of(request)) + count
        others = sum(n for each, n in self.promised.items() if each is not request)
        if self.room is not None and wanted + others > self.room:
            return False
        self.promised[request] = wanted
        return True

    def shorten(self, request: Any, length: int) -> None:
        """Keep the first ones."""
        if not 0 <= length <= len(self._of(request)) and not self.lenient:
            refuse(f"memory was shortened to {length}, and had {len(self.held[request])}", self.case)
        del self.held[request][length:]
        self.promised[request] = length

    def release(self, request: Any) -> None:
        """Let go."""
        self._of(request)
        del self.held[request], self.promised[request]

    def add(self, chunk: Any) -> list[int]:
        """The tokens with a chunk behind them."""
        held = self._of(chunk.request)
        if chunk.start != len(held) and not self.lenient:
            refuse(f"a chunk starts at {chunk.start}, and memory has {len(held)} tokens", self.case)
        held += chunk.tokens
        if len(held) > self.promised[chunk.request] and not self.lenient:
            refuse(
                f"{len(held)} tokens are in memory, and room was reserved for {self.promised[chunk.request]}", self.case
            )
        self.most = max(self.most, len(held))
        return held

    def _of(self, request: Any) -> list[int]:
        if request not in self.held:
            refuse("memory was asked about a request that it has not let in", self.case)
        return self.held[request]


class Told:
    """A model that says after each text what `logits` says of it, V numbers. Notes how many tokens each call had."""

    def __init__(self, logits: Callable[[list[int]], Array64]) -> None:
        self.logits = logits
        self.calls: list[list[int]] = []

    def __call__(self, chunks: list[Any], memory: Notes) -> mx.array:
        """R x V."""
        self.calls.append([len(chunk.tokens) for chunk in chunks])
        if not chunks or not (all(chunk.tokens for chunk in chunks) or memory.lenient):
            refuse("the model was called for nothing", memory.case)
        if len({id(chunk.request) for chunk in chunks}) < len(chunks):
            refuse("the model was given two chunks of one request", memory.case)
        rows = []
        for chunk in chunks:
            held = memory.add(chunk)
            rows += [self.logits(held[: len(held) - behind]) for behind in reversed(range(chunk.scored))]
        return mx.array(np.array(rows, np.float32)) if rows else mx.zeros((0, len(self.logits([0]))))


def random_logits(seed: int, vocab: int = 7, reach: int = 3, spread: float = 1.5) -> Callable[[list[int]], Array64]:
    """Seeded normal logits that depend on the last `reach` tokens and on how many there are."""

    def logits(text: list[int]) -> Array64:
        drawn = np.random.default_rng([seed, len(text), *text[-reach:]]).standard_normal(vocab)
        return np.asarray(np.float32(spread * drawn), np.float64)

    return logits


def mixed(one: Callable[[list[int]], Array64], other: Callable[[list[int]], Array64]) -> Callable[[list[int]], Array64]:
    """Half of each: near to both."""
    return lambda text: np.asarray(np.float32((one(text) + other(text)) / 2), np.float64)


class Scripted:
    """A drafter that proposes what `propose` says of a text and a count. Notes what it was asked."""

    def __init__(self, draft: Any, propose: Callable[[list[int], int], tuple[list[int], Array64 | None]]) -> None:
        self.made, self.propose = draft, propose
        self.asked: list[list[int]] = []
        self.kept: list[int] = []
        self.order: list[str] = []

    def draft(self, requests: list[Any], counts: list[int]) -> list[Any]:
        """As they say; for nobody, nothing is noted."""
        if counts:
            self.asked.append(list(counts))
            self.order.append("draft")
        found = []
        for request, count in zip(requests, counts, strict=True):
            tokens, rows = self.propose([*request.prompt, *request.output], count)
            found.append(self.made(tokens, None if rows is None else mx.array(np.array(rows, np.float32))))
        return found

    def keep(self, running: Sequence[Any]) -> None:
        """How many they are."""
        self.kept.append(len(running))
        self.order.append("keep")


def greedy_text(logits: Callable[[list[int]], Array64], prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens, one by one."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(np.argmax(logits(text))))
    return text[len(prompt) :]


class Writers:
    """Requests that a draft model writes ahead for, and what it has done for them.

    Args:
        program: the class of the draft model.
        request, params: the classes of requests and of their params.
        prompts: of each request.
        settings: of each request, its params by name.
        logits: what the small model says.
    """

    def __init__(
        self,
        program: Any,
        request: Any,
        params: Any,
        prompts: list[list[int]],
        settings: list[dict[str, Any]],
        logits: Callable[[list[int]], Array64],
        room: int | None = None,
        case: str = "",
        lenient: bool = False,
        found: int = 0,
    ) -> None:
        self.memory, self.model = Notes(room, case, lenient, found), Told(logits)
        self.requests = [request(list(p), 90, params(**s)) for p, s in zip(prompts, settings, strict=True)]
        for each in self.requests:
            each.read = 77  # which is the large model's, and nobody else's
        self.drafter = program(self.model, self.memory)

    def draft(self, counts: list[int | None]) -> list[Any]:
        """A draft for each request; None in the place of a count is a request that nobody asks about."""
        asked = [i for i, count in enumerate(counts) if count is not None]
        found = self.drafter.draft([self.requests[i] for i in asked], [counts[i] for i in asked])
        drafts = dict(zip(asked, found, strict=True))
        return [drafts.get(i) for i in range(len(counts))]

    def write(self, drafts: list[Any], stands: int, vocab: int) -> None:
        """So many tokens of each draft stand, and another one than the next comes behind them."""
        for request, draft in zip(self.requests, drafts, strict=True):
            if draft is not None:
                tokens = draft.tokens
                after = tokens[stands] if stands < len(tokens) else request.length
                request.output += [*tokens[:stands], (after + 1) % vocab]


def table(rows: Sequence[Sequence[int]], width: int = 0) -> mx.array:
    """Lists as rows of one table, with -1 behind each."""
    width = max([width, *map(len, rows)])
    return mx.array(np.array([[*row, *[-1] * (width - len(row))] for row in rows], np.int32).reshape(len(rows), width))
