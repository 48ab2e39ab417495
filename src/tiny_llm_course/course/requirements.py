"""What a task or a check may require of the machine: what it is called, whether it is here, and what brings it.

`doctor` asks where packages are missing, so this stands on the standard library, and on MLX only where MLX must answer.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Requirement:
    """One thing; `fix` is the command that brings it, where there is one. Each of `ways` is enough for it, too."""

    name: str  # completes "needs ..."
    is_here: Callable[[], bool]
    fix: str = ""
    ways: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`a C++ compiler (xcode-select --install)`."""
        return f"{self.name} ({self.fix})" if self.fix else self.name


def compiler() -> tuple[str, ...]:
    """The command that compiles C++, as CXX says or by its usual names; empty if there is none."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        return tuple(wanted) if shutil.which(wanted[0]) else ()
    # macOS always has a c++; without the developer tools all that it does is ask whether to install them.
    if sys.platform == "darwin" and subprocess.run(["xcode-select", "-p"], capture_output=True).returncode:
        return ()
    return next(((name,) for name in ("c++", "g++", "clang++") if shutil.which(name)), ())


def _metal() -> bool:
    if sys.platform != "darwin":
        return False
    import mlx.core as mx

    return bool(mx.metal.is_available())


def _cuda() -> bool:
    if sys.platform != "linux":
        return False
    import mlx.core as mx

    return bool(mx.cuda.is_available())


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
REQUIREMENTS = {
    "compiler": Requirement("a C++ compiler", lambda: bool(compiler()), GETTING_A_COMPILER),
    "simulator": Requirement("a C++ compiler to simulate Metal with", lambda: bool(compiler()), GETTING_A_COMPILER),
    "kernels": Requirement(
        "Metal, or a C++ compiler to simulate it with",
        lambda: _metal() or bool(compiler()),
        GETTING_A_COMPILER,
        ways=("metal", "simulator"),
    ),
    "metal": Requirement("Metal", _metal),
    "cuda": Requirement("CUDA", _cuda),
    "gpu": Requirement("Metal or CUDA", lambda: _metal() or _cuda(), ways=("metal", "cuda")),
    "port": Requirement("a TCP port of this machine", _port),
}


def known(words: Iterable[str]) -> tuple[str, ...]:
    """The words themselves; a ValueError in one line if one is none of ours."""
    words = tuple(words)
    for word in words:
        if word not in REQUIREMENTS:
            raise ValueError(f"{word!r} is no requirement; the requirements are {', '.join(REQUIREMENTS)}")
    return words


@cache
def is_here(word: str) -> bool:
    """Whether this machine has it; looked at once."""
    return REQUIREMENTS[word].is_here()


def missing(words: Iterable[str]) -> tuple[str, ...]:
    """Those of some words that this machine has not."""
    return tuple(word for word in words if not is_here(word))


def in_words(words: Iterable[str]) -> str:
    """`Metal and a C++ compiler (xcode-select --install)`; what comes with another of the words is not said."""
    wanted = dict.fromkeys(words)
    alone = [word for word in wanted if wanted.keys().isdisjoint(REQUIREMENTS[word].ways)]
    return " and ".join(REQUIREMENTS[word].text for word in alone)
