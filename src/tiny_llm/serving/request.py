"""What a server is asked for: a text to continue, how, and how far that has come."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SamplingParams:
    """How the tokens of one request are chosen; `make_sampler` says what each means."""

    temp: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None


@dataclass(eq=False)
class Request:
    """One text. The scheduler moves it on; whoever has sent it may look."""

    prompt: list[int]  # at least one token
    max_tokens: int
    params: SamplingParams = SamplingParams()
    eos_ids: Collection[int] = ()  # each of these ends the text, and is not part of it
    stop: Callable[[int], bool] | None = None  # is told each new token, and says whether the text ends with it
    user: str = ""  # who has sent it, for a queue that is fair
    number: int = -1  # its place among all that have come; the scheduler counts
    output: list[int] = field(default_factory=list)
    read: int = 0  # how many of its tokens, of the prompt and then of the output, are in memory
    finished: str = ""  # why it has ended: "stop", "length" or "cancelled"; "" while it has not

    @property
    def length(self) -> int:
        """How many tokens there are, of prompt and output."""
        return len(self.prompt) + len(self.output)

    @property
    def unread(self) -> int:
        """How many of them the model has not read yet: 1 while it writes, more while it reads its prompt."""
        return self.length - self.read

    def tokens(self, first: int, last: int) -> list[int]:
        """Those at the positions first to last - 1."""
        begun = len(self.prompt)
        return self.prompt[first:last] + self.output[max(0, first - begun) : max(0, last - begun)]


@dataclass(frozen=True)
class Chunk:
    """Tokens of one request that a step reads, which stand at the positions `start` and on."""

    request: Request
    start: int
    tokens: list[int]
    scored: int  # after how many of the last of them a next token is asked for: 0 within a prompt, else 1 or more

    @property
    def end(self) -> int:
        """The position behind them: so many tokens are in memory once they are read."""
        return self.start + len(self.tokens)


def next_chunk(request: Request, count: int) -> Chunk:
    """Its next `count` unread tokens; what follows is asked for if they are the last ones that there are."""
    end = request.read + count
    return Chunk(request, request.read, request.tokens(request.read, end), int(end == request.length))
