"""HTTP errors: a status, and a body in OpenAI's format."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

API: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("api.toml").read_text(encoding="utf-8"))
CODES = API["codes"]
Headers = Mapping[str, str] | None
LONGEST = 300  # characters of a message, which may quote a million of a client's


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Headers = None
    ) -> None:
        assert code is None or code in CODES, code
        super().__init__(_sayable(message))
        self.status, self.param, self.code, self.headers = status, param and _sayable(param), code, headers

    def body(self) -> dict[str, Any]:
        """Return the error as JSON."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Return the response."""
        return JSONResponse(self.body(), self.status, dict(self.headers or {}))


def _sayable(text: str) -> str:
    """Return a text cut to LONGEST, without lone surrogates, which UTF-8 cannot encode."""
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return short.encode(errors="backslashreplace").decode()


def wrong(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    """Return the error for a bad request."""
    return Refusal(400, message, param=param, code=code or (param and "invalid_value"))


def of_engine(error: Exception) -> Refusal:
    """Return the error for a request that the engine could not finish: it failed, or the server is shutting down."""
    if type(error).__name__ == "EngineClosed":
        return Refusal(503, str(error), code="shutting_down")
    return Refusal(500, "The engine failed in the middle of this request.", code="engine_failed")
