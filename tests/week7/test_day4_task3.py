"""Task 7.4.3, changes: exact edits, the order of approval, journal and replacement, undo, and ways out."""

import os
import re
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.abuse import APPROVALS, BY_PATH, RACES
from tests.week7.edits import AMBIGUOUS, EDITS, User, names
from tests.week7.scenes import Adversary, new_scene, next_descriptors

from tiny_llm.workspace import changes
from tiny_llm.workspace.diff import unified
from tiny_llm.workspace.journal import Entry, Journal, digest
from tiny_llm.workspace.root import Root
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_error, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


class Scripted:
    """A workspace with one file f, and the program that changes it."""

    def __init__(self, scene, user, *, dry_run=False, journal=None):
        self.scene, self.user = scene, user
        self.root = Root(scene.w)
        self.journal = Journal(scene.folder / "undo") if journal is None else journal
        self.program = changes.Changes(self.root, self.journal, user, dry_run=dry_run)

    @property
    def file(self):
        return self.scene.w / "f"


@contextmanager
def workspace(content, case, user=None, **more):
    """Yield a workspace whose file f has this content, and check that it is left clean."""
    with new_scene() as scene:
        if content is not None:
            (scene.w / "f").write_bytes(content)
        free = next_descriptors()
        made = Scripted(scene, user or User(), **more)
        with noted(case), made.root:
            yield made
        if next_descriptors() != free:
            fail(Kind.VALUES, "a descriptor is still open", case)
        fail_if_different("the files in the workspace are wrong", [],
                          [name for name in names(scene.w) if name not in EXPECTED], case)  # fmt: skip


EXPECTED = (".git", "docs", "notes.txt", "src", "f", "g", "l", "notes.txt.moved", "src.moved")


@pytest.mark.parametrize("which", EDITS)
def test_task_3_changes_edit(which):
    content, old, new = EDITS[which]
    case = f"{which}: content {content!r}, edit(f, {old!r}, {new!r})"
    expected = content.decode().replace(old, new).encode()
    with workspace(content, case) as w:
        diff = w.program.edit("f", old, new)
        fail_if_different("the file's content is wrong", expected, w.file.read_bytes(), case)
        wanted = unified("f", content.decode(), expected.decode())
        fail_if_different("the returned diff is wrong", wanted, diff, case)
        fail_if_different("what the user was asked is wrong", [("edit f", wanted)], w.user.asked, case)
        fail_if_different("the number of steps in the journal is wrong", 1, len(w.journal), case)
        fail_if_different("the journal's step is wrong", [Entry("f", content, digest(expected), 0o644)],
                          [*map(plain, w.journal.last())], case)  # fmt: skip


def plain(entry):
    return Entry(entry.path, entry.before, entry.after, 0o644)


@pytest.mark.parametrize("which", AMBIGUOUS)
def test_task_3_changes_edit_must_be_unique(which):
    content, old, count, lines = AMBIGUOUS[which]
    case = f"{which}: content {content!r}, edit(f, {old!r}, 'new')"
    with workspace(content, case) as w:
        message = ""
        with raises_value_error(case, f"{count} times", f"in lines {lines}"):
            try:
                w.program.edit("f", old, "new")
            except ValueError as error:
                message = str(error)
                raise
        if re.search(rf"in lines {lines}, \d", message):
            fail(Kind.NO_ERROR, "the message names more than the first ten lines", case, f"got       {message}")
        fail_if_different("the file has changed", content, w.file.read_bytes(), case)
        fail_if_different("the user was asked", [], w.user.asked, case)


@pytest.mark.parametrize(
    ("content", "old"),
    [(b"abc\n", "abx"), (b"abc\n", "ABC"), (b"a", ""), (b"", ""), (b"a\r\nb\r\n", "a\nb"), (b"a  b\n", "a b")],
    ids=repr,
)
def test_task_3_changes_edit_must_occur(content, old):
    case = f"content {content!r}, edit(f, {old!r}, 'new')"
    with workspace(content, case) as w:
        with raises_value_error(case):
            w.program.edit("f", old, "new")
        fail_if_different("the file has changed", content, w.file.read_bytes(), case)


def test_task_3_changes_nothing_to_change():
    case = "an edit, and a write, that change nothing"
    with workspace(b"abc", case) as w:
        for call in (lambda: w.program.edit("f", "b", "b"), lambda: w.program.write("f", "abc")):
            with raises_value_error(case):
                call()
        fail_if_different("the user was asked", [], w.user.asked, case)
        fail_if_different("there is a step in the journal", 0, len(w.journal), case)


def test_task_3_changes_what_is_no_text():
    case = "a file that is no UTF-8"
    with workspace(b"a\xff\n", case) as w:
        for call in (lambda: w.program.edit("f", "a", "b"), lambda: w.program.write("f", "b")):
            with raises_value_error(case):
                call()
        fail_if_different("the file has changed", b"a\xff\n", w.file.read_bytes(), case)


@pytest.mark.parametrize("more", [0, 1])
def test_task_3_changes_a_limit(more):
    """A file of 2**20 bytes can be changed, and can become so large; one byte more is too much."""
    accented = "\u00e9" * 2**19 + "x" * more  # half as many characters as bytes
    for content, text in ((b"x" * (2**20 + more), "y"), (b"y", "x" * (2**20 + more)), (b"y", accented)):
        size = f"{len(text):,} characters, {len(text.encode()):,} bytes"
        case = f"bytes of f: {len(content):,}; write(f, ...) of {size}"
        with workspace(content, case) as w:
            if more:
                with raises_value_error(case):
                    w.program.write("f", text)
            else:
                w.program.write("f", text)
            after = content if more else text.encode()
            fail_if_different("the file's size is wrong", len(after), len(w.file.read_bytes()), case)


@pytest.mark.parametrize("before", [None, b"", b"old\n"])
@pytest.mark.parametrize("text", ["new\n", "no line break", "\u00e9\r\n"])
def test_task_3_changes_write(before, text):
    case = f"content {before!r}, write(f, {text!r})"
    with workspace(before, case) as w:
        diff = w.program.write("f", text)
        fail_if_different("the file's content is wrong", text.encode(), w.file.read_bytes(), case)
        wanted = unified("f", None if before is None else before.decode(), text)
        fail_if_different("the returned diff is wrong", wanted, diff, case)
        fail_if_different("what the user was asked is wrong", [("write f", wanted)], w.user.asked, case)
        if before is None:
            fail_if_different("the permissions are wrong", 0o644, w.file.stat().st_mode & 0o7777, case)


def test_task_3_changes_an_empty_file():
    """A new file is deleted by undo(); one that was empty is empty again."""
    case = "write(f, '') without a file f"
    with workspace(None, case) as w:
        w.program.write("f", "")
        fail_if_different("the file's content is wrong", b"", w.file.read_bytes(), case)
        w.program.undo()
        fail_if_different("the file is still there after undo()", False, w.file.exists(), case)
    case = "write(f, 'a') with an empty file f"
    with workspace(b"", case) as w:
        w.program.write("f", "a")
        w.program.undo()
        after = w.file.read_bytes() if w.file.exists() else None
        fail_if_different("the content after undo() is wrong", b"", after, case)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400])
def test_task_3_changes_permissions(mode):
    case = f"a file with {mode:o}"
    with workspace(b"a\n", case) as w:
        w.file.chmod(mode)
        w.program.edit("f", "a", "b")
        fail_if_different("the permissions are wrong", oct(mode), oct(w.file.stat().st_mode & 0o7777), case)
        w.file.chmod(0o640)
        w.program.undo()
        fail_if_different(
            "the permissions after undo() are wrong", oct(mode), oct(w.file.stat().st_mode & 0o7777), case
        )


def test_task_3_changes_umask():
    """The permissions are those of the file, or 0o644, whatever the umask is."""
    case = "a umask of 077, a file f with 664, edit(f, 'a', 'b') and write(g, 'new'), and undo() twice"
    with workspace(b"a\n", case) as w:
        w.file.chmod(0o664)
        found, before = [], os.umask(0o077)
        try:
            for call in (lambda: w.program.edit("f", "a", "b"), lambda: w.program.write("g", "new"),
                         w.program.undo, w.program.undo):  # fmt: skip
                call()
                found.append([oct(x.stat().st_mode & 0o7777) for x in (w.file, w.scene.w / "g") if x.exists()])
        finally:
            os.umask(before)
        expected = [["0o664"], ["0o664", "0o644"], ["0o664"], ["0o664"]]
        fail_if_different("the permissions after each call are wrong", expected, found, case)


def test_task_3_changes_a_link():
    """The user is shown the file that a link leads to; the link stays."""
    case = "a link l to 'src/main.py', edit(l, '1', '2')"
    with workspace(b"", case) as w:
        (w.scene.w / "l").symlink_to("src/main.py")
        w.program.edit("l", "1", "2")
        fail_if_different("what the user was asked is wrong", "edit src/main.py", w.user.asked[0][0], case)
        fail_if_different("the file's content is wrong", "x = 2\n", (w.scene.w / "src/main.py").read_text(), case)
        fail_if_different("l is no link any more", True, (w.scene.w / "l").is_symlink(), case)


@pytest.mark.parametrize(("path", "error"), [("missing", OSError), ("missing/f", OSError), ("src", ValueError)])
def test_task_3_changes_what_is_no_file(path, error):
    case = f"edit({path!r}, 'a', 'b')"
    with workspace(b"", case) as w, raises_error(error, case):
        w.program.edit(path, "a", "b")


# In which order


@pytest.mark.parametrize("answer", [False, 0, None])
def test_task_3_changes_refused(answer):
    case = f"the user's answer is {answer}"
    with workspace(b"a\n", case, User(answer)) as w:
        for call in (lambda: w.program.edit("f", "a", "b"), lambda: w.program.write("g", "b")):
            with raises_value_error(case):
                call()
        fail_if_different("the file has changed", b"a\n", w.file.read_bytes(), case)
        fail_if_different("the new file exists", False, (w.scene.w / "g").exists(), case)
        fail_if_different("there is a step in the journal", 0, len(w.journal), case)


def test_task_3_changes_dry_run():
    case = "dry_run=True"
    with workspace(b"a\n", case, dry_run=True) as w:
        diff = w.program.edit("f", "a", "b")
        fail_if_different("the diff is wrong", unified("f", "a\n", "b\n"), diff, case)
        fail_if_different("the diff is wrong", unified("g", None, "b"), w.program.write("g", "b"), case)
        fail_if_different("the file has changed", b"a\n", w.file.read_bytes(), case)
        fail_if_different("the new file exists", False, (w.scene.w / "g").exists(), case)
        fail_if_different("the user was asked", [], w.user.asked, case)
        fail_if_different("there is a step in the journal", 0, len(w.journal), case)


class Watching(Journal):
    """Notes what the file has when a step is pushed; fails if told so."""

    def __init__(self, folder, file, user, error=None):
        super().__init__(folder)
        self.file, self.user, self.error, self.seen = file, user, error, []

    def push(self, *entries):
        self.seen.append((self.file.read_bytes(), len(self.user.asked)))
        if self.error:
            raise self.error
        super().push(*entries)


def test_task_3_changes_approval_journal_replacement():
    case = "what the file has when the user is asked, and when the journal is written"
    with new_scene() as scene:
        file, seen = scene.w / "f", []
        file.write_bytes(b"a\n")
        user = User(during=lambda: seen.append(file.read_bytes()))
        made = Scripted(scene, user, journal=Watching(scene.folder / "undo", file, user))
        with noted(case), made.root:
            made.program.edit("f", "a", "b")
        fail_if_different("the file had changed when the user was asked", [b"a\n"], seen, case)
        fail_if_different("the journal was not written after approval and before the change", [(b"a\n", 1)],
                          made.journal.seen, case)  # fmt: skip


def test_task_3_changes_a_journal_that_fails():
    """Without a step in the journal, nothing may be changed."""
    case = "the journal's disk is full"
    with new_scene() as scene:
        file, user = scene.w / "f", User()
        file.write_bytes(b"a\n")
        made = Scripted(scene, user, journal=Watching(scene.folder / "undo", file, user, OSError("disk full")))
        with made.root, raises_error(OSError, case):
            made.program.edit("f", "a", "b")
        fail_if_different("the file has changed", b"a\n", file.read_bytes(), case)


@pytest.mark.parametrize("error", [OSError, MemoryError])
def test_task_3_changes_a_replacement_that_fails(error):
    """Nothing is left over, and no step that was not made."""

    def full():
        raise error(28, "no space left")

    case = f"the new file cannot be renamed: {error.__name__}"  # the first rename is the journal's
    with workspace(b"a\n", case) as w:
        with raises_error(error, case), Adversary(1, full, {"os.rename"}):
            w.program.edit("f", "a", "b")
        fail_if_different("the file has changed", b"a\n", w.file.read_bytes(), case)
        fail_if_different("there is a step in the journal", 0, len(w.journal), case)


def test_task_3_changes_a_random_name():
    """Another process could create a file of a known name first, as a link that leads outside."""
    case = "edit(f, 'a', 'b') in two workspaces; the new files' names just before they are renamed"
    found = []
    for _ in range(2):
        with workspace(b"a\n", case) as w:

            def look(folder=w.scene.w):
                found.append({*names(folder)} - {*EXPECTED})

            with Adversary(1, look, {"os.rename"}):
                w.program.edit("f", "a", "b")
    for name in set.intersection(*found) if len(found) == 2 else ():
        fail(Kind.VALUES, "the new file has the same name each time", case, f"got       {name}, twice")


def test_task_3_changes_is_synced(monkeypatch):
    """The content is on disk before the file has its name: after a power failure, the file has all of it."""
    case = "edit(f, 'a', 'b'), just before the new file is renamed"
    synced, found = set(), []
    with workspace(b"a\n", case) as w, monkeypatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            if sync := getattr(os, name, None):
                patch.setattr(os, name, lambda file, sync=sync: (synced.add(os.fstat(file).st_ino), sync(file))[1])

        def look():
            found.extend(x.stat().st_ino in synced for x in w.scene.w.iterdir() if x.name not in EXPECTED)

        with Adversary(1, look, {"os.rename"}):
            w.program.edit("f", "a", "b")
    if False in found:
        fail(Kind.VALUES, "the new file is renamed before it is synced to disk", case)


def test_task_3_changes_the_place_is_found_once():
    """The user has approved a change of the file in the diff, not of another one that has its path by now."""
    case = "while the user reads the diff of src/main.py, src is renamed, and a new folder src has an equal file"
    with workspace(b"", case) as w:
        folder = w.scene.w / "src"

        def meanwhile():
            folder.rename(w.scene.w / "src.moved")
            folder.mkdir()
            (folder / "main.py").write_text("x = 1\n")

        w.user.during = meanwhile
        with suppress(OSError, ValueError):
            w.program.edit("src/main.py", "1", "2")
        fail_if_different("the file in the new folder has changed", "x = 1\n", (folder / "main.py").read_text(), case)


def test_task_3_changes_in_one_step():
    """A reader that has the file open goes on reading the old content."""
    case = "a reader has the file open"
    with workspace(b"old content\n", case) as w, w.file.open("rb") as reader:
        w.program.edit("f", "old", "new")
        fail_if_different("the reader sees another file", b"old content\n", reader.read(), case)


@pytest.mark.parametrize("during", ["content", "deleted", "appeared", "folder"])
def test_task_3_changes_meanwhile(during):
    case = f"while the user reads the diff: {during}"
    with workspace(None if during == "appeared" else b"a\nb\n", case) as w:
        actions = {
            "content": lambda: w.file.write_bytes(b"a\nB\n"), "appeared": lambda: w.file.write_bytes(b"mine\n"),
            "deleted": lambda: w.file.unlink(), "folder": lambda: (w.file.unlink(), w.file.mkdir()),
        }  # fmt: skip
        w.user.during = actions[during]
        with raises_value_error(case):
            w.program.write("f", "new\n")
        expected = {"content": b"a\nB\n", "appeared": b"mine\n"}.get(during)
        fail_if_different("the file's content is wrong", expected,
                          w.file.read_bytes() if w.file.is_file() else None, case)  # fmt: skip
        fail_if_different("there is a step in the journal", 0, len(w.journal), case)


# Undo


def test_task_3_changes_undo_in_reverse():
    case = "three steps, undone one after another"
    with workspace(b"a\n", case) as w:
        w.program.edit("f", "a", "b")
        w.program.write("g", "new\n")
        w.program.edit("f", "b", "c")
        found = []
        for _ in range(3):
            words = w.program.undo()
            g = w.scene.w / "g"
            found.append((words, w.file.read_bytes(), g.read_bytes() if g.exists() else None))
        expected = [("undone: f", b"b\n", b"new\n"), ("undone: g", b"b\n", None), ("undone: f", b"a\n", None)]
        fail_if_different("what undo() returned, f or g is wrong", expected, found, case)
        with raises_error(LookupError, f"{case}, and once more"):
            w.program.undo()


def test_task_3_changes_undo_after_a_restart():
    case = "undo() of another object, with the same journal's folder"
    with workspace(b"a\n", case) as w:
        w.program.edit("f", "a", "b")
        other = changes.Changes(w.root, Journal(w.scene.folder / "undo"), w.user)
        other.undo()
        fail_if_different("the file's content is wrong", b"a\n", w.file.read_bytes(), case)


@pytest.mark.parametrize("since", [b"c\n", b"", None])
def test_task_3_changes_undo_what_has_changed_since(since):
    case = f"the file has {since!r} since the step"
    with workspace(b"a\n", case) as w:
        w.program.edit("f", "a", "b")
        w.file.unlink()
        if since is not None:
            w.file.write_bytes(since)
        with raises_value_error(case, "f"):
            w.program.undo()
        after = w.file.read_bytes() if w.file.exists() else None
        fail_if_different("the file has changed", since, after, case)
        fail_if_different("the number of steps in the journal is wrong", 1, len(w.journal), case)


def test_task_3_changes_undo_what_is_undone_already():
    """After a crash between journal and replacement, the file is as it was: the step is removed."""
    case = "the file has the step's old content"
    with workspace(b"a\n", case) as w:
        w.program.edit("f", "a", "b")
        w.file.write_bytes(b"a\n")
        w.program.undo()
        fail_if_different("the file's content is wrong", b"a\n", w.file.read_bytes(), case)
        fail_if_different("the number of steps in the journal is wrong", 0, len(w.journal), case)
    case = "a new file, deleted since"
    with workspace(None, case) as w:
        w.program.write("f", "a")
        w.file.unlink()
        w.program.undo()
        fail_if_different("the number of steps in the journal is wrong", 0, len(w.journal), case)


LARGE = b"f" * (2**20 + 1)  # as a command may leave it
STEP = [
    Entry("f", b"old f", digest(LARGE)),
    Entry("g", None, digest(b"g")),
    Entry("src/a/b/h", b"old h", None, 0o600),
]


@pytest.mark.parametrize("changed", ["", "f", "g"])
def test_task_3_changes_undo_several_files(changed):
    """One was changed, one was new, one was deleted with its folders: all are undone, or none."""
    case = f"a step of three files, one of them with 2**20 + 1 bytes; changed since: {changed or 'none'}"
    with workspace(LARGE, case) as w:
        g, h = w.scene.w / "g", w.scene.w / "src/a/b/h"
        g.write_bytes(b"g")
        w.journal.push(*STEP)
        if changed:
            (w.scene.w / changed).write_bytes(b"changed")
            with raises_value_error(case, changed):
                w.program.undo()
        else:
            words = w.program.undo()
            fail_if_different("what undo() returned is wrong", "undone: f, g, src/a/b/h", words, case)
        files = {"f": LARGE[:9], "g": b"g", changed: b"changed"} if changed else {"f": b"old f", "src/a/b/h": b"old h"}
        places = (("f", w.file), ("g", g), ("src/a/b/h", h))
        found = {name: path.read_bytes()[:9] for name, path in places if path.exists()}
        fail_if_different("the files are wrong", files, found, case)


# Ways out


def attempts(made, path):
    """Return everything that the program can do to a path."""
    return [
        lambda: made.program.edit(path, "\n", "\nwritten\n"),
        lambda: made.program.write(path, "written\n"),
    ]


@pytest.mark.parametrize("way", [*BY_PATH, *APPROVALS], ids=lambda way: f"{way.group}: {way.name}")
def test_task_3_changes_abuse(way):
    for number, kind in enumerate(("edit", "write", "write, then undo")):
        case = f"{way.group}: {way.name}, {kind}"
        with new_scene() as scene:
            way.make(scene)
            made = Scripted(scene, User(during=way.during and (lambda scene=scene: way.during(scene))))
            before = scene.others()
            with noted(case), made.root, suppress(OSError, ValueError):
                attempts(made, way.path)[min(number, 1)]()
                if number == 2:
                    made.program.undo()
            fail_if_different("something outside has changed", before, scene.others(), case)


@pytest.mark.parametrize("way", RACES, ids=lambda way: way.name)
def test_task_3_changes_race(way):
    """Another process acts just before each system call in turn."""
    number, acted = 0, True
    while acted and number < 200:
        case = f"{way.name}, just before call {number + 1} of write({way.path!r}, ...)"
        with new_scene() as scene:
            way.make(scene)
            made, before = Scripted(scene, User()), scene.others()
            other = Adversary(number, lambda scene=scene: way.race(scene))
            with noted(case), made.root, suppress(OSError, ValueError), other:
                made.program.write(way.path, "written\n")
            fail_if_different("something outside has changed", before, scene.others(), case)
        acted, number = other.acted, number + 1


def test_task_3_changes_undo_into_a_link():
    case = "the file's folder becomes a link before undo()"
    with new_scene() as scene:
        made = Scripted(scene, User())
        with noted(case), made.root:
            made.program.write("src/secret.txt", "written\n")
            (scene.w / "src").rename(scene.w / "other")
            (scene.w / "src").symlink_to("../outside")
            before = scene.others()
            with raises_value_error(case):
                made.program.undo()
        fail_if_different("something outside has changed", before, scene.others(), case)


def test_task_3_changes_sweep():
    for n in sizes(N=20, W=300):
        lines = [f"line {i} ".ljust(n.W, "x") for i in range(n.N)]
        at, end = n.seed % n.N, n.turn("\n", "\r\n")
        content = (end.join(lines) + n.turn(end, "")).encode()
        old, new = lines[at][: len(f"line {at} ")] if n.W > 8 else lines[at], n.turn("new", "", "a\nb")
        if content.decode().count(old) != 1 or old == new:
            continue
        case = f"{n.N} lines of {n.W} characters, edit(f, {old[:20]!r}, {new!r})"
        with workspace(content, case) as w:
            w.program.edit("f", old, new)
            expected = content.decode().replace(old, new).encode()
            fail_if_different("the file's content is wrong", expected, w.file.read_bytes(), case)
            w.program.undo()
            fail_if_different("the content after undo() is wrong", content, w.file.read_bytes(), case)


@property_test
@given(text=st.text("ab\n", max_size=12), old=st.text("ab\n", min_size=1, max_size=3), new=st.text("ab\n", max_size=3))
def test_task_3_changes_any_edit(text, old, new):
    case = f"content {text!r}, edit(f, {old!r}, {new!r})"
    count = sum(text.startswith(old, i) for i in range(len(text)))
    with workspace(text.encode(), case) as w:
        if count == 1 and old != new:
            w.program.edit("f", old, new)
            fail_if_different("the file's content is wrong", text.replace(old, new).encode(), w.file.read_bytes(), case)
            w.program.undo()
        else:
            with raises_value_error(case):
                w.program.edit("f", old, new)
        fail_if_different("the file's content is wrong", text.encode(), w.file.read_bytes(), case)
