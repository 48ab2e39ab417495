"""The learner's package in a sync: what becomes of each file, in the work tree, the index and the commit."""

import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...course.registry import UsageError
from ...source.languages import language_of
from ...source.merge.functions import Kept, Merged
from ...source.merge.units import split
from ..progress import write_whole
from .git import Entry, Git, GitError

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Change:
    """A file of the work tree; None stands for no file."""

    path: str
    before: bytes | None
    after: bytes | None
    upstream: bytes | None
    merged: Merged


@dataclass
class Package:
    """The package after a sync: in the work tree, staged, and in the commit that is made."""

    changes: list[Change] = field(default_factory=list)  # files that change, or in which something was left as it is
    staged: dict[str, Entry] = field(default_factory=dict)
    committed: dict[str, Entry] = field(default_factory=dict)


def merge_package(git: Git, folder: str, base: str, ours: str, theirs: str) -> Package:
    """Merge every file of the package that upstream has or the learner keeps in git.

    Args:
        git: the learner's repository; nothing is written but contents into its store.
        folder: the package's path in it.
        base: the commit that the learner started from.
        ours: the learner's commit.
        theirs: upstream's commit.

    Raises:
        UsageError: a file cannot be merged because it is not Python.
    """
    trees = [git.entries(commit, folder) for commit in (base, ours, theirs)]
    was, has, comes = trees
    staged = git.staged(folder)
    package = Package()
    for path in sorted({*was, *has, *comes, *staged}):
        base_text, new_text = (git.blob(tree[path][1]) if path in tree else None for tree in (was, comes))
        mode = comes.get(path) or was.get(path) or has.get(path) or staged[path]
        for known, result in ((has, package.committed), (staged, package.staged)):
            entry = known.get(path)
            content = git.blob(entry[1]) if entry else None
            try:
                merged, _ = merge_file(git, path, base_text, content, new_text)
            except SyntaxError:
                merged = content  # it is the learner's past; the work tree counts
            if merged is not None:
                result[path] = (entry or mode)[0], git.store(merged)
        file = git.root / path
        content = file.read_bytes() if file.is_file() else None
        try:
            after, note = merge_file(git, path, base_text, content, new_text)
        except SyntaxError as error:
            raise _not_python(path, content, error) from error
        if after != content or note.kept:
            package.changes.append(Change(path, content, after, new_text, note))
    return package


def merge_file(
    git: Git, path: str, base: bytes | None, mine: bytes | None, new: bytes | None
) -> tuple[bytes | None, Merged]:
    """The merged content and what became of it; None stands for no file, as argument and as result.

    Raises:
        SyntaxError: both changed it, it is Python by its name, and one of them is not.
    """
    was, comes = _plain(base), _plain(new)
    has = _plain(mine)
    if mine is None:  # the learner has deleted it, or never had it
        return (None if base is not None and was == comes else new), Merged("")
    if has == comes or was == comes:
        return mine, Merged("")
    if new is None:
        if was == has:
            return None, Merged("")
        return mine, Merged("", kept=[Kept("the whole file", "upstream removed it; you wrote in it")])
    assert has is not None
    assert comes is not None
    if language := language_of(path):
        texts = [text if text is None else text.decode(errors="surrogateescape") for text in (was, has, comes)]
        merged = language.merge(texts[0], texts[1] or "", texts[2] or "", partial(_merged_texts, git))
        content: bytes | None = merged.text.encode(errors="surrogateescape")
    else:
        merged, content = Merged(""), comes if was == has else _merged_lines(git, was or b"", has, comes)
    if content is None:
        return mine, Merged("", kept=[Kept("the whole file", "you and upstream both changed it")])
    if mine == base:
        return new, merged
    return (mine if content == has else _like(mine, content)), merged


def _plain(content: bytes | None) -> bytes | None:
    """A content without what Windows adds to a text."""
    return None if content is None else content.removeprefix(BOM).replace(b"\r\n", b"\n")


def _like(example: bytes, content: bytes) -> bytes:
    """The content with the line ends, and the mark at its beginning, of an example."""
    windows = example.count(b"\r\n") * 2 > example.count(b"\n")
    return BOM * example.startswith(BOM) + (content.replace(b"\n", b"\r\n") if windows else content)


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SyntaxError("it is not UTF-8") from error


def _merged_texts(git: Git, *texts: str) -> str | None:
    base, mine, new = (text.encode(errors="surrogateescape") for text in texts)
    merged = _merged_lines(git, base, mine, new)
    return None if merged is None else merged.decode(errors="surrogateescape")


def _merged_lines(git: Git, base: bytes, mine: bytes, new: bytes) -> bytes | None:
    """Git's own merge of a file, by lines; None if there are conflicts."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as folder:
        files = [Path(folder, name) for name in ("mine", "base", "new")]
        for file, content in zip(files, (mine, base, new), strict=True):
            file.write_bytes(content)
        try:
            return git.run("merge-file", "-p", *map(str, files))
        except GitError:
            return None


def _not_python(path: str, mine: bytes | None, error: SyntaxError) -> UsageError:
    try:
        split(_decoded(_plain(mine) or b""))
    except SyntaxError as own:
        line = f":{own.lineno}" if own.lineno else ""
        return UsageError(
            f"{path}{line} is not Python ({own.msg or own}), and upstream has changed the file. Nothing is changed. "
            "Mend that line, then:",
            "pdm run sync",
        )
    return UsageError(
        f"Upstream's {path} needs a newer Python than this one ({error.msg}). Nothing is changed. Choose one:",
        "pdm use",
    )


def write_files(root: Path, contents: dict[str, bytes | None]) -> None:
    """Give each file its content, none for None; a file is there as a whole or not at all at any moment."""
    for path, content in contents.items():
        file = (root / path).resolve()  # a link stays a link
        if content is None:
            file.unlink(missing_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content, file.stat().st_mode if file.exists() else 0o644)
