"""A served model: make requests from what clients send, admit them by the gate, and answer them by the engine loop."""

import asyncio
import json
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ..checkpoints.chat_template import render_chat
from ..course.registry import UsageError
from ..engine.serving import ServingEngine
from ..programs.packages import LearnerError
from .logits import LogitOptions, LogitsProcessor
from .monitoring import State
from .refusals import Refusal, of_engine, wrong
from .schema import Chat, Completion, Detokenize, GenerationRequest, Tokenize

CALL_BEGINS, CALL_ENDS = "<tool_call>\n", b"\n</tool_call>"  # around a call that the client demands


@dataclass
class Choice:
    """One of the answers to a client's request."""

    index: int
    request: Any  # serving.request.Request
    text: Any  # serving.stopping.StopStrings
    options: LogitOptions  # with the logprobs found so far
    echo: str  # the text that the answer begins with
    num_sent: int = 0  # tokens
    num_characters: int = 0  # of the tokens sent, each by itself
    begun: bool = False  # a chunk has been sent
    calls: Any = None  # the tools.parser.ToolCallParser that separates calls from text, if there are tools
    call_ids: dict[int, str] = field(default_factory=dict)  # by the parser's index, of the calls with a name
    call_ends: bytes = b""  # what ends a call whose beginning is in the prompt


class Service:
    """An engine and the learner's loop, gate, streams and metrics; `waiting` requests may wait beside those that run.

    `worker` has the one thread in which `engine` was built. Raise LearnerError if the learner's code is not finished.
    """

    def __init__(self, engine: ServingEngine, worker: ThreadPoolExecutor, name: str, waiting: int) -> None:
        self.engine, self.name, self.worker = engine, name, worker
        self.names = (name, *engine.adapters)  # what the `model` of a request may be
        self.logits = LogitsProcessor(engine.scheduler)
        self.closing = asyncio.Event()
        with engine.learners_code():
            self.metrics: Any = engine.part("server.metrics", "Metrics")(name)
            self.gate: Any = engine.part("server.backpressure", "Gate")(engine.scheduler.max_num_seqs + waiting)
            loop = engine.part("server.loop", "EngineLoop")
            self.loop: Any = loop(engine.scheduler, worker, self._stepped)
            # Stubs are found now, and not by the first client.
            engine.part("serving.stopping", "StopStrings")(self._detokenizer(), [])
            engine.part("server.streaming", "TextStream")(self.loop.stream([]), {})
        self.monitor = State(engine.scheduler, engine.mode.name)
        self._too_busy = engine.part("server.backpressure", "TooBusy")
        self.failures = tuple(engine.part("server.loop", name) for name in ("EngineFailed", "EngineClosed"))
        self._reported = ""
        self._grammars: Any = None  # a GrammarCompiler, once a request needs it
        self._compiling = threading.Lock()
        self._longest_token = max(map(len, engine.tokenizer.token_bytes.values()), default=1)

    def _stepped(self, step: Any) -> None:
        self.monitor.stepped(step)
        try:
            self.metrics.stepped(step)
        except Exception as error:  # a slip of the learner's must not end the loop
            self._report(error)

    async def state(self) -> dict[str, Any]:
        """Return the state of the engine between two steps."""
        return await asyncio.get_running_loop().run_in_executor(self.worker, self.monitor.now)

    async def close(self, seconds: float) -> None:
        """Let the running requests finish within so many seconds."""
        self.closing.set()
        await self.loop.close(seconds)

    @contextmanager
    def admitted(self, count: int) -> Iterator[None]:
        """Count so many requests as inside while the block runs; raise Refusal if the gate is full."""
        if self.closing.is_set():
            raise Refusal(503, "The server is shutting down.", code="shutting_down")
        try:
            self.gate.enter(count)
        except ValueError as error:
            raise wrong(f"{error}.", "n") from None
        except self._too_busy as error:
            for _ in range(count):
                self.metrics.rejected()
            message = f"The server is busy. Try again in {error.seconds} s."
            headers = {"Retry-After": str(error.seconds)}
            raise Refusal(429, message, code="rate_limit_exceeded", headers=headers) from None
        try:
            yield
        finally:
            self.gate.leave(count)

    @contextmanager
    def counted(self, choices: list[Choice]) -> Iterator[None]:
        """Count some requests in the metrics while the block runs."""
        for choice in choices:
            self.metrics.arrived(choice.request)
        reason = "error"
        try:
            yield
            reason = "abort"
        except (asyncio.CancelledError, GeneratorExit):
            reason = "abort"
            raise
        finally:
            for choice in choices:
                self.logits.forget(choice.request)
                if self.engine.adapted:
                    self.engine.adapted.forget(choice.request)
                finished = choice.request.finish_reason
                self.metrics.finished(choice.request, finished if finished in ("stop", "length") else reason)

    def failed(self, error: Exception) -> Refusal:
        """Return the error for a request that the engine could not finish, and print its cause for the operator."""
        if error.__cause__:
            self._report(error.__cause__)
        return of_engine(error)

    def _report(self, error: BaseException) -> None:
        """Print an error's traceback, but not that of the last one again: a thousand steps may fail in the same way."""
        if (text := "".join(traceback.format_exception(error))) != self._reported:
            self._reported = text
            print(text, end="", file=sys.stderr)

    async def choices(self, params: Completion | Chat) -> list[Choice]:
        """Return the engine's requests for a client's request; raise Refusal if it is invalid."""
        prompts = await asyncio.to_thread(self._prompts, params)
        schema, forced = params.json_schema, isinstance(params, Chat) and params.call_schema is not None
        name = "tools" if forced else "response_format"
        grammar = await asyncio.to_thread(self._grammar, schema, name) if schema is not None else None
        return [
            self._choice(params, prompt, text, number * params.n + which, which, grammar)
            for number, (prompt, text) in enumerate(prompts)
            for which in range(params.n)
        ]

    def stream(self, choices: list[Choice]) -> Any:
        """Return the learner's TextStream of their answers."""
        news: AsyncGenerator[Any, None] = self.loop.stream([choice.request for choice in choices])
        texts = {choice.request: choice.text for choice in choices}
        return self.engine.part("server.streaming", "TextStream")(news, texts)

    def tokenize(self, params: Tokenize) -> dict[str, Any]:
        """Return vLLM's answer: the tokens of a text or a conversation, and how many there are."""
        tokens = self._encoded(params, params.prompt if params.prompt is not None else self._rendered(params))
        words = [self.word(token) for token in tokens] if params.return_token_strs else None
        limit = self.engine.max_model_len
        return {"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": words}

    def detokenize(self, params: Detokenize) -> dict[str, Any]:
        """Return vLLM's answer: the text of some tokens."""
        return {"prompt": b"".join(map(self.bytes_of, self._known(params.tokens, "tokens"))).decode(errors="replace")}

    def bytes_of(self, token: int) -> bytes:
        """Return a token's bytes; none for a row of the embedding that is no token."""
        found: bytes = self.engine.tokenizer.token_bytes.get(token, b"")
        return found

    def word(self, token: int) -> str:
        """Return a token's text, with U+FFFD for bytes that are no characters."""
        return self.bytes_of(token).decode(errors="replace")

    def _prompts(self, params: Completion | Chat) -> list[tuple[list[int], str]]:
        """Return the tokens of each prompt, and the text that its answers begin with."""
        if isinstance(params, Chat):
            text = self._rendered(params) + (CALL_BEGINS if params.call_schema is not None else "")
            return [(self._fitting(params, self._encoded(params, text)), "")]
        if not params.prompts:
            raise wrong("There is no prompt.", "prompt")
        found = []
        for prompt in params.prompts:
            tokens = self._fitting(params, self._encoded(params, prompt) if isinstance(prompt, str) else prompt)
            text = prompt if isinstance(prompt, str) else b"".join(map(self.bytes_of, tokens)).decode(errors="replace")
            found.append((tokens, text if params.echo else ""))
        return found

    def _rendered(self, params: Chat | Tokenize) -> str:
        checkpoint = self.engine.checkpoint
        if checkpoint.chat_template is None:
            raise wrong(f"{self.name} has no chat template; it continues text: /v1/completions", "model")
        messages = [message.plain() for message in params.messages or ()]
        tools = params.shown_tools if isinstance(params, Chat) else []
        template = checkpoint.chat_template
        called = tools or any("tool_calls" in message for message in messages)
        if called and "tools" not in template and "<|im_start|>" in template:
            return self._with_tools(params, messages, tools)
        if "arguments is string" not in template:  # the template would quote the text once more
            parse_arguments(messages)
        more = {"add_generation_prompt": params.add_generation_prompt, "more": params.chat_template_kwargs}
        try:
            return render_chat(template, messages, checkpoint.special_tokens, tools=tools, **more)  # type: ignore[arg-type]
        except UsageError as error:
            raise wrong(str(error), "messages") from None

    def _with_tools(self, params: Chat | Tokenize, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
        """Return the prompt of a model whose chat template knows no tools: the learner's, in Qwen3's format."""
        with self._of_week_7():
            render = self.engine.part("tools.template", "render_messages")
            text: str = render(messages, tools, generate=params.add_generation_prompt)
        return text

    @contextmanager
    def _of_week_7(self) -> Iterator[None]:
        """Refuse a request with tools if the learner's code for them is not finished or fails."""
        try:
            with self.engine.learners_code():
                yield
        except LearnerError as error:
            raise wrong(f"tools need day 2 of week 7: {error}", "tools", "unsupported_value") from None

    def _encoded(self, params: GenerationRequest | Tokenize, text: str) -> list[int]:
        if len(text) > self.engine.context_length * self._longest_token:
            raise self._too_long(params, f"The prompt is too long: {len(text)} characters")  # without tokenizing it
        try:
            text.encode()
        except UnicodeEncodeError:
            message = "The prompt is not valid Unicode: it has a lone surrogate."
            raise wrong(message, _prompt_of(params)) from None
        with self.engine.learners_code():
            tokens: list[int] = self.engine.tokenizer.encode(text)
        return self.engine.checkpoint.begun(tokens) if getattr(params, "add_special_tokens", True) else tokens

    def _fitting(self, params: GenerationRequest, tokens: list[int]) -> list[int]:
        if not tokens:
            raise wrong("The prompt is empty, but a model continues at least one token.", "prompt")
        for name, ids in (("stop_token_ids", params.stop_token_ids), ("logit_bias", map(int, params.logit_bias))):
            self._known(ids, name)
        # The scheduler always samples a token, even if the answer has none.
        room, wanted = self.engine.max_model_len - len(self._known(tokens, "prompt")), params.token_limit or 1
        if room < 1:
            raise self._too_long(params, f"The prompt is too long: {_tokens(len(tokens))}")
        if room < wanted:
            raise self._too_long(params, f"The prompt has {_tokens(len(tokens))}, and {_tokens(wanted)} must follow")
        if params.min_tokens > room:
            more = f"min_tokens is {params.min_tokens}"
            raise self._too_long(params, f"The prompt has {_tokens(len(tokens))}, and {more}")
        return tokens

    def _known(self, tokens: Iterable[int], param: str) -> list[int]:
        """Return token ids; raise Refusal if one is not in the vocabulary."""
        found, vocabulary = list(tokens), self.engine.checkpoint.config["vocab_size"]
        if odd := next((token for token in found if token >= vocabulary), 0):
            raise wrong(f"{param}: there is no token {odd}, expected ids from 0 to {vocabulary - 1}.", param)
        return found

    def _too_long(self, params: GenerationRequest | Tokenize, what: str) -> Refusal:
        limit, model = self.engine.max_model_len, self.engine.context_length
        memory = "" if limit == model else f" with this --memory (of {model}; more --memory allows more)"
        # Clients know the error by its words: litellm by the first ones, langchain-openai by "prompt is too long".
        message = f"This model's maximum context length is {limit} tokens{memory}. {what}."
        return wrong(message, _prompt_of(params), "context_length_exceeded")

    def _grammar(self, schema: Any, name: str) -> Any:
        """Return the compiled grammar of a schema from the parameter `name`; a kept one is shared."""
        engine = self.engine
        with self._compiling:
            try:
                with engine.learners_code():
                    if self._grammars is None:
                        self._grammars = self._compiler()
                    try:
                        return self._grammars.compile(schema)
                    except ValueError as error:
                        raise UsageError(str(error)) from None
                    except RecursionError:
                        raise UsageError("the schema is nested too deeply") from None
            except UsageError as error:
                raise wrong(f"{name}: {error}", name, "unsupported_value") from None
            except LearnerError as error:
                raise wrong(f"{name} needs day 1 of week 7: {error}", name, "unsupported_value") from None

    def _compiler(self) -> Any:
        """Return the learner's GrammarCompiler, and give the logits processor what applies its masks."""
        engine = self.engine
        self.logits.masked = engine.part("constrained.masking", "apply_masks")
        special = {*engine.tokenizer.special_tokens.values(), *engine.checkpoint.hidden_ids}
        size = engine.checkpoint.config["vocab_size"]
        trie = engine.part("constrained.trie", "TokenTrie")(engine.tokenizer.token_bytes, size, special)
        return engine.part("constrained.grammar", "GrammarCompiler")(trie, engine.checkpoint.eos_ids)

    def _choice(
        self, params: Completion | Chat, prompt: list[int], echo: str, index: int, which: int, grammar: Any
    ) -> Choice:
        engine, part = self.engine, self.engine.part
        given = params.model_dump(include={"top_k", "top_p", "min_p", "repetition_penalty"}, exclude_none=True)
        given |= {} if params.temperature is None else {"temp": params.temperature}
        given |= {} if params.seed is None else {"seed": params.seed + which}
        room, limit, echoed = engine.max_model_len - len(prompt), params.token_limit, None
        if isinstance(params, Completion):
            limit = 16 if limit is None else limit  # OpenAI's default
            echoed = params.logprobs if params.echo else None
        ends = {*(() if params.ignore_eos else engine.checkpoint.eos_ids), *params.stop_token_ids}
        with engine.learners_code():
            text = part("serving.stopping", "StopStrings")(self._detokenizer(params.skip_special_tokens), params.stops)
            request = part("serving.request", "Request")(
                list(prompt),
                room if limit is None else min(max(limit, 1), room),
                part("serving.request", "SamplingParams")(**{"temp": 1.0, **engine.checkpoint.sampling, **given}),
                # Without new tokens, whichever token is sampled ends the output, and is not part of it.
                eos_ids=range(engine.checkpoint.config["vocab_size"]) if limit == 0 else ends,
                stop=text.ends,
                user=params.user or "",
            )
        options = LogitOptions(
            params.num_logprobs,
            max((top for top in (params.prompt_logprobs, echoed) if top is not None), default=None),
            {int(token): bias for token, bias in params.logit_bias.items()},
            params.presence_penalty,
            params.frequency_penalty,
            params.min_tokens,
            ends,
            grammar,
        )
        calls = None
        if isinstance(params, Chat) and params.shown_tools:
            with self._of_week_7():
                calls = part("tools.parser", "ToolCallParser")()
                calls.add(CALL_BEGINS.encode() if params.call_schema is not None else b"")
        self.logits.ask(request, options)
        if params.model in self.engine.adapters:
            self.engine.adapted.use(request, params.model)
        forced = isinstance(params, Chat) and params.call_schema is not None
        return Choice(index, request, text, options, echo, calls=calls, call_ends=CALL_ENDS if forced else b"")

    def _detokenizer(self, skip_special_tokens: bool = True) -> Any:
        make, hidden = self.engine.part("tokenizer", "StreamingDetokenizer"), self.engine.checkpoint.hidden_ids
        hidden = hidden if skip_special_tokens else hidden - set(self.engine.tokenizer.token_bytes)
        return _Shown(make(self.engine.tokenizer, skip_special_tokens=False), hidden)


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _prompt_of(params: GenerationRequest | Tokenize) -> str:
    return "messages" if getattr(params, "messages", None) else "prompt"


class _Shown:
    """A StreamingDetokenizer that prints nothing for a checkpoint's hidden tokens."""

    def __init__(self, inner: Any, hidden: frozenset[int]) -> None:
        self._inner, self._hidden = inner, hidden

    def add(self, token: int) -> str:
        shown: str = "" if token in self._hidden else self._inner.add(token)
        return shown

    def finish(self) -> str:
        shown: str = self._inner.finish()
        return shown


def parse_arguments(messages: list[dict[str, Any]]) -> None:
    """Replace the arguments of calls, texts in OpenAI's form, by the objects that they contain, where they are JSON."""
    for call in (call for message in messages for call in message.get("tool_calls") or ()):
        with suppress(ValueError):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
