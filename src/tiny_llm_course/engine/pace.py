"""How long a text will take, guessed from its first tokens, so that whoever waits knows it."""

import time
from itertools import accumulate

USUAL_TOKENS = 256  # of an answer, if nothing else is asked for; it ends with the minute then
MINUTE = 60.0
LEAST = 3  # tokens that a guess is made from
LISTENED = 1.5  # seconds after which it is made, if it is not plain before


class Pace:
    """When the tokens of a text came."""

    def __init__(self, prompt: int, rereads: bool) -> None:
        self._prompt = prompt  # its tokens
        self._rereads = rereads  # each token is computed from all before it
        self._came: list[float] = []

    def token(self) -> None:
        """One has come."""
        self._came.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """Since the first token; the prompt, and reading the weights, come before."""
        return time.perf_counter() - self._came[0]

    def is_known(self, tokens: int) -> bool:
        """Whether it can be said how long so many tokens will take."""
        return len(self._came) >= LEAST and (self.seconds > LISTENED or self.expected(tokens)[-1] <= MINUTE)

    def expected(self, tokens: int) -> list[float]:
        """For each of so many tokens, the seconds from the first one to it.

        An engine that keeps what it has read takes about as long for each. One that rereads it takes longer and longer:
        a token's time is taken to grow with its place, in proportion, until the text has become twice as long, and then
        with the slope of a line through the times.
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
    """What to say before a text that will take more than a minute; "" of others. `stops`: it ends with the minute."""
    expected = pace.expected(tokens)
    if expected[-1] <= MINUTE:
        return ""
    whole = f"about {expected[-1] / 60:.0f} minutes" if expected[-1] > 100 else f"about {expected[-1]:.0f} s"
    if not stops:
        return f"Slow on this machine: {whole} for {tokens} tokens. Ctrl-C ends it."
    fit = sum(seconds <= MINUTE for seconds in expected)
    how = f"--max-tokens {tokens} goes on, {whole} in all"
    return f"Slow on this machine. It stops after a minute, at about {fit} tokens; {how}. Ctrl-C ends it."
