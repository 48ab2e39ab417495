"""The git commands that `sync` is made of, each as a method that says what it does."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ...course.registry import UsageError

# A file's mode and the hash of its content.
Entry = tuple[str, str]


class GitError(Exception):
    """A git command failed; the message is the last line that it printed."""


class Git:
    """The repository whose work tree is at `root`.

    Raises:
        UsageError: there is no git, or `root` is not the top of a clone.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        if shutil.which("git") is None:
            raise UsageError("sync needs git, which is not on the PATH. How to get it:", "pdm run doctor")
        try:
            top = self.line("rev-parse", "--show-toplevel")
            is_top = os.path.samefile(top, root)
        except (GitError, OSError):
            is_top = False
        if not is_top:
            raise UsageError(
                "This folder is no clone, so git cannot bring in changes. Clone the course, and take your files there:",
                "git clone URL ../tiny-llm-new",
                "cp -R src/tiny_llm/. ../tiny-llm-new/src/tiny_llm",
            )

    def run(self, *args: str, stdin: bytes = b"", index: Path | None = None, folder: Path | None = None) -> bytes:
        """What a git command prints.

        Raises:
            GitError: it failed.
        """
        env = {**os.environ, "LC_ALL": "C"}
        if index:
            env["GIT_INDEX_FILE"] = str(index)
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *args],
            cwd=folder or self.root,
            env=env,
            input=stdin,
            capture_output=True,
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise GitError(next((line for line in lines if line.startswith(("fatal:", "error:"))), (lines or [""])[-1]))
        return done.stdout

    def line(self, *args: str) -> str:
        """The one line that a git command prints."""
        return self.run(*args).decode(errors="replace").strip()

    def says(self, *args: str) -> bool:
        """Whether a git command succeeds."""
        try:
            self.run(*args)
        except GitError:
            return False
        return True

    def paths(self, *args: str, folder: Path | None = None) -> list[str]:
        """The paths that a git command prints with -z."""
        return [os.fsdecode(path) for path in self.run(*args, folder=folder).split(b"\0") if path]

    def entries(self, tree: str, below: str) -> dict[str, Entry]:
        """The files of a commit below a folder."""
        return self._entries(0, 2, "ls-tree", "-r", "-z", tree, "--", below)

    def staged(self, below: str) -> dict[str, Entry]:
        """The files of the index below a folder."""
        return self._entries(0, 1, "ls-files", "-s", "-z", "--", below)

    def _entries(self, mode: int, blob: int, *args: str) -> dict[str, Entry]:
        """The files that a git command lists, mode and hash being these words of a line."""
        lines = (line.split("\t", 1) for line in self.paths(*args))
        return {path: (meta.split(" ")[mode], meta.split(" ")[blob]) for meta, path in lines}

    def blob(self, name: str) -> bytes:
        """The content of a file by its hash, or as COMMIT:PATH."""
        return self.run("cat-file", "blob", name)

    def store(self, content: bytes) -> str:
        """Keep a content; gives its hash."""
        return self.run("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def with_folder(self, tree: str, folder: str, files: dict[str, Entry]) -> str:
        """A tree in which these are all files of a folder; nothing else differs."""
        with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as scratch:
            index = Path(scratch, "index")  # which is not the repository's
            self.run("read-tree", tree, index=index)
            gone = self.entries(tree, folder).keys() - files.keys()
            self.run("update-index", "-z", "--index-info", stdin=index_lines(files, gone), index=index)
            return self.run("write-tree", index=index).decode().strip()

    def merged(self, ours: str, theirs: str, except_below: str) -> tuple[str, list[str]]:
        """Merge two commits in a folder of its own: the tree without the conflicts below a path, and the other ones."""
        with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as temporary:
            folder = Path(temporary, "merge")
            alone = ["-c", "user.name=sync", "-c", "user.email=sync", "-c", f"core.hooksPath={temporary}"]
            self.run(*alone, "worktree", "add", "--quiet", "--detach", str(folder), ours)
            try:
                try:
                    self.run(*alone, "merge", "--quiet", "--no-commit", "--no-ff", theirs, folder=folder)
                except GitError:
                    if not self.paths("ls-files", "-u", "-z", folder=folder):
                        raise
                self.run("rm", "-r", "-q", "-f", "--cached", "--ignore-unmatch", "--", except_below, folder=folder)
                conflicts = {line.split("\t", 1)[1] for line in self.paths("ls-files", "-u", "-z", folder=folder)}
                if conflicts:
                    return "", sorted(conflicts)
                return self.run("write-tree", folder=folder).decode().strip(), []
            finally:
                self.run("worktree", "remove", "--force", str(folder))


def index_lines(files: dict[str, Entry], gone: Iterable[str] = ()) -> bytes:
    """What `git update-index -z --index-info` reads."""
    lines = [f"{mode} {blob}\t{path}" for path, (mode, blob) in files.items()]
    lines += [f"0 {'0' * 40}\t{path}" for path in gone]
    return b"".join(os.fsencode(line) + b"\0" for line in lines)
