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
        from .math import with_subscripts
        from .parts import as_text

        try:
            made = {"text": with_subscripts(as_text(parts_of(name)))}
        except (OSError, ValueError) as error:  # a missing file, target, or known mistake of a quiz
            made = {"error": str(error)}
    own = {file for file in imported if file.is_relative_to(ROOT / "src")}
    print(json.dumps(made | {"inputs": sorted(file.relative_to(ROOT).as_posix() for file in found | own)}))


if __name__ == "__main__":
    main(sys.argv[1])
