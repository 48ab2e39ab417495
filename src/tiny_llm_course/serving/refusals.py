"""What is said to a client that cannot be served: a status, and an error in OpenAI's form."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

LONGEST = 300  # characters of a message: of what a client has sent there may be a million in it


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(_sayable(message))
        self.status, self.param, self.code, self.headers = status, param and _sayable(param), code, headers

    def body(self) -> dict[str, Any]:
        """The error in JSON."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The whole answer."""
        return JSONResponse(self.body(), self.status, dict(self.headers or {}))


def _sayable(text: str) -> str:
    """A text that is not long, and without halves of characters, which UTF-8 cannot say."""
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return short.encode(errors="backslashreplace").decode()


def wrong(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    """The client's request is wrong."""
    return Refusal(400, message, param=param, code=code)


def of_engine(error: Exception) -> Refusal:
    """What is said of a request that the engine could not end: it failed, or the server is going down."""
    if type(error).__name__ == "EngineClosed":
        return Refusal(503, str(error), code="shutting_down")
    return Refusal(500, "The engine failed in the middle of this request.", code="engine_failed")
