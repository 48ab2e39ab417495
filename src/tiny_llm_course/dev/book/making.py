"""Make one generated file in a process of its own, and collect which files of the checkout that opens.

`python -m tiny_llm_course.dev.book.making 1.1` prints, as JSON, the `text` and its `inputs`, or an `error`. The process
has imported nothing and keeps nothing of another file, so what it opens is all that the text depends on. A folder
that is listed is an input as well, and so is a file that is looked for in vain.
"""

import json
import sys
from pathlib import Path

from ...paths import ROOT
from ..opened import opened


def main(name: str) -> None:
    """Print what a generated file should hold and the files below the checkout that it is made of."""
    imported = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    with opened(searched=True) as found:
        from .listings import parts_of
        from .parts import as_text

        try:
            made = {"text": as_text(parts_of(name))}
        except (OSError, ValueError) as error:  # a file or a target is not there, or a quiz's known mistake
            made = {"error": str(error)}
    own = {file for file in imported if file.is_relative_to(ROOT / "src")}
    print(json.dumps(made | {"inputs": sorted(file.relative_to(ROOT).as_posix() for file in found | own)}))


if __name__ == "__main__":
    main(sys.argv[1])
