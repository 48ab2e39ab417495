"""Known programs of task 7.4.3, changes."""

import contextlib
import os

import mlx.core as mx
from tests.week7.edits import AMBIGUOUS, EDITS, User, names
from tests.week7.probing import told
from tests.week7.scenes import Adversary, new_scene
from tiny_llm_solution.workspace.changes import Changes
from tiny_llm_solution.workspace.errors import WorkspaceError
from tiny_llm_solution.workspace.journal import Entry, Journal, digest
from tiny_llm_solution.workspace.root import Root
from tiny_llm_solution.workspace.searching import make_folders
from tiny_llm_solution.workspace.snapshot import MOST_BYTES

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.4.3")


class Watching(Journal):
    """Notes what the file has when a step is pushed."""

    def __init__(self, folder, file):
        super().__init__(folder)
        self.file, self.seen = file, []

    def push(self, *entries):
        self.seen.append(self.file.read_bytes())
        super().push(*entries)


def run(program, content, *calls, user=None, mode=0o644, dry_run=False, around=contextlib.nullcontext, step=()):
    """Make some calls, and return what they return, what was asked, the file, the names, the journal and a reader."""
    with new_scene() as scene, Root(scene.w) as root:
        file, user = scene.w / "f", user or User()
        file.write_bytes(content)
        file.chmod(mode)
        user.file = file
        journal = Watching(scene.folder / "undo", file)
        if step:
            journal.push(*step)
        made = program(root, journal, user, dry_run=dry_run)
        with file.open("rb") as reader:
            told_calls = []
            for call in calls:
                with around():
                    told_calls.append(told(lambda call=call: call(made, scene)))
            after = file.read_bytes() if file.exists() else None
            permissions = oct(file.stat().st_mode) if file.exists() else ""
            rest = [user.asked, after, permissions, len(names(scene.w)), len(journal), journal.seen, reader.read()]
        return *told_calls, told(lambda: rest)


def edit(old, new, path="f"):
    return lambda made, _: made.edit(path, old, new)


def write(text, path="f"):
    return lambda made, _: made.write(path, text)


def undo(made, _):
    return made.undo()


def put(content):
    return lambda _, scene: (scene.w / "f").write_bytes(content)


class Meddling(User):
    """While it reads, the file changes."""

    def __call__(self, action, detail):
        self.file.write_bytes(b"meanwhile\n")
        return super().__call__(action, detail)


@contextlib.contextmanager
def private():
    """Use a umask of 077."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def full():
    raise OSError(28, "no space left")


known.probe_table(
    **{
        f"edit_{number}": lambda program, e=EDITS[name]: run(program, e[0], edit(e[1], e[2]), undo)
        for number, name in enumerate(("one line of three", "no line break at the end", "carriage returns"))
    },
    **{
        f"ambiguous_{number}": lambda program, e=AMBIGUOUS[name]: run(program, e[0], edit(e[1], "new"))
        for number, name in enumerate(("two lines", "overlapping", "twelve of them"))
    },
    not_found=lambda program: run(program, b"a\n", edit("b", "c"), edit("", "c"), edit("a", "a")),
    written=lambda program: run(program, b"a\n", write("b\n"), write("new\n", "g"), undo, undo, undo),
    refused=lambda program: run(program, b"a\n", edit("a", "b"), write("new", "g"), user=User(False)),
    dry=lambda program: run(program, b"a\n", edit("a", "b"), write("new", "g"), dry_run=True),
    dry_refused=lambda program: run(program, b"a\n", edit("a", "b"), user=User(False), dry_run=True),
    meanwhile=lambda program: run(program, b"a\n", edit("a", "b"), user=Meddling()),
    permissions=lambda program: run(program, b"a\n", edit("a", "b"), mode=0o750),
    umask=lambda program: run(program, b"a\n", edit("a", "b"), mode=0o664, around=private),
    since=lambda program: run(program, b"a\n", edit("a", "b"), put(b"c\n"), undo),
    already=lambda program: run(program, b"a\n", edit("a", "b"), put(b"a\n"), undo),
    several=lambda program: run(
        program, b"f", undo, step=(Entry("f", b"old", digest(b"f")), Entry("src/main.py", None, digest(b"x = 1\n")))
    ),
    several_since=lambda program: run(
        program, b"f", undo, step=(Entry("f", b"old", digest(b"f")), Entry("src/main.py", b"y", digest(b"z")))
    ),
    fails=lambda program: run(
        program, b"a\n", edit("a", "b"), around=lambda: Adversary(1, full, {"os.rename"})
    ),
    link=lambda program: run(
        program, b"a\n", lambda _, scene: (scene.w / "l").symlink_to("f"), edit("a", "b", "l"), undo
    ),
    text=lambda program: (mx.array(1), *run(program, b"\xff\n", write("b"))),
)  # fmt: skip
known.not_timed("the time is that of the disk")

known.change(
    "the-first-of-several",
    ("if len(starts) != 1:", "if not starts:"),
    fact="an old text that occurs several times is replaced where it occurs first",
    question="Which of three equal lines did the model mean?",
)
known.change(
    "overlaps-not-counted",
    (
        "[i for i in range(len(text)) if text.startswith(old, i)] if old else []",
        "[sum(len(part) + len(old) for part in text.split(old)[: i + 1]) - len(old) for i in range(text.count(old))]"
        " if old else []",
    ),
    fact="occurrences that overlap are counted once, as str.count does",
    question="How often does aa occur in aaa?",
)
known.change(
    "line-endings-changed",
    ("text = before.decode()", 'text = before.decode().replace("\\r\\n", "\\n")'),
    fact="every CR LF of the file becomes LF, as in Python's text mode",
    question="One line was edited. How many lines does git say have changed?",
)
known.change(
    "the-answer-ignored",
    (
        'if not self.approve(f"{action} {printable(place.path)}", diff):',
        'if self.approve(f"{action} {printable(place.path)}", diff) and False:',
    ),
    fact="the change is made whatever the user answers",
    question="The user says no. Which line of yours looks at the answer?",
)
known.change(
    "a-dry-run-asks",
    ("if self.dry_run:", 'if self.dry_run and self.approve(f"{action} {printable(place.path)}", diff) is not None:'),
    fact="the user is asked in a dry run",
    question="What would the user approve, if nothing is changed?",
)
known.change(
    "changed-meanwhile",
    ("if self._read(place) != (before, mode):", "if False:"),
    fact="a file that changes while the user reads the diff is overwritten",
    question="The user saves the file in an editor, and then approves your diff. Which content is lost?",
)
known.change(
    "journal-after-the-change",
    (
        "self.journal.push(Entry(place.path, before, digest(after), mode))\ntry:\n"
        "    self._replace(place, after, mode)",
        "try:\n    self._replace(place, after, mode)\n"
        "    self.journal.push(Entry(place.path, before, digest(after), mode))",
    ),
    fact="the journal is written after the file has been replaced",
    question="The process dies between the two. Who has the old content?",
)
known.change(
    "written-in-place",
    ('temporary = f".{secrets.token_hex(8)}.tmp"', "temporary = place.name"),
    ("os.O_CREAT | os.O_EXCL", "os.O_CREAT | os.O_TRUNC"),
    fact="the file is emptied and written anew, in place",
    question="The disk is full after the first half. What has the file then?",
)
known.change(
    "permissions-lost",
    ("os.fchmod(file, mode)", "os.fchmod(file, 0o644)"),
    fact="the new file gets 0o644, whatever the old one had",
    question="A script was executable. Is it still, after the edit?",
)
known.change(
    "umask-applied",
    ("os.fchmod(file, mode)\n", ""),
    ("os.open(temporary, flags, 0o600,", "os.open(temporary, flags, mode,"),
    fact="the permissions are passed to os.open alone, which leaves out those in the umask",
    question="The user's umask is 077. Which permissions has a file after os.open(name, flags, 0o644)?",
)
known.change(
    "step-left-after-an-error",
    ("self.journal.pop()\nraise", "raise"),
    fact="the step stays in the journal although the file could not be replaced",
    question="The rename fails. Which change would the next undo() undo?",
)


@known.wrong(
    "undone-file-by-file",
    fact="undo checks and restores one file after another, so that it may stop in the middle of a step",
    question="A step has two files, and the second has changed since. What does undo do with the first?",
)
class FileByFile(Changes):
    def undo(self):
        entries = self.journal.last()
        for entry in entries:
            make_folders(self.root, entry.path)
            with self.root.locate(entry.path) as place:
                now = self._read(place, MOST_BYTES)[0]
                if digest(now) not in (entry.after, digest(entry.before)):
                    raise WorkspaceError(f"{entry.path!r} has changed since")
                if entry.before is not None:
                    self._replace(place, entry.before, entry.mode)
                elif now is not None:
                    os.unlink(place.name, dir_fd=place.folder)
        self.journal.pop()
        return "undone: " + ", ".join(entry.path for entry in entries)


known.change(
    "undo-without-a-look",
    ("if digest(self._read(place, MOST_BYTES)[0]) not in (entry.after, digest(entry.before)):", "if False:"),
    fact="undo overwrites what was changed after the step",
    question="The user went on editing the file after the agent's step. What does undo delete?",
)
known.change(
    "new-files-emptied",
    ("if entry.before is not None:", "if True:"),
    ("self._replace(place, entry.before, entry.mode)", 'self._replace(place, entry.before or b"", entry.mode)'),
    fact="undo leaves an empty file where there was none",
    question="What was there before the file was new?",
)
known.change(
    "left-beside-the-file",
    ("os.unlink(temporary, dir_fd=place.folder)\nraise", "raise"),
    fact="a replacement that fails leaves its new file in the folder",
    question="The rename fails. Which files are in the folder?",
)
known.change(
    "undone-twice",
    ('self.journal.pop()\nreturn "undone: " + ", ".join(entry.path for entry in entries)',
     'return "undone: " + ", ".join(entry.path for entry in entries)'),
    fact="a step stays in the journal after it was undone",
    question="Two steps were made. Which one does a second undo find last in the journal?",
)  # fmt: skip
known.accepted_change(
    "other calls",
    ("text[: starts[0]] + new + text[starts[0] + len(old) :]", "text.replace(old, new)"),
    ('f".{secrets.token_hex(8)}.tmp"', 'f"{os.urandom(12).hex()}.new"'),
    ("[i for i in range(len(text)) if text.startswith(old, i)] if old else []",
     "list(iter(lambda at=[-1]: at.__setitem__(0, text.find(old, at[0] + 1) if old else -1) or at[0], -1))"),
    ("os.rename(", "os.replace("),
)  # fmt: skip
