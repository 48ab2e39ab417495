"""Generation: sample the next token, append it, repeat."""

from collections.abc import Callable, Collection, Iterator

import mlx.core as mx

from .tokenizer import ByteLevelBPE, StreamingDetokenizer

Model = Callable[[mx.array], mx.array]  # tokens N x L -> logits N x L x V
Sampler = Callable[[mx.array, list[list[int]]], mx.array]  # logits N x V, each row's tokens so far -> N tokens


def greedy(logits: mx.array, tokens: list[list[int]]) -> mx.array:
    """Return the most likely token of each row, N x V -> N."""
    return mx.argmax(logits, axis=-1)


def generate_tokens(
    model: Model,
    prompt: list[int],
    max_tokens: int,
    *,
    eos_ids: Collection[int] = (),
    context_length: int | None = None,
    sampler: Sampler = greedy,
) -> Iterator[int]:
    """Continue a prompt, yielding each token as soon as it is known.

    Args:
        model: returns logits N x L x V for tokens N x L. It gets all tokens so far, 1 x L.
        prompt: at least one token. It is not changed.
        max_tokens: yield at most this many.
        eos_ids: each of these ends the generation; it is not yielded.
        context_length: the maximum length of prompt and continuation together, at which generation ends; None for no
            limit.
        sampler: chooses from the last position's logits, 1 x V, in float32; it also gets all tokens so far, in one row.

    Raises:
        ValueError: the prompt is empty, or already longer than context_length. It is raised at the call, before the
            first token is requested.
    """
    if not prompt:
        raise ValueError("the prompt is empty, but a model continues at least one token")
    if context_length is not None and len(prompt) > context_length:
        raise ValueError(f"the prompt has {len(prompt)} tokens, but the model takes at most {context_length}")
    limit = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))
    return _continue(model, list(prompt), limit, eos_ids, sampler)


def _continue(model: Model, tokens: list[int], limit: int, eos_ids: Collection[int], sampler: Sampler) -> Iterator[int]:
    for _ in range(limit):
        logits = model(mx.array([tokens]))[:, -1].astype(mx.float32)  # 1 x V: what follows the last token
        token: int = sampler(logits, [tokens]).item()  # type: ignore[assignment]
        if token in eos_ids:
            return
        yield token
        tokens.append(token)


def simple_generate(
    model: Model,
    tokenizer: ByteLevelBPE,
    prompt: str,
    max_tokens: int,
    *,
    eos_ids: Collection[int] = (),
    context_length: int | None = None,
    sampler: Sampler = greedy,
) -> Iterator[str]:
    """Continue a text, yielding for each token the characters that it completes; joined, they are the decoded answer.

    A piece may be empty or omitted. An incomplete character is yielded at the end.

    Args:
        model: returns logits N x L x V for tokens N x L.
        tokenizer: encodes the prompt and decodes the answer, without special tokens.
        prompt: the text so far.
        max_tokens, eos_ids, context_length, sampler: as in `generate_tokens`.

    Raises:
        ValueError: as `generate_tokens`.
    """
    ids = generate_tokens(
        model, tokenizer.encode(prompt), max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler
    )
    return _stream(ids, StreamingDetokenizer(tokenizer))


def _stream(ids: Iterator[int], detokenizer: StreamingDetokenizer) -> Iterator[str]:
    for token in ids:
        if piece := detokenizer.add(token):
            yield piece
    if piece := detokenizer.finish():
        yield piece
