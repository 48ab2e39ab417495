"""Text while it is written: the pieces of some answers, and the events in which a browser or a client gets them."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass

from ..serving.request import Request
from ..serving.stopping import StopStrings
from .loop import News


@dataclass(frozen=True)
class Piece:
    """What an answer has gained."""

    request: Request
    text: str
    tokens: list[int]  # all since the piece before; they may be more or fewer than the text shows
    finish_reason: str  # "stop" or "length" in the last piece of an answer; "" before


class TextStream:
    """The answers to some requests, while they are written."""

    def __init__(self, news: AsyncGenerator[News, None], texts: Mapping[Request, StopStrings]) -> None:
        """Begin with nothing.

        Args:
            news: of these requests, as `EngineLoop.stream` yields them.
            texts: of each request, what its `stop` is told its tokens by: `text` has what may be shown, which may
                already be more than there are news of.
        """
        raise NotImplementedError("3.7.3 Text while it is written")

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """What each answer has gained, as soon as it may be shown.

        A piece without text is not worth sending, unless it is an answer's last one: its tokens go with the next
        piece. What a stop string may begin with is shown when the answer ends without it: `StopStrings.finish` is
        called once, when the request has ended, and if a stop string is found then, that is the reason.

        Whoever closes this generator closes `news`, too, before that returns.
        """
        raise NotImplementedError("3.7.3 Text while it is written")

    async def events(
        self, shape: Callable[[Piece], object], last: Callable[[], object] | None, failed: Callable[[Exception], object]
    ) -> AsyncGenerator[bytes, None]:
        """The pieces as Server-Sent Events: `data: `, an object in JSON on one line, and an empty line.

        The stream ends with `data: [DONE]`. If the engine fails or is closed, the status has long been sent: then the
        last event tells of the error, and [DONE] does not come.

        Args:
            shape: what is sent of a piece.
            last: what is sent behind the pieces; None for nothing.
            failed: what is sent of an EngineFailed or an EngineClosed.
        """
        raise NotImplementedError("3.7.3 Text while it is written")
