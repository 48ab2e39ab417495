"""Answers in OpenAI's form."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from .schema import Chat, Completion
from .service import Choice, Service
from .watching import Score


class Shapes:
    """Of the answers to one request: whole ones, and those of a stream."""

    def __init__(self, service: Service, asked: Completion | Chat, choices: list[Choice]) -> None:
        self._tokenizer, self._asked, self._choices = service.engine.tokenizer, asked, choices
        self._of = {choice.request: choice for choice in choices}
        self._chat = isinstance(asked, Chat)
        self._head = {"id": f"{'chatcmpl' if self._chat else 'cmpl'}-{uuid.uuid4().hex}", "created": int(time.time())}
        self._head["model"] = service.name

    def whole(self, pieces: Sequence[Any]) -> dict[str, Any]:
        """All of it at once."""
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
        """A piece of a stream."""
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
        """What comes behind them all."""
        return self._chunk([]) | {"usage": self._usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        answer = {**self._head, "object": self._object(".chunk"), "choices": choices}
        if self._asked.with_usage or self._asked.usage_so_far:
            answer["usage"] = self._usage() if self._asked.usage_so_far else None
        return answer

    def _object(self, what: str) -> str:
        return f"chat.completion{what}" if self._chat else "text_completion"

    def _usage(self) -> dict[str, int]:
        """A prompt counts once, however many answers are asked for."""
        prompts = sum(len(choice.request.prompt) for choice in self._choices[:: self._asked.n])
        written = sum(len(choice.request.output) for choice in self._choices)
        return {"prompt_tokens": prompts, "completion_tokens": written, "total_tokens": prompts + written}

    def _logprobs(self, choice: Choice, tokens: list[int]) -> dict[str, Any] | None:
        """Of the next tokens of an answer."""
        if choice.scores is None:
            return None
        scores = [choice.scores[choice.told + number] for number in range(len(tokens))]
        choice.told += len(tokens)
        if self._chat:
            return {"content": [self._scored(score) for score in scores], "refusal": None}
        words = [self._word(score.token) for score in scores]
        tops = [{self._word(token): logprob for token, logprob in score.likeliest} for score in scores]
        offsets, at = [], sum(len(self._word(token)) for token in choice.request.output[: choice.told - len(tokens)])
        for word in words:
            offsets.append(at)
            at += len(word)
        logprobs = [score.logprob for score in scores]
        return {"tokens": words, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}

    def _scored(self, score: Score) -> dict[str, Any]:
        return self._one(score.token, score.logprob) | {"top_logprobs": [self._one(*pair) for pair in score.likeliest]}

    def _one(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._word(token), "logprob": logprob, "bytes": list(self._bytes(token))}

    def _word(self, token: int) -> str:
        return self._bytes(token).decode(errors="replace")

    def _bytes(self, token: int) -> bytes:
        found: bytes = self._tokenizer.token_bytes.get(token, b"")
        return found
