"""What a task or check may require of the machine: its name, whether it is available, and how to install it.

`doctor` uses this where packages are missing, so it needs only the standard library, and MLX only for MLX's own
answers.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import NamedTuple


class Requirement(NamedTuple):
    """One requirement; `fix` is the command that installs it, if any. Each of `ways` satisfies it as well."""

    name: str  # completes "needs ..."
    is_here: Callable[[], bool]
    fix: str = ""
    ways: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Such as `a C++ compiler (xcode-select --install)`."""
        return f"{self.name} ({self.fix})" if self.fix else self.name


def compiler() -> tuple[str, ...]:
    """Return the C++ compiler's command, from CXX or by its usual names; empty if there is none."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        return tuple(wanted) if shutil.which(wanted[0]) else ()
    # macOS always has a c++; without the developer tools it only offers to install them.
    if sys.platform == "darwin" and subprocess.run(["xcode-select", "-p"], capture_output=True).returncode:
        return ()
    return next(((name,) for name in ("c++", "g++", "clang++") if shutil.which(name)), ())


@cache
def _simulates() -> bool:
    """Return whether the compiler has a half-precision type, as the simulator needs."""
    tried = [*compiler(), "-x", "c++", "-fsyntax-only", "-"]
    return bool(compiler()) and not subprocess.run(tried, input=HALF, capture_output=True).returncode


def _mlx_has(backend: str, system: str) -> bool:
    if sys.platform != system:
        return False
    import mlx.core as mx

    return bool(getattr(mx, backend).is_available())


_metal, _cuda = partial(_mlx_has, "metal", "darwin"), partial(_mlx_has, "cuda", "linux")


def _port() -> bool:
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
    except OSError:
        return False
    return True


ON_LINUX = "sudo apt install g++" if shutil.which("apt") else ""
GETTING_A_COMPILER = "xcode-select --install" if sys.platform == "darwin" else ON_LINUX
# As in metal_simulator/metal/scalars.h.
HALF = b"#if !defined(__aarch64__) || defined(__clang__) || __GNUC__ > 12\n_Float16 x;\n#else\n__fp16 x;\n#endif\n"
RECENT = "a C++ compiler to simulate {} with, GCC 12 or Clang 15, or newer"
METAL_OR_SIMULATOR, EITHER = f"Metal, or {RECENT.format('it')}", ("metal", "cuda", "simulator")
REQUIREMENTS = {
    "compiler": Requirement("a C++ compiler", lambda: bool(compiler()), GETTING_A_COMPILER),
    "simulator": Requirement(RECENT.format("Metal"), _simulates, GETTING_A_COMPILER),
    "kernels": Requirement(METAL_OR_SIMULATOR, lambda: _metal() or _cuda() or _simulates(), GETTING_A_COMPILER, EITHER),
    "metal": Requirement("Metal", _metal),
    "cuda": Requirement("CUDA", _cuda),
    "gpu": Requirement("Metal or CUDA", lambda: _metal() or _cuda(), ways=("metal", "cuda")),
    "port": Requirement("a TCP port of this machine", _port),
}


def known(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words, or raise ValueError for one that is not a requirement."""
    words = tuple(words)
    for word in words:
        if word not in REQUIREMENTS:
            raise ValueError(f"{word!r} is not a requirement; the requirements are {', '.join(REQUIREMENTS)}")
    return words


@cache
def is_here(word: str) -> bool:
    """Return whether this machine has it; checked once."""
    return REQUIREMENTS[word].is_here()


def missing(words: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements that this machine lacks."""
    return tuple(word for word in words if not is_here(word))


def in_words(words: Iterable[str]) -> str:
    """Return `Metal and a C++ compiler (xcode-select --install)`, without what another word implies."""
    wanted = dict.fromkeys(words)
    alone = [word for word in wanted if wanted.keys().isdisjoint(REQUIREMENTS[word].ways)]
    return " and ".join(REQUIREMENTS[word].text for word in alone)
