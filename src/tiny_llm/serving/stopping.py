"""Stop strings: streamed text that ends before any of the given strings."""

from collections.abc import Collection

from ..tokenizer import StreamingDetokenizer


class StopStrings:
    """Converts tokens to text that may be shown, and finds the stop string that ends it.

    Text that could be the beginning of a stop string is held back until it is known not to be one. The text ends
    before the first stop string to be complete; if several are complete at the same character, the longest counts. So
    it ends in the same place however it is split into tokens.

    A server passes `ends` to a `Request` as its `stop`, sends what was added to `text` after every step, and calls
    `finish` when the request has ended.
    """

    text: str  # all that may be shown so far
    found: str | None  # the stop string that ended it; None while there is none

    def __init__(self, detokenizer: StreamingDetokenizer, stops: Collection[str]) -> None:
        """Start with an empty text.

        Args:
            detokenizer: a new one, which converts the tokens to characters.
            stops: the stop strings, in any order; may be empty.

        Raises:
            ValueError: one of them is empty, and would end every text before it begins.
        """
        raise NotImplementedError("3.1.4 Stop strings")

    def add(self, token: int) -> str:
        """Add a token.

        Returns:
            The characters added to `text`. Nothing, once a stop string was found.
        """
        raise NotImplementedError("3.1.4 Stop strings")

    def ends(self, token: int) -> bool:
        """Add a token as `add` does, and return whether the text has ended: what `Request.stop` needs."""
        raise NotImplementedError("3.1.4 Stop strings")

    def finish(self) -> str:
        """End the text; no token follows.

        Returns:
            The text that was held back and may be shown now. Nothing, if a stop string was found.
        """
        raise NotImplementedError("3.1.4 Stop strings")
