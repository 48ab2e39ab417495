"""Between a scheduler's model and its sampler: logprobs, also of prompts, and each request's changes of its logits."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import mlx.core as mx


class TokenLogprobs(NamedTuple):
    """A token's log-probability, its rank among all tokens (1 for the most likely), and the top tokens beside it."""

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


@dataclass
class LogitOptions:
    """What one request wants of its logits: which logprobs are recorded, and what is added before sampling."""

    top: int | None = None  # alternatives to record for each output token; None for no logprobs
    prompt_top: int | None = None  # likewise for each prompt token but the first
    bias: Mapping[int, float] = field(default_factory=dict)
    presence_penalty: float = 0.0  # as OpenAI defines them, over the output
    frequency_penalty: float = 0.0
    min_tokens: int = 0  # output tokens before one of `ends` may be sampled
    ends: Collection[int] = ()
    grammar: Any = None  # a constrained.grammar.Grammar, which the output follows
    scores: dict[int, TokenLogprobs] = field(default_factory=dict)  # found so far, by index in the output
    prompt_scores: dict[int, TokenLogprobs] = field(default_factory=dict)  # by index in the prompt
    _read: tuple[int, int] | None = None  # the tokens of the output that the grammar has read, and its state after them

    def added(self, output: Sequence[int]) -> dict[int, float]:
        """Return what is added to the logits of the token that follows this output, by token."""
        found = dict(self.bias)
        if self.presence_penalty or self.frequency_penalty:
            for token, count in Counter(output).items():
                found[token] = found.get(token, 0.0) - self.presence_penalty - count * self.frequency_penalty
        if len(output) < self.min_tokens:
            found |= dict.fromkeys(self.ends, -math.inf)
        return found

    def mask(self, output: Sequence[int], drafts: Sequence[int]) -> Any:
        """Return the grammar's mask after the output and some draft tokens; None after a draft that is not allowed."""
        read, state = self._read or (0, self.grammar.start)
        for token in output[read:]:
            state = self.grammar.advance(state, token)
        self._read = len(output), state
        for token in drafts:
            state = self.grammar.advance(state, token)
        return self.grammar.mask(state) if state >= 0 else None


class LogitsProcessor:
    """Wrap a scheduler's model and sampler, for any serving mode; logprobs are the model's, before any change.

    `masked` is constrained.masking.apply_masks of the grammars' package.

    A request whose prompt is scored never takes pages from a prefix cache: its logits must be computed.
    """

    def __init__(self, scheduler: Any) -> None:
        self.masked: Any = None
        self._model, self._sampler, self._options = scheduler.model, scheduler.sampler, dict[Any, LogitOptions]()
        self._rows, self._kv_cache, self._admit = scheduler.max_num_batched_tokens, scheduler.kv_cache, None
        scheduler.model, scheduler.sampler = self.forward, self.sample
        if hasattr(self._kv_cache, "hit_tokens"):
            self._admit, self._kv_cache.admit = self._kv_cache.admit, self._admit_uncached

    def ask(self, request: Any, options: LogitOptions) -> None:
        """Apply some options to a request from now on."""
        self._options[request] = options

    def forget(self, request: Any) -> None:
        """Stop applying a request's options."""
        self._options.pop(request, None)

    def forward(self, chunks: list[Any], kv_cache: Any) -> mx.array:
        """Run the model, and record the logprobs of scored prompts, at most a step's token budget of rows at a time."""
        wide = [replace(chunk, num_logits=len(chunk.tokens)) if self._scored(chunk) else chunk for chunk in chunks]
        if not any(map(self._scored, chunks)):
            logits: mx.array = self._model(chunks, kv_cache)
            return logits
        fits = sum(chunk.num_logits for chunk in wide) <= self._rows
        groups = [wide] if fits else [[part] for chunk in wide for part in self._parts(chunk)]
        wanted = {chunk.request: chunk.end - chunk.num_logits for chunk in chunks}  # the sampler's, from this position
        kept = []
        for group in groups:
            logits, rows, at = self._model(group, kv_cache), list[int](), 0
            for chunk in group:
                first = chunk.end - chunk.num_logits
                rows += [at + there - first for there in range(max(first, wanted[chunk.request]), chunk.end)]
                if self._scored(chunk):
                    self._score_prompt(chunk, logits[at : at + chunk.num_logits])
                at += chunk.num_logits
            if rows:
                kept.append(logits[mx.array(rows)])
            mx.eval(kept)  # a copy, so that the other rows can be freed
        return mx.concatenate(kept) if kept else logits[:0]

    def sample(self, logits: mx.array, chunks: list[Any]) -> list[list[int]]:
        """Sample as the scheduler's sampler does, from the changed logits."""
        chosen, row = self._sampler(self._changed(logits, chunks), chunks), 0
        for chunk, tokens in zip(chunks, chosen, strict=True):
            options = self._options.get(chunk.request)
            if options and options.top is not None and tokens:
                found = score_rows(logits[row : row + len(tokens)], tokens, options.top)
                options.scores |= dict(enumerate(found, len(chunk.request.output)))
            row += chunk.num_logits
        return chosen  # type: ignore[no-any-return]

    def _changed(self, logits: mx.array, chunks: list[Any]) -> mx.array:
        entries, row, masks = list[tuple[int, int, float]](), 0, dict[int, Any]()
        for chunk in chunks:
            options = self._options.get(chunk.request, LogitOptions())
            drafts = chunk.tokens[len(chunk.tokens) - chunk.num_logits + 1 :]
            for number in range(chunk.num_logits):
                added = options.added(chunk.request.output + drafts[:number] if number else chunk.request.output)
                entries += [(row + number, *pair) for pair in added.items()]
                if options.grammar:
                    masks[row + number] = options.mask(chunk.request.output, drafts[:number])
            row += chunk.num_logits
        if entries:
            rows, ids, values = zip(*entries, strict=True)
            logits = logits.astype(mx.float32).at[mx.array(rows), mx.array(ids)].add(mx.array(values, mx.float32))
        allowed = {row: mask for row, mask in masks.items() if mask is not None}
        return self.masked(logits, allowed) if allowed else logits

    def _scored(self, chunk: Any) -> bool:
        options = self._options.get(chunk.request)
        return bool(options and options.prompt_top is not None and chunk.start < len(chunk.request.prompt) - 1)

    def _score_prompt(self, chunk: Any, logits: mx.array) -> None:
        options, next_tokens = self._options[chunk.request], chunk.request.prompt[chunk.start + 1 : chunk.end + 1]
        found = score_rows(logits[: len(next_tokens)], next_tokens, options.prompt_top or 0)
        options.prompt_scores |= dict(enumerate(found, chunk.start + 1))

    def _parts(self, chunk: Any) -> list[Any]:
        if not self._scored(chunk):
            return [chunk]
        cut = [chunk.tokens[at : at + self._rows] for at in range(0, len(chunk.tokens), self._rows)]
        starts = range(chunk.start, chunk.end, self._rows)
        return [replace(chunk, start=s, tokens=t, num_logits=len(t)) for s, t in zip(starts, cut, strict=True)]

    def _admit_uncached(self, request: Any) -> bool:
        admitted: bool = self._admit(request)  # type: ignore[misc]
        options = self._options.get(request)
        if admitted and options and options.prompt_top is not None and request.num_computed_tokens:
            self._kv_cache.hit_tokens -= request.num_computed_tokens
            self._kv_cache.truncate(request, 0)
            request.num_computed_tokens = 0
        return admitted


def score_rows(logits: mx.array, tokens: list[int], count: int) -> list[TokenLogprobs]:
    """Return the logprobs of a token for each row of logits, R x V, with the `count` most likely tokens."""
    logits = logits.astype(mx.float32)
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    own = mx.take_along_axis(logprobs, mx.array(tokens)[:, None], axis=-1)  # R x 1
    ranks = mx.sum(logprobs > own, axis=-1) + 1
    count = min(count, logits.shape[-1])
    best = mx.argpartition(-logprobs, max(count - 1, 0), axis=-1)[:, :count]
    best = mx.take_along_axis(best, mx.argsort(-mx.take_along_axis(logprobs, best, axis=-1), axis=-1), axis=-1)
    tops = mx.take_along_axis(logprobs, best, axis=-1)
    columns: Any = (tokens, own[:, 0].tolist(), ranks.tolist(), best.tolist(), tops.tolist())
    rows = zip(*columns, strict=True)
    return [TokenLogprobs(token, own, rank, tuple(zip(*top, strict=True))) for token, own, rank, *top in rows]
