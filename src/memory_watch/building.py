"""Builds a library from C++ text whose functions take buffers, in one of two ways.

The checked build calls the runtime before each memory access, and runs a loop given to `watch_chunks` chunk by chunk.
The fast build is what an engine would run; only the guard zones of its buffers and its exit are checked.
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
# All other symbols stay local: the library must call our memcpy and allocator, and nothing else may.
LINUX_LINK, MAC_LINK = (f"-Wl,--version-script={RUNTIME / 'exports.map'}", "-ldl"), ("-Wl,-exported_symbol,_watch*",)
PARTS = RUNTIME / "memory.cpp", RUNTIME / "run.cpp"
WATCHING = CALLS / "compiler.cpp", RUNTIME / "library.cpp"
FUNCTION = re.compile(r'^[ \t]*extern\s+"C"\s+void\s+(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A function's parameter: its type without `const` and `*`, and how it is passed."""

    name: str
    kind: str
    points: bool  # to a buffer
    constant: bool  # that it only reads


@dataclass(frozen=True)
class Source:
    """C++ text, and the file whose lines and includes it stands for."""

    text: str
    file: Path
    headers: tuple[Path, ...] = ()  # the folders of its includes, if it is not the file's own

    @property
    def functions(self) -> dict[str, tuple[Parameter, ...]]:
        """Return the callable functions by name: each `extern "C" void name(...)` that the text defines."""
        return {found["name"]: _parameters(found["parameters"]) for found in FUNCTION.finditer(self.text)}


def build(source: Source, command: Sequence[str], kept: Path, checked: bool) -> Path:
    """Return the library compiled from a source, in the folder `kept`; DoesNotCompile if the compiler rejects it."""
    compiler = Compiler(tuple(command), kept)
    flags = [*COMMON, "-g1", *_flags(compiler, checked)]
    # Precompiled, because kernels' headers take longer to compile than kernels; unchecked builds differ by kernel.
    head = compiler.header([*flags, "-DWATCHED"], RUNTIME, HEADERS) if checked else HEADERS[1]
    folders = source.headers or (source.file.parent,)
    own = [*flags, *["-DWATCHED"] * checked, "-include", str(head), *(f"-iquote{folder}" for folder in folders)]
    callable_ = "".join(f"WATCH_CALLABLE({name})\n" for name in source.functions)
    text = f'#line 1 "{source.file}"\n{source.text}\n#line 1 "{HEADERS[1]}"\n{callable_}'
    reads = [
        *HEADERS,
        RUNTIME / "exports.map",
        *(file for folder in folders for file in folder.rglob("*.h") if file.is_file()),
    ]
    link = [*COMMON, "-shared", *(MAC_LINK if sys.platform == "darwin" else LINUX_LINK)]
    parts = [_part(file, compiler) for file in (*PARTS, *WATCHING * checked)]
    return compiler.library(text, own, link, parts, reads)


def _part(file: Path, compiler: Compiler) -> Path:
    """Return a compiled file of the runtime: not instrumented itself, and with hidden symbols."""
    flags = [*COMMON, "-O2", "-fvisibility=hidden", "-I", str(CALLS), "-c"]
    reads = [*CALLS.glob("*.h"), *RUNTIME.glob("*.h"), file]
    return compiler.made(f"{file.stem}.o", flags, [file], reads)


def _flags(compiler: Compiler, checked: bool) -> list[str]:
    """Return the flags that distinguish the builds. Clang does not instrument registers wider than 16 bytes."""
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    if not checked:
        return ["-O3", native]
    calls = [f"-fno-builtin-{name}" for name in ("memcpy", "memmove", "memset")]
    watched = ["-O1", "-fsanitize=thread", *calls]
    # Nothing sinks: a load before a bounds check stays there.
    if compiler.is_clang:
        return [*watched, "-mllvm", "-instcombine-code-sinking=0"]
    return [*watched, native, "-fno-tree-sink"]


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for words in filter(None, (part.strip() for part in re.sub(r"//[^\n]*|/\*.*?\*/", "", text).split(","))):
        *kind, name = re.findall(r"\w+(?:::\w+)*", words)
        plain = [word for word in kind if word != "const"]
        found.append(Parameter(name, " ".join(plain), "*" in words, words.startswith("const ") and "*" in words))
    return tuple(found)
