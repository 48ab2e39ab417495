"""A request, its progress, and the chunks of it that a step computes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SamplingParams:
    """How the tokens of one request are sampled; `make_sampler` defines each parameter."""

    temp: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None


@dataclass(eq=False)
class Request:
    """One sequence to continue. Only the scheduler changes its progress; the sender may read it."""

    prompt: list[int]  # at least one token
    max_tokens: int
    params: SamplingParams = SamplingParams()
    eos_ids: Collection[int] = ()  # each of these ends the output, and is not part of it
    stop: Callable[[int], bool] | None = None  # called with each new token; returns whether the output ends with it
    user: str = ""  # the sender, for a fair queue
    request_id: int = -1  # in order of submission; set by the scheduler
    output: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0  # how many of its tokens, prompt first and then output, are in the KV cache
    finish_reason: str = ""  # "stop", "length" or "cancelled"; "" while it has not ended

    @property
    def num_tokens(self) -> int:
        """The number of tokens of prompt and output."""
        return len(self.prompt) + len(self.output)

    @property
    def num_uncomputed_tokens(self) -> int:
        """How many of its tokens are not in the KV cache yet: 1 while it decodes, usually more while it prefills."""
        return self.num_tokens - self.num_computed_tokens

    def tokens(self, first: int, last: int) -> list[int]:
        """Return the tokens at positions first to last - 1."""
        begun = len(self.prompt)
        return self.prompt[first:last] + self.output[max(0, first - begun) : max(0, last - begun)]


@dataclass(frozen=True)
class Chunk:
    """Tokens of one request that a step computes, at positions `start` and following."""

    request: Request
    start: int
    tokens: list[int]
    num_logits: int  # how many of the last of these tokens need logits: 0 within a prompt, otherwise 1 or more

    @property
    def end(self) -> int:
        """The position after the last of them: how many tokens are cached once they are computed."""
        return self.start + len(self.tokens)


def next_chunk(request: Request, count: int) -> Chunk:
    """Return the next `count` uncomputed tokens, with logits for the last one if no uncomputed token follows it."""
    end = request.num_computed_tokens + count
    return Chunk(
        request,
        request.num_computed_tokens,
        request.tokens(request.num_computed_tokens, end),
        int(end == request.num_tokens),
    )
