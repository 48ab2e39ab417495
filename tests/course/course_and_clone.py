"""A small course in a repository, and a learner's clone of it, for the tests of `sync`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tiny_llm_course.paths import REGISTRY, ROOT

BASICS = '''"""Basics."""

import mlx.core as mx


def softmax(x: mx.array, axis: int) -> mx.array:
    """Sum to one."""
    raise NotImplementedError("1.1.1 Softmax")


def linear(x: mx.array, w: mx.array) -> mx.array:
    """Project."""
    raise NotImplementedError("1.1.3 Linear")
'''
SOFTMAX = ('raise NotImplementedError("1.1.1 Softmax")', "# mine\n    return mx.softmax(x, axis=axis)")
DOC = ("Sum to one.", "Sum to one along an axis.")
CONFIG = '"""Config."""\n\nKNOWN = ("qwen3",)\n\n\ndef read() -> int:\n    """Read."""\n    return 1\n'
LEARNER = "src/tiny_llm"


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def put(root: Path, **files: str | None) -> None:
    """Write files; `basics` is one of the package, `README_md` one outside."""
    for name, content in files.items():
        path = root / (name.replace("_", ".") if "_" in name else f"{LEARNER}/{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_text(content, encoding="utf-8", newline="")


def commit(root: Path, **files: str | None) -> None:
    put(root, **files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change")


def read(root: Path, name: str) -> str:
    path = root / (name.replace("_", ".") if "_" in name else f"{LEARNER}/{name}.py")
    return path.read_bytes().decode()


def edited(text: str, *edits: tuple[str, str]) -> str:
    for find, new in edits:
        assert find in text
        text = text.replace(find, new)
    return text


def everything(root: Path) -> dict[str, bytes]:
    """All files of the work tree but backups, git's status, and where it stands."""
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".git", ".tiny-llm"} & set(path.relative_to(root).parts)
    }
    return (
        files
        | {"status": git(root, "status", "--porcelain=v1", "--branch").split("...")[0].encode()}
        | {
            "index": git(root, "ls-files", "-s").encode(),
            "head": git(root, "rev-parse", "HEAD").encode(),
        }
    )


def backups(root: Path) -> dict[str, str]:
    folder = root / ".tiny-llm" / "backups"
    return {
        path.relative_to(folder).parts[-1]: path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()
    }


def without_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git read no settings of this machine."""
    settings = "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n"
    (folder / "gitconfig").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def make_course(root: Path) -> Path:
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    shutil.copytree(REGISTRY, root / REGISTRY.relative_to(ROOT))
    (root / ".gitignore").write_text(".tiny-llm/\n", encoding="utf-8")
    commit(root, basics=BASICS, config=CONFIG, README_md="one\ntwo\nthree\n", other_txt="1\n")
    return root


def make_clone(course: Path) -> Path:
    git(course.parent, "clone", "-q", str(course), "clone")
    return course.parent / "clone"
