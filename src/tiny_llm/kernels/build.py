"""Builds the kernels: `python build.py FOLDER`, with the compiler in CXX.

Each kernel is compiled by itself and becomes FOLDER/NAME.so, which the tests call through ctypes; together, with what
makes them operations of MLX, they are FOLDER/_kernels.so, which the engine uses. What is compiled is kept in
FOLDER/objects under a hash of all that goes into it: after a change, only what has changed is compiled again.
"""

import ctypes
import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
MAC = sys.platform == "darwin"
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
# The machine's own instructions: what is built here also runs here.
NATIVE = "-mcpu=native" if MAC and platform.machine() == "arm64" else "-march=native"
FLAGS = ["-O3", NATIVE, "-fPIC", "-fvisibility-inlines-hidden"]
LINK = ["-shared", *(["-undefined", "dynamic_lookup"] if MAC else ["-pthread"])]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def main() -> None:
    """Build, or say in one line why not."""
    folder = Path(sys.argv[1]).resolve()
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    kernels = sorted(HERE.glob("*.cpp"))
    with ThreadPoolExecutor(os.cpu_count()) as each:
        alone = list(each.map(lambda source: compiled(source, folder, ["-std=c++17"]), kernels))
        list(each.map(lambda one: link(folder / f"{one[0].stem}.so", [one[1]]), zip(kernels, alone, strict=True)))
        mlx, binding = packages()
        flags = ["-std=c++20", "-DNB_DOMAIN=mlx", f"-I{mlx / 'include'}", f"-I{sysconfig.get_path('include')}"]
        flags += [f"-I{binding / 'include'}", f"-I{binding / 'ext/robin_map/include'}", "-fvisibility=hidden"]
        sources = [*sorted((HERE / "extension").glob("*.cpp")), binding / "src/nb_combined.cpp"]
        glue = list(each.map(lambda source: compiled(source, folder, flags), sources))
    library = mlx / "lib"
    link(folder / "_kernels.so", [*alone, *glue], f"-L{library}", "-lmlx", f"-Wl,-rpath,{library}")
    for old in set((folder / "objects").iterdir()) - {*alone, *glue}:
        old.unlink()


def packages() -> tuple[Path, Path]:
    """The folders of MLX and of nanobind, which must agree on how an array is handed over."""
    import mlx.core as mx

    try:
        import nanobind
    except ImportError:
        sys.exit("nanobind is missing, which connects the kernels with MLX: pdm install")
    mlx, binding = Path(mx.__file__).parent, Path(nanobind.include_dir()).parent
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        sys.exit("Python.h is missing: install your system's package for building on Python, such as python3-dev")
    ctypes.pythonapi.PyInterpreterState_Get.restype = ctypes.c_void_p
    of_state = ctypes.pythonapi.PyInterpreterState_GetDict
    of_state.argtypes, of_state.restype = [ctypes.c_void_p], ctypes.py_object
    known = of_state(ctypes.pythonapi.PyInterpreterState_Get())
    theirs = {found[1] for name in known if (found := re.fullmatch(r"__nb_internals_.*_v(\d+)_.*mlx__", str(name)))}
    text = (binding / "src/nb_internals.h").read_text(encoding="utf-8")
    ours = set(re.findall(r"define NB_INTERNALS_VERSION (\d+)", text))
    if ours != theirs:
        versions = f"mlx {version('mlx')} and nanobind {version('nanobind')}"
        sys.exit(f"{versions} do not fit: interface {', '.join(theirs)} and {', '.join(ours)}: pdm install")
    return mlx, binding


def compiled(source: Path, folder: Path, flags: Sequence[str]) -> Path:
    """The object of a source, compiled unless it is there."""
    command = [*COMPILER, *FLAGS, *flags]
    about = [*command, compiler_version(), version("mlx"), version("nanobind"), *texts(source)]
    made = folder / "objects" / f"{source.stem}-{hashlib.sha256(chr(0).join(about).encode()).hexdigest()[:16]}.o"
    if not made.exists():
        begun = made.with_suffix(".begun")
        run([*command, "-c", str(source), "-o", str(begun)])
        begun.replace(made)
    return made


def texts(source: Path) -> list[str]:
    """The text of a source and, in any depth, of the files that it includes from here."""
    seen: dict[Path, str] = {}
    waiting = [source.resolve()]
    while waiting:
        file = waiting.pop()
        if file not in seen and file.is_file():
            seen[file] = file.read_text(encoding="utf-8")
            if file.is_relative_to(HERE):
                waiting += [(file.parent / name).resolve() for name in INCLUDE.findall(seen[file])]
    return list(seen.values())


def link(library: Path, objects: Sequence[Path], *flags: str) -> None:
    """A shared library, whole or not at all: another process may be using the one before."""
    begun = library.with_suffix(".begun")
    run([*COMPILER, *LINK, *map(str, objects), *flags, "-o", str(begun)])
    begun.replace(library)


def compiler_version() -> str:
    """What the compiler says that it is."""
    return subprocess.run([*COMPILER, "--version"], capture_output=True, text=True).stdout


def run(command: list[str]) -> None:
    """Run a command, and end with it where it fails."""
    if subprocess.run(command, cwd=HERE).returncode:
        os._exit(1)  # the compiler has said why; the other threads' words would only bury it


if __name__ == "__main__":
    main()
