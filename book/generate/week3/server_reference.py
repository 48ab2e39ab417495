"""The tables of the page about `pdm run serve`: every parameter and error code, from the server's own schema."""

from typing import Any

from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.serving.openapi import ENDPOINTS, parameters
from tiny_llm_course.serving.refusals import CODES
from tiny_llm_course.serving.schema import (
    Chat,
    Completion,
    Detokenize,
    GenerationRequest,
    StreamOptions,
    Tokenize,
)


def reference_parts() -> Parts:
    """Return a table for each kind of request, and one of the error codes."""
    shared = set(GenerationRequest.model_fields) - {"max_tokens"}
    kinds: dict[str, tuple[type[Any], set[str]]] = {
        "serving-both": (Completion, set(Completion.model_fields) - shared),
        "serving-stream-options": (StreamOptions, set()),
        "serving-completions": (Completion, shared),
        "serving-chat": (Chat, shared),
        "serving-tokenize": (Tokenize, set()),
        "serving-detokenize": (Detokenize, set()),
    }
    tables = {name: _table(kind, left_out) for name, (kind, left_out) in kinds.items()}
    ways = [f"| `{path}` | {'POST' if kind else 'GET'} | {returns} |" for path, (returns, kind) in ENDPOINTS.items()]
    tables["serving-endpoints"] = "\n".join(["| Endpoint | Method | Returns |", "|:--|:--|:--|", *ways, ""])
    tables["serving-metrics"] = _metrics()
    rows = [f"| `{code}` | {meaning.replace(': ', ' | ', 1)} |" for code, meaning in CODES.items()]
    return tables | {"serving-codes": "\n".join(["| Code | Status | Meaning |", "|:--|:--|:--|", *rows, ""])}


def _table(kind: type[Any], left_out: set[str]) -> str:
    rows = [f"| `{name}` | {' | '.join(rest)} |" for name, *rest in parameters(kind) if name not in left_out]
    return "\n".join(["| Parameter | Type and range | Default | Effect |", "|:--|:--|:--|:--|", *rows, ""])


def _metrics() -> str:
    from tiny_llm_solution.server.metrics import HELP

    rows = [f"| `{name}` | {_kind(name)} | {text} |" for name, text in HELP.items()]
    return "\n".join(["| Metric | Kind | Meaning |", "|:--|:--|:--|", *rows, ""])


def _kind(name: str) -> str:
    return "counter" if name.endswith("_total") else "histogram" if name.endswith("_seconds") else "gauge"
