"""Generate one file in a process that does nothing else, and collect the files of the checkout that it opens.

`python -m tiny_llm_course.dev.book.generate_one 1.1` prints JSON: the `text` and its `inputs`, including listed folders
and files that were not found, or an `error`.
"""

import json
import sys
from pathlib import Path

from ...paths import ROOT
from ..file_trace import traced_files


def main(name: str) -> None:
    """Print a generated file's text and the files below the checkout that it depends on."""
    imported = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    with traced_files(searched=True) as found:
        from .listings import parts_of
        from .math import with_signs
        from .parts import as_text

        try:
            made = {"text": with_signs(as_text(parts_of(name)))}
        except (OSError, ValueError) as error:  # a missing file, target, or known mistake of a quiz
            made = {"error": str(error)}
    own = {file for file in imported if file.is_relative_to(ROOT / "src")}
    names = sorted(file.relative_to(ROOT).as_posix() for file in found | own if _is_input(file))
    print(json.dumps(made | {"inputs": names}))


def _is_input(file: Path) -> bool:
    """Return whether it is in a folder of the checkout: not bytecode, and not found from another working directory."""
    parts = file.relative_to(ROOT).parts
    return "__pycache__" not in parts and (ROOT / parts[0]).exists() if parts else False


if __name__ == "__main__":
    main(sys.argv[1])
