"""A transcript as a page of HTML."""

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 1rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
section { margin: 0.8rem 0; padding: 0.2rem 0.8rem; border-left: 4px solid #888; }
.user { border-color: #2a7; } .assistant { border-color: #47c; } .error { border-color: #c33; }
h2 { margin: 0.3rem 0; font-size: 1rem; }
pre { margin: 0.3rem 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; overflow: auto; }
"""


def page(entries: Iterable[Mapping[str, Any]], title: str) -> str:
    """Return the page of a transcript's entries; all that a model or a tool wrote is shown as text."""
    parts = [part for entry in entries for part in _parts(entry)]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    body = f"<h1>{html.escape(title)}</h1>\n" + "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>{body}</body></html>\n'


def _parts(entry: Mapping[str, Any]) -> Iterable[str]:
    if "stop" in entry:
        reason = f"{entry['stop']}: {entry['detail']}" if entry.get("detail") else entry["stop"]
        yield _section("stop", f"Stopped: {reason}", f"{entry.get('steps')} steps, {entry.get('tokens')} tokens")
        return
    message = entry.get("message", {})
    role, text = message.get("role", ""), message.get("content") or ""
    if text or role == "tool":
        failed = role == "tool" and text.startswith("Error: ")
        yield _section("error" if failed else role, "result" if role == "tool" else role, text)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield _section("assistant", f"call of {function['name']}", _indented(function["arguments"]))


def _section(kind: str, title: str, text: str) -> str:
    shown = html.escape(text.encode(errors="replace").decode())
    return f'<section class="{html.escape(kind)}"><h2>{html.escape(title)}</h2><pre>{shown}</pre></section>'


def _indented(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=1, ensure_ascii=False)
    except ValueError:
        return arguments
