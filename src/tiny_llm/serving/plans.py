"""How many tokens of which request a step reads."""

from collections.abc import Sequence

from .request import Chunk, Request, next_chunk


def whole_prompts(running: Sequence[Request], budget: int) -> list[Chunk]:
    """Everything that is unread, of every request: a prompt comes in one piece, whatever the others wait for.

    Args:
        running: the requests that have been let in, the oldest first.
        budget: is not looked at.

    Returns:
        A chunk for each request.
    """
    return [next_chunk(request, request.unread) for request in running]


def chunked_prefill(running: Sequence[Request], budget: int) -> list[Chunk]:
    """As many tokens as the budget has: first one for each request that writes, then prompts, in pieces.

    A request writes if it has output and one unread token. All others read a prompt, be one token left of it or many;
    so does one that was preempted, until it has read again what it had written. No chunk is empty.

    - Each request that writes reads its one token. Should more of them write than the budget has tokens, as when it was
      lowered, those with the least output do, and of equals the oldest: the others are next.
    - What is left of the budget goes to the prompts: the oldest takes as much of it as it has unread tokens, then the
      next one.

    So a step reads as many tokens as the budget says, or all that are unread if these are fewer. (Agrawal et al. 2024,
    "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve".)

    Args:
        running: the requests that have been let in, the oldest first.
        budget: the most tokens that the chunks may hold together.

    Returns:
        At most one chunk for each request, in any order.

    Raises:
        ValueError: budget is less than 1, so that nobody would ever be served.
    """
    raise NotImplementedError("3.2.1 Chunked prefill")
