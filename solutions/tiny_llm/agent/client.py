"""A model on a server that speaks OpenAI's API."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from .model import Answer, Message


class ServerModel:
    """Asks a server for answers."""

    def __init__(self, url: str, model: str = "", key: str = "none", timeout: float = 600.0) -> None:
        """Store the server's address, such as http://127.0.0.1:8000/v1; without a model's name, use its first one."""
        self._url, self._key, self._timeout = url.rstrip("/"), key, timeout
        self.name = model or self._ask("/models")["data"][0]["id"]

    def __call__(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer:
        """Return the answer to a conversation; raise OSError, with the server's message, if there is none."""
        body: dict[str, Any] = {"model": self.name, "messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        found = self._ask("/chat/completions", body)
        try:
            choice = found["choices"][0]
            message = {name: value for name, value in choice["message"].items() if value is not None}
            tokens = int((found.get("usage") or {}).get("total_tokens", 0))
            return Answer({"role": "assistant", "content": None, **message}, choice["finish_reason"] or "stop", tokens)
        except (KeyError, IndexError, TypeError) as error:
            raise OSError(f"{self._url} gave an answer that is not in OpenAI's format") from error

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self._url + path, data, headers)
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise OSError(f"{self._url}: status {error.code}, {_message(error.read())}") from error
        except ValueError as error:
            raise OSError(f"{self._url}: {error}") from error
        except OSError as error:
            raise OSError(f"{self._url} cannot be reached: {getattr(error, 'reason', error)}") from error


def _message(body: bytes) -> str:
    """Return the message of an error in OpenAI's format, or the beginning of the body."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
