"""Compiles instrumented C++ kernels, once per text."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from memory_watch.compiling import CALLS, Compiler, DoesNotCompile

HERE = Path(__file__).parent
STACK = 200_000  # bytes of a thread's variables, below the stacks of runtime/groups.cpp

_LANGUAGE = ("-std=c++20", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden")
_RUNTIME = (*_LANGUAGE, "-O2", "-fno-stack-protector", "-I", str(CALLS))
_HEADERS = [HERE / "metal" / "metal.h", *sorted((HERE / "metal").iterdir()), HERE / "runtime" / "interface.h"]
_KERNEL = (
    *_LANGUAGE,
    "-O1",
    "-g1",
    "-fsanitize=thread",  # a call to our runtime before each access
    "-fsanitize=integer-divide-by-zero,bounds",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",  # kernels look at bytes as what they need
    "-fwrapv",
    "-fno-stack-protector",
    "-fno-threadsafe-statics",
    "-ftrivial-auto-var-init=pattern",  # deterministic uninitialized values
    "-Werror=uninitialized",
    "-Werror=return-type",
)
_GCC = (
    "-fno-finite-loops",
    "-fno-aggressive-loop-optimizations",
    "-fno-reorder-blocks",
    "-fno-tree-sink",  # a load before a bounds check stays there
    "-fmax-errors=1",
    f"-Werror=frame-larger-than={STACK}",
    "-Wno-maybe-uninitialized",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=0",
)
_CLANG = (
    "-fno-finite-loops",
    "-ferror-limit=1",
    "-fno-sanitize=local-bounds",  # it aborts without a message
    f"-Wframe-larger-than={STACK}",
    "-Werror=frame-larger-than",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-instcombine-code-sinking=0",  # as -fno-tree-sink
)
_LINK = ("-shared",) if sys.platform != "darwin" else ("-dynamiclib", "-undefined", "dynamic_lookup")


class NoCompiler(Exception):
    """There is no C++ compiler that can compile kernels here; the message says what to do."""


def library(text: str) -> Path:
    """Return the library of a kernel's C++ text; raise NoCompiler or DoesNotCompile."""
    compiler = _compiler()
    own, header = prepare()
    # The compiler's own sanitizer library is not linked: the runtime defines its functions.
    return compiler.library(text, [*_flags(compiler), "-include", str(header)], _LINK, [own])


def prepare() -> tuple[Path, Path]:
    """Return the runtime's library and header for all kernels, compiled on first use; raise NoCompiler."""
    return _prepared(_compiler())


@cache  # checking the cache takes longer than most kernels
def _prepared(compiler: Compiler) -> tuple[Path, Path]:
    files = [*sorted((HERE / "runtime").iterdir()), *sorted(CALLS.iterdir())]
    sources = [file for file in files if file.suffix == ".cpp"]

    def part(source: Path, compiler: Compiler) -> Path:
        return compiler.made(f"{source.stem}.o", (*_RUNTIME, "-c"), [source], files)

    with ThreadPoolExecutor() as pool:
        header = pool.submit(_must, compiler, _header)
        made = [pool.submit(_must, compiler, partial(part, source)) for source in sources]
        parts = [each.result() for each in made]
        own = _must(compiler, lambda compiler: compiler.made("runtime.so", (*_RUNTIME, *_LINK), parts, files))
        return own, header.result()


def _header(compiler: Compiler) -> Path:
    return compiler.header(_flags(compiler), HERE, _HEADERS)


def _flags(compiler: Compiler) -> list[str]:
    return [*_KERNEL, *(_CLANG if compiler.is_clang else _GCC)]


def folder() -> Path:
    """Return the cache folder: METAL_SIMULATOR_CACHE, or the system's cache folder."""
    if named := os.environ.get("METAL_SIMULATOR_CACHE"):
        kept = Path(named).absolute()
    elif sys.platform == "darwin":
        kept = Path.home() / "Library" / "Caches" / "metal-simulator"
    else:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metal-simulator"
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def _compiler() -> Compiler:
    compiler = Compiler(_command(), folder())
    try:
        _ = compiler.version
    except OSError as error:
        raise NoCompiler(f"{compiler.command[0]} does not run: {error.strerror}") from error
    return compiler


def _must(compiler: Compiler, make: Callable[[Compiler], Path]) -> Path:
    try:
        return make(compiler)
    except DoesNotCompile as error:
        said = str(error).splitlines() or ["it says nothing"]
        first = next((line for line in said if "error" in line), said[0])
        raise NoCompiler(f"{shlex.join(compiler.command)} cannot compile the simulator: {first}") from error


def _command() -> tuple[str, ...]:
    """Return the C++ compiler's command: METAL_SIMULATOR_CXX, or the first one installed."""
    if named := os.environ.get("METAL_SIMULATOR_CXX"):
        return tuple(shlex.split(named))
    for name in ("clang++", "g++", "c++") if sys.platform == "darwin" else ("g++", "clang++", "c++"):
        if shutil.which(name):
            return (name,)
    install = "xcode-select --install" if sys.platform == "darwin" else "sudo apt install g++"
    raise NoCompiler(f"there is no C++ compiler; install one: {install}")
