"""A KV cache of tokens, a predictable model, and a log of a scheduler's steps."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

VOCAB = 23


class Notebook:
    """A KV cache that stores the tokens themselves; `room` is how many requests it holds, None for any number."""

    def __init__(self, room: int | None = None, case: str = "") -> None:
        self.room, self.case = room, case
        self.texts: dict[Any, list[int]] = {}
        self.asked: list[int] = []  # the counts passed to reserve

    def validate(self, request: Any) -> None:
        """Accept every request."""

    def admit(self, request: Any) -> bool:
        """Admit a request if there is capacity for one more."""
        if self.room is not None and len(self.texts) >= self.room:
            return False
        self.texts[request] = []
        request.num_computed_tokens = 0
        return True

    def reserve(self, request: Any, count: int) -> bool:
        """Always succeed."""
        self.asked.append(count)
        return True

    def truncate(self, request: Any, length: int) -> None:
        """Remove the last tokens."""
        self._sequence(request, "truncate")
        del self.texts[request][length:]

    def release(self, request: Any) -> None:
        """Remove the request."""
        self._sequence(request, "release")
        del self.texts[request]

    def _sequence(self, request: Any, call: str) -> None:
        if request not in self.texts:
            headline = f"the KV cache's {call} was called for a request that is not admitted, or was preempted"
            raise CheckFailed(Finding(Kind.VALUES, headline, (), self.case))


class Places(Notebook):
    """A notebook with a given number of slots for all requests together."""

    def __init__(self, places: int, case: str = "") -> None:
        super().__init__(None, case)
        self.places = places
        self.kept: dict[Any, int] = {}

    def admit(self, request: Any) -> bool:
        """Admit a request if all its tokens have a slot."""
        if sum(self.kept.values()) + request.num_tokens > self.places:
            return False
        self.kept[request] = 0
        return super().admit(request)

    def reserve(self, request: Any, count: int) -> bool:
        """Reserve slots for `count` more tokens, if there are."""
        if request not in self.kept:
            headline = "the KV cache's reserve was called for a request that is not admitted, or was preempted"
            raise CheckFailed(Finding(Kind.VALUES, headline, (), self.case))
        needed = request.num_computed_tokens + count
        if sum(self.kept.values()) - self.kept[request] + needed > self.places:
            return False
        self.kept[request] = needed
        return super().reserve(request, count)

    def truncate(self, request: Any, length: int) -> None:
        """Remove the last tokens and free their slots."""
        super().truncate(request, length)
        self.kept[request] = length

    def release(self, request: Any) -> None:
        """Remove the request and free its slots."""
        super().release(request)
        del self.kept[request]


class Teller:
    """A model: `follow` gives the next token of a whole sequence. Chunks are checked against the KV cache."""

    def __init__(self, follow: Callable[[list[int]], int], case: str = "", fails: Sequence[int] = ()) -> None:
        self.follow, self.case, self.fails, self.calls = follow, case, fails, 0

    def __call__(self, chunks: list[Any], kv_cache: Notebook) -> mx.array:
        """Append the chunks to the notebook. The calls numbered in `fails` raise, half-way."""
        self.calls += 1
        rows = []
        for chunk in chunks:
            if chunk.request not in kv_cache.texts:
                self._refuse("the model was given a chunk of a request that is not admitted, or was preempted")
            text = kv_cache.texts[chunk.request]
            if len(text) != chunk.start:
                headline = f"a chunk starts at position {chunk.start}, but {len(text)} tokens of its request are cached"
                self._refuse(headline)
            if not chunk.tokens:
                self._refuse("the model was given a chunk of 0 tokens")
            text += chunk.tokens
            if self.calls in self.fails:
                raise RuntimeError("the model has failed")
            scored = range(len(text) - chunk.num_logits + 1, len(text) + 1)
            rows += [self.logits(text[:end]) for end in scored]
        return mx.stack(rows) if rows else mx.zeros((0, VOCAB))

    def logits(self, text: list[int]) -> mx.array:
        """Return V signed numbers, the largest at the next token."""
        row = np.random.default_rng(len(text)).uniform(-2, 2, VOCAB)
        row[self.follow(text)] = 3.0
        return mx.array(row.astype(np.float32))

    def _refuse(self, headline: str) -> None:
        raise CheckFailed(Finding(Kind.VALUES, headline, (), self.case))


def add_up(text: list[int]) -> int:
    """Return a next token that depends on all tokens and on their number. Never 0 or 1, which may be EOS tokens."""
    return 2 + (7 * sum(text) + 3 * len(text)) % (VOCAB - 2)


def count_up(text: list[int]) -> int:
    """Return the last token plus one."""
    return (text[-1] + 1) % VOCAB


def alone(follow: Callable[[list[int]], int], prompt: list[int], max_tokens: int, eos: Sequence[int] = ()) -> list[int]:
    """Return a request's output when it is served alone."""
    text = list(prompt)
    for _ in range(max_tokens):
        token = follow(text)
        if token in eos:
            break
        text.append(token)
    return text[len(prompt) :]


def greedy(logits: mx.array, chunks: list[Any]) -> list[list[int]]:
    """Return the argmax of each row, without the package's own sampling."""
    tokens: list[int] = mx.argmax(logits, axis=-1).tolist()  # type: ignore[assignment]
    rest = iter(tokens)
    return [[next(rest) for _ in range(chunk.num_logits)] for chunk in chunks]


REASONS = ("", "stop", "length", "cancelled")


def numbers_of(step: Any) -> list[int]:
    """Return a step as numbers: computed tokens, new tokens, admitted and finished requests; -1 between."""
    found: list[int] = []
    for chunk in step.chunks:
        found += [chunk.request.request_id, chunk.start, len(chunk.tokens), chunk.num_logits]
    for tokens in step.new:
        found += [-1, *tokens]
    for some in (step.admitted, step.preempted, step.finished):
        found += [-2, *(one.request_id for one in some)]
    return found


def ends_of(requests: Sequence[Any], scheduler: Any) -> list[int]:
    """Return the requests' state: outputs, finish reasons, computed tokens, and what is left over."""
    found: list[int] = []
    for one in requests:
        found += [
            -3,
            *one.output,
            -1,
            REASONS.index(one.finish_reason),
            one.num_computed_tokens if not one.finish_reason else -1,
        ]
    found += [-4, *(one.request_id for one in scheduler.running), -4, len(scheduler.waiting), -4]
    for one, text in sorted(scheduler.kv_cache.texts.items(), key=lambda item: int(item[0].request_id)):
        found += [one.request_id, len(text)]
    return found


class Spelling:
    """A detokenizer: token i is the i-th of the given pieces, and `tail` comes at the end."""

    def __init__(self, pieces: Sequence[str], tail: str = "") -> None:
        self.pieces, self.tail = pieces, tail

    def add(self, token: int) -> str:
        """Return the piece."""
        return self.pieces[token]

    def finish(self) -> str:
        """Return the tail, once."""
        tail, self.tail = self.tail, ""
        return tail


def shown_until(text: str, stops: Sequence[str], ended: bool) -> tuple[str, str | None]:
    """Return the part of a text that may be shown so far, and the stop string that ends it.

    Stop strings are searched for at every character; of those that end at the same one, the longest counts.
    """
    for end in range(1, len(text) + 1):
        if complete := [stop for stop in stops if text.endswith(stop, 0, end)]:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    held = 0 if ended else max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
    return text[: len(text) - held], None
