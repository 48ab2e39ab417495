"""Gives MLX's CPU on Linux NumPy's OpenBLAS for float32 matmul, outside grading, which never calls `load`."""

import ctypes
import hashlib
import itertools
import math
import operator
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

OFF = "TINY_LLM_BLAS"  # set to 0, it leaves MLX as it is
SOURCE = Path(__file__).with_name("sgemm.cpp")
KEPT = COURSE.parents[1] / ".tiny-llm" / "blas"
PATIENCE = 20  # seconds for the compiler
NO_TRANS, TRANS, ROW_MAJOR = 111, 112, 101  # CBLAS constants

_in_place: ctypes.CDLL | None = None
_name = ""


def load() -> None:
    """Let MLX, if imported later, multiply by OpenBLAS; do nothing where that is impossible."""
    global _in_place, _name
    if sys.platform != "linux" or is_off() or _in_place or "mlx.core" in sys.modules:
        return
    with suppress(OSError, AttributeError, StopIteration, subprocess.SubprocessError):
        file, spec = _built(), find_spec("numpy")
        libraries = Path(spec.origin).parents[1] / "numpy.libs" if spec and spec.origin else Path()
        bundled = next(libraries.glob("libscipy_openblas64_*.so"))  # there is none if NumPy uses another library
        library, openblas = ctypes.CDLL(str(file)), ctypes.CDLL(str(bundled))
        config = openblas.scipy_openblas_get_config64_
        config.restype = ctypes.c_char_p
        library.tiny_llm_sgemm_by(
            openblas.scipy_cblas_sgemm64_,
            openblas.scipy_cblas_sgemv64_,
            openblas.scipy_openblas_set_num_threads64_,
            openblas.scipy_openblas_get_num_threads64_(),
        )
        if multiplies(library.cblas_sgemm):
            _in_place = ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)  # makes it visible to MLX
            _name = " ".join([*re.findall(r"OpenBLAS \d+\.\d+\.\d+", config().decode()), "of NumPy"])


def is_off() -> bool:
    """Return whether TINY_LLM_BLAS=0 leaves MLX as it is."""
    return os.environ.get(OFF) == "0"


def in_use() -> str:
    """Return `OpenBLAS 0.3.31 of NumPy` if MLX uses it, as tested by a small product; else ""."""
    if _in_place is None:
        return ""
    import mlx.core as mx

    _in_place.tiny_llm_sgemm_called()
    ones = mx.ones((2, 2))
    mx.eval(mx.matmul(ones, ones, stream=mx.cpu))
    return _name if _in_place.tiny_llm_sgemm_called() else ""


def multiplies(sgemm: Any) -> bool:
    """Return whether a function is CBLAS's sgemm, tested with one row, padded rows, and NaN-filled output memory."""
    k, n = 3, 4
    for m, trans_a, trans_b in itertools.product((1, 2), (False, True), (False, True)):
        a = [[i + 2.0 * p + 1 for p in range(k)] for i in range(m)]
        b = [[3.0 * p - j for j in range(n)] for p in range(k)]
        c = (ctypes.c_float * (m * (n + 1)))(*[math.nan] * (m * (n + 1)))
        kinds = (ROW_MAJOR, TRANS if trans_a else NO_TRANS, TRANS if trans_b else NO_TRANS)
        numbers = (m, n, k, ctypes.c_float(2), *_stored(a, trans_a), *_stored(b, trans_b), ctypes.c_float(0))
        sgemm(*kinds, *numbers, c, n + 1)
        columns = list(zip(*b, strict=True))
        expected = [2 * sum(map(operator.mul, row, column)) for row in a for column in columns]
        if [c[i * (n + 1) + j] for i in range(m) for j in range(n)] != expected:
            return False
    return True


def _stored(rows: Sequence[Sequence[float]], transposed: bool) -> tuple[Any, int]:
    """Return a matrix in memory, with a gap after each row, and the row stride."""
    lines = list(zip(*rows, strict=True)) if transposed else rows
    flat = [number for line in lines for number in (*line, math.nan)]
    return (ctypes.c_float * len(flat))(*flat), len(lines[0]) + 1


def _built() -> Path:
    """Return the library compiled from SOURCE, building it if it is not cached."""
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
