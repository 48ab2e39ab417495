"""Paths in a tree that is no file system: nested dicts, texts for files, and links. The oracle of task 7.4.1."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


def resolve(tree, path, hidden=(".git",)):
    """Return the real path of a path as a list of names, or a word for why there is none: "refused" or "missing".

    A place that does not exist in a folder that does is "missing", too. "either" is a file with a slash after it: the
    file, or "missing", as the system says.
    """
    if not path or path[0] == "/":
        return "refused"
    todo, here, links = parts(path), [], 0
    while todo:
        part, todo = todo[0], todo[1:]
        if part.lower() in hidden:
            return "refused"
        if part == ".":
            continue
        if part == "..":
            if not here:
                return "refused"
            here = here[:-1]
            continue
        found = at(tree, here).get(part)
        if isinstance(found, Link):
            links += 1
            if found.target[0] == "/" or links > 40:
                return "refused"
            todo = parts(found.target) + todo
        elif isinstance(found, str) and todo and set(todo) == {"."}:
            return "either"
        elif found is None or (isinstance(found, str) and todo):
            return "missing"
        else:
            here = [*here, part]
    return here


def parts(path):
    """Return the names of a path, and a dot at the end if it ends with a slash or `/.`, after which no file may be."""
    names = [p for p in path.split("/") if p not in ("", ".")]
    return [*names, "."] if names and path.split("/")[-1] in ("", ".") else names


def at(tree, names):
    """Return what is there."""
    for name in names:
        tree = tree[name]
    return tree


def build(tree, folder):
    """Write a tree to a folder."""
    folder.mkdir(exist_ok=True)
    for name, found in tree.items():
        if isinstance(found, Link):
            (folder / name).symlink_to(found.target)
        elif isinstance(found, str):
            (folder / name).write_text(found)
        else:
            build(found, folder / name)


def drawn(seed, depth=3):
    """Return a random tree of folders a and b, files f, and links k and l, and some random paths in it.

    None of them is a file with a slash after it: the docstring does not say what that means.
    """
    rng = random.Random(seed)

    def path(most):
        return "/".join(rng.choice(["a", "b", "f", "k", "l", "..", ".", "", ".."]) for _ in range(rng.randint(1, most)))

    def folder(level):
        found = {"f": f"file {rng.random()}"}
        for name in "kl":
            found[name] = Link(path(4) or "..") if rng.random() < 0.9 else Link("/a")
        for name in "ab":
            if level:
                found[name] = folder(level - 1)
        return found

    tree = folder(depth)
    return tree, [found for found in (path(6) for _ in range(12)) if resolve(tree, found) != "either"]
