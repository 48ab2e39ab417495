"""Lets NumPy's OpenBLAS multiply float32 matrices for MLX, whose package for Linux has a slow BLAS for its CPU.

This is for running and measuring an engine. Grading does not call `load`: no verdict depends on what is here.
"""

import ctypes
import hashlib
import itertools
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..course.requirements import compiler
from ..paths import COURSE

OFF = "TINY_LLM_BLAS"  # =0 leaves MLX as it is
SOURCE = Path(__file__).with_name("sgemm.cpp")
KEPT = COURSE.parents[1] / ".tiny-llm" / "blas"
PATIENCE = 20  # seconds for the compiler
NO_TRANS, TRANS, ROW_MAJOR = 111, 112, 101  # the values of CBLAS

_in_place: ctypes.CDLL | None = None
_name = ""


def load() -> None:
    """Let MLX, if it is imported afterwards, multiply by OpenBLAS; nothing happens where that cannot be."""
    global _in_place, _name
    if sys.platform != "linux" or is_off() or _in_place or "mlx.core" in sys.modules:
        return
    with suppress(OSError, AttributeError, subprocess.SubprocessError):
        file = _built()
        library, openblas = ctypes.CDLL(str(file)), ctypes.CDLL(str(_openblas()))
        config = openblas.scipy_openblas_get_config64_
        config.restype = ctypes.c_char_p
        library.tiny_llm_sgemm_by(
            openblas.scipy_cblas_sgemm64_,
            openblas.scipy_cblas_sgemv64_,
            openblas.scipy_openblas_set_num_threads64_,
            openblas.scipy_openblas_get_num_threads64_(),
        )
        if multiplies(library.cblas_sgemm):
            _in_place = ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)  # only now does MLX find it
            _name = " ".join([*re.findall(r"OpenBLAS \d+\.\d+\.\d+", config().decode()), "of NumPy"])


def is_off() -> bool:
    """Whether the learner wants MLX as it is."""
    return os.environ.get(OFF) == "0"


def in_use() -> str:
    """`OpenBLAS 0.3.31 of NumPy` if MLX does multiply by it, as a small product shows; else empty."""
    if _in_place is None:
        return ""
    import mlx.core as mx

    _in_place.tiny_llm_sgemm_called()
    ones = mx.ones((2, 2))
    mx.eval(mx.matmul(ones, ones, stream=mx.cpu))
    return _name if _in_place.tiny_llm_sgemm_called() else ""


def multiplies(sgemm: Any) -> bool:
    """Whether a function is CBLAS's product, also of one row, of lines with gaps, into memory that holds no numbers."""
    k, n = 3, 4
    for m, trans_a, trans_b in itertools.product((1, 2), (False, True), (False, True)):
        a = [[i + 2.0 * p + 1 for p in range(k)] for i in range(m)]
        b = [[3.0 * p - j for j in range(n)] for p in range(k)]
        c = (ctypes.c_float * (m * (n + 1)))(*[math.nan] * (m * (n + 1)))
        kinds = (ROW_MAJOR, TRANS if trans_a else NO_TRANS, TRANS if trans_b else NO_TRANS)
        numbers = (m, n, k, ctypes.c_float(2), *_stored(a, trans_a), *_stored(b, trans_b), ctypes.c_float(0))
        sgemm(*kinds, *numbers, c, n + 1)
        wanted = [
            2 * sum(x * y for x, y in zip(row, column, strict=True)) for row in a for column in zip(*b, strict=True)
        ]
        if [c[i * (n + 1) + j] for i in range(m) for j in range(n)] != wanted:
            return False
    return True


def _stored(rows: Sequence[Sequence[float]], transposed: bool) -> tuple[Any, int]:
    """A matrix in memory, with a gap behind each line, and how far apart lines are."""
    lines = list(zip(*rows, strict=True)) if transposed else rows
    flat = [number for line in lines for number in (*line, math.nan)]
    return (ctypes.c_float * len(flat))(*flat), len(lines[0]) + 1


def _openblas() -> Path:
    """NumPy's own, beside the package; not of a NumPy that was built for another library."""
    spec = find_spec("numpy")
    libraries = Path(spec.origin).parents[1] / "numpy.libs" if spec and spec.origin else Path()
    found = next(libraries.glob("libscipy_openblas64_*.so"), None)
    if found is None:
        raise FileNotFoundError
    return found


def _built() -> Path:
    """The library made of SOURCE, compiled if it is not kept."""
    if not compiler():
        raise FileNotFoundError
    command = [*compiler(), "-O2", "-shared", "-fPIC"]
    made_from = "\0".join([platform.machine(), *command]).encode() + SOURCE.read_bytes()
    file = KEPT / f"sgemm-{hashlib.sha256(made_from).hexdigest()[:16]}.so"
    if not file.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:  # another process may be loading the library
            made = Path(folder, file.name)
            subprocess.run([*command, SOURCE, "-o", made], check=True, capture_output=True, timeout=PATIENCE)
            made.replace(file)
    return file
