"""Which line of a kernel an address in its code belongs to."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from .translation import HEADER, SOURCE

Line = tuple[str, int]  # the text, SOURCE or HEADER, and the number

_SAID = re.compile(rf"(?:^|/|\()({SOURCE}|{HEADER}):(\d+)", re.MULTILINE)


def lines_at(library: Path, offset: int, base: int) -> list[Line]:
    """The line of a call that returns to this offset, then those that it was called from, where functions are inlined.

    Nothing, if the tool is missing that can read a library's lines.
    """
    at = offset - 1  # a return address lies behind the call
    if sys.platform == "darwin":
        command = ["atos", "-o", str(library), "-l", hex(base), "-i", hex(base + at)]
    elif shutil.which("addr2line"):
        command = ["addr2line", "-i", "-e", str(library), hex(at)]
    elif shutil.which("llvm-symbolizer"):
        command = ["llvm-symbolizer", "--output-style=GNU", "-e", str(library), hex(at)]
    else:
        return []
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return [(text, int(number)) for text, number in _SAID.findall(said) if int(number)]
