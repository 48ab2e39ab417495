"""A workspace `w` beside a folder `outside` with a secret, and an adversary who acts just before a system call."""

import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

SECRET = "TOP-SECRET"
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where fsync waits for no disk
# What Python's audit hooks report before the call: at each of these, another process could have been quicker.
CALLS = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.listdir", "os.scandir", "os.chmod"}


@dataclasses.dataclass(frozen=True)
class Scene:
    """`folder` has `w`, the workspace, `w-private`, whose name begins like it, and `outside`."""

    folder: Path

    @property
    def w(self) -> Path:
        return self.folder / "w"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    def others(self) -> dict[str, tuple[bytes | None, int]]:
        """Return every file and folder outside of the workspace, and in its `.git`, with content and permissions.

        What the adversary moved there is left out, and a workspace that was moved away counts as before.
        """
        w = next(path for path in (self.folder / "w.moved", self.w) if (path / ".git").is_dir())
        found = {}
        for name, top in (("outside", self.outside), ("w-private", self.folder / "w-private"), ("git", w / ".git")):
            for path in [top, *sorted(top.rglob("*"))]:
                below = path.relative_to(top).as_posix()
                if not below.startswith("pkg"):
                    body = path.read_bytes() if path.is_file() and not path.is_symlink() else None
                    found[f"{name}/{below}"] = (body, path.lstat().st_mode)
        return found


def build(folder: str | Path) -> Scene:
    """Write the scene's files."""
    scene = Scene(Path(folder))
    for name in ("w/src/pkg", "w/docs", "w/.git/hooks", "w-private", "outside/deep"):
        (scene.folder / name).mkdir(parents=True)
    (scene.w / "notes.txt").write_text("inside\n")
    (scene.w / "src/main.py").write_text("x = 1\n")
    (scene.w / "src/pkg/deep.py").write_text("y = 2\n")
    secrets = ("w/.git/config", "w-private/secret.txt", "outside/secret.txt", "outside/deep/secret.txt")
    # Names that are inside, too: what a folder that was exchanged for `outside` would lead to.
    for name in (*secrets, "outside/main.py", "outside/deep.py", "outside/notes.txt"):
        (scene.folder / name).write_text(f"{SECRET}\n")
    return scene


@contextlib.contextmanager
def new_scene() -> Iterator[Scene]:
    """Yield a scene in a temporary folder."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield build(Path(folder).resolve())


class Adversary:
    """Acts once, just before the call of this number; `acted` says whether there were so many calls.

    If the action raises, so does the call, as it does when a disk is full.
    """

    armed: "Adversary | None" = None
    installed = False

    def __init__(self, number: int, action: Callable[[], object], calls: Collection[str] = CALLS) -> None:
        self.number, self.action, self.calls, self.acted = number, action, calls, False

    def __enter__(self) -> "Adversary":
        if not Adversary.installed:
            Adversary.installed = True
            sys.addaudithook(Adversary.hear)
        Adversary.armed = self
        return self

    def __exit__(self, *error: object) -> None:
        Adversary.armed = None

    @staticmethod
    def hear(event: str, _arguments: object) -> None:
        me = Adversary.armed
        if me is not None and event in me.calls:
            me.number -= 1
            if me.number < 0:
                Adversary.armed = None  # so that the action's own calls are not heard
                me.acted = True
                me.action()


def next_descriptors() -> list[int]:
    """Return the numbers that the next descriptors get: the same before and after if none was left open."""
    found = [os.dup(0) for _ in range(8)]
    for descriptor in found:
        os.close(descriptor)
    return found


def swap(path: Path, other: str | Path) -> None:
    """Move a file or folder away, and put a symbolic link in its place."""
    path.rename(path.with_name(f"{path.name}.moved"))
    path.symlink_to(other)
