"""Known programs of task 7.4.1, the root."""

import contextlib
import os
import stat
from pathlib import Path

import mlx.core as mx
from tests.week7.abuse import RACES
from tests.week7.probing import told
from tests.week7.scenes import Adversary, new_scene, next_descriptors
from tiny_llm_solution.workspace.root import MAX_DEPTH, MAX_LINKS, Place, Root

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.4.1")


def content(made, path, flags=os.O_RDONLY):
    found = made.open(path, flags)
    try:
        return sorted(os.listdir(found)) if stat.S_ISDIR(os.fstat(found).st_mode) else os.read(found, 1000)
    finally:
        os.close(found)


def opened(program, path, flags=os.O_RDONLY, make=None, **more):
    """Open a path, and return what is read, and the secret outside afterwards."""
    with new_scene() as scene:
        if make:
            make(scene)
        with program(scene.w, **more) as made:
            result = told(lambda: content(made, path, flags))
        return result, told((scene.outside / "secret.txt").read_text)


def linked(program, path, **links):
    return opened(program, path, make=lambda s: [(s.w / name).symlink_to(target) for name, target in links.items()])


def located(program, path, **links):
    with new_scene() as scene:
        for name, target in links.items():
            (scene.w / name).symlink_to(target)
        with program(scene.w) as made:

            def place():
                with made.locate(path) as found:
                    return found.name, found.path, sorted(os.listdir(found.folder))

            return told(place)


def raced(program, name):
    """Return whether a race leads outside at any system call."""
    (way,) = (way for way in RACES if way.name == name)
    number, acted, seen = 0, True, []
    while acted and number < 50:
        with new_scene() as scene:
            way.make(scene)
            other = Adversary(number, lambda scene=scene: way.race(scene))
            with program(scene.w) as made, contextlib.suppress(OSError, ValueError), other:
                seen.append("SECRET" in str(content(made, way.path)))
        acted, number = other.acted, number + 1
    return mx.array(any(seen))


def left_open(program, path):
    """Return whether a descriptor is left open by `locate`."""
    with new_scene() as scene, program(scene.w) as made:
        free = next_descriptors()
        with contextlib.suppress(OSError, ValueError):
            os.close(made.open(path))
        return mx.array(next_descriptors() != free)


def pipe(program):
    """Open a pipe that has a writer, so that opening it does not block."""
    with new_scene() as scene, program(scene.w) as made:
        os.mkfifo(scene.w / "pipe")
        writer = os.open(scene.w / "pipe", os.O_RDWR)
        os.write(writer, b"from the pipe")
        try:
            return told(lambda: content(made, "pipe"))
        finally:
            os.close(writer)


TRUNCATE = os.O_RDWR | os.O_TRUNC
known.probe_table(
    inside=lambda program: opened(program, "src/pkg/deep.py"),
    down_and_up=lambda program: opened(program, "src/pkg/../../notes.txt"),
    folder=lambda program: opened(program, "src/.."),
    above=lambda program: opened(program, "../outside/secret.txt"),
    neighbor=lambda program: opened(program, "../w-private/secret.txt"),
    back_in=lambda program: opened(program, "src/../../w/notes.txt"),
    absolute=lambda program: opened(program, "/notes.txt"),
    missing=lambda program: opened(program, "missing/../notes.txt"),
    link=lambda program: linked(program, "l/main.py", l="src"),
    link_then_up=lambda program: linked(program, "l/../main.py", l="src/pkg"),
    link_out=lambda program: linked(program, "l", l="../outside/secret.txt"),
    link_to_neighbor=lambda program: linked(program, "l/secret.txt", l="../w-private"),
    link_back_in=lambda program: linked(program, "l", l="../w/notes.txt"),
    link_absolute=lambda program: linked(program, "l", l="/notes.txt"),
    link_to_itself=lambda program: linked(program, "l", l="l"),
    forty_one_links=lambda program: linked(
        program, "l0", **{f"l{i}": f"l{i + 1}" if i < 40 else "notes.txt" for i in range(41)}
    ),
    hidden=lambda program: opened(program, ".GIT/config"),
    hidden_by_link=lambda program: linked(program, "l/config", l="src/../.git"),
    hard_link=lambda program: opened(
        program, "hard", TRUNCATE, lambda s: os.link(s.outside / "secret.txt", s.w / "hard")
    ),
    hard_link_read=lambda program: opened(
        program, "hard", make=lambda s: os.link(s.outside / "secret.txt", s.w / "hard")
    ),
    truncated=lambda program: opened(program, "notes.txt", TRUNCATE),
    pipe=pipe,
    control=lambda program: opened(program, "notes\x1b.txt"),
    places=lambda program: tuple(
        located(program, path, l="src", k="l/pkg") for path in ("l/main.py", "k/..", "k", "src/new", "..", "l/../x")
    ),
    race_folder=lambda program: raced(program, "a folder becomes a link"),
    race_file=lambda program: raced(program, "a file becomes a link"),
    race_link=lambda program: raced(program, "a link gets another target"),
    race_up=lambda program: raced_up(program),
    race_hard_link=lambda program: raced(program, "a file becomes a hard link"),
    left_open=lambda program: tuple(left_open(program, path) for path in ("src/pkg/deep.py", "../x", "missing")),
)


def raced_up(program):
    """Return what `..` leads to after the folder has moved out, at each system call."""
    number, acted, seen = 0, True, []
    while acted and number < 50:
        with new_scene() as scene:
            other = Adversary(number, lambda scene=scene: (scene.w / "src/pkg").rename(scene.outside / "pkg"))
            with program(scene.w) as made, contextlib.suppress(OSError, ValueError), other:
                seen.append("SECRET" in str(content(made, "src/pkg/../main.py")))
        acted, number = other.acted, number + 1
    return mx.array(any(seen))


@known.sized("200 paths of six folders, one of them a link")
def sized(program):
    folder = Path.cwd() / ".tiny-llm" / "sized-root"
    (folder / "a/b/c/d/e").mkdir(parents=True, exist_ok=True)
    (folder / "a/b/c/d/e/f").write_text("f")
    with contextlib.suppress(FileExistsError):
        (folder / "l").symlink_to("a/b")

    def run():
        with program(folder) as made:
            for _ in range(200):
                os.close(made.open("l/c/d/e/f"))

    return run


class Resolved(Root):
    """What most programs do: resolve, check, open."""

    def inside(self, real):
        return real.is_relative_to(self.top)

    def __init__(self, folder, hidden=(".git",)):
        super().__init__(folder, hidden)
        self.top = Path(folder).resolve()

    def real(self, path):
        if not path or path.startswith("/") or not path.isprintable():
            raise ValueError(path)
        try:
            real = (self.top / path).resolve()
        except RuntimeError as error:  # a loop, before Python 3.13
            raise ValueError(path) from error
        if not self.inside(real):
            raise ValueError(path)
        if any(part.casefold() in self.hidden for part in str(real).removeprefix(str(self.top)).split("/")):
            raise ValueError(path)
        return real

    @contextlib.contextmanager
    def locate(self, path):
        real = self.real(path)
        name, folder = (".", real) if real.is_dir() and path.endswith(".") else (real.name, real.parent)
        found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield Place(found, name, real.relative_to(self.top).as_posix())
        finally:
            os.close(found)

    def open(self, path, flags=os.O_RDONLY, mode=0o644):
        real = self.real(path)
        if real.exists() and not (real.is_dir() or (real.is_file() and real.stat().st_nlink == 1)):
            raise ValueError(path)
        return os.open(real, flags | os.O_CLOEXEC, mode)


@known.wrong(
    "resolve-then-open",
    fact="the path is resolved and checked first, and opened by its name afterwards",
    question="Between your check and your open, another process replaces a folder of the path by a link. What opens?",
)
class ResolveThenOpen(Resolved):
    pass


@known.wrong(
    "a-prefix-of-the-text",
    fact="a path counts as inside if its text begins with the root's",
    question="The root is /home/w. Is /home/w-private inside?",
)
class TextPrefix(Resolved):
    def inside(self, real):
        return str(real).startswith(str(self.top))


known.change(
    "up-by-the-system",
    (
        "os.close(folders.pop())  # what we came from, not what `..` names by now",
        "upper = os.open('..', os.O_RDONLY, dir_fd=folders[-1])\nos.close(folders[-1])\nfolders[-1] = upper",
    ),
    ("if not folders:", "if not names:"),
    fact="`..` is looked up again, instead of going back to the folder that the path came from",
    question="A folder that you have open is moved elsewhere. What is its `..` now?",
)
known.change(
    "folders-may-become-links",
    ("os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=folders[-1]", "os.O_RDONLY | os.O_DIRECTORY, dir_fd=folders[-1]"),
    fact="a folder that becomes a link just before it is opened is followed",
    question="readlink said that this is no link. Is that still true when you open it?",
)
known.change(
    "files-may-become-links",
    ("os.O_NONBLOCK | NO_LINK, mode", "os.O_NONBLOCK, mode"),
    fact="a file that becomes a link just before it is opened is followed",
    question="`locate` said that the name is no link. Is that still true when you open it?",
)
known.change(
    "absolute-links-from-the-root",
    ('if target.startswith("/"):', "if False:"),
    fact="the absolute target of a link is taken as a path from the workspace",
    question="A link's target is /notes.txt. Which file does every other program find there?",
)
known.change(
    "up-in-the-text",
    ("_parts(path), 0", "_parts(os.path.normpath(path)), 0"),
    fact="`..` removes the component before it in the text, even if that is a link or does not exist",
    question="l is a link to src/pkg. Which folder is l/.. for `ls`?",
)
known.change(
    "hidden-by-links",
    ("if part.casefold() in self.hidden:", "if part.casefold() in self.hidden and not links:"),
    fact="hidden names are looked for in the path alone, and not in the targets of links",
    question="A link leads to .git. Which component of your path is hidden?",
)
known.change(
    "any-kind-of-file",
    ("if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):", "if False:"),
    fact="a pipe or a device is opened, too",
    question="What is open, a file or a folder? Who says so?",
)
known.change(
    "hard-links-accepted",
    ("if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:", "if False:"),
    fact="a file with a second hard link, which may be outside, is opened",
    question="Which names may a file with two hard links have?",
)
known.change(
    "truncated-before-the-check",
    ("flags & ~os.O_TRUNC | os.O_NONBLOCK", "flags | os.O_NONBLOCK"),
    fact="O_TRUNC empties a file before it is refused",
    question="When does os.open with O_TRUNC delete the content: before or after your check of what is open?",
)
known.change(
    "a-descriptor-left-open",
    ("for folder in folders:", "for folder in folders[1:]:"),
    fact="the duplicate of the root's descriptor stays open after each path",
    question="How many descriptors does a process have? How many paths does an agent open?",
)


@known.wrong(
    "checked-by-name",
    fact="`open_at` checks what a name stands for before it opens it, instead of what it has opened",
    question="stat said that the name is a file with one link. Is that still true of what you open afterwards?",
)
class CheckedByName(Root):
    def open_at(self, place, flags=os.O_RDONLY, mode=0o644):
        try:
            about = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            about = None
        if about and not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            raise ValueError(f"{place.path!r} is refused")
        if about and stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
            raise ValueError(f"{place.path!r} is refused")
        return os.open(place.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=place.folder)


YIELDS = (
    'yield Place(folders[-1], part, "/".join([*names, part]))',
    'yield Place(folders[-1], ".", "/".join(names) or ".")',
)
known.change(
    "left-open-after-any-error",
    ("folders = [os.dup(self.descriptor)]", "folders, last = [os.dup(self.descriptor)], os.dup(self.descriptor)"),
    *((each, f"{each}\nos.close(last)") for each in YIELDS),
    fact="the folders are closed only if neither `locate` nor the `with` block raises",
    question="Which of your lines closes the folders, and does it run after an exception?",
)
known.change(
    "left-open-after-an-error-in-the-block",
    *((each, f"last = os.dup(folders[-1])\n{each}\nos.close(last)") for each in YIELDS),
    fact="an exception in the `with` block leaves the folders of `locate` open",
    question="In a function with `contextmanager`, where does an exception of the `with` block appear?",
)


@known.accepted("again from the root")
class AgainFromTheRoot:
    """Keeps names instead of descriptors, and walks down from the root for every component."""

    def __init__(self, folder, hidden=(".git",)):
        self.hidden = {name.casefold() for name in hidden}
        self.descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.descriptor)

    def walk(self, names):
        here = os.dup(self.descriptor)
        for name in names:
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here

    def resolved(self, path):
        if not path or path[0] == "/" or any(ord(x) < 32 or ord(x) == 127 or 0xD800 <= ord(x) < 0xE000 for x in path):
            raise ValueError(f"{path!r} is no path in the workspace")
        names, todo, links = [], [part for part in path.split("/") if part not in ("", ".")], 0
        while todo:
            part = todo.pop(0)
            if part.casefold() in self.hidden or (part == ".." and not names):
                raise ValueError(f"{path!r} is refused")
            if part == "..":
                names.pop()
                continue
            here = self.walk(names)
            try:
                about = os.stat(part, dir_fd=here, follow_symlinks=False)
                target = os.readlink(part, dir_fd=here) if stat.S_ISLNK(about.st_mode) else None
            except FileNotFoundError:
                if todo:
                    raise
                target = None
            finally:
                os.close(here)
            if target is not None:
                links += 1
                if links > MAX_LINKS or target[0] == "/":
                    raise ValueError(f"{path!r} follows a link that is refused")
                todo = [part for part in target.split("/") if part not in ("", ".")] + todo
            elif not todo:
                return names, part
            else:
                names.append(part)
                if len(names) > MAX_DEPTH:
                    raise ValueError(f"{path!r} is too deep")
                os.close(self.walk(names))
        return names, "."

    @contextlib.contextmanager
    def locate(self, path):
        names, name = self.resolved(path)
        folder = self.walk(names)
        try:
            yield Place(folder, name, "/".join(names + [name] * (name != ".")) or ".")
        finally:
            os.close(folder)

    def open(self, path, flags=os.O_RDONLY, mode=0o644):
        with self.locate(path) as place:
            return self.open_at(place, flags, mode)

    def open_at(self, place, flags=os.O_RDONLY, mode=0o644):
        more = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        found = os.open(place.name, (flags | more) & ~os.O_TRUNC, mode, dir_fd=place.folder)
        about = os.fstat(found)
        if stat.S_ISDIR(about.st_mode) or (stat.S_ISREG(about.st_mode) and about.st_nlink == 1):
            if flags & os.O_TRUNC:
                os.ftruncate(found, 0)
            return found
        os.close(found)
        raise ValueError(f"{place.path!r} is refused")
