"""Compiles a text in C++ into a library that can be watched, once for each text, and keeps it by its content.

There are two builds of a text. The checked one calls the runtime before each access to memory; a loop that it hands to
`watch_chunks` runs chunk by chunk. The fast one is what an engine would run: all that is watched of it are the guard
zones of its buffers, and how it ends.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RUNTIME = Path(__file__).parent / "runtime"
MOST = 500  # libraries that are kept, about 0.3 MB each
UNIT = "unit.cpp"  # what is compiled: a source between a head and a tail
COMMON = ("-std=c++17", "-fPIC", "-pthread")
# All other names are the library's own: it must call our memcpy and our allocator, and nobody else must.
LINUX_LINK, MAC_LINK = (f"-Wl,--version-script={RUNTIME / 'exports.map'}", "-ldl"), ("-Wl,-exported_symbol,_watch*",)
EVERYWHERE, WATCHED = ("memory", "run"), ("compiler", "allocator")  # files of the runtime
FUNCTION = re.compile(r'^[ \t]*extern\s+"C"\s+void\s+(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{', re.MULTILINE)


class DoesNotCompile(Exception):
    """The compiler refuses a text; the message is all that it said."""


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


def build(source: Source, compiler: Sequence[str], kept: Path, checked: bool) -> Path:
    """The library made of a source, in a folder of `kept`.

    Raises:
        DoesNotCompile: the compiler, whose command is given, refuses it.
    """
    runtime = [_runtime(name, tuple(compiler), kept) for name in EVERYWHERE + WATCHED * checked]
    flags = [*COMMON, "-g1", "-iquote", str(source.file.parent), *_flags(tuple(compiler), checked)]
    if checked:
        flags += ["-DWATCHED"]
    headers = [file.read_bytes() for file in sorted(source.file.parent.rglob("*.h")) if file.is_file()]
    key = _hash(
        source.text, str(source.file), *headers, *flags, *_linking(), *map(str, runtime), _version(tuple(compiler))
    )
    library = kept / key / "library.so"
    if library.is_file():
        os.utime(library.parent)  # so that it is not among those that go
        return library
    callable_ = "".join(f"WATCH_CALLABLE({name})\n" for name in source.functions)
    head = _head(tuple(compiler), checked, kept)
    text = f'#include "{head}"\n#line 1 "{source.file}"\n{source.text}\n#line 1 "{head}"\n{callable_}'
    _made(library, text, [*compiler, *flags], [*compiler, *COMMON, "-shared", *_linking()], runtime)
    return library


def _made(library: Path, text: str, compiling: list[str], linking: list[str], runtime: Sequence[Path]) -> None:
    """Compile, link, and put the folder in its place whole: another process may be making the same."""
    library.parent.parent.mkdir(parents=True, exist_ok=True)
    _forget_old(library.parent.parent)
    with tempfile.TemporaryDirectory(dir=library.parent.parent) as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        (new / UNIT).write_text(text, encoding="utf-8")
        _run([*compiling, "-c", str(new / UNIT), "-o", str(new / "unit.o")])
        _run([*linking, str(new / "unit.o"), *map(str, runtime), "-o", str(new / library.name)])
        if sys.platform == "darwin" and shutil.which("dsymutil"):  # else the lines would stay behind in unit.o
            _run(["dsymutil", str(new / library.name)])
        (new / "unit.o").unlink()
        with suppress(OSError):  # another process has made it meanwhile
            os.replace(new, library.parent)


@cache
def _head(compiler: tuple[str, ...], checked: bool, kept: Path) -> Path:
    """The header to begin with. GCC takes one that it has compiled already, if it was by the same flags."""
    if not checked or "clang" in _version(compiler):
        return RUNTIME / "watch.h"
    flags = [*COMMON, "-g1", *_flags(compiler, checked), "-DWATCHED"]
    headers = [RUNTIME / "common.h", RUNTIME / "watch.h"]
    folder = kept / f"head-{_hash(*[header.read_bytes() for header in headers], *flags, _version(compiler))}"
    if not folder.is_dir():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            for header in headers:
                shutil.copy(header, new)
            _run([*compiler, *flags, "-x", "c++-header", str(new / headers[0].name)])
            with suppress(OSError):  # another process has made it meanwhile
                os.replace(new, folder)
    return folder / headers[0].name


def _linking() -> tuple[str, ...]:
    return MAC_LINK if sys.platform == "darwin" else LINUX_LINK


def _forget_old(kept: Path) -> None:
    """Leave the libraries that were used last."""
    made = [file.parent for file in kept.glob("*/library.so")]
    if len(made) > MOST:
        with suppress(OSError):  # another process forgets it, too
            made.sort(key=lambda folder: folder.stat().st_mtime)
        for folder in made[: len(made) - MOST // 2]:
            shutil.rmtree(folder, ignore_errors=True)


@cache
def _runtime(name: str, compiler: tuple[str, ...], kept: Path) -> Path:
    """A file of the runtime, compiled: it is not itself watched, and none of its names is seen from outside."""
    file = RUNTIME / f"{name}.cpp"
    flags = [*COMMON, "-O2", "-fvisibility=hidden"]
    texts = [each.read_bytes() for each in sorted(RUNTIME.iterdir())]
    made = kept / f"{name}-{_hash(*texts, *flags, _version(compiler))}.o"
    if not made.is_file():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            new = Path(scratch) / made.name
            _run([*compiler, *flags, "-c", str(file), "-o", str(new)])
            os.replace(new, made)
    return made


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise DoesNotCompile(done.stderr.decode(errors="replace"))


def _flags(compiler: tuple[str, ...], checked: bool) -> list[str]:
    """How the two builds differ. Clang does not watch registers wider than 16 bytes, so it is not given any."""
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    if not checked:
        return ["-O3", native]
    calls = [f"-fno-builtin-{name}" for name in ("memcpy", "memmove", "memset")]
    watched = ["-O1", "-fsanitize=thread", *calls]
    return watched if "clang" in _version(compiler) else [*watched, native]


@cache
def _version(compiler: tuple[str, ...]) -> str:
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for words in filter(None, (part.strip() for part in re.sub(r"//[^\n]*|/\*.*?\*/", "", text).split(","))):
        *kind, name = re.findall(r"\w+(?:::\w+)*", words)
        plain = [word for word in kind if word != "const"]
        found.append(Parameter(name, " ".join(plain), "*" in words, words.startswith("const ") and "*" in words))
    return tuple(found)


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        piece = part.encode() if isinstance(part, str) else part
        digest.update(len(piece).to_bytes(8) + piece)
    return digest.hexdigest()[:24]
