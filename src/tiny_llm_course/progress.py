"""What the course remembers about a learner: a small file, ignored by git, whose loss costs nothing but the memory."""

import json
from typing import Any

from .paths import ROOT

FILE = ROOT / ".tiny-llm" / "progress.json"


def load() -> dict[str, Any]:
    """All that is remembered; nothing if the file is missing or damaged."""
    try:
        data = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def save(data: dict[str, Any]) -> None:
    """Remember; a checkout that cannot be written to remembers nothing, and works."""
    try:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError:
        pass


def hints_seen(task: str) -> int:
    """How many hints of a task have been shown."""
    seen = load().get("hints")
    count = seen.get(task, 0) if isinstance(seen, dict) else 0
    return count if isinstance(count, int) else 0


def hint_shown(task: str, rung: int) -> None:
    """Remember that the hints up to this rung have been shown."""
    data = load()
    seen = data.get("hints")
    data["hints"] = {**(seen if isinstance(seen, dict) else {}), task: rung}
    save(data)
