"""Maps an address in a library's code to source lines."""

import ctypes
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SAID = re.compile(r"^(?:.* \()?([^:\n()]+):(\d+)", re.MULTILINE)


@cache
def lines_at(library: Path, address: int) -> tuple[tuple[str, int], ...]:
    """Return file and line of the call that returns to this address, then of its inlining callers; () on failure."""
    base, at = base_of(address), address - 1  # a return address is after the call
    if not base:
        return ()
    if sys.platform == "darwin":
        command = ["atos", "-o", str(library), "-l", hex(base), "-fullPath", "-i", hex(at)]
    elif shutil.which("addr2line"):
        command = ["addr2line", "-i", "-e", str(library), hex(at - base)]
    elif shutil.which("llvm-symbolizer"):
        command = ["llvm-symbolizer", "--output-style=GNU", "-e", str(library), hex(at - base)]
    else:
        return ()
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    return tuple((file, int(number)) for file, number in SAID.findall(said) if int(number))


class _Info(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


def base_of(address: int) -> int:
    """Return the load address of the library that contains an address; 0 if there is none."""
    info = _Info()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return int(info.dli_fbase or 0) if found else 0
