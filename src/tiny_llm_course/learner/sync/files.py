"""The learner's package in a sync: the new content of each file, in the work tree, the index and the commit."""

import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...course.registry import UsageError
from ...source.languages import language_of
from ...source.merge.functions import Kept, Merged
from ...source.merge.units import split
from ..progress import write_whole
from .git import Entry, Git, GitError

BOM = b"\xef\xbb\xbf"


class Change(NamedTuple):
    """A file of the work tree; None stands for no file."""

    path: str
    before: bytes | None
    after: bytes | None
    upstream: bytes | None
    merged: Merged


@dataclass
class Package:
    """The package after a sync: in the work tree, the index, and the commit."""

    changes: list[Change] = field(default_factory=list)  # files that change, or that keep a part unmerged
    staged: dict[str, Entry] = field(default_factory=dict)
    committed: dict[str, Entry] = field(default_factory=dict)


def merge_package(git: Git, folder: str, base: str, ours: str, theirs: str) -> Package:
    """Merge every file of the package in these commits; UsageError if a file is not Python. Writes only git objects."""
    was, has, comes = (git.entries(commit, folder) for commit in (base, ours, theirs))
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
                merged = content  # the learner's history need not parse; the work tree must
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


Content = bytes | None  # none: there is no file


def merge_file(git: Git, path: str, base: Content, mine: Content, new: Content) -> tuple[Content, Merged]:
    """Return the merged content (None: no file) and what was merged; SyntaxError if a changed Python file is broken."""
    was, has, comes = _plain(base), _plain(mine), _plain(new)
    if mine is None:  # the learner deleted it or never had it
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
    if content == has:
        return mine, merged
    windows = mine.count(b"\r\n") * 2 > mine.count(b"\n")  # keep its line ends and BOM
    return BOM * mine.startswith(BOM) + (content.replace(b"\n", b"\r\n") if windows else content), merged


def _plain(content: bytes | None) -> bytes | None:
    """Return the content without BOM and CRLF."""
    return None if content is None else content.removeprefix(BOM).replace(b"\r\n", b"\n")


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
    """Merge by lines with `git merge-file`; return None on conflicts."""
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
        what = f"{path}{line} is not Python ({own.msg or own}), and upstream has changed the file. Nothing has changed."
        return UsageError(f"{what} Fix that line, then:", "pdm run sync")
    what = f"Upstream's {path} needs a newer Python than this one ({error.msg}). Nothing has changed. Choose another:"
    return UsageError(what, "pdm use")


def write_files(root: Path, contents: dict[str, bytes | None]) -> None:
    """Write or (None) delete each file; every write is atomic."""
    for path, content in contents.items():
        file = (root / path).resolve()  # follow a link
        if content is None:
            file.unlink(missing_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content, file.stat().st_mode if file.exists() else 0o644)
