"""Responses in OpenAI's format."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from .logits import TokenLogprobs
from .schema import Chat, Completion
from .service import Choice, Service


class ResponseBuilder:
    """Build the responses to one request: whole ones, and the chunks of a stream."""

    def __init__(self, service: Service, params: Completion | Chat, choices: list[Choice]) -> None:
        self._service, self._params, self._choices = service, params, choices
        self._of = {choice.request: choice for choice in choices}
        self._chat = isinstance(params, Chat)
        self._head = {"id": f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}", "created": int(time.time())}
        self._head["model"] = params.model if params.model in service.engine.adapters else service.name

    def whole(self, pieces: Sequence[Any]) -> dict[str, Any]:
        """Return the whole response."""
        choices = []
        for choice in self._choices:
            own = [piece for piece in pieces if piece.request is choice.request]
            text, tokens = "".join(piece.text for piece in own), [token for piece in own for token in piece.tokens]
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if choice.calls:
                delta = self._called(choice, text, ended=True)
                calls = [{key: value for key, value in call.items() if key != "index"} for call in delta["tool_calls"]]
                message["content"] = delta["content"] or (None if calls else "")
                message |= {"tool_calls": calls} if calls else {}
            shown: dict[str, Any] = {"index": choice.index, "finish_reason": self._reason(own[-1])}
            shown["logprobs"] = self._logprobs(choice, tokens, ended=True)
            shown |= {"message": message} if self._chat else {"text": choice.echo + text}
            choices.append(shown)
        answer = {**self._head, "object": self._object(""), "choices": choices, "usage": self._usage()}
        if self._params.prompt_logprobs is not None:  # where vLLM has them
            for shown, choice in zip([answer] if self._chat else choices, self._choices, strict=False):
                shown["prompt_logprobs"] = self._of_prompt(choice)
        return answer

    def piece(self, piece: Any) -> dict[str, Any]:
        """Return a chunk of a stream."""
        choice = self._of[piece.request]
        shown: dict[str, Any] = {"index": choice.index, "finish_reason": self._reason(piece)}
        shown["logprobs"] = self._logprobs(choice, piece.tokens, bool(piece.finish_reason))
        if self._chat:
            delta: dict[str, Any] = {"content": piece.text}
            if choice.calls:
                found = self._called(choice, piece.text, bool(piece.finish_reason))
                delta = {name: value for name, value in found.items() if value}
                shown["finish_reason"] = self._reason(piece)  # which calls may change
            shown["delta"] = delta | ({} if choice.begun else {"role": "assistant"})
        else:
            shown["text"] = piece.text if choice.begun else choice.echo + piece.text
        choice.begun = True
        return self._chunk([shown])

    def last(self) -> dict[str, Any]:
        """Return the last chunk, with usage."""
        return self._chunk([]) | {"usage": self._usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        answer = {**self._head, "object": self._object(".chunk"), "choices": choices}
        if self._params.with_usage or self._params.usage_so_far:
            answer["usage"] = self._usage() if self._params.usage_so_far else None
        return answer

    def _object(self, what: str) -> str:
        return f"chat.completion{what}" if self._chat else "text_completion"

    def figures(self) -> dict[str, Any]:
        """Return what the access log says of the request."""
        usage = self._usage()
        figures = {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}
        figures |= usage["prompt_tokens_details"]
        return figures | {"finish_reasons": [choice.request.finish_reason or None for choice in self._choices]}

    def _usage(self) -> dict[str, Any]:
        """Return the token counts; a prompt counts once, however many answers it has."""
        first = self._choices[:: self._params.n]
        prompts = sum(len(choice.request.prompt) for choice in first)
        written = sum(len(choice.request.output) for choice in self._choices)
        counts = {"prompt_tokens": prompts, "completion_tokens": written, "total_tokens": prompts + written}
        cached = sum(self._service.monitor.cached.get(choice.request, 0) for choice in first)
        return counts | {"prompt_tokens_details": {"cached_tokens": cached}}

    def _called(self, choice: Choice, text: str, ended: bool) -> dict[str, Any]:
        """Return what new text adds to an answer: its content, and pieces of its calls with their index.

        A block that names no tool is content: a client cannot execute it. Wrong arguments are sent as they are, because
        only the client knows what to tell the model.
        """
        parser, ids = choice.calls, choice.call_ids
        events = parser.add(text.encode(errors="replace"))
        if ended:
            events += parser.add(choice.call_ends if choice.request.finish_reason == "stop" else b"") + parser.finish()
        content, calls = "", dict[str, dict[str, Any]]()
        for kind, said, index in events:
            if kind == "text":
                content += said
            elif kind == "name":
                ids[index] = f"call_{uuid.uuid4().hex[:24]}"
                function = {"name": said, "arguments": ""}
                calls[ids[index]] = {"index": len(ids) - 1, "id": ids[index], "type": "function", "function": function}
            elif kind == "arguments":
                call = calls.setdefault(ids[index], {"index": [*ids].index(index), "function": {"arguments": ""}})
                call["function"]["arguments"] += said
            elif kind == "error" and index not in ids:
                cut = said.startswith("The answer ends")
                content += f"<tool_call>{parser.calls[index].arguments}{'</tool_call>' * (not cut)}"
        several = getattr(self._params, "parallel_tool_calls", True)
        kept = [call for call in calls.values() if several or not call["index"]]
        return {"content": content, "tool_calls": kept}

    def _reason(self, piece: Any) -> str | None:
        """Return the finish reason; an answer that may have no tokens has always reached its length."""
        if piece.finish_reason == "stop" and self._of[piece.request].call_ids:
            return "tool_calls"
        return "length" if piece.finish_reason and self._params.token_limit == 0 else piece.finish_reason or None

    def _logprobs(self, choice: Choice, tokens: list[int], ended: bool) -> dict[str, Any] | None:
        """Return the log-probabilities of the next tokens of an answer, at its beginning those of an echoed prompt."""
        options, echo = choice.options, getattr(self._params, "echo", False)
        if options.top is None:
            return None
        scores: list[TokenLogprobs | None] = [options.scores[choice.num_sent + i] for i in range(len(tokens))]
        choice.num_sent += len(tokens)
        if self._chat:
            return {"content": [self._scored(score) for score in scores if score], "refusal": None}
        words = [self._service.word(token) for token in tokens]
        if echo and not choice.begun:
            prompt = choice.request.prompt
            scores[:0] = [None, *(options.prompt_scores[i] for i in range(1, len(prompt)))]
            words[:0] = map(self._service.word, prompt)
        # With echo, an end token is listed, too: lm-eval takes the last entry for the one token that it asked for.
        last = options.scores.get(choice.num_sent) if echo and ended and self._params.token_limit != 0 else None
        if last and choice.request.finish_reason == "stop" and last.token in choice.request.eos_ids:
            scores.append(last)
            words.append(self._service.word(last.token))
        offsets = []
        for word in words:
            offsets.append(choice.num_characters)
            choice.num_characters += len(word)
        logprobs, tops = [score and score.logprob for score in scores], [score and self._top(score) for score in scores]
        return {"tokens": words, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}

    def _top(self, score: TokenLogprobs) -> dict[str, float]:
        """Return the top tokens and the token itself; of tokens with the same text, the most likely one counts."""
        found: dict[str, float] = {}
        for token, logprob in (*score.top[: self._params.num_logprobs], (score.token, score.logprob)):
            found.setdefault(self._service.word(token), logprob)
        return found

    def _of_prompt(self, choice: Choice) -> list[dict[str, Any] | None]:
        """Return vLLM's prompt_logprobs: for each prompt token but the first, the top tokens and itself, by id."""
        found: list[dict[str, Any] | None] = [None]
        for at in range(1, len(choice.request.prompt)):
            score = choice.options.prompt_scores[at]
            top = enumerate(score.top[: self._params.prompt_logprobs], 1)
            rows = {token: (logprob, rank) for rank, (token, logprob) in top}
            rows[score.token] = score.logprob, score.rank
            word = self._service.word
            found.append({str(t): {"logprob": lp, "rank": r, "decoded_token": word(t)} for t, (lp, r) in rows.items()})
        return found

    def _scored(self, score: TokenLogprobs) -> dict[str, Any]:
        return self._one(score.token, score.logprob) | {"top_logprobs": [self._one(*pair) for pair in score.top]}

    def _one(self, token: int, logprob: float) -> dict[str, Any]:
        service = self._service
        return {"token": service.word(token), "logprob": logprob, "bytes": list(service.bytes_of(token))}
