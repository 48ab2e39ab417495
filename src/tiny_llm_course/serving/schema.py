"""What a request may say, as pydantic checks it. What is not known is refused, as OpenAI does."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .refusals import Refusal, wrong

LARGEST = 1 << 20  # bytes of a request's body
TokenId = Annotated[int, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StreamOptions(_Strict):
    """How a stream is sent."""

    include_usage: bool = False
    include_obfuscation: bool = False  # pads events; nothing is padded here


class Asked(_Strict):
    """What both kinds of requests have."""

    model: Text
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(default=1, ge=1, le=128)
    stop: Text | list[Text] | None = None
    seed: Annotated[int, Field(strict=True)] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    # Beyond OpenAI's: what `make_sampler` has besides, and what benchmarks need.
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0)
    ignore_eos: bool = False
    # Without effect.
    user: Text | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: Text | None = None
    # Taken as long as they ask for nothing.
    presence_penalty: Literal[0, None] = None
    frequency_penalty: Literal[0, None] = None
    logit_bias: dict[str, float] | None = Field(default=None, max_length=0)

    @model_validator(mode="after")
    def _no_empty_stop(self) -> "Asked":
        if "" in self.stops:
            raise ValueError("a stop string must not be empty")
        if len(self.stops) > 4:
            raise ValueError(f"at most 4 stop strings, and there are {len(self.stops)}")
        if self.stream_options and not self.stream:
            raise ValueError("stream_options is for streams")
        return self

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def insisted(self) -> int | None:
        """How many tokens are asked for; None if nothing is said."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class Completion(Asked):
    """A body of /v1/completions."""

    prompt: Text | list[Text] | list[TokenId] | list[list[TokenId]]
    logprobs: int | None = Field(default=None, ge=0, le=5)
    echo: Literal[False] = False
    suffix: Literal["", None] = None
    best_of: int | None = None

    @model_validator(mode="after")
    def _best_of_all(self) -> "Completion":
        if self.best_of not in (None, self.n):
            raise ValueError("best_of must be n")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """One or several."""
        if isinstance(self.prompt, str) or (self.prompt and isinstance(self.prompt[0], int)):
            return [self.prompt]
        return list(self.prompt)  # type: ignore[arg-type]

    @property
    def scored(self) -> int | None:
        """How many of the likeliest tokens are told beside each; None for no log-probabilities."""
        return self.logprobs

    @property
    def most(self) -> int | None:
        """How many tokens are asked for."""
        return self.insisted or 16


class Part(_Strict):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class Message(BaseModel):
    """One of a conversation; a chat template may know more fields than OpenAI does."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | list[Part] | None = None

    def plain(self) -> dict[str, str]:
        """As a chat template takes it."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class ResponseFormat(BaseModel):
    """Text, and nothing else."""

    type: Literal["text"]


class Chat(Asked):
    """A body of /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    tools: list[Any] | None = Field(default=None, max_length=0)
    tool_choice: Literal["none", "auto", None] = None
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _scored_if_asked(self) -> "Chat":
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self

    @property
    def scored(self) -> int | None:
        """How many of the likeliest tokens are told beside each; None for no log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def most(self) -> int | None:
        """How many tokens are asked for; None for as many as there is room for."""
        return self.insisted


def read_json(body: bytes) -> Any:
    """The object in a body.

    Raises:
        Refusal: it is none.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise wrong(f"The body is not UTF-8: byte {error.start} cannot be decoded.") from None
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise wrong("The body is nested too deeply.") from None
    except ValueError as error:
        raise wrong(f"The body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise wrong("The body is not a JSON object.")
    return found


def checked(kind: type[Any], found: Any) -> Any:
    """The request that an object says.

    Raises:
        Refusal: it is none; what is said names the first field that is wrong.
    """
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("constrained", "list[", "str")))
    if first["type"] == "extra_forbidden":
        return wrong(f"Unrecognized request argument supplied: {where}", where)
    if first["type"] == "missing":
        return wrong(f"Missing required parameter: {where}", where)
    message = first["msg"].removeprefix("Value error, ")
    return wrong(f"{where}: {message}" if where else message, where or None)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
