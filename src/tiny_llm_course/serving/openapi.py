"""The API in the format of OpenAPI, and as a page."""

import html
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import models_json_schema

from .refusals import CODES
from .schema import EXPECTED, Chat, Completion, Detokenize, Tokenize, in_words

# By path: what it returns, and the schema of its body; those without a body take GET.
ENDPOINTS: dict[str, tuple[str, type[Any] | None]] = {
    "/v1/completions": ("The continuation of a text, or of several.", Completion),
    "/v1/chat/completions": ("The answer to a conversation.", Chat),
    "/v1/models": ("The model, with `max_model_len`: the maximum number of tokens of a prompt and its answer.", None),
    "/v1/models/{name}": ("The same, for its name.", None),
    "/tokenize": ("The tokens of a text or a conversation, as vLLM returns them.", Tokenize),
    "/detokenize": ("The text of tokens.", Detokenize),
    "/tokenizer_info": ("The special tokens and the chat template.", None),
    "/health": ("Status 200 while the server accepts requests, 503 while it shuts down.", None),
    "/metrics": ("Counters and latencies in Prometheus' format.", None),
    "/dashboard.json": ("A dashboard for Grafana that shows the metrics.", None),
    "/state": ("Slots, pages and throughput, as the chat page draws them.", None),
    "/openapi.json": ("This API in the format of OpenAPI.", None),
    "/docs": ("This API as a page.", None),
}
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"enum": [*CODES, None]},
            },
        }
    },
}


def openapi() -> dict[str, Any]:
    """Return the description of the API."""
    bodies = [(kind, "validation") for _, kind in ENDPOINTS.values() if kind]
    schemas = models_json_schema(bodies, ref_template="#/components/schemas/{model}")[1]["$defs"]  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {"title": "tiny-llm", "version": version("tiny-llm")},
        "paths": {path: {"post" if of[1] else "get": _operation(path, *of)} for path, of in ENDPOINTS.items()},
        "components": {
            "schemas": schemas | {"Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(path: str, returns: str, kind: type[Any] | None) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {"summary": returns, "security": [{}, {"key": []}]}
    found["responses"] = {"200": {"description": returns}, "default": {"description": "An error.", "content": error}}
    if names := re.findall(r"{(\w+)}", path):
        shared = {"in": "path", "required": True, "schema": {"type": "string"}}
        found["parameters"] = [{"name": name, **shared} for name in names]
    if kind:
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def parameters(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each field's name, type and range, default, and effect; code is in backticks."""
    schema = kind.model_json_schema()
    for name, field in schema["properties"].items():
        default = json.dumps(field.get("default"))
        shown = "required" if name in schema.get("required", ()) else "none" if default == "null" else f"`{default}`"
        yield name, _type(name, field), shown, field.get("description", "")


def _type(name: str, field: dict[str, Any]) -> str:
    if name in EXPECTED and len(field.get("anyOf", ())) > 2:
        return EXPECTED[name].removeprefix("expected ")
    return in_words(field) if field.keys() & {"type", "anyOf", "$ref"} else "see effect"


def page() -> str:
    """Return the page, as HTML."""
    parts = []
    for path, (returns, kind) in ENDPOINTS.items():
        parts.append(f"<h2>{'POST' if kind else 'GET'} <code>{path}</code></h2><p>{_shown(returns)}</p>")
        if kind:
            rows = [(f"`{name}`", *rest) for name, *rest in parameters(kind)]
            parts.append(_table(("Parameter", "Type and range", "Default", "Effect"), rows))
    codes = [(f"`{code}`", *meaning.split(": ", 1)) for code, meaning in CODES.items()]
    parts.append("<h2>Errors</h2>" + _table(("Code", "Status", "Meaning"), codes))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += '<title>API · tiny-llm</title><link rel="icon" href="data:,"><link rel="stylesheet" href="page/chat.css">'
    links = '<a href="./">Chat</a> <a href="openapi.json">OpenAPI</a>'
    header = f"<header><h1>The server's API</h1><nav>{links}</nav></header>"
    body = f'<body>{header}<main id="api">{"".join(parts)}</main></body>'
    return f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>'


def _table(titles: tuple[str, ...], rows: list[Any]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _shown(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))
