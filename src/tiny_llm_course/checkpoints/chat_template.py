"""Render a chat template as transformers does: Jinja in a sandbox, with five additions."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..course.registry import UsageError


def render_chat(
    template: str,
    messages: list[dict[str, Any]],
    special_tokens: Mapping[str, str] | None = None,
    *,
    add_generation_prompt: bool = True,
    tools: list[dict[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
) -> str:
    """Return a conversation as the text that the model was trained on; raise UsageError if the template fails.

    `more` are variables that only some templates know, such as Qwen3's `enable_thinking`; it changes no other.
    A special token in a message stays one: a user who types `<|im_end|>` ends their turn.
    """
    environment = _environment()
    try:
        fixed = {"messages": messages, "tools": tools or None, "documents": None, **(special_tokens or {})}
        given = {**(more or {}), **fixed, "add_generation_prompt": add_generation_prompt}
        text: str = environment.from_string(template).render(given)
        return text
    except Exception as error:  # Jinja's errors, and any other that a template raises
        line = f", line {error.lineno}" if hasattr(error, "lineno") else ""
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"The model's chat template{line}: {reason}") from error


def check_template(folder: Path, template: str | None) -> None:
    """Raise UsageError if the chat template of a checkpoint folder cannot be parsed."""
    try:
        _environment().from_string(template or "")
    except Exception as error:
        own = folder / "chat_template.jinja"
        file, reason = own if own.exists() else folder / "tokenizer_config.json", str(error).partition(".")[0]
        raise UsageError(f"{file} has a chat template that is not valid Jinja: {reason}") from error


def _environment() -> Any:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """`{% generation %} ... {% endgeneration %}` marks the assistant's tokens; the text stays as it is."""

        tags = {"generation"}  # noqa: RUF012  (as Jinja annotates it)

        def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value: Any, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})  # Jinja's own escapes HTML

    settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
    settings["extensions"] = [Generation, jinja2.ext.loopcontrols]
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(**settings)
    environment.filters["tojson"] = tojson
    now = datetime.datetime.now
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": lambda form: now().strftime(form)}
    return environment
