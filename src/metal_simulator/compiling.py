"""Compiles a kernel in C++ into a library that the runtime watches, once for each text, and keeps it by its content."""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
STACK = 200_000  # bytes of variables that a thread may have: less than the stacks of runtime/groups.cpp
MOST_KEPT = 1000  # libraries, beyond which the oldest half is thrown away

_LANGUAGE = ("-std=c++20", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden")
_RUNTIME = (*_LANGUAGE, "-O2", "-fno-stack-protector")
_KERNEL = (
    *_LANGUAGE,
    "-O1",
    "-g1",
    "-fsanitize=thread",  # a call before each access, to our own runtime
    "-fsanitize=integer-divide-by-zero,bounds",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",  # kernels look at bytes as what they need
    "-fwrapv",
    "-fno-stack-protector",
    "-fno-threadsafe-statics",
    "-ftrivial-auto-var-init=pattern",  # what a thread has not written is the same rubbish each time
    "-Werror=uninitialized",
    "-Werror=return-type",
)
_GCC = (
    "-fno-finite-loops",
    "-fno-aggressive-loop-optimizations",
    "-fno-reorder-blocks",
    "-fmax-errors=1",
    f"-Werror=frame-larger-than={STACK}",
    "-Wno-maybe-uninitialized",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=0",
)
_CLANG = (
    "-fno-finite-loops",
    "-ferror-limit=1",
    "-fno-sanitize=local-bounds",  # it stops without a word
    f"-Wframe-larger-than={STACK}",
    "-Werror=frame-larger-than",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
)
_LINK = ("-shared",) if sys.platform != "darwin" else ("-dynamiclib", "-undefined", "dynamic_lookup")


class NoCompiler(Exception):
    """There is no C++ compiler that can compile kernels here; the message says what to do."""


class DoesNotCompile(Exception):
    """The compiler refuses a kernel; the message is all that it said."""


def library(text: str) -> Path:
    """The library made of a kernel's text in C++.

    Raises:
        NoCompiler, DoesNotCompile
    """
    compiler, kept = _compiler(), folder()
    with ThreadPoolExecutor() as both:  # the first time they take a second or two
        parts = both.submit(_runtime, compiler, kept), both.submit(_headers, compiler, kept)
        runtime, header = (part.result() for part in parts)
    made = kept / f"{_hash(text, str(runtime), str(header))}.so"
    if made.is_file():
        os.utime(made)  # it is in use: see _throw_old_away
        return made
    flags = [*_KERNEL, *_own_flags(compiler), "-include", str(header)]
    with tempfile.TemporaryDirectory(dir=kept) as scratch:
        source, new = Path(scratch, "kernel.cpp"), Path(scratch, "kernel.so")
        source.write_text(text, encoding="utf-8")
        done = _run([*compiler, *flags, "-c", str(source), "-o", f"{source}.o"])
        if done.returncode:
            raise DoesNotCompile(done.stderr)
        # The library of the compiler's own -fsanitize is not linked: its functions are the runtime's.
        done = _run([*compiler, *_LINK, f"{source}.o", str(runtime), "-o", str(new)])
        if done.returncode:
            raise DoesNotCompile(done.stderr)
        if sys.platform == "darwin" and shutil.which("dsymutil"):  # else the lines would stay behind in the object
            _run(["dsymutil", str(new), "-o", f"{made}.dSYM"])
        os.replace(new, made)
    _throw_old_away(kept)
    return made


def runtime() -> Path:
    """The runtime's library, with which every kernel is linked."""
    return _runtime(_compiler(), folder())


def folder() -> Path:
    """Where compiled kernels are kept: METAL_SIMULATOR_CACHE, or the system's place for such."""
    if named := os.environ.get("METAL_SIMULATOR_CACHE"):
        kept = Path(named).absolute()
    elif sys.platform == "darwin":
        kept = Path.home() / "Library" / "Caches" / "metal-simulator"
    else:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metal-simulator"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


@cache
def _runtime(compiler: tuple[str, ...], kept: Path) -> Path:
    """The runtime's library, compiled once for a compiler."""
    files = sorted((HERE / "runtime").iterdir())
    flags = (*_RUNTIME, *_LINK)
    made = kept / f"runtime-{_hash(*map(_read, files), *flags, *compiler, _version(compiler))}.so"
    if not made.is_file():
        where = ["-install_name", str(made)] if sys.platform == "darwin" else []
        sources = [str(file) for file in files if file.suffix == ".cpp"]
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            new = Path(scratch, made.name)
            _must(compiler, [*compiler, *flags, *where, *sources, "-o", str(new)])
            os.replace(new, made)
    return made


@cache
def _headers(compiler: tuple[str, ...], kept: Path) -> Path:
    """The header of every kernel, compiled once for a compiler."""
    files = [*sorted((HERE / "metal").iterdir()), HERE / "runtime" / "interface.h"]
    flags = (*_KERNEL, *_own_flags(compiler))
    made = kept / f"headers-{_hash(*map(_read, files), *flags, *compiler, _version(compiler))}"
    if not made.is_dir():
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            new = Path(scratch, "new")
            for file in files:
                copy = new / file.relative_to(HERE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
            header = str(new / "metal" / "metal.h")
            ending = "pch" if _is_clang(compiler) else "gch"
            _must(compiler, [*compiler, *flags, "-x", "c++-header", header, "-o", f"{header}.{ending}"])
            if not made.exists():  # another process may have made the same
                os.replace(new, made)
    return made / "metal" / "metal.h"


def _must(compiler: Sequence[str], command: Sequence[str]) -> None:
    done = _run(command)
    if done.returncode:
        raise NoCompiler(f"{shlex.join(compiler)} cannot compile the simulator: {_first_error(done.stderr)}")


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _compiler() -> tuple[str, ...]:
    """The command of a C++ compiler: METAL_SIMULATOR_CXX, or the first that is installed."""
    if named := os.environ.get("METAL_SIMULATOR_CXX"):
        return tuple(shlex.split(named))
    for name in ("clang++", "g++", "c++") if sys.platform == "darwin" else ("g++", "clang++", "c++"):
        if shutil.which(name):
            return (name,)
    install = "xcode-select --install" if sys.platform == "darwin" else "sudo apt install g++"
    raise NoCompiler(f"there is no C++ compiler; install one: {install}")


def _own_flags(compiler: tuple[str, ...]) -> tuple[str, ...]:
    return _CLANG if _is_clang(compiler) else _GCC


def _is_clang(compiler: tuple[str, ...]) -> bool:
    return "clang" in _version(compiler)


@cache
def _version(compiler: tuple[str, ...]) -> str:
    return _run([*compiler, "--version"]).stdout + platform.machine()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}, check=False
        )
    except OSError as error:
        raise NoCompiler(f"{command[0]} does not run: {error.strerror}") from error


def _first_error(said: str) -> str:
    lines = said.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "it says nothing")


def _throw_old_away(kept: Path) -> None:
    libraries = sorted(kept.glob("[0-9a-f]*.so"), key=lambda file: file.stat().st_mtime)
    for file in libraries[: len(libraries) // 2] if len(libraries) > MOST_KEPT else []:
        file.unlink(missing_ok=True)


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:24]
