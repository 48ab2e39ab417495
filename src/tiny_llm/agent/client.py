"""A model on a server that speaks OpenAI's API."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from .model import Answer, Message


class ServerModel:
    """Asks a server for answers."""

    def __init__(
        self, url: str, model: str = "", key: str = "none", timeout: float = 600.0, tool_choice: str = "auto"
    ) -> None:
        """Store what a request needs; without a model's name, ask the server for its first one.

        Args:
            url: the server's address, such as http://127.0.0.1:8000/v1.
            model: the model's name on that server.
            key: the API key.
            timeout: seconds to wait for an answer.
            tool_choice: "auto", or "required" for an answer that must call a tool.

        Raises:
            OSError: the server cannot be asked for its models, or has none.
        """
        self._url, self._key, self._timeout, self._tool_choice = url.rstrip("/"), key, timeout, tool_choice
        self.name = model or self._first_model()

    def __call__(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer:
        """Return the answer to a conversation; raise OSError, with the server's message, if there is none."""
        body: dict[str, Any] = {"model": self.name, "messages": list(messages)}
        if tools:
            body |= {"tools": list(tools), "tool_choice": self._tool_choice}
        found = self._ask("/chat/completions", body)
        try:
            choice = found["choices"][0]
            message = {name: value for name, value in choice["message"].items() if value is not None}
            if calls := message.pop("tool_calls", None):
                message["tool_calls"] = [_checked(call) for call in calls]
            tokens = int((found.get("usage") or {}).get("total_tokens", 0))
            return Answer({"role": "assistant", "content": None, **message}, choice["finish_reason"] or "stop", tokens)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise OSError(f"{self._url} gave an answer that is not in OpenAI's format") from error

    def _first_model(self) -> str:
        try:
            return str(self._ask("/models")["data"][0]["id"])
        except (KeyError, IndexError, TypeError) as error:
            raise OSError(f"{self._url} lists no model: name one") from error

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self._url + path, data, headers)
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise OSError(f"{self._url}{path}: status {error.code}, {_message(error.read())}") from error
        except (ValueError, http.client.HTTPException) as error:
            raise OSError(f"{self._url}{path}: {error}") from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise OSError(f"{self._url} cannot be reached: {getattr(reason, 'strerror', None) or reason}") from error


def _checked(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call with the fields that the loop needs; some servers send the arguments as an object."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call["id"], "type": "function", "function": {"name": name, "arguments": arguments}}


def _message(body: bytes) -> str:
    """Return the message of an error in OpenAI's format, or the beginning of the body, in one line."""
    try:
        found = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        found = body.decode(errors="replace")[:200]
    return " ".join(found.split()).removesuffix(".")
