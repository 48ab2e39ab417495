"""Requests that read their tokens in several calls, several requests in each, and what comes of it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import shape_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.rounding import Array64

LAYERS = 3

Span = tuple[int, list[int], bool]  # whose tokens, which of them, and whether they stay


class Calls(tuple[tuple[tuple[int, int], ...], ...]):
    """Of each call, who brings how many tokens: (0, 3) are three of A's. Below zero: so many others, then forgotten."""

    def __str__(self) -> str:
        """How a failing case says it: `A 3, B 2 | B 1, A 1`."""
        return " | ".join(", ".join(f"{chr(65 + who)} {count}" for who, count in call) for call in self)


# One request alone; two that begin together; one that comes when another is under way, in the other order, and one
# whose tokens are forgotten in between.
CALLS = [
    Calls([((0, 5),)]),
    Calls([((0, 2),), ((0, 1),), ((0, 2),)]),
    Calls([((0, 3), (1, 2)), ((0, 1), (1, 1)), ((1, 2), (0, 1))]),
    Calls([((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))]),
    Calls([((0, 3), (1, 2)), ((0, -2), (1, 1)), ((1, 1), (0, 2))]),
]


def calls_of(seed: int, requests: int, length: int) -> Calls:
    """Each of some requests reads so many tokens: all at once, one by one, or in parts as they are drawn."""
    draw = np.random.default_rng(seed)
    parts = []
    for who in range(requests):
        cuts = sorted({0, length, *map(int, draw.integers(0, length + 1, int(draw.integers(0, 4))))})
        sizes = [(who, b - a) for a, b in itertools.pairwise(cuts)]
        if draw.random() < 0.4:
            sizes.insert(int(draw.integers(0, len(sizes))), (who, -int(draw.integers(1, min(length, 4) + 1))))
        parts.append([()] * int(draw.integers(0, 3)) + sizes)
    calls = []
    for row in itertools.zip_longest(*parts, fillvalue=()):
        some = [each for each in row if each]
        calls += [tuple(some[int(i)] for i in draw.permutation(len(some)))] if some else []
    return Calls(calls)


def played(
    given: Any, calls: Calls, tokens: list[list[int]], memory: Any, scored: str = "last"
) -> Iterator[tuple[list[Any], list[Span]]]:
    """The chunks of each call, in memory once the next call is asked for; `given` is the package's `serving.request`.

    `scored` says after how many of a chunk's tokens a next one is asked for: "last", "all", or "end" for the last one
    where a request has come to its end, and else none.
    """
    requests: dict[int, Any] = {}
    for call in calls:
        chunks, spans = [], []
        for who, count in call:
            if who not in requests:
                # Numbers are in another order than those who come, and than the rows that they bring.
                requests[who] = given.Request(tokens[who], 1, number=7 * (who + 1) % 11)
                memory.begin(requests[who])
            one = requests[who]
            memory.reserve(one, abs(count))
            last = len(tokens[who]) - 1
            which = list(range(one.read, one.read + count)) if count > 0 else list(range(last, last + count, -1))
            asked = {"last": 1, "all": abs(count), "end": int(one.read + count == last + 1)}[scored]
            chunks.append(given.Chunk(one, one.read, [tokens[who][i] for i in which], asked))
            spans.append((who, which, count > 0))
        yield chunks, spans
        for chunk, (_, _, stays) in zip(chunks, spans, strict=True):
            if stays:
                chunk.request.read = chunk.end
            else:
                memory.shorten(chunk.request, chunk.start)


def attention_of(given: Any, memory_of: Callable[[int], Any], attend: Callable[..., mx.array]) -> Callable[..., Any]:
    """What a memory's `attend`, which is given as a function of the memory, computes in many calls.

    Query, key and value are requests x tokens x heads x D; what was not read stays 0. The other layers see others.
    """

    def attended(query: mx.array, key: mx.array, value: mx.array, calls: Calls, layer: int) -> mx.array:
        memory = memory_of(LAYERS)
        length = query.shape[1]
        rows: list[list[mx.array]] = [[] for _ in range(len(query))]
        for chunks, spans in played(given, calls, [[0] * length for _ in rows], memory):
            new = [mx.concatenate([x[who][mx.array(which)] for who, which, _ in spans]) for x in (query, key, value)]
            others = [x[..., ::-1] for x in new]
            all_layers = [attend(memory, i, *(new if i == layer else others), chunks) for i in range(LAYERS)]
            mx.eval(all_layers)
            found, at = all_layers[layer], 0
            if found.shape != new[0].shape:
                lines = (f"expected  {shape_words(new[0].shape)}", f"got       {shape_words(found.shape)}")
                raise CheckFailed(Finding(Kind.SHAPE, "wrong shape", lines, f"{calls}, layer {layer}"))
            for who, which, stays in spans:
                rows[who] += [found[at : at + len(which)]] * stays
                at += len(which)
        for row in rows:
            left = length - sum(map(len, row))
            row += [mx.zeros((left, *query.shape[2:]), row[0].dtype if row else query.dtype)] * bool(left)
        return mx.stack([mx.concatenate(row) for row in rows])

    return attended


def read_of(calls: Calls, requests: int) -> list[int]:
    """How many tokens each request has read in the end."""
    return [sum(n for call in calls for each, n in call if each == who and n > 0) for who in range(requests)]


def rows_of(calls: Calls, requests: int, length: int, scored: str) -> list[tuple[int, int]]:
    """Which rows of logits are asked for, in their order: whose, and after which of its tokens. -1 is a junk row."""
    at, rows = [0] * requests, []
    for call in calls:
        for who, count in call:
            if count < 0:
                rows += [(who, -1)] * {"last": 1, "all": -count, "end": int(at[who] + count == length)}[scored]
                continue
            asked = {"last": 1, "all": count, "end": int(at[who] + count == length)}[scored]
            at[who] += count
            rows += [(who, i) for i in range(at[who] - asked, at[who])]
    return rows


def stacked(kept: Sequence[Array64], like: Array64) -> Array64:
    """Rows of logits, R x V, also if there are none."""
    return np.stack(kept) if kept else np.zeros((0, like.shape[-1]))
