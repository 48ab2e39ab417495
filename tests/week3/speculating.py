"""A KV cache that stores the tokens themselves, predictable models, and drafters of every kind.

The models use the KV cache's contents, not the request: a token cached by mistake changes their logits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import type_words
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
    """Report an impossible call of a stand-in."""
    raise CheckFailed(Finding(Kind.VALUES, headline, lines, case))


class Notes:
    """A KV cache of tokens with a given capacity (None: unlimited).

    A `lenient` one accepts impossible calls, as arrays would, so that a wrong program is recognized by its results.
    With `found`, admission finds that many tokens of each sequence, but never the last one.
    """

    def __init__(self, room: int | None = None, case: str = "", lenient: bool = False, found: int = 0) -> None:
        self.room, self.case, self.lenient, self.found = room, case, lenient, found
        self.held: dict[Any, list[int]] = {}
        self.promised: dict[Any, int] = {}
        self.most = 0  # tokens, at once

    @property
    def lengths(self) -> list[int]:
        """The number of cached tokens of each request, in order of admission."""
        return [len(tokens) for tokens in self.held.values()]

    def validate(self, request: Any) -> None:
        """Accept every request."""

    def admit(self, request: Any) -> bool:
        """Admit a request with an empty cache, or with the tokens that are found."""
        if request in self.held and not self.lenient:
            refuse("the KV cache's admit was called for a request that is already admitted", self.case)
        if self.room is not None and sum(self.promised.values()) >= self.room:
            return False
        count = min(self.found, request.num_tokens - 1)
        self.held[request], self.promised[request] = request.tokens(0, count), count
        request.num_computed_tokens = count
        return True

    def reserve(self, request: Any, count: int) -> bool:
        """Return whether there is capacity."""
        wanted = len(self._of(request)) + count
        others = sum(n for each, n in self.promised.items() if each is not request)
        if self.room is not None and wanted + others > self.room:
            return False
        self.promised[request] = wanted
        return True

    def truncate(self, request: Any, length: int) -> None:
        """Keep the first tokens."""
        if not 0 <= length <= len(self._of(request)) and not self.lenient:
            refuse(f"the KV cache was truncated to {length} tokens, and had {len(self.held[request])}", self.case)
        del self.held[request][length:]
        self.promised[request] = length

    def release(self, request: Any) -> None:
        """Remove the request."""
        self._of(request)
        del self.held[request], self.promised[request]

    def add(self, chunk: Any) -> list[int]:
        """Append a chunk, and return all tokens."""
        held = self._of(chunk.request)
        if chunk.start != len(held) and not self.lenient:
            refuse(f"a chunk starts at {chunk.start}, and the KV cache has {len(held)} tokens", self.case)
        held += chunk.tokens
        if len(held) > self.promised[chunk.request] and not self.lenient:
            refuse(
                f"{len(held)} tokens are cached, and slots were reserved for {self.promised[chunk.request]}", self.case
            )
        self.most = max(self.most, len(held))
        return held

    def _of(self, request: Any) -> list[int]:
        if request not in self.held:
            refuse("the KV cache was called for a request that is not admitted", self.case)
        return self.held[request]


class Told:
    """A model whose logits are a function of the sequence, `logits`. Records the number of tokens in each call."""

    def __init__(self, logits: Callable[[list[int]], Array64]) -> None:
        self.logits = logits
        self.calls: list[list[int]] = []

    def __call__(self, chunks: list[Any], kv_cache: Notes) -> mx.array:
        """Return R x V."""
        self.calls.append([len(chunk.tokens) for chunk in chunks])
        if not chunks:
            refuse("the model was called with an empty list of chunks", kv_cache.case)
        if not (all(chunk.tokens for chunk in chunks) or kv_cache.lenient):
            refuse(f"the model was called with chunks of {self.calls[-1]} tokens: none may be empty", kv_cache.case)
        if len({id(chunk.request) for chunk in chunks}) < len(chunks):
            refuse("the model was given two chunks of one request", kv_cache.case)
        rows = []
        for chunk in chunks:
            held = kv_cache.add(chunk)
            rows += [self.logits(held[: len(held) - behind]) for behind in reversed(range(chunk.num_logits))]
        return mx.array(np.array(rows, np.float32)) if rows else mx.zeros((0, len(self.logits([0]))))


def random_logits(seed: int, vocab: int = 7, reach: int = 3, spread: float = 1.5) -> Callable[[list[int]], Array64]:
    """Seeded normal logits that depend on the last `reach` tokens and on the length."""

    def logits(text: list[int]) -> Array64:
        drawn = np.random.default_rng([seed, len(text), *text[-reach:]]).standard_normal(vocab)
        return np.asarray(np.float32(spread * drawn), np.float64)

    return logits


def mixed(one: Callable[[list[int]], Array64], other: Callable[[list[int]], Array64]) -> Callable[[list[int]], Array64]:
    """Mix two functions equally, so that the result is close to both."""
    return lambda text: np.asarray(np.float32((one(text) + other(text)) / 2), np.float64)


class Scripted:
    """A drafter that proposes `propose` of a sequence and a count. Records its arguments."""

    def __init__(self, draft: Any, propose: Callable[[list[int], int], tuple[list[int], Array64 | None]]) -> None:
        self.made, self.continuation = draft, propose
        self.asked: list[list[int]] = []
        self.kept: list[int] = []
        self.order: list[str] = []

    def propose(self, requests: list[Any], counts: list[int]) -> list[Any]:
        """Propose for each request; an empty call is not recorded."""
        for name, some in (("requests", requests), ("counts", counts)):
            if not isinstance(some, Sequence):  # a drafter may index them
                refuse(f"the drafter's propose gets {type_words(some)} of {name}, expected a list")
        if counts:
            self.asked.append(list(counts))
            self.order.append("draft")
        found = []
        for request, count in zip(requests, counts, strict=True):
            tokens, rows = self.continuation([*request.prompt, *request.output], count)
            found.append(self.made(tokens, None if rows is None else mx.array(np.array(rows, np.float32))))
        return found

    def retain(self, running: Sequence[Any]) -> None:
        """Return the number of draft tokens."""
        self.kept.append(len(running))
        self.order.append("keep")


def greedy_text(logits: Callable[[list[int]], Array64], prompt: list[int], count: int) -> list[int]:
    """Propose the argmax tokens, one by one."""
    text = list(prompt)
    for _ in range(count):
        text.append(int(np.argmax(logits(text))))
    return text[len(prompt) :]


class Writers:
    """Requests with a draft model, and a log of its calls.

    Args:
        program: the class of the draft model.
        request, params: the classes of requests and of their params.
        prompts: of each request.
        settings: each request's params by name.
        logits: of the draft model.
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
        eos_ids: Sequence[int] = (),
    ) -> None:
        self.kv_cache, self.model = Notes(room, case, lenient, found), Told(logits)
        self.requests = [request(list(p), 90, params(**s), eos_ids) for p, s in zip(prompts, settings, strict=True)]
        for each in self.requests:
            each.num_computed_tokens = 77  # the target model's own
        self.drafter = program(self.model, self.kv_cache)

    def draft(self, counts: list[int | None]) -> list[Any]:
        """Return a draft per request; a count of None leaves the request out of the call."""
        asked = [i for i, count in enumerate(counts) if count is not None]
        found = self.drafter.propose([self.requests[i] for i in asked], [counts[i] for i in asked])
        drafts = dict(zip(asked, found, strict=True))
        return [drafts.get(i) for i in range(len(counts))]

    def write(self, drafts: list[Any], stands: int, vocab: int) -> None:
        """Accept the given number of each draft's tokens, and append a different token after them."""
        for request, draft in zip(self.requests, drafts, strict=True):
            if draft is not None:
                tokens = draft.tokens
                after = tokens[stands] if stands < len(tokens) else request.num_tokens
                request.output += [*tokens[:stands], (after + 1) % vocab]


def table(rows: Sequence[Sequence[int]], width: int = 0) -> mx.array:
    """Return lists as rows of one table, padded with -1."""
    width = max([width, *map(len, rows)])
    return mx.array(np.array([[*row, *[-1] * (width - len(row))] for row in rows], np.int32).reshape(len(rows), width))
