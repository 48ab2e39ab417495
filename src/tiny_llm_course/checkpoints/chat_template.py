"""Rendering a chat template, as transformers renders it: Jinja in a sandbox, with five additions."""

import datetime
import json
from collections.abc import Mapping
from typing import Any

from ..course.registry import UsageError


def render_chat(
    template: str,
    messages: list[dict[str, str]],
    special_tokens: Mapping[str, str] | None = None,
    *,
    add_generation_prompt: bool = True,
) -> str:
    """A conversation as the text that the model was trained on.

    A special token in a message stays one, as everywhere else: who writes `<|im_end|>` ends their turn.

    Args:
        template: of the checkpoint.
        messages: `{"role": "user", "content": "..."}` and so on.
        special_tokens: what the template knows as `bos_token`, `eos_token` and so on.
        add_generation_prompt: end with the beginning of the assistant's turn.

    Raises:
        UsageError: the template is not Jinja, or refuses the conversation.
    """
    environment = _environment()
    try:
        text: str = environment.from_string(template).render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **(special_tokens or {}),
        )
        return text
    except Exception as error:  # Jinja's own, and whatever a template's arithmetic raises
        line = f", line {error.lineno}" if hasattr(error, "lineno") else ""
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"The model's chat template{line}: {reason}") from error


def _environment() -> Any:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """`{% generation %} ... {% endgeneration %}` marks what the assistant said, and changes nothing of it."""

        tags = {"generation"}  # noqa: RUF012  (Jinja's own annotation is that of a set)

        def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value: Any, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})  # Jinja's own escapes HTML

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment
