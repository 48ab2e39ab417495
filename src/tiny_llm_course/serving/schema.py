"""The schema of request bodies, checked by pydantic. Unknown fields are refused, as OpenAI does."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .refusals import Refusal, wrong

LARGEST = 1 << 20  # bytes of a request's body
STOPS = 4  # stop strings
LONGEST_STOP = 1000  # characters, which every new token is compared with
COLDEST = 1e-5  # the least temperature that logits are divided by; below it decoding is greedy
SEEDS = 1 << 63

TokenId = Annotated[int, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]
EXPECTED = {  # of fields with several types
    "prompt": "expected a string, a list of strings, a list of token ids, or a list of such lists",
    "content": "expected a string, or parts of type text: the model takes nothing else",
    "stop": f"expected a string, or up to {STOPS} strings",
}


def _only(*nothing: object) -> AfterValidator:
    """Accept a field only if it has no effect: one of these values."""

    def check(value: object) -> object:
        if value not in nothing:
            raise ValueError("not supported here, omit it")
        return value

    return AfterValidator(check)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StreamOptions(_Strict):
    """How a stream is sent."""

    include_usage: bool = False
    include_obfuscation: bool = False  # padding of events; has no effect here
    continuous_usage_stats: bool = False  # vLLM's, for benchmarks: usage so far in every chunk


class GenerationRequest(_Strict):
    """The fields of both kinds of requests."""

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
    # Beyond OpenAI's: further arguments of `make_sampler`, and what benchmarks need.
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
    # Accepted only without effect.
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
            raise ValueError(f"{len(stops)} stop strings, expected at most {STOPS}")
        if (longest := max(map(len, stops), default=0)) > LONGEST_STOP:
            raise ValueError(f"a stop string has {longest} characters, expected at most {LONGEST_STOP}")
        return stop

    @field_validator("temperature")
    @classmethod
    def _not_too_cold(cls, temperature: float | None) -> float | None:
        return 0.0 if temperature is not None and temperature < COLDEST else temperature

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> "GenerationRequest":
        if self.stream_options and not self.stream:
            raise wrong("stream_options needs stream to be true", "stream_options")
        return self

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def token_limit(self) -> int | None:
        """The requested number of tokens; None if not given."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def usage_so_far(self) -> bool:
        """Whether each chunk of a stream has usage, too."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


class Completion(GenerationRequest):
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
            raise wrong("best_of must equal n: every completion is returned", "best_of")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """One prompt or several."""
        if isinstance(self.prompt, str) or (self.prompt and isinstance(self.prompt[0], int)):
            return [self.prompt]
        return list(self.prompt)  # type: ignore[arg-type]

    @property
    def num_logprobs(self) -> int | None:
        """The number of top tokens to report for each token; None for no log-probabilities."""
        return self.logprobs

    @property
    def max_new_tokens(self) -> int | None:
        """The limit of new tokens."""
        return self.token_limit or 16


class Part(_Strict):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class Message(BaseModel):
    """A message of a conversation; a chat template may use more fields than OpenAI has."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | Annotated[list[Part], Field(fail_fast=True)] | None = None

    def plain(self) -> dict[str, str]:
        """Return it as a chat template takes it."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class Chat(GenerationRequest):
    """A body of /v1/chat/completions."""

    messages: Annotated[list[Message], Field(fail_fast=True)] = Field(min_length=1)
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    parallel_tool_calls: bool | None = None
    # Accepted only without effect.
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
    def num_logprobs(self) -> int | None:
        """The number of top tokens to report for each token; None for no log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def max_new_tokens(self) -> int | None:
        """The limit of new tokens; None for the rest of the context."""
        return self.token_limit


def read_json(body: bytes) -> Any:
    """Return the object in a body; raise Refusal if there is none."""
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
    """Return the request in an object, where null means absent; raise Refusal, which names the first wrong field."""
    said = {name: value for name, value in found.items() if value is not None}
    unknown = next((name for name in said if name not in kind.model_fields), None)
    if unknown is not None:  # pydantic would first check all others
        raise wrong(f"Unrecognized request argument supplied: {unknown}", unknown)
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        raise _refused(error) from None


def _refused(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_input=False)[0]
    # After a field of several types, pydantic names the type that it tried.
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
