"""Requests whose tokens are computed in several calls, several requests per call, and the results."""

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
    """The chunks of each call: (0, 3) is three tokens of A. Negative: as many junk tokens, which are then truncated."""

    def __str__(self) -> str:
        """Describe the calls for a failing case: `A 3, B 2 | B 1, A 1`."""
        return " | ".join(", ".join(f"{chr(65 + who)} {count}" for who, count in call) for call in self)


# One request alone; two that start together; one that starts while another runs, in reverse order; and one whose
# tokens are truncated in between.
CALLS = [
    Calls([((0, 5),)]),
    Calls([((0, 2),), ((0, 1),), ((0, 2),)]),
    Calls([((0, 3), (1, 2)), ((0, 1), (1, 1)), ((1, 2), (0, 1))]),
    Calls([((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))]),
    Calls([((0, 3), (1, 2)), ((0, -2), (1, 1)), ((1, 1), (0, 2))]),
]


def calls_of(seed: int, requests: int, length: int) -> Calls:
    """Draw calls in which each request computes all its tokens: at once, one by one, or in random chunks."""
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
    given: Any, calls: Calls, tokens: list[list[int]], kv_cache: Any, scored: str = "last"
) -> Iterator[tuple[list[Any], list[Span]]]:
    """Yield the chunks of each call, and update the KV cache when the next is requested; `given` is `serving.request`.

    `scored` says which tokens of a chunk get logits: "last", "all", "some" for about half of them, the last ones, or
    "end" for only the last token of a request.
    """
    requests: dict[int, Any] = {}
    for call in calls:
        chunks, spans = [], []
        for who, count in call:
            if who not in requests:
                # ids are neither in order of arrival nor in order of the rows
                requests[who] = given.Request(tokens[who], 1, request_id=7 * (who + 1) % 11)
                kv_cache.admit(requests[who])
            one = requests[who]
            kv_cache.reserve(one, abs(count))
            last = len(tokens[who]) - 1
            which = (
                list(range(one.num_computed_tokens, one.num_computed_tokens + count))
                if count > 0
                else list(range(last, last + count, -1))
            )
            asked = wanted(scored, abs(count), one.num_computed_tokens + count == last + 1)
            chunks.append(given.Chunk(one, one.num_computed_tokens, [tokens[who][i] for i in which], asked))
            spans.append((who, which, count > 0))
        yield chunks, spans
        for chunk, (_, _, stays) in zip(chunks, spans, strict=True):
            if stays:
                chunk.request.num_computed_tokens = chunk.end
            else:
                kv_cache.truncate(chunk.request, chunk.start)


def wanted(scored: str, count: int, ends: bool) -> int:
    """Return for how many of a chunk's `count` tokens there are logits."""
    return {"last": 1, "all": count, "some": (count + 1) // 2, "end": int(ends)}[scored]


def attention_of(given: Any, memory_of: Callable[[int], Any], attend: Callable[..., mx.array]) -> Callable[..., Any]:
    """Run a KV cache's `attend`, passed as a function of the cache, over many calls.

    Query, key and value are requests x tokens x heads x D; uncomputed rows stay 0. The other layers get other inputs.
    """

    def attended(query: mx.array, key: mx.array, value: mx.array, calls: Calls, layer: int) -> mx.array:
        kv_cache = memory_of(LAYERS)
        length = query.shape[1]
        rows: list[list[mx.array]] = [[] for _ in range(len(query))]
        for chunks, spans in played(given, calls, [[0] * length for _ in rows], kv_cache):
            new = [mx.concatenate([x[who][mx.array(which)] for who, which, _ in spans]) for x in (query, key, value)]
            others = [x[..., ::-1] for x in new]
            all_layers = [attend(kv_cache, i, *(new if i == layer else others), chunks) for i in range(LAYERS)]
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
    """Return how many tokens of each request are computed in the end."""
    return [sum(n for call in calls for each, n in call if each == who and n > 0) for who in range(requests)]


def rows_of(calls: Calls, requests: int, length: int, scored: str) -> list[tuple[int, int]]:
    """Return the rows of logits, in order: whose, and after which of its tokens. -1 is a junk row."""
    at, rows = [0] * requests, []
    for call in calls:
        for who, count in call:
            if count < 0:
                rows += [(who, -1)] * wanted(scored, -count, at[who] + count == length)
                continue
            asked = wanted(scored, count, at[who] + count == length)
            at[who] += count
            rows += [(who, i) for i in range(at[who] - asked, at[who])]
    return rows


def stacked(kept: Sequence[Array64], like: Array64) -> Array64:
    """Stack rows of logits, R x V, also if there are none."""
    return np.stack(kept) if kept else np.zeros((0, like.shape[-1]))
