"""Checks of the machine: Python, the system, the packages, MLX, PyTorch, PDM."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ..course import requirements
from ..paths import COURSE, ROOT
from . import Check, Line
from .blas import OFF, is_off
from .shadowing import shadowing_files

PATIENCE = 30  # seconds for a subprocess
MACOS, GLIBC = (14,), (2, 35)
REFERENCE = "the reference BLAS of MLX's package"
NAMES = {"compiler": "C++", "simulator": "simulator"}
GAIN = 30  # benches/blas.py

# Run in a child process, because a broken MLX may crash it. The last line printed is the result.
ASK_MLX = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tiny_llm_course.course.requirements import is_here
from tiny_llm_course.doctor.blas import in_use, load
load()
sys.path.pop(0)
import mlx.core as mx
words = {"device": str(mx.default_device()), "fast_blas": in_use(), "libraries": []}
words |= {word: is_here(word) for word in ("metal", "cuda")}
a = mx.ones((8, 8))
words["sum"] = (a @ a).sum().item()
try:
    import psutil
    words["libraries"] = sorted({m.path for m in psutil.Process().memory_maps()})
except Exception:
    pass
words["backends"] = [name for name in ("ring", "mpi", "nccl", "jaccl") if mx.distributed.is_available(name)]
print(json.dumps(words))
"""


def python() -> Iterator[Line]:
    """Check Python's version."""
    own = ".".join(map(str, sys.version_info[:3]))
    if not (3, 11) <= sys.version_info[:2] < (3, 15):
        yield Line("Python", f"{own}; the course needs 3.11 to 3.14.", fix="pdm use -f 3.12", stops=True)
    else:
        yield Line("Python", f"{own}, {sys.executable}")


def system() -> Iterator[Line]:
    """Check that MLX is built for this system."""
    machine, needed = platform.machine(), "Apple silicon with macOS 14, or Linux with glibc 2.35, on x86-64 or ARM"
    if sys.platform == "darwin":
        release = platform.mac_ver()[0]
        text = f"macOS {release}, {machine}"
        if machine != "arm64":
            text += ": MLX has no build for Intel. On Apple silicon, use an arm64 Python."
            yield Line("system", text, fix="pdm use -f /opt/homebrew/bin/python3", stops=True)
        elif _numbers(release) < MACOS:
            update = "softwareupdate --install --all"
            yield Line("system", f"{text}; the course needs macOS 14.", fix=update, stops=True)
        else:
            yield Line("system", text)
        return
    name, number = platform.libc_ver()
    text = f"{platform.system()}, {name or 'a C library other than glibc'} {number}, {machine}".replace(" ,", ",")
    fits = sys.platform == "linux" and name == "glibc" and _numbers(number) >= GLIBC
    if fits and machine in ("x86_64", "aarch64"):
        yield Line("system", text)
    else:
        yield Line("system", f"{text}: MLX has no build for it.", fix=f"use another machine: {needed}", stops=True)


def packages() -> Iterator[Line]:
    """Compare the installed packages with pyproject.toml."""
    with (COURSE.parents[1] / "pyproject.toml").open("rb") as file:
        wanted: list[str] = tomllib.load(file)["project"]["dependencies"]
    # Without a marker: required on every machine.
    plain = [entry for entry in wanted if ";" not in entry]
    names = {re.split(r"[^\w.-]", entry)[0]: entry.partition("==")[2] for entry in plain}
    missing = [name for name in names if version_of(name) is None]
    if missing:
        yield Line("packages", f"not installed: {', '.join(missing)}.", fix="pdm install", stops=True)
    for name, exact in names.items():
        if exact and (own := version_of(name)) not in (None, exact):
            yield Line("packages", f"{name} is {own}; the course is made for {exact}.", fix="pdm install")
    shown = [f"{name} {version_of(name)}" for name in ("mlx", "numpy", "pytest") if version_of(name)]
    if shown and not missing:
        yield Line("packages", ", ".join(shown))


def mlx() -> Iterator[Line]:
    """Check that MLX computes here, and report its devices and BLAS."""
    if find_spec("mlx") is None or any(path.stem == "mlx" for path in shadowing_files()):
        return  # reported by `packages` or `shadowing`
    reinstall = "pdm sync --reinstall"
    try:
        done = _asked()
    except subprocess.TimeoutExpired:
        yield Line("MLX", f"does not answer within {PATIENCE} s.", fix=reinstall, stops=True)
        return
    if done.returncode or not done.stdout.strip():
        last = [line for line in done.stderr.splitlines() if line.strip()]
        why = last[-1].strip() if last else f"its process exited with {done.returncode} and no message"
        yield Line("MLX", f"cannot be used: {why}", fix=reinstall, stops=True)
        return
    found = json.loads(done.stdout.splitlines()[-1])
    if found["sum"] != 512:
        yield Line("MLX", "computes a wrong product of two 8 x 8 matrices of ones.", fix=reinstall, stops=True)
        return
    yield Line("MLX", f"default device: {'GPU' if 'gpu' in found['device'] else 'CPU'}; week 1 is graded on the CPU")
    yield Line("BLAS", blas_in_words(found["fast_blas"], blas(found["libraries"])))
    for word in ("metal", "cuda"):
        yield _needed(word, found[word])
    yield Line("ranks", backends_in_words(found["backends"]))


def compiler() -> Iterator[Line]:
    """Check for a C++ compiler."""
    yield _needed("compiler", there := requirements.is_here("compiler"))
    if there and not requirements.is_here("simulator"):
        yield _needed("simulator", False)


def _needed(word: str, there: bool) -> Line:
    """Return the line for something that tasks or checks may require."""
    needed = requirements.REQUIREMENTS[word]
    text = "available" if there else f"not available: its checks are listed as not run here: needs {needed.text}"
    return Line(NAMES.get(word, needed.name), text, absent=not there)


def own_blas() -> str:
    """Return the BLAS that MLX's package uses, in words; "not known" if MLX does not answer."""
    try:
        return blas(json.loads(_asked().stdout.splitlines()[-1])["libraries"])
    except (subprocess.TimeoutExpired, LookupError, ValueError):
        return "not known"


def _asked() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ASK_MLX, str(COURSE.parent)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


def blas(libraries: list[str]) -> str:
    """Return the name of MLX's own CPU BLAS, from the libraries that a process with MLX has loaded."""
    if sys.platform == "darwin":
        return "Accelerate, Apple's own"
    names = " ".join(os.path.basename(path).lower() for path in libraries if "numpy.libs" not in path)
    known = {"openblas": "OpenBLAS", "mkl": "Intel's MKL", "blis": "BLIS", "blas": REFERENCE}
    return next((name for part, name in known.items() if part in names), "not known")


def blas_in_words(fast: str, own: str) -> str:
    """Return which BLAS engines use, which one the tests use, and why the faster one is missing if it is."""
    if fast:
        return f"{fast} for generate, chat and bench; tests are graded with {own}"
    if own != REFERENCE:
        return own
    if is_off():
        return f"{own}, as {OFF}=0 asks"
    needed = requirements.REQUIREMENTS["compiler"]
    if needed.is_here():
        return f"{own}: NumPy's OpenBLAS could not be used instead; large matrices are slow on the CPU"
    return f"{own}: with {needed.text}, large matrices would be about {GAIN} times as fast in generate, chat and bench"


def backends_in_words(found: list[str]) -> str:
    """Return which backends of mx.distributed connect the ranks of `dist`, and how to get MPI."""
    text = f"mx.distributed has {' and '.join(found) or 'no backend'}"
    if "mpi" in found or sys.platform != "linux":
        return text
    library = "MLX_MPI_LIBNAME=libmpi.so.40"
    return f"{text}; for MPI, which is optional: sudo apt install openmpi-bin, and set {library}"


def pytorch() -> Iterator[Line]:
    """Report whether PyTorch is installed; it is not imported, which would take seconds."""
    if own := version_of("torch"):
        yield Line("PyTorch", f"{own}: pdm run test 1.1 --oracle torch uses it")
        return

    from ..install_torch import pinned_version

    command = f"pdm run pip install torch=={pinned_version()}"
    yield Line("PyTorch", f"not installed: recorded answers are used. To install it: {command}", absent=True)


def pdm() -> Iterator[Line]:
    """Check that PDM is on the PATH and runs."""
    install = "pipx install 'pdm[locked]'"
    found = shutil.which("pdm")
    if found is None:
        yield Line("pdm", "not on the PATH.", fix=install)
        return
    if "PDM_PROJECT_ROOT" in os.environ:
        yield Line("pdm", f"{found} has started this command")  # asking for its version takes half a second
        return
    try:
        env = {**os.environ, "PDM_CHECK_UPDATE": "0"}
        done = subprocess.run([found, "--version"], env=env, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode:
        yield Line("pdm", f"{found} does not run.", fix=f"{install} --force")
    else:
        yield Line("pdm", (re.findall(r"\d+\.\d+\S*", done.stdout) or [done.stdout.strip()])[0])


def version_of(name: str) -> str | None:
    """Return the installed version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


CHECKS: tuple[Check, ...] = (python, system, packages, mlx, compiler, pytorch, pdm)
