"""Make one generated file in a process of its own, and trace which files of the checkout that opens.

`python -m tiny_llm_course.dev.book.making 1.1` prints, as JSON, the `text` and its `inputs`, or an `error`. The process
has imported nothing and keeps nothing of another file, so what it opens is all that the text depends on. A folder
that is searched is an input as well, and so is a file that is looked for in vain.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

seen: set[str] = set()


def _trace(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.scandir") and isinstance(arguments[0], str | os.PathLike):
        seen.add(os.fspath(arguments[0]))


def main(name: str) -> None:
    """Print what a generated file should hold and the files below the checkout that it is made of."""
    seen.update(filter(None, (getattr(module, "__file__", None) for module in list(sys.modules.values()))))
    sys.addaudithook(_trace)
    from .listings import parts_of
    from .parts import as_text

    made: dict[str, Any]
    try:
        made = {"text": as_text(parts_of(name))}
    except (OSError, ValueError) as error:  # a file or a target is not there, or a quiz's known mistake
        made = {"error": str(error)}
    print(json.dumps(made | {"inputs": sorted(_inputs())}))


def _inputs() -> set[str]:
    """The names of the traced files: bytecode stands for its source, and what git ignores is left out."""
    from ...paths import COURSE, ROOT

    found = set()
    for file in map(Path, seen):
        if file.parent.name == "__pycache__":
            file = Path(importlib.util.source_from_cache(file.with_suffix(".pyc")))
        file = Path(os.path.abspath(file))
        base = ROOT if file.is_relative_to(ROOT) else COURSE.parents[1]
        if file.is_relative_to(base) and not any(part.startswith(".") for part in file.relative_to(base).parts):
            found.add(file.relative_to(base).as_posix())
    return found


if __name__ == "__main__":
    main(sys.argv[1])
