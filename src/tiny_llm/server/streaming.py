"""Streamed text: the pieces of each answer, and the Server-Sent Events that carry them."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass

from ..serving.request import Request
from ..serving.stopping import StopStrings
from .loop import RequestUpdate


@dataclass(frozen=True)
class Piece:
    """New text of an answer."""

    request: Request
    text: str
    tokens: list[int]  # all since the previous piece; they may be more or fewer than the text shows
    finish_reason: str  # "stop" or "length" in the last piece of an answer; "" before


class TextStream:
    """Streams the answers to some requests."""

    def __init__(self, updates: AsyncGenerator[RequestUpdate, None], texts: Mapping[Request, StopStrings]) -> None:
        """Start with nothing sent.

        Args:
            updates: of these requests, as `EngineLoop.stream` yields them.
            texts: for each request, the object that its `stop` adds tokens to: `text` is what may be shown, and may
                already be ahead of the updates.
        """
        raise NotImplementedError("3.7.3 Streaming text")

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield each answer's new text as soon as it may be shown.

        A piece without text is not sent, unless it is an answer's last one: its tokens are added to the next piece.
        Text that could begin a stop string is shown when the answer ends without one: `StopStrings.finish` is called
        once, when the request has ended, and a stop string that it finds is the finish reason.

        Closing this generator closes `updates` before it returns.
        """
        raise NotImplementedError("3.7.3 Streaming text")

    async def events(
        self, shape: Callable[[Piece], object], last: Callable[[], object] | None, failed: Callable[[Exception], object]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the pieces as Server-Sent Events: `data: `, an object in JSON on one line, and an empty line.

        The stream ends with `data: [DONE]`. If the engine fails or is closed, the status has been sent long before:
        then the last event carries the error, and [DONE] is not sent.

        Args:
            shape: returns what is sent for a piece.
            last: called after the last piece, returns what is sent then; None for nothing.
            failed: returns what is sent for an EngineFailed or an EngineClosed.
        """
        raise NotImplementedError("3.7.3 Streaming text")
