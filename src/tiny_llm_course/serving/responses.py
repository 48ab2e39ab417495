"""Responses in OpenAI's format."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from .monitoring import TokenLogprobs
from .schema import Chat, Completion
from .service import Choice, Service


class ResponseBuilder:
    """Build the responses to one request: whole ones, and the chunks of a stream."""

    def __init__(self, service: Service, params: Completion | Chat, choices: list[Choice]) -> None:
        self._tokenizer, self._params, self._choices = service.engine.tokenizer, params, choices
        self._of = {choice.request: choice for choice in choices}
        self._chat = isinstance(params, Chat)
        self._head = {"id": f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}", "created": int(time.time())}
        self._head["model"] = service.name

    def whole(self, pieces: Sequence[Any]) -> dict[str, Any]:
        """Return the whole response."""
        choices = []
        for choice in self._choices:
            own = [piece for piece in pieces if piece.request is choice.request]
            text, tokens = "".join(piece.text for piece in own), [token for piece in own for token in piece.tokens]
            shown: dict[str, Any] = {"index": choice.index, "finish_reason": own[-1].finish_reason}
            shown["logprobs"] = self._logprobs(choice, tokens)
            shown |= {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
            choices.append(shown)
        return {**self._head, "object": self._object(""), "choices": choices, "usage": self._usage()}

    def piece(self, piece: Any) -> dict[str, Any]:
        """Return a chunk of a stream."""
        choice = self._of[piece.request]
        shown: dict[str, Any] = {"index": choice.index, "finish_reason": piece.finish_reason or None}
        shown["logprobs"] = self._logprobs(choice, piece.tokens)
        if self._chat:
            shown["delta"] = {"content": piece.text} | ({} if choice.begun else {"role": "assistant"})
        else:
            shown["text"] = piece.text
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

    def _usage(self) -> dict[str, int]:
        """Return the token counts; a prompt counts once, however many answers it has."""
        prompts = sum(len(choice.request.prompt) for choice in self._choices[:: self._params.n])
        written = sum(len(choice.request.output) for choice in self._choices)
        return {"prompt_tokens": prompts, "completion_tokens": written, "total_tokens": prompts + written}

    def _logprobs(self, choice: Choice, tokens: list[int]) -> dict[str, Any] | None:
        """Return the log-probabilities of the next tokens of an answer."""
        if choice.scores is None:
            return None
        scores = [choice.scores[choice.num_sent + number] for number in range(len(tokens))]
        choice.num_sent += len(tokens)
        if self._chat:
            return {"content": [self._scored(score) for score in scores], "refusal": None}
        words = [self._word(score.token) for score in scores]
        tops = [{self._word(token): logprob for token, logprob in score.top} for score in scores]
        offsets, at = (
            [],
            sum(len(self._word(token)) for token in choice.request.output[: choice.num_sent - len(tokens)]),
        )
        for word in words:
            offsets.append(at)
            at += len(word)
        logprobs = [score.logprob for score in scores]
        return {"tokens": words, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}

    def _scored(self, score: TokenLogprobs) -> dict[str, Any]:
        return self._one(score.token, score.logprob) | {"top_logprobs": [self._one(*pair) for pair in score.top]}

    def _one(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._word(token), "logprob": logprob, "bytes": list(self._bytes(token))}

    def _word(self, token: int) -> str:
        return self._bytes(token).decode(errors="replace")

    def _bytes(self, token: int) -> bytes:
        found: bytes = self._tokenizer.token_bytes.get(token, b"")
        return found
