"""Rendering a chat template, as transformers renders it: Jinja in a sandbox, with four additions."""

import datetime
import json
from typing import Any

from .registry import UsageError


def render_chat(template: str, messages: list[dict[str, str]], *, add_generation_prompt: bool = True) -> str:
    """A conversation as the text that the model was trained on.

    Args:
        template: of the checkpoint.
        messages: `{"role": "user", "content": "..."}` and so on.
        add_generation_prompt: end with the beginning of the assistant's turn.

    Raises:
        UsageError: the template is not Jinja, or refuses the conversation.
    """
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value: Any, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, **options)  # Jinja's own escapes HTML

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(messages=messages, add_generation_prompt=add_generation_prompt)
    except jinja2.exceptions.TemplateError as error:
        raise UsageError(f"The model's chat template says: {error}") from error
