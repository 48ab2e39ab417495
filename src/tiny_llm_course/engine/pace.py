"""Estimate, from a text's first tokens, how long it will take."""

import time
from itertools import accumulate

USUAL_TOKENS = 256  # of an answer by default; it ends after a minute then
MINUTE = 60.0
LEAST = 3  # tokens for an estimate
LISTENED = 1.5  # seconds before it, unless the text is fast


class Pace:
    """The times at which the tokens of a text were generated."""

    def __init__(self, prompt: int, rereads: bool) -> None:
        self._prompt = prompt  # its tokens
        self._rereads = rereads  # no KV cache: each token recomputes all before it
        self._came: list[float] = []

    def token(self) -> None:
        """Note the time of one token."""
        self._came.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """Seconds since the first token, so without loading weights and prefill."""
        return time.perf_counter() - self._came[0]

    def is_known(self, tokens: int) -> bool:
        """Return whether the time of that many tokens can be estimated."""
        return len(self._came) >= LEAST and (self.seconds > LISTENED or self.expected(tokens)[-1] <= MINUTE)

    def expected(self, tokens: int) -> list[float]:
        """Return the expected seconds from the first token to each of the others.

        With a KV cache each takes about equally long. Without one, the time grows in proportion to the position until
        the text has doubled, and then with the slope of a least-squares line.
        """
        taken = [late - early for early, late in zip(self._came, self._came[1:], strict=False)]
        places = [self._prompt + i for i in range(1, len(taken) + 1)]
        mean, middle = sum(taken) / len(taken), sum(places) / len(places)
        slope = mean / middle if self._rereads else 0.0
        if slope and places[-1] >= 2 * places[0]:
            covariance = sum((place - middle) * (seconds - mean) for place, seconds in zip(places, taken, strict=True))
            slope = min(max(covariance / sum((place - middle) ** 2 for place in places), 0.0), slope)
        times = (mean + slope * (self._prompt + i - middle) for i in range(1, tokens))
        return list(accumulate(times, initial=0.0))


def slow(pace: Pace, tokens: int, stops: bool) -> str:
    """Return the note before a text that will take more than a minute, else "". `stops`: it ends after a minute."""
    expected = pace.expected(tokens)
    if expected[-1] <= MINUTE:
        return ""
    whole = f"about {expected[-1] / 60:.0f} minutes" if expected[-1] > 100 else f"about {expected[-1]:.0f} s"
    if not stops:
        return f"Slow on this machine: {whole} for {tokens} tokens. Ctrl-C ends it."
    fit = sum(seconds <= MINUTE for seconds in expected)
    how = f"--max-tokens {tokens} goes on, {whole} in all"
    return f"Slow on this machine. It stops after a minute, at about {fit} tokens; {how}. Ctrl-C ends it."
