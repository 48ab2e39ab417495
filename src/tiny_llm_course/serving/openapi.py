"""The API in the format of OpenAPI, and as a page."""

import html
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from pydantic.json_schema import models_json_schema

from .refusals import API, CODES
from .schema import EXPECTED, Chat, Completion, Detokenize, Tokenize, in_words

# By path: the schema of a body. Endpoints without a body take GET, the others POST.
BODIES: dict[str, type[Any]] = {"/v1/completions": Completion, "/v1/chat/completions": Chat}
BODIES |= {"/tokenize": Tokenize, "/detokenize": Detokenize}
ENDPOINTS = {path: (returns, BODIES.get(path)) for path, returns in API["endpoints"].items()}
PAGE = Path(__file__).with_name("api.html")
STRING = {"type": "string"}
DETAILS = {"message": STRING, "type": STRING, "param": {"type": ["string", "null"]}, "code": {"enum": [*CODES, None]}}
ERROR = {"type": "object", "properties": {"error": {"type": "object", "properties": DETAILS}}}


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
    environment = jinja2.Environment(autoescape=True)
    environment.filters["with_code"] = lambda text: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text)))
    endpoints = [(path, returns, parameters(kind) if kind else ()) for path, (returns, kind) in ENDPOINTS.items()]
    codes = [(code, *meaning.split(": ", 1)) for code, meaning in CODES.items()]
    return environment.from_string(PAGE.read_text(encoding="utf-8")).render(endpoints=endpoints, codes=codes)
