"""What a request may say, as pydantic checks it. What is not known is refused, as OpenAI does."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .refusals import Refusal, wrong

LARGEST = 1 << 20  # bytes of a request's body
STOPS = 4  # stop strings
LONGEST_STOP = 1000  # characters: every token is looked at with them
COLDEST = 1e-5  # the least temperature: what logits are divided by; below it the likeliest token is taken
SEEDS = 1 << 63

TokenId = Annotated[int, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]
# What is said of fields that may be one thing or another.
EXPECTED = {
    "prompt": "expected a text, some texts, the ids of tokens, or some lists of them",
    "content": "expected a text, or parts of type text: the model reads nothing else",
    "stop": f"expected a text, or up to {STOPS} texts",
}


def _only(*nothing: object) -> AfterValidator:
    """Takes a field as long as it asks for nothing: one of these."""

    def check(value: object) -> object:
        if value not in nothing:
            raise ValueError("not supported here, leave it out")
        return value

    return AfterValidator(check)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StreamOptions(_Strict):
    """How a stream is sent."""

    include_usage: bool = False
    include_obfuscation: bool = False  # pads events; nothing is padded here
    continuous_usage_stats: bool = False  # usage so far in every piece; vLLM's, which benchmarks ask for


class Asked(_Strict):
    """What both kinds of requests have."""

    model: Text
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = Field(default=1, ge=1, le=128)
    stop: Text | Annotated[list[Text], Field(fail_fast=True)] | None = None
    seed: int | None = Field(default=None, ge=-SEEDS, lt=SEEDS)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    # Beyond OpenAI's: what `make_sampler` has besides, and what benchmarks need.
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    ignore_eos: bool = False
    # Without effect.
    user: Text | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: Text | None = None
    safety_identifier: Text | None = None
    prompt_cache_key: Text | None = None
    # Taken as long as they ask for nothing.
    presence_penalty: Annotated[Any, _only(0)] = None
    frequency_penalty: Annotated[Any, _only(0)] = None
    logit_bias: Annotated[Any, _only({})] = None

    @field_validator("stop")
    @classmethod
    def _stops_that_can_be_found(cls, stop: str | list[str] | None) -> str | list[str] | None:
        stops = [stop] if isinstance(stop, str) else stop or []
        if "" in stops:
            raise ValueError("a stop string must not be empty")
        if len(stops) > STOPS:
            raise ValueError(f"at most {STOPS} stop strings, and there are {len(stops)}")
        if (longest := max(map(len, stops), default=0)) > LONGEST_STOP:
            raise ValueError(f"a stop string has {longest} characters, and {LONGEST_STOP} are the most")
        return stop

    @field_validator("temperature")
    @classmethod
    def _not_too_cold(cls, temperature: float | None) -> float | None:
        return 0.0 if temperature is not None and temperature < COLDEST else temperature

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> "Asked":
        if self.stream_options and not self.stream:
            raise wrong("stream_options is for streams: stream is not true", "stream_options")
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

    @property
    def usage_so_far(self) -> bool:
        """Whether each piece of a stream has it, too."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


class Completion(Asked):
    """A body of /v1/completions."""

    prompt: (
        Text
        | Annotated[list[Text], Field(fail_fast=True)]
        | Annotated[list[TokenId], Field(fail_fast=True)]
        | Annotated[list[Annotated[list[TokenId], Field(fail_fast=True)]], Field(fail_fast=True)]
    )
    logprobs: int | None = Field(default=None, ge=0, le=5)
    echo: Annotated[Any, _only(False)] = False
    suffix: Annotated[Any, _only("")] = None
    best_of: int | None = None

    @model_validator(mode="after")
    def _best_of_all(self) -> "Completion":
        if self.best_of not in (None, self.n):
            raise wrong("best_of must be n: nothing is written that is not sent", "best_of")
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
    content: Text | Annotated[list[Part], Field(fail_fast=True)] | None = None

    def plain(self) -> dict[str, str]:
        """As a chat template takes it."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class Chat(Asked):
    """A body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(fail_fast=True)] = Field(min_length=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    parallel_tool_calls: bool | None = None
    # Taken as long as they ask for nothing.
    response_format: Annotated[Any, _only({"type": "text"})] = None
    modalities: Annotated[Any, _only(["text"])] = None
    tools: Annotated[Any, _only([])] = None
    tool_choice: Annotated[Any, _only("none", "auto")] = None

    @model_validator(mode="after")
    def _scored_if_asked(self) -> "Chat":
        if self.top_logprobs and not self.logprobs:
            raise wrong("top_logprobs needs logprobs to be true", "top_logprobs")
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


def checked(kind: type[Any], found: dict[str, Any]) -> Any:
    """The request that an object says; what is null is as good as not said.

    Raises:
        Refusal: it is none; what is said names the first field that is wrong.
    """
    said = {name: value for name, value in found.items() if value is not None}
    unknown = next((name for name in said if name not in kind.model_fields), None)
    if unknown is not None:  # pydantic would first look at all the others
        raise wrong(f"Unrecognized request argument supplied: {unknown}", unknown)
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_input=False)[0]
    # Behind a field that may be of several types there stands which of them was tried.
    of_type = next((number for number, part in enumerate(first["loc"]) if _is_type(part)), None)
    loc = first["loc"][:of_type]
    where = ".".join(map(str, loc))
    if of_type is not None and loc[-1] in EXPECTED:
        return wrong(f"{where}: {EXPECTED[str(loc[-1])]}", where)
    if first["type"] == "extra_forbidden":
        return wrong(f"Unrecognized request argument supplied: {where}", where)
    if first["type"] == "missing":
        return wrong(f"Missing required parameter: {where}", where)
    return wrong(f"{where}: {first['msg'].removeprefix('Value error, ')}", where)


def _is_type(part: int | str) -> bool:
    return isinstance(part, str) and (part == "str" or "[" in part or part.startswith("constrained-"))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
