"""Build the kernels: `python build.py FOLDER`, with the compiler in CXX.

Each kernel is compiled separately into FOLDER/NAME.so, which the tests call through ctypes. All of them, with the MLX
bindings, are linked into FOLDER/_kernels.so, which the engine uses. Objects are cached in FOLDER/objects under a hash
of everything that they depend on: after a change, only the affected ones are compiled again.
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
# All instructions of this machine: the kernels run where they are built.
NATIVE = "-mcpu=native" if MAC and platform.machine() == "arm64" else "-march=native"
FLAGS = ["-O3", NATIVE, "-fPIC", "-fvisibility-inlines-hidden"]
LINK = ["-shared", *(["-undefined", "dynamic_lookup"] if MAC else ["-pthread"])]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def main() -> None:
    """Build everything, or exit with one line that says why not."""
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
    """Return the folders of MLX and nanobind, whose nanobind ABI versions must agree; exit if they do not."""
    import mlx.core as mx

    try:
        import nanobind
    except ImportError:
        sys.exit("nanobind is missing, which binds the kernels to MLX: pdm install")
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
        sys.exit(f"{versions} are incompatible: ABI {', '.join(theirs)} and {', '.join(ours)}: pdm install")
    return mlx, binding


def compiled(source: Path, folder: Path, flags: Sequence[str]) -> Path:
    """Return the object file of a source, compiling it unless it is cached."""
    command = [*COMPILER, *FLAGS, *flags]
    about = [*command, compiler_version(), version("mlx"), version("nanobind"), *texts(source)]
    made = folder / "objects" / f"{source.stem}-{hashlib.sha256(chr(0).join(about).encode()).hexdigest()[:16]}.o"
    if not made.exists():
        begun = made.with_suffix(".begun")
        run([*command, "-c", str(source), "-o", str(begun)])
        begun.replace(made)
    return made


def texts(source: Path) -> list[str]:
    """Return the texts of a source and of all files that it includes from this folder, recursively."""
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
    """Link a shared library and replace the old one atomically: another process may be using it."""
    begun = library.with_suffix(".begun")
    run([*COMPILER, *LINK, *map(str, objects), *flags, "-o", str(begun)])
    begun.replace(library)


def compiler_version() -> str:
    """Return the compiler's version string."""
    return subprocess.run([*COMPILER, "--version"], capture_output=True, text=True).stdout


def run(command: list[str]) -> None:
    """Run a command; end the process if it fails."""
    if subprocess.run(command, cwd=HERE).returncode:
        os._exit(1)  # at once: output of the other threads would bury the compiler's message


if __name__ == "__main__":
    main()
