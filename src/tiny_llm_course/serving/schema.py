"""The schema of request bodies, checked by pydantic. Unknown fields are refused, as OpenAI does."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from .refusals import API, Refusal, wrong

LARGEST = 1 << 20  # bytes of a request's body
PROMPTS = 1024  # in one request, if the queue has as many places
STOPS = 4  # stop strings
LONGEST_STOP = 1000  # characters, which every new token is compared with
COLDEST = 1e-5  # the least temperature that logits are divided by; below it decoding is greedy
SEEDS = 1 << 63
NO_EFFECT: Any = Field(default=None, description="No effect.")

TokenId = Annotated[int, Field(strict=True, ge=0)]
Text = Annotated[str, Field(strict=True)]
Texts = Annotated[list[Text], Field(fail_fast=True)]
TokenIds = Annotated[list[TokenId], Field(fail_fast=True)]
FORMATS = '{"type": "text"}, {"type": "json_object"}, or {"type": "json_schema", "json_schema": {"schema": ...}}'
EXPECTED = {  # of fields with several types
    "prompt": "expected a string, a list of strings, a list of token ids, or a list of such lists",
    "content": "expected a string, or parts of type text: the model takes nothing else",
    "stop": f"expected a string, or up to {STOPS} strings",
    "tool_choice": 'expected "none", "auto", "required", or {"type": "function", "function": {"name": ...}}',
}


def _only(*nothing: object) -> AfterValidator:
    """Accept a field only if it has no effect: one of these values."""

    def check(value: object) -> object:
        if value not in nothing:
            raise PydanticCustomError("unsupported_value", "not supported here, omit it")
        return value

    return AfterValidator(check)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class StreamOptions(_Strict):
    """How a stream is sent."""

    include_usage: bool = False
    """End the stream with a chunk that has the token counts."""
    include_obfuscation: bool = False
    """No effect."""
    continuous_usage_stats: bool = False
    """The token counts so far in every chunk, as vLLM has them."""


class GenerationRequest(_Strict):
    """The fields of both kinds of requests."""

    model: Text
    """The model's name, as in /v1/models."""
    stream: bool = False
    """Whether to send the answer as Server-Sent Events while it is generated."""
    stream_options: StreamOptions | None = None
    """`include_usage` and `continuous_usage_stats`; needs `stream`."""
    n: int = Field(default=1, ge=1, le=128)
    """Number of answers to each prompt."""
    stop: Text | Texts | None = None
    """Strings that end an answer; it does not contain them."""
    seed: int | None = Field(default=None, ge=-SEEDS, le=SEEDS - 1)
    """Makes sampling repeatable."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """0 selects the most likely token. Default: the model's generation_config.json, otherwise 1."""
    top_p: float | None = Field(default=None, ge=0, le=1)
    """Sample from the most likely tokens that together have this probability. Default: as for temperature."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum number of output tokens. Default: what is left of the context, or of the memory for it."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """Takes precedence over `max_tokens`."""
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Subtracted from the logit of each token that is in the output."""
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Subtracted from a token's logit for each time that it is in the output."""
    logit_bias: dict[Text, Annotated[float, Field(ge=-100, le=100)]] = Field(default={}, max_length=1024)
    """Added to the logits of tokens, by token id."""
    # Beyond OpenAI's: further arguments of `make_sampler`, and what benchmarks and evaluations need.
    top_k: int | None = Field(default=None, ge=0)
    """Sample from this many tokens only; 0 for all. Default: as for temperature."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    """Exclude tokens less likely than this fraction of the most likely one. Default: as for temperature."""
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    """Divides positive logits of tokens in prompt or output, multiplies negative ones. Default: as for temperature."""
    min_tokens: int = Field(default=0, ge=0)
    """Output tokens before an end token or one of `stop_token_ids` may be sampled."""
    stop_token_ids: list[TokenId] = Field(default=[], max_length=128)
    """Further tokens that end an answer; it does not contain them."""
    ignore_eos: bool = False
    """Continue after the model's end tokens."""
    skip_special_tokens: bool = True
    """Omit special tokens from the text."""
    prompt_logprobs: int | None = Field(default=None, ge=0, le=20)
    """Return the logprob of each prompt token, with this many alternatives, as vLLM does; not in a stream."""
    response_format: dict[Text, Any] | None = None
    """`{"type": "json_object"}`, or json_schema with `{"schema": ...}`: the answer is such JSON, without spaces."""
    user: Text | None = None
    """The sender: the scheduler's queue is fair among them."""
    metadata: dict[str, Any] | None = NO_EFFECT
    store: bool | None = NO_EFFECT
    service_tier: Text | None = NO_EFFECT
    safety_identifier: Text | None = NO_EFFECT
    prompt_cache_key: Text | None = NO_EFFECT

    @field_validator("logit_bias")
    @classmethod
    def _bias_of_token_ids(cls, bias: dict[str, float]) -> dict[str, float]:
        if odd := next((key for key in bias if not (key.isascii() and key.isdigit() and len(key) < 10)), None):
            raise ValueError(f"{odd!r:.40} is no token id; expected ids as strings")
        return bias

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
    def _one_of_the_formats(self) -> "GenerationRequest":
        if self.response_format is not None and not _is_format(self.response_format):
            raise wrong(f"response_format: expected {FORMATS}", "response_format")
        if self.json_schema is not None and (self.ignore_eos or self.min_tokens):
            other = "ignore_eos" if self.ignore_eos else "min_tokens"
            raise wrong(f"The format of the answer decides where it ends: omit {other}", other)
        return self

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> "GenerationRequest":
        if self.stream_options and not self.stream:
            raise wrong("stream_options needs stream to be true", "stream_options")
        if self.prompt_logprobs is not None and self.stream:
            raise wrong("prompt_logprobs needs stream to be false", "prompt_logprobs")
        if self.token_limit is not None and self.min_tokens > self.token_limit:
            raise wrong(f"min_tokens: expected at most max_tokens, which is {self.token_limit}", "min_tokens")
        return self

    @property
    def json_schema(self) -> Any:
        """The schema of the answer; None if any text will do."""
        form = self.response_format or {}
        return {"type": "object"} if form.get("type") == "json_object" else form.get("json_schema", {}).get("schema")

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def token_limit(self) -> int | None:
        """The requested number of tokens; None if not given."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def usage_so_far(self) -> bool:
        """Whether each chunk of a stream has usage, too."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


def _is_format(form: dict[str, Any]) -> bool:
    """Return whether a response_format has OpenAI's form."""
    described: Any = form.get("json_schema")
    if form.get("type") != "json_schema":
        return form.get("type") in ("text", "json_object") and len(form) == 1
    right = isinstance(described, dict) and described.keys() <= {"name", "description", "schema", "strict"}
    return right and isinstance(described.get("schema"), dict) and form.keys() == {"type", "json_schema"}


class Completion(GenerationRequest):
    """A body of /v1/completions."""

    prompt: Text | Texts | TokenIds | Annotated[list[TokenIds], Field(fail_fast=True)]
    """A text, or its token ids; or several of them, each of which is answered."""
    max_tokens: int | None = Field(default=None, ge=0)
    """Maximum number of output tokens; 0 scores a prompt, with `echo`. Default: 16."""
    logprobs: int | None = Field(default=None, ge=0, le=5)
    """Return the logprobs of all tokens, with this many alternatives each."""
    echo: bool = False
    """Begin the answer with the prompt, and its logprobs with those of the prompt."""
    add_special_tokens: bool = True
    """Begin a text's tokens with those that begin each of the model's texts."""
    suffix: Annotated[Any, _only("")] = None
    """Accepted if empty."""
    best_of: int | None = None
    """Accepted if it equals `n`."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _so_many_prompts(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and len(prompt) > PROMPTS and not isinstance(prompt[0], int):
            raise ValueError(f"{len(prompt)} prompts, expected at most {PROMPTS}")
        return prompt

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


class Part(_Strict):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class CalledFunction(_Strict):
    """A function that the assistant called."""

    name: Text
    arguments: Text


class MessageCall(_Strict):
    """A call in an earlier answer, as a client sends it back."""

    id: Text
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None
    """No effect: a client that has put a stream together may send it."""


class Message(BaseModel):
    """A message of a conversation; a chat template may use more fields than OpenAI has."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | Annotated[list[Part], Field(fail_fast=True)] | None = None
    tool_calls: Annotated[list[MessageCall], Field(fail_fast=True)] | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as a chat template takes it."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        found: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": text}
        if self.tool_calls and self.role == "assistant":
            found["tool_calls"] = [call.model_dump(exclude={"index"}) for call in self.tool_calls]
        return found


Messages = Annotated[list[Message], Field(fail_fast=True, min_length=1)]


class Function(_Strict):
    """What a tool is called with."""

    name: Annotated[str, Field(strict=True, pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDefinition(_Strict):
    """A tool that the model may call."""

    type: Literal["function"]
    function: Function


class NamedFunction(_Strict):
    """The name of a function."""

    name: Text


class NamedTool(_Strict):
    """The tool that the model must call."""

    type: Literal["function"]
    function: NamedFunction


def _moved(schema: Any, place: str) -> Any:
    """Return a schema that is to stand at a place of another one: its references lead there."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _moved(value, place) for key, value in schema.items()}
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith("#"):
        found["$ref"] = place + ref[1:]
    return found


class Templated(_Strict):
    """How messages become a prompt."""

    add_generation_prompt: bool = True
    """End the prompt with what begins an answer."""
    chat_template_kwargs: dict[str, Any] = Field(default={})
    """Variables for the chat template, such as Qwen3's `enable_thinking`."""


class Chat(GenerationRequest, Templated):
    """A body of /v1/chat/completions."""

    messages: Messages
    """The conversation; content is text."""
    logprobs: bool = False
    """Return the logprobs of the output tokens."""
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    """With this many alternatives each; needs `logprobs`."""
    parallel_tool_calls: bool = True
    """Whether an answer may have several calls; otherwise those after the first are dropped."""
    modalities: Annotated[Any, _only(["text"])] = None
    """Accepted if it is `["text"]`."""
    tools: Annotated[list[ToolDefinition], Field(fail_fast=True, max_length=128)] = []
    """The functions that the model may call, each with a JSON schema of its arguments."""
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    """"none": call no tool; "auto", the default with tools; "required": call one; or the name of the one to call."""

    @model_validator(mode="after")
    def _tools_that_can_be_called(self) -> "Chat":
        names = [tool.function.name for tool in self.tools]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise wrong(f"tools: two tools are called {twice}", "tools")
        types = {tool.function.name: (tool.function.parameters or {}).get("type", "object") for tool in self.tools}
        if odd := next((name for name, kind in types.items() if kind != "object"), None):
            raise wrong(f"tools: the parameters of {odd} must have the type object, not {types[odd]!r:.80}", "tools")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise wrong("tool_choice needs tools", "tool_choice")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            message = f"tool_choice: there is no tool {self.tool_choice.function.name!r:.80}, only {', '.join(names)}"
            raise wrong(message, "tool_choice")
        if self.call_schema is not None and super().json_schema is not None:
            raise wrong("response_format: omit it if tool_choice demands a call", "response_format")
        return self

    @model_validator(mode="after")
    def _scored_if_asked(self) -> "Chat":
        if self.top_logprobs and not self.logprobs:
            raise wrong("top_logprobs needs logprobs to be true", "top_logprobs")
        return self

    @property
    def shown_tools(self) -> list[dict[str, Any]]:
        """The tools that the prompt lists, and the answer may call."""
        if self.tool_choice == "none":
            return []
        return [tool.model_dump(exclude_none=True) for tool in self.tools]

    @property
    def call_schema(self) -> dict[str, Any] | None:
        """The schema of the call that the answer must be; None if it need not be one."""
        named = self.tool_choice.function.name if isinstance(self.tool_choice, NamedTool) else None
        if self.tool_choice != "required" and named is None:
            return None
        functions = [tool.function for tool in self.tools if named in (None, tool.function.name)]
        if not functions:
            return None  # which is refused
        calls, arguments = [], {}  # the arguments by name, so that an error's location names the tool
        for name, parameters in ((function.name, function.parameters or {}) for function in functions):
            arguments[name] = _moved(parameters, f"#/$defs/{name}")
            if not parameters.get("properties", parameters):  # in OpenAI's API, such a function takes no arguments
                arguments[name] = {"type": "object", "additionalProperties": False, **arguments[name]}
            properties = {"name": {"const": name}, "arguments": {"$ref": f"#/$defs/{name}"}}
            call = {"type": "object", "properties": properties, "required": [*properties]}
            calls.append({**call, "additionalProperties": False})
        return {"anyOf": calls, "$defs": arguments}

    @property
    def json_schema(self) -> Any:
        """The schema of the answer, or of the call that it must be; None if any text will do."""
        return super().json_schema if self.call_schema is None else self.call_schema

    @property
    def num_logprobs(self) -> int | None:
        """The number of top tokens to report for each token; None for no log-probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


class Tokenize(Templated):
    """A body of /tokenize: a prompt or messages, as vLLM has it."""

    model: Text | None = None
    """The model's name, as in /v1/models."""
    prompt: Text | None = None
    """A text."""
    messages: Messages | None = None
    """A conversation, in place of `prompt`."""
    add_special_tokens: bool = True
    """Begin with the tokens that begin each of the model's texts."""
    return_token_strs: bool = False
    """Return each token's text, too, as `token_strs`."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Tokenize":
        if (self.prompt is None) == (self.messages is None):
            raise wrong("expected either prompt or messages", "prompt")
        return self


class Detokenize(_Strict):
    """A body of /detokenize."""

    model: Text | None = None
    """The model's name, as in /v1/models."""
    tokens: TokenIds
    """Token ids."""


def in_words(schema: dict[str, Any]) -> str:
    """Return what a field takes, with its range, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(in_words(each) for each in schema["anyOf"] if each.get("type") != "null"))
    kinds = {"integer": "an integer", "number": "a number", "string": "a string", "boolean": "true or false"}
    kind = "a list" if schema.get("type") == "array" else kinds.get(schema.get("type", ""), "an object")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        kind += f" of at least {low}" if high is None else f" from {low} to {high}"
    items = schema.get("items") or schema.get("additionalProperties")
    if isinstance(items, dict) and items.get("type"):
        kind += f", each value {in_words(items)}"
    most = schema.get("maxItems") or schema.get("maxProperties")
    return f"{kind}, at most {most} of them" if most else kind


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
        other = next((server for server, names in API["fields_of"].items() if unknown in names.split()), None)
        more = f". It is a field of {other}, which this server does not have." if other else ""
        raise wrong(f"Unrecognized request argument supplied: {unknown}{more}", unknown, "unknown_parameter")
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        raise _refused(kind, error) from None
    except RecursionError:
        raise wrong("The body is nested too deeply.") from None


def _refused(kind: type[Any], error: ValidationError) -> Refusal:
    first = error.errors(include_url=False)[0]
    # After a field of several types, pydantic names the type that it tried.
    of_type = next((number for number, part in enumerate(first["loc"]) if _is_type(part)), None)
    loc, what = first["loc"][:of_type], first["type"]
    where = ".".join(map(str, loc))
    if what == "extra_forbidden":
        return wrong(f"Unrecognized request argument supplied: {where}", where, "unknown_parameter")
    if what == "missing":
        return wrong(f"Missing required parameter: {where}", where, "missing_required_parameter")
    code = "invalid_type" if what.endswith("_type") else what if what == "unsupported_value" else "invalid_value"
    if of_type is not None and loc[-1] in EXPECTED:
        return wrong(f"{where}: {EXPECTED[str(loc[-1])]}", where, code)
    if len(loc) == 1 and what not in ("value_error", "unsupported_value"):
        expected = in_words(kind.model_json_schema()["properties"][loc[0]])
        return wrong(f"{where}: expected {expected}, not {first['input']!r:.60}", where, code)
    return wrong(f"{where}: {first['msg'].removeprefix('Value error, ')}", where, code)


def _is_type(part: int | str) -> bool:
    return isinstance(part, str) and (part == "str" or "[" in part or part.startswith("constrained-"))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
