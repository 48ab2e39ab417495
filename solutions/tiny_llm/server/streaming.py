"""Streamed text: the pieces of each answer, and the Server-Sent Events that carry them."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from ..serving.request import Request
from ..serving.stopping import StopStrings
from .loop import EngineClosed, EngineFailed, RequestUpdate


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
        self._updates, self._texts = updates, texts

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yield each answer's new text as soon as it may be shown.

        A piece without text is not sent, unless it is an answer's last one: its tokens are added to the next piece.
        Text that could begin a stop string is shown when the answer ends without one: `StopStrings.finish` is called
        once, when the request has ended, and a stop string that it finds is the finish reason.

        Closing this generator closes `updates` before it returns.
        """
        sent = dict.fromkeys(self._texts, 0)  # characters
        unsent: dict[Request, list[int]] = {request: [] for request in self._texts}
        async with aclosing(self._updates) as stream:
            async for update in stream:
                request, text = update.request, self._texts[update.request]
                unsent[request] += update.tokens
                if update.finish_reason:
                    text.finish()
                gained = text.text[sent[request] :]
                if not gained and not update.finish_reason:
                    continue
                sent[request] += len(gained)
                tokens, unsent[request] = unsent[request], []
                reason = "stop" if update.finish_reason and text.found else update.finish_reason
                yield Piece(request, gained, tokens, reason)

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
        try:
            async with aclosing(self.pieces()) as pieces:
                async for piece in pieces:
                    yield _event(json.dumps(shape(piece)))
        except (EngineFailed, EngineClosed) as error:
            yield _event(json.dumps(failed(error)))
            return
        if last:
            yield _event(json.dumps(last()))
        yield _event("[DONE]")


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()
