"""Stop strings: a text that is shown while it is written, and ends before certain words."""

from collections.abc import Collection

from ..tokenizer import StreamingDetokenizer


class StopStrings:
    """Turns tokens into text that may be shown, and finds the stop string that ends it.

    What could be the beginning of a stop string is held back until it is known not to be one. A text ends where a first
    stop string is complete; if several are at the same character, the longest counts. So it ends in the same place
    however it is cut into tokens.

    A server gives `ends` to a `Request` as its `stop`, sends what `text` has gained after every step, and calls
    `finish` when the request has ended.
    """

    text: str  # all that may be shown so far
    found: str | None  # the stop string that ended it; None while there is none

    def __init__(self, detokenizer: StreamingDetokenizer, stops: Collection[str]) -> None:
        """Begin with no text.

        Args:
            detokenizer: a new one, which turns the tokens into characters.
            stops: the stop strings, in any order; there may be none.

        Raises:
            ValueError: one of them is empty, and would end every text before it begins.
        """
        raise NotImplementedError("3.1.4 Stop strings")

    def add(self, token: int) -> str:
        """Take a token.

        Returns:
            The characters that may be shown now, which `text` has gained. Nothing, once a stop string was found.
        """
        raise NotImplementedError("3.1.4 Stop strings")

    def ends(self, token: int) -> bool:
        """Take a token as `add` does, and say whether the text has ended: what `Request.stop` asks."""
        raise NotImplementedError("3.1.4 Stop strings")

    def finish(self) -> str:
        """End the text; no token follows.

        Returns:
            What was held back, and may be shown now. Nothing, if a stop string was found.
        """
        raise NotImplementedError("3.1.4 Stop strings")
