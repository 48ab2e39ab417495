"""Scheduling policies: how many tokens of each running request a step computes."""

from collections.abc import Sequence

from .request import Chunk, Request, next_chunk


def unchunked_prefill(running: Sequence[Request], token_budget: int) -> list[Chunk]:
    """Return all uncomputed tokens of every request: a prompt is prefilled in one step, however long that takes.

    Args:
        running: the admitted requests, the oldest first.
        token_budget: ignored.

    Returns:
        A chunk for each request.
    """
    return [next_chunk(request, request.num_uncomputed_tokens) for request in running]


def chunked_prefill(running: Sequence[Request], token_budget: int) -> list[Chunk]:
    """Fill the token budget: first one token for each decoding request, then prompts, in chunks.

    A request decodes if it has output and one uncomputed token. All others prefill, even with a single token left; so
    does a preempted one, until it has recomputed its output. No chunk is empty.

    - Each decoding request gets one token. If more of them decode than the budget has tokens, as after it was lowered,
      those with the least output go first, and of equals the oldest.
    - The rest of the budget goes to the prompts: the oldest gets as many tokens as it has uncomputed ones, then the
      next one.

    So a step computes exactly the budget, or all uncomputed tokens if these are fewer. (Agrawal et al. 2024, "Taming
    Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve".)

    Args:
        running: the admitted requests, the oldest first.
        token_budget: the maximum number of tokens in all chunks together.

    Returns:
        At most one chunk for each request, in any order.

    Raises:
        ValueError: token_budget is less than 1, so that no request would ever be served; the message gives it.
    """
    if token_budget < 1:
        raise ValueError(f"a budget of {token_budget} tokens, but a step must compute at least one")
    decoding = [request for request in running if request.output and request.num_uncomputed_tokens == 1]
    prefilling = [request for request in running if request not in decoding]
    turns = sorted(decoding, key=lambda request: len(request.output))[:token_budget]
    chunks = [next_chunk(request, 1) for request in turns]
    left = token_budget - len(chunks)
    for request in prefilling:
        count = min(request.num_uncomputed_tokens, left)
        if count:
            chunks.append(next_chunk(request, count))
            left -= count
    return chunks


def shared_prefill(running: Sequence[Request], token_budget: int) -> list[Chunk]:
    """Fill the token budget, but divide the prompts' part between the oldest prompt and the shortest.

    Decoding requests come first, as in `chunked_prefill`. There, a short prompt waits until every older, longer one is
    prefilled. Here, of the n tokens that the decoding requests leave:

    - the oldest prompt gets n / 2, rounded up, or all its uncomputed tokens if these are fewer;
    - the others get what is left: the one with the fewest uncomputed tokens first, and of equals the oldest;
    - if none of the others has an uncomputed token left, the oldest prompt gets the rest.

    So a step computes exactly the budget, or all uncomputed tokens if these are fewer. A short prompt waits for no long
    one, and the oldest prompt always gets half, however many short ones arrive.

    Args:
        running: the admitted requests, the oldest first.
        token_budget: the maximum number of tokens in all chunks together.

    Returns:
        At most one chunk for each request, in any order. No chunk is empty.

    Raises:
        ValueError: token_budget is less than 1; the message gives it.
    """
    decoding = [request for request in running if request.output and request.num_uncomputed_tokens == 1]
    prefilling = [request for request in running if request not in decoding]
    chunks = chunked_prefill(decoding, token_budget)
    left = token_budget - len(chunks)
    if prefilling and left:
        oldest, *others = prefilling
        half = min(oldest.num_uncomputed_tokens, left - left // 2)
        if left > half:
            chunks += chunked_prefill(sorted(others, key=lambda request: request.num_uncomputed_tokens), left - half)
        unused = token_budget - sum(len(chunk.tokens) for chunk in chunks)
        chunks.append(next_chunk(oldest, min(oldest.num_uncomputed_tokens, unused)))
    return chunks
