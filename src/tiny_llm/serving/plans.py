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
