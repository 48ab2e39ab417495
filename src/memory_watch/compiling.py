"""Runs a C++ compiler, and keeps what it makes by its content.

With -fsanitize=thread it calls a function before each access to memory. Those functions are in `calls/compiler.cpp`,
and all that they do is to call `touch` of `calls/access.h`, which each user of this module defines in its own way.
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
UNIT = "unit.cpp"  # what a text is called that says no other name for its lines
MOST = 1000  # libraries, beyond which the oldest half goes


class DoesNotCompile(Exception):
    """The compiler refuses a text; the message is all that it said."""


@dataclass(frozen=True)
class Compiler:
    """A compiler's command, and the folder in which what it makes is kept."""

    command: tuple[str, ...]
    kept: Path

    @property
    def version(self) -> str:
        """What it is, and for which processor."""
        return _version(self.command)

    @property
    def is_clang(self) -> bool:
        """Or else GCC."""
        return "clang" in self.version

    def library(
        self, text: str, flags: Sequence[str], link: Sequence[str], parts: Sequence[Path], reads: Iterable[Path] = ()
    ) -> Path:
        """The library made of a text, which may read some files, and of parts that are compiled, named by content.

        Raises:
            DoesNotCompile: the compiler refuses it.
        """

        def fill(new: Path) -> None:
            unit = new.with_name(UNIT)
            unit.write_text(text, encoding="utf-8")
            self._run([*flags, "-c", str(unit), "-o", f"{unit}.o"])
            self._run([*link, f"{unit}.o", *map(str, parts), "-o", str(new)])
            if sys.platform == "darwin" and shutil.which("dsymutil"):  # else the lines would stay behind in the object
                subprocess.run(["dsymutil", str(new), "-o", f"{made}.dSYM"], capture_output=True, check=False)

        made = self.kept / f"{self._hash(text, *flags, *link, *map(str, parts), *_texts(reads))}.so"
        if not made.is_file():
            forget_old(self.kept)
        return _once(made, fill)

    def made(self, name: str, flags: Sequence[str], sources: Sequence[Path], reads: Iterable[Path]) -> Path:
        """A file of this name that is made of sources, which read some files."""
        place = self.kept / f"{Path(name).stem}-{self._hash(*_texts(reads), *flags)}{Path(name).suffix}"
        where = ["-install_name", str(place)] if sys.platform == "darwin" and place.suffix == ".so" else []
        return _once(place, lambda new: self._run([*flags, *where, *map(str, sources), "-o", str(new)]))

    def header(self, flags: Sequence[str], root: Path, files: Sequence[Path]) -> Path:
        """The first of some headers below a root, compiled: for `-include`, where the flags are the same."""

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
    """Of too many libraries leave those that were used last."""
    libraries = list(kept.glob("[0-9a-f]*.so"))
    if len(libraries) > most:
        with suppress(OSError):  # another process forgets them, too
            libraries.sort(key=lambda file: file.stat().st_mtime)
        for file in libraries[: len(libraries) // 2]:
            file.unlink(missing_ok=True)
            shutil.rmtree(f"{file}.dSYM", ignore_errors=True)


def _once(place: Path, fill: Callable[[Path], None]) -> Path:
    """What `fill` puts at the path that it is given: made once, and whole as soon as it is there."""
    if place.exists():
        os.utime(place)  # so that it is not among those that go
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
