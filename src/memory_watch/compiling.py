"""Runs a C++ compiler, and caches its outputs by content.

With -fsanitize=thread it calls a function before each memory access. Those functions are in `calls/compiler.cpp`, and
only call `touch` of `calls/access.h`, which each user of this module defines.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CALLS = Path(__file__).parent / "calls"  # what a user's own runtime is compiled with
UNIT = "unit.cpp"  # the file name of a text without #line
MOST = 1000  # libraries, beyond which the oldest half is deleted


class DoesNotCompile(Exception):
    """The compiler rejects a text; the message is its full output."""


@dataclass(frozen=True)
class Compiler:
    """A compiler's command, and the cache folder."""

    command: tuple[str, ...]
    kept: Path

    @property
    def version(self) -> str:
        """Return the compiler's version and the processor."""
        return _version(self.command)

    @property
    def is_clang(self) -> bool:
        """Return whether it is Clang; otherwise GCC."""
        return "clang" in self.version

    def library(
        self, text: str, flags: Sequence[str], link: Sequence[str], parts: Sequence[Path], reads: Iterable[Path] = ()
    ) -> Path:
        """Return the library of a text, which reads some files, and of compiled parts; DoesNotCompile if rejected."""

        def fill(new: Path) -> None:
            unit = new.with_name(UNIT)
            unit.write_text(text, encoding="utf-8")
            self._run([*flags, "-c", str(unit), "-o", f"{unit}.o"])
            self._run([*link, f"{unit}.o", *map(str, parts), "-o", str(new)])
            if sys.platform == "darwin" and shutil.which("dsymutil"):  # otherwise line numbers stay in the object file
                subprocess.run(["dsymutil", str(new), "-o", f"{made}.dSYM"], capture_output=True, check=False)

        made = self.kept / f"{self._hash(text, *flags, *link, *map(str, parts), *_texts(reads))}.so"
        if not made.is_file():
            forget_old(self.kept)
        return _once(made, fill)

    def made(self, name: str, flags: Sequence[str], sources: Sequence[Path], reads: Iterable[Path]) -> Path:
        """Return a file of this name compiled from sources, which read some files."""
        place = self.kept / f"{Path(name).stem}-{self._hash(*_texts(reads), *flags)}{Path(name).suffix}"
        where = ["-install_name", str(place)] if sys.platform == "darwin" and place.suffix == ".so" else []
        return _once(place, lambda new: self._run([*flags, *where, *map(str, sources), "-o", str(new)]))

    def header(self, flags: Sequence[str], root: Path, files: Sequence[Path]) -> Path:
        """Return the first of some headers below a root, precompiled, for `-include` with the same flags."""

        def copy(new: Path) -> None:
            for file in files:
                (new / file.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, new / file.relative_to(root))

        first = _once(self.kept / f"headers-{self._hash(*_texts(files), *flags)}", copy) / files[0].relative_to(root)
        made = Path(f"{first}.{'pch' if self.is_clang else 'gch'}")  # Clang remembers where the header itself lay
        _once(made, lambda new: self._run([*flags, "-x", "c++-header", str(first), "-o", str(new)]))
        return first

    def _run(self, arguments: Sequence[str]) -> None:
        command, environment = [*self.command, *arguments], {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
        if done.returncode:
            raise DoesNotCompile(done.stderr)

    def _hash(self, *parts: str) -> str:
        digest = hashlib.sha256()
        for part in (*parts, *self.command, self.version):
            digest.update(f"{len(part)}:{part}".encode(errors="surrogateescape"))
        return digest.hexdigest()[:24]


def forget_old(kept: Path, most: int = MOST) -> None:
    """Delete the least recently used half of the libraries if there are more than `most`."""
    libraries = list(kept.glob("[0-9a-f]*.so"))
    if len(libraries) > most:
        used = {}
        for file in libraries:
            with suppress(OSError):  # another process deletes them too
                used[file] = file.stat().st_mtime
        for file in sorted(used, key=used.__getitem__)[: len(used) // 2]:
            file.unlink(missing_ok=True)
            shutil.rmtree(f"{file}.dSYM", ignore_errors=True)


def _once(place: Path, fill: Callable[[Path], None]) -> Path:
    """Return the path, filled by `fill` if it is new; it appears atomically."""
    if place.exists():
        os.utime(place)  # marks it as used
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        new = Path(scratch) / place.name
        fill(new)
        with suppress(OSError):  # a folder that another process has made meanwhile
            os.replace(new, place)
    return place


def _texts(files: Iterable[Path]) -> list[str]:
    return [file.read_text(encoding="utf-8", errors="surrogateescape") for file in sorted(files)]


@cache
def _version(command: tuple[str, ...]) -> str:
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace", check=False)
    return said.stdout + platform.machine()
