"""Builds a library of a text in C++ whose functions take buffers, in one of two ways.

The checked one calls the runtime before each access to memory; a loop that it hands to `watch_chunks` runs chunk by
chunk. The fast one is what an engine would run: all that is watched of it are the guard zones of its buffers, and how
it ends.
"""

import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .compiling import CALLS, Compiler

RUNTIME = Path(__file__).parent / "runtime"
HEADERS = RUNTIME / "common.h", RUNTIME / "watch.h"
COMMON = ("-std=c++17", "-fPIC", "-pthread")
# All other names are the library's own: it must call our memcpy and our allocator, and nobody else must.
LINUX_LINK, MAC_LINK = (f"-Wl,--version-script={RUNTIME / 'exports.map'}", "-ldl"), ("-Wl,-exported_symbol,_watch*",)
PARTS = RUNTIME / "memory.cpp", RUNTIME / "run.cpp"
WATCHING = CALLS / "compiler.cpp", RUNTIME / "library.cpp"
FUNCTION = re.compile(r'^[ \t]*extern\s+"C"\s+void\s+(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One of a function: its type without `const` and `*`, and how it is passed."""

    name: str
    kind: str
    points: bool  # to a buffer
    constant: bool  # that it only reads


@dataclass(frozen=True)
class Source:
    """A text in C++, and the file that it stands for: its lines are that file's, and so are its headers."""

    text: str
    file: Path

    @property
    def functions(self) -> dict[str, tuple[Parameter, ...]]:
        """What can be called, by name: each `extern "C" void name(...)` that is defined in it."""
        return {found["name"]: _parameters(found["parameters"]) for found in FUNCTION.finditer(self.text)}


def build(source: Source, command: Sequence[str], kept: Path, checked: bool) -> Path:
    """The library made of a source by a compiler, in the folder `kept`.

    Raises:
        DoesNotCompile: the compiler refuses it.
    """
    compiler = Compiler(tuple(command), kept)
    flags = [*COMMON, "-g1", *_flags(compiler, checked)]
    # What kernels include takes longer to compile than they do; where they are not watched it differs by kernel.
    head = compiler.header([*flags, "-DWATCHED"], RUNTIME, HEADERS) if checked else HEADERS[1]
    own = [*flags, *["-DWATCHED"] * checked, "-include", str(head), "-iquote", str(source.file.parent)]
    callable_ = "".join(f"WATCH_CALLABLE({name})\n" for name in source.functions)
    text = f'#line 1 "{source.file}"\n{source.text}\n#line 1 "{HEADERS[1]}"\n{callable_}'
    reads = [*HEADERS, RUNTIME / "exports.map", *filter(Path.is_file, source.file.parent.rglob("*.h"))]
    link = [*COMMON, "-shared", *(MAC_LINK if sys.platform == "darwin" else LINUX_LINK)]
    parts = [_part(file, compiler) for file in (*PARTS, *WATCHING * checked)]
    return compiler.library(text, own, link, parts, reads)


def _part(file: Path, compiler: Compiler) -> Path:
    """A file of the runtime, compiled: it is not itself watched, and none of its names is seen from outside."""
    flags = [*COMMON, "-O2", "-fvisibility=hidden", "-I", str(CALLS), "-c"]
    reads = [*CALLS.glob("*.h"), *RUNTIME.glob("*.h"), file]
    return compiler.made(f"{file.stem}.o", flags, [file], reads)


def _flags(compiler: Compiler, checked: bool) -> list[str]:
    """How the two builds differ. Clang does not watch registers wider than 16 bytes, so it is not given any."""
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    if not checked:
        return ["-O3", native]
    calls = [f"-fno-builtin-{name}" for name in ("memcpy", "memmove", "memset")]
    watched = ["-O1", "-fsanitize=thread", *calls]
    return watched if compiler.is_clang else [*watched, native]


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for words in filter(None, (part.strip() for part in re.sub(r"//[^\n]*|/\*.*?\*/", "", text).split(","))):
        *kind, name = re.findall(r"\w+(?:::\w+)*", words)
        plain = [word for word in kind if word != "const"]
        found.append(Parameter(name, " ".join(plain), "*" in words, words.startswith("const ") and "*" in words))
    return tuple(found)
