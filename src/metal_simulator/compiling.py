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
    "-fsanitize=integer-divide-by-zero",
    "-fsanitize-coverage=trace-pc",  # a call in each piece of code, so that an endless loop ends
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",  # kernels look at bytes as what they need
    "-fwrapv",
    "-fno-stack-protector",
    "-fno-threadsafe-statics",
    "-ftrivial-auto-var-init=pattern",  # what a thread has not written is the same rubbish each time
    "-w",
    "-Werror=uninitialized",
    "-Werror=return-type",
)
_GCC = (
    "-fno-finite-loops",
    "-fno-aggressive-loop-optimizations",
    "-fmax-errors=1",
    f"-Werror=frame-larger-than={STACK}",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=0",
)
_CLANG = (
    "-fno-finite-loops",
    "-ferror-limit=1",
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
    prepared = _prepared(compiler, kept)
    made = kept / f"{_hash(text, prepared.name)}.so"
    if made.is_file():
        os.utime(made)  # in use
        return made
    flags = [*_KERNEL, *_own_flags(compiler), "-include", str(prepared / "metal" / "metal.h")]
    with tempfile.TemporaryDirectory(dir=kept) as scratch:
        source, new = Path(scratch, "kernel.cpp"), Path(scratch, "kernel.so")
        source.write_text(text, encoding="utf-8")
        done = _run([*compiler, *flags, "-c", str(source), "-o", f"{source}.o"])
        if done.returncode:
            raise DoesNotCompile(done.stderr)
        # The library of the compiler's own -fsanitize is not linked: its functions are the runtime's.
        done = _run([*compiler, *_LINK, f"{source}.o", str(prepared / "runtime.so"), "-o", str(new)])
        if done.returncode:
            raise DoesNotCompile(done.stderr)
        if sys.platform == "darwin" and shutil.which("dsymutil"):  # else the lines would stay behind in the object
            _run(["dsymutil", str(new), "-o", f"{made}.dSYM"])
        os.replace(new, made)
    _throw_old_away(kept)
    return made


def runtime() -> Path:
    """The runtime's library, with which every kernel is linked."""
    return _prepared(_compiler(), folder()) / "runtime.so"


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
def _prepared(compiler: tuple[str, ...], kept: Path) -> Path:
    """A folder with the runtime's library and the headers, which are compiled in advance: once for a compiler."""
    texts = [file.read_text(encoding="utf-8") for name in ("runtime", "metal") for file in sorted((HERE / name).iterdir())]
    own = _own_flags(compiler)
    made = kept / f"prepared-{_hash(*texts, *_KERNEL, *_RUNTIME, *own, *compiler, _version(compiler))}"
    if made.is_dir():
        return made
    # Compiled where it will stay: a compiler wants its prepared header by the name that it had.
    with tempfile.TemporaryDirectory(dir=kept) as scratch:
        new = Path(scratch, "new")
        for name in ("runtime", "metal"):
            shutil.copytree(HERE / name, new / name)
        sources = sorted(map(str, (HERE / "runtime").glob("*.cpp")))
        where = [f"-install_name={made / 'runtime.so'}"] if sys.platform == "darwin" else []
        header = new / "metal" / "metal.h"
        ending = "pch" if _is_clang(compiler) else "gch"
        jobs = [
            [*compiler, *_RUNTIME, *_LINK, *where, *sources, "-o", str(new / "runtime.so")],
            [*compiler, *_KERNEL, *own, "-x", "c++-header", str(header), "-o", f"{header}.{ending}"],
        ]
        with ThreadPoolExecutor() as both:
            for done in both.map(_run, jobs):
                if done.returncode:
                    raise NoCompiler(f"{shlex.join(compiler)} cannot compile the simulator: {_first_error(done.stderr)}")
        if not made.exists():
            os.replace(new, made)
    return made


@cache
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
    libraries = sorted(kept.glob("*.so"), key=lambda file: file.stat().st_mtime)
    for file in libraries[: len(libraries) // 2] if len(libraries) > MOST_KEPT else []:
        file.unlink(missing_ok=True)


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:24]
