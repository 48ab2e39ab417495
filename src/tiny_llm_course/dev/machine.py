"""What, besides its inputs, may change a proof: a stored proof is valid only on a machine with the same description."""

import functools
import platform
import re
import subprocess
from importlib.metadata import version

from ..course.requirements import REQUIREMENTS, compiler, missing
from ..paths import SOLUTION

COMPUTING = ("mlx", "numpy", "pytest", "hypothesis", "regex", "nanobind", "starlette", "uvicorn", "pydantic")
INSTRUCTIONS = re.compile(r"\b__(?:AVX|ARM|FMA|SSE|F16C)\w*")  # sets of them, as a compiler's macros
COMPILED = (".cpp", ".h", ".metal")


@functools.cache
def in_words() -> str:
    """Return the system, processor family, Python, packages and missing requirements."""
    python = ".".join(platform.python_version_tuple()[:2])
    words = [f"{platform.system()} {platform.machine()}", f"Python {python}"]
    words += [f"{name} {version(name)}" for name in COMPUTING]
    words += [f"no {word}" for word in missing(REQUIREMENTS)]
    return ", ".join(words)


@functools.cache
def with_compiler() -> str:
    """Return `in_words` with the compiler and the available instruction sets that some kernel tests for."""
    if not (command := compiler()):
        return in_words()
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout.splitlines()[:1]
    macros = subprocess.run([*command, native, "-dM", "-E", "-x", "c++", "-"], input="", capture_output=True, text=True)
    sources = (file for file in SOLUTION.rglob("*") if file.suffix in COMPILED and ".build" not in file.parts)
    wanted = {name for file in sources for name in INSTRUCTIONS.findall(file.read_text(encoding="utf-8"))}
    here = sorted(name.strip("_") for name in wanted & set(INSTRUCTIONS.findall(macros.stdout)))
    return ", ".join([in_words(), *asked, *here])
