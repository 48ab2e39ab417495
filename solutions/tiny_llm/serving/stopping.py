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
        if "" in stops:
            raise ValueError("an empty stop string would end every text before it begins")
        self.text, self.found = "", None
        self._detokenizer, self._stops, self._held = detokenizer, stops, ""

    def add(self, token: int) -> str:
        """Add a token.

        Returns:
            The characters added to `text`. Nothing, once a stop string was found.
        """
        return "" if self.found else self._show(self._detokenizer.add(token))

    def ends(self, token: int) -> bool:
        """Add a token as `add` does, and return whether the text has ended: what `Request.stop` needs."""
        self.add(token)
        return self.found is not None

    def finish(self) -> str:
        """End the text; no token follows.

        Returns:
            The text that was held back and may be shown now. Nothing, if a stop string was found.
        """
        if self.found:
            return ""
        shown = self._show(self._detokenizer.finish())
        if self.found:
            return shown
        rest, self._held = self._held, ""
        self.text += rest
        return shown + rest

    def _show(self, piece: str) -> str:
        """Return what can be shown after this piece."""
        text = self._held + piece
        places = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            _, end, self.found = min(places)  # the first to be complete, and of those the one that began first
            self._held = ""
        else:
            end = len(text) - max((_begun(text, stop) for stop in self._stops), default=0)
            self._held = text[end:]
        self.text += text[:end]
        return text[:end]


def _begun(text: str, stop: str) -> int:
    """Return how many characters at the end of a text are the beginning of a stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((count for count in range(longest, 0, -1) if text.endswith(stop[:count])), 0)
