"""The git commands of `sync`, one method each."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ...course.registry import UsageError

Entry = tuple[str, str]  # a file's mode and the hash of its content


class GitError(Exception):
    """A git command failed; the message is its error line."""


class Git:
    """The repository whose work tree is at `root`; raises UsageError without git or if `root` is not a clone's top."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if shutil.which("git") is None:
            raise UsageError("sync needs git, which is not on the PATH. To fix it:", "pdm run doctor")
        try:
            is_top = os.path.samefile(self.line("rev-parse", "--show-toplevel"), root)
        except (GitError, OSError):
            is_top = False
        if not is_top:
            raise UsageError(
                "This folder is not a clone of the course, so it cannot be updated. Clone it, and copy your files:",
                "git clone URL ../tiny-llm-new",
                "cp -R src/tiny_llm/. ../tiny-llm-new/src/tiny_llm",
            )

    def run(self, *args: str, stdin: bytes = b"", index: Path | None = None, folder: Path | None = None) -> bytes:
        """Run a git command and return its stdout; raise GitError if it fails."""
        env = {**os.environ, "LC_ALL": "C"}
        if index:
            env["GIT_INDEX_FILE"] = str(index)
        command = ["git", "-c", "core.quotePath=false", *args]
        done = subprocess.run(command, cwd=folder or self.root, env=env, input=stdin, capture_output=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise GitError(next((line for line in lines if line.startswith(("fatal:", "error:"))), (lines or [""])[-1]))
        return done.stdout

    def line(self, *args: str) -> str:
        """Run a git command and return its one line of output."""
        return self.run(*args).decode(errors="replace").strip()

    def says(self, *args: str) -> bool:
        """Return whether a git command succeeds."""
        try:
            self.run(*args)
        except GitError:
            return False
        return True

    def paths(self, *args: str, folder: Path | None = None) -> list[str]:
        """Return the paths that a git command prints with -z."""
        return [os.fsdecode(path) for path in self.run(*args, folder=folder).split(b"\0") if path]

    def entries(self, tree: str, below: str) -> dict[str, Entry]:
        """Return a commit's files below a folder."""
        return self._entries(0, 2, "ls-tree", "-r", "-z", tree, "--", below)

    def staged(self, below: str) -> dict[str, Entry]:
        """Return the index's files below a folder."""
        return self._entries(0, 1, "ls-files", "-s", "-z", "--", below)

    def _entries(self, mode: int, blob: int, *args: str) -> dict[str, Entry]:
        """Return the files that a git command lists; mode and hash are these words of a line."""
        lines = (line.split("\t", 1) for line in self.paths(*args))
        return {path: (meta.split(" ")[mode], meta.split(" ")[blob]) for meta, path in lines}

    def blob(self, name: str) -> bytes:
        """Return the content of a file by its hash, or as COMMIT:PATH."""
        return self.run("cat-file", "blob", name)

    def store(self, content: bytes) -> str:
        """Store a content and return its hash."""
        return self.run("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def with_folder(self, tree: str, folder: str, files: dict[str, Entry]) -> str:
        """Return a copy of a tree in which a folder has exactly these files."""
        with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as scratch:
            index = Path(scratch, "index")  # which is not the repository's
            self.run("read-tree", tree, index=index)
            gone = self.entries(tree, folder).keys() - files.keys()
            self.run("update-index", "-z", "--index-info", stdin=index_lines(files, gone), index=index)
            return self.run("write-tree", index=index).decode().strip()

    def merged(self, ours: str, theirs: str, except_below: str) -> tuple[str, list[str]]:
        """Merge two commits in a temporary worktree: the tree, or the conflicts, ignoring those below a path."""
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
    """Return the input of `git update-index -z --index-info`."""
    lines = [f"{mode} {blob}\t{path}" for path, (mode, blob) in files.items()]
    lines += [f"0 {'0' * 40}\t{path}" for path in gone]
    return b"".join(os.fsencode(line) + b"\0" for line in lines)
