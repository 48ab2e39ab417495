"""Task 7.4.1, the root: paths against a model of a file system, and every way out of it that the table of abuse has."""

import itertools
import os
import stat
from contextlib import chdir, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7 import path_model, scenes
from tests.week7.abuse import BY_PATH, RACES
from tests.week7.scenes import SECRET, Adversary, next_descriptors

from tiny_llm.workspace import root
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_error, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def words(text):
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:56]} ..."


@contextmanager
def new_scene():
    """A scene whose folder is the working folder: what a wrong program looks up from there is found, and written."""
    with scenes.new_scene() as scene, chdir(scene.folder):
        yield scene


@contextmanager
def opened(folder, case, **more):
    """Open a root, and check that it leaves no descriptor open."""
    free = next_descriptors()
    with noted(case), root.Root(folder, **more) as made:
        yield made
    if next_descriptors() != free:
        fail(Kind.VALUES, "a descriptor is still open", case)


def content(made, path, flags=os.O_RDONLY):
    """Return what is read from a path: a file's text, or the sorted names of a folder."""
    found = made.open(path, flags)
    try:
        if stat.S_ISDIR(os.fstat(found).st_mode):
            return sorted(os.listdir(found))
        return os.read(found, 1000).decode()
    finally:
        os.close(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("notes.txt", "inside\n"), ("src/main.py", "x = 1\n"), ("src/pkg/deep.py", "y = 2\n"),
        ("./src//pkg/./deep.py", "y = 2\n"), ("src/../notes.txt", "inside\n"), ("src/pkg/../../notes.txt", "inside\n"),
        ("src", ["main.py", "pkg"]), ("src/", ["main.py", "pkg"]), ("src/pkg/..", ["main.py", "pkg"]),
        (".", [".git", "docs", "notes.txt", "src"]), ("src/..", [".git", "docs", "notes.txt", "src"]),
    ],
)  # fmt: skip
def test_task_1_root_opens_what_is_inside(path, expected):
    case = f"path {words(path)}"
    with new_scene() as scene, opened(scene.w, case) as made:
        actual = content(made, path)
    fail_if_different("the content is wrong", expected, actual, case)


LINKS = {
    "a file": ("notes.txt", "l", "inside\n"), "a folder": ("src", "l/main.py", "x = 1\n"),
    "a link's target with ..": ("src/../docs/../notes.txt", "l", "inside\n"),
    "here": (".", "l/notes.txt", "inside\n"), "a folder, then up": ("src/pkg", "l/../main.py", "x = 1\n"),
    "a target with slashes": (".//src/./pkg//", "l/deep.py", "y = 2\n"),
}  # fmt: skip


@pytest.mark.parametrize("which", LINKS)
def test_task_1_root_follows_links_inside(which):
    target, path, expected = LINKS[which]
    case = f"a link l to {target!r}, path {path!r}"
    with new_scene() as scene:
        (scene.w / "l").symlink_to(target)
        with opened(scene.w, case) as made:
            actual = content(made, path)
    fail_if_different("the content is wrong", expected, actual, case)


def test_task_1_root_link_to_the_folder_above():
    """In a folder, `..` in a link's target is that folder's parent, which is inside."""
    case = "a link src/pkg/up to '../..', path 'src/pkg/up/notes.txt'"
    with new_scene() as scene:
        (scene.w / "src/pkg/up").symlink_to("../..")
        with opened(scene.w, case) as made:
            actual = content(made, "src/pkg/up/notes.txt")
    fail_if_different("the content is wrong", "inside\n", actual, case)


@pytest.mark.parametrize("count", [1, 2, 39, 40])
def test_task_1_root_forty_links(count):
    """Forty links may follow each other, and not one more, in one folder or in several."""
    for where, odd in (("", "l"), (", every second one in src", "src/l")):
        case = f"{count} links, each to the next one{where}"
        places = [*(f"{odd if i % 2 else 'l'}{i}" for i in range(count)), "notes.txt"]
        with new_scene() as scene:
            for link, target in itertools.pairwise(places):
                (scene.w / link).symlink_to("../" * link.count("/") + target)
            (scene.w / "src/more").symlink_to("../l0")
            with opened(scene.w, case) as made:
                actual = content(made, "l0")
                fail_if_different("the content is wrong", "inside\n", actual, case)
                if count == root.MAX_LINKS:
                    with raises_value_error(f"{case}, after a link src/more to the first one, path 'src/more'"):
                        content(made, "src/more")


def test_task_1_root_its_own_path_may_have_links():
    with new_scene() as scene:
        (scene.folder / "here").symlink_to("w")
        case = "the root's path is a link"
        with opened(scene.folder / "here", case) as made:
            actual = content(made, "notes.txt")
    fail_if_different("the content is wrong", "inside\n", actual, case)


PLACES = {
    "src/main.py": ("main.py", "src/main.py"), "notes.txt": ("notes.txt", "notes.txt"), ".": (".", "."),
    "src/..": (".", "."), "src/pkg/..": (".", "src"), "src/new.py": ("new.py", "src/new.py"),
    "l/main.py": ("main.py", "src/main.py"), "k": ("deep.py", "src/pkg/deep.py"), "l/../new": ("new", "new"),
    "src//pkg/": ("pkg", "src/pkg"),
}  # fmt: skip


@pytest.mark.parametrize("path", PLACES)
def test_task_1_root_locate(path):
    name, real = PLACES[path]
    case = f"locate({path!r}), with links l to 'src' and k to 'l/pkg/deep.py'"
    with new_scene() as scene:
        (scene.w / "l").symlink_to("src")
        (scene.w / "k").symlink_to("l/pkg/deep.py")
        with opened(scene.w, case) as made, made.locate(path) as place:
            folder = scene.w / (real if name == "." else real.rpartition("/")[0])
            fail_if_different("the name of the place is wrong", name, place.name, case)
            fail_if_different("the path of the place is wrong", real, place.path, case)
            if not os.path.samestat(os.fstat(place.folder), folder.stat()):
                fail(Kind.VALUES, f"the folder of the place is not {folder.relative_to(scene.folder)}", case)


@pytest.mark.parametrize("way", BY_PATH, ids=lambda way: f"{way.group}: {way.name}")
def test_task_1_root_abuse(way):
    case = f"{way.group}: {way.name}, path {words(way.path)}"
    with new_scene() as scene:
        way.make(scene)
        before = scene.others()
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            free, error = next_descriptors(), None
            with noted(case), root.Root(scene.w) as made:
                try:
                    actual = content(made, way.path, flags)
                except OSError:
                    pass
                except ValueError as found:
                    error = found
                else:
                    if SECRET in actual or "root:" in actual or (way.happens and flags == os.O_RDONLY):
                        fail(Kind.NO_ERROR, f"it opens, and reads {words(actual)}", case)
            if next_descriptors() != free:
                fail(Kind.VALUES, "a descriptor is still open", case)
            if error is not None and repr(way.path)[:20] not in str(error) and "hard" not in way.happens:
                fail(Kind.NO_ERROR, "the message does not begin with the path", case, f"got       {words(str(error))}")
        fail_if_different("something outside has changed", before, scene.others(), case)


REFUSED = [way for way in BY_PATH if way.happens in ("leaves the workspace", "absolute", "not open to the tools",
           "control character", "empty", "whose target is absolute", "links", "folders deep")]  # fmt: skip


@pytest.mark.parametrize("way", REFUSED, ids=lambda way: f"{way.group}: {way.name}")
def test_task_1_root_refuses(way):
    """A refusal is a WorkspaceError, which is a ValueError; a file that does not exist is an OSError."""
    case = f"{way.group}: {way.name}, path {words(way.path)}"
    with new_scene() as scene:
        way.make(scene)
        with opened(scene.w, case) as made, raises_value_error(case):
            content(made, way.path)


@pytest.mark.parametrize("way", RACES, ids=lambda way: way.name)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_TRUNC], ids=["read", "write"])
def test_task_1_root_race(way, flags):
    """Another process acts just before the first system call, or the second one, and so on."""
    number, acted = 0, True
    while acted and number < 200:
        case = f"{way.name}, just before call {number + 1} of open({way.path!r})"
        with new_scene() as scene:
            way.make(scene)
            before, read = scene.others(), ""
            free = next_descriptors()
            other = Adversary(number, lambda scene=scene: way.race(scene))
            with noted(case), root.Root(scene.w) as made, suppress(OSError, ValueError), other:
                read = content(made, way.path, flags)
            if SECRET in read or "secret.txt" in read:
                fail(Kind.VALUES, "it leads outside", case, f"got       {words(read)}")
            if next_descriptors() != free:
                fail(Kind.VALUES, "a descriptor is still open", case)
            fail_if_different("something outside has changed", before, scene.others(), case)
        acted, number = other.acted, number + 1


def test_task_1_root_opens_no_pipe():
    case = "a pipe without a writer"
    with new_scene() as scene:
        os.mkfifo(scene.w / "pipe")
        with opened(scene.w, case) as made, raises_value_error(case, "pipe"):
            content(made, "pipe")


@pytest.mark.parametrize("path", ["missing", "missing/x", "notes.txt/x", "notes.txt/.."])
def test_task_1_root_what_does_not_exist(path):
    case = f"path {path!r}"
    with new_scene() as scene, opened(scene.w, case) as made, raises_error(OSError, case):
        content(made, path)


@pytest.mark.parametrize("hidden", [(), ("src",), ("docs", "Notes.TXT")])
def test_task_1_root_hidden(hidden):
    case = f"hidden {hidden}"
    with new_scene() as scene, opened(scene.w, case, hidden=hidden) as made:
        for path in ("src/main.py", "notes.txt", ".git/config"):
            if any(part.lower() in [name.lower() for name in hidden] for part in path.split("/")):
                with raises_value_error(f"{case}, path {path!r}"):
                    content(made, path)
            else:
                expected = (scene.w / path).read_text()
                fail_if_different("the content is wrong", expected, content(made, path), f"{case}, path {path!r}")


def test_task_1_root_creates_and_truncates():
    case = "O_RDWR | O_CREAT | O_TRUNC, mode 0o600"
    with new_scene() as scene, opened(scene.w, case) as made:
        for path in ("new.txt", "a new file.txt", "notes.txt"):
            found = made.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(found, b"new")  # shorter than what notes.txt has
            os.close(found)
            fail_if_different("the content is wrong", "new", (scene.w / path).read_text(), f"{case}, path {path!r}")
        fail_if_different("the permissions are wrong", 0o600, (scene.w / "new.txt").stat().st_mode & 0o777, case)
        for letter in "\x01", "\x1f", "\x7f":  # \x7f is DEL
            with raises_value_error(f"{case}, path {letter!r}, a control character"):
                os.close(made.open(letter, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))


def check_model(tree, paths, folder, case):
    """Compare every path with the model."""
    path_model.build(tree, folder)
    with opened(folder, case) as made:
        for path in paths:
            expected = path_model.resolve(tree, path)
            try:
                actual = content(made, path)
            except ValueError:
                actual = "refused"
            except OSError:
                actual = "missing"
            if isinstance(expected, list):
                found = path_model.at(tree, expected)
                expected = found if isinstance(found, str) else sorted(found)
            shown = repr(path) if len(path) < 120 else words(path)
            fail_if_different("the content is wrong", expected, actual, f"{case}, path {shown}")


def test_task_1_root_sweep(tmp_path):
    """Folders, one in the other; a link in the last one goes some of them up, and a path all of them."""
    for n in sizes(D=20, U=22):
        depth, up = n.D, n.U
        tree = {"f": "last", "l": path_model.Link("/".join([".."] * up + ["f"]))}
        for i in range(depth, 0, -1):
            tree = {"d": tree, "f": f"level {i}"}
        last = "d/" * depth
        case = f"{depth} folders, a link that goes {up} up"
        paths = [f"{last}l", f"{last}{'../' * up}f", f"{last}f", f"{'d/../' * 40}f"]  # never more than `depth` at once
        check_model(tree, paths, tmp_path / str(n.seed), case)


@property_test
@given(seed=st.integers(0, 9999))
def test_task_1_root_model(tmp_path_factory, seed):
    """Random trees with links, and random paths."""
    tree, paths = path_model.drawn(seed)
    check_model(tree, paths, tmp_path_factory.mktemp("root") / "w", f"a random tree, seed {seed}")
