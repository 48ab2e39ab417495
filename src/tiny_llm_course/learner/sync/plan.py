"""A sync in git's terms: fetch upstream, merge what is outside the learner's package, and update in one step."""

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from ...course.registry import UsageError
from .files import Package, merge_package, write_files
from .git import Git, GitError, index_lines

STATES = {"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"}
STATES |= {"rebase-merge": "rebase", "rebase-apply": "rebase"}
SHOWN = 5  # names in a message
AGAIN = "pdm run sync"
UNCHANGED = "Nothing has changed."


class Plan(NamedTuple):
    """Everything that a sync will do."""

    base: str  # the commit that the learner started from
    ours: str  # the learner's commit
    theirs: str  # upstream's
    outside: str  # a tree: merged outside the package, as in `ours` inside
    tree: str  # of the resulting commit
    fast_forward: bool  # whether the result is upstream's own commit
    package: Package
    changed: tuple[str, ...]  # paths outside the package


def fetch(git: Git, remote: str | None) -> tuple[str, str]:
    """Fetch upstream's newest commit; return its name and hash. UsageError mid-merge or without a reachable remote."""
    for file, what in STATES.items():
        if Path(git.root, git.line("rev-parse", "--git-path", file)).exists():
            begin = f"A {what} is in progress here. To continue it:"
            raise UsageError(begin, f"git {what} --continue", "To abort it:", f"git {what} --abort")
    if unmerged := git.paths("diff", "--name-only", "--diff-filter=U", "-z"):
        what = f"There are conflicts in {some(unmerged)}. Resolve them, then:"
        raise UsageError(what, f"git add -- {shlex.join(unmerged)}", AGAIN)
    if not git.says("symbolic-ref", "--quiet", "HEAD"):
        what = "HEAD is detached. Create a branch here:"
        raise UsageError(what, "git switch -c my-work", "Or return to yours:", "git switch -")
    remotes = git.line("remote").split()
    wanted = [remote] if remote else [*(name for name in ("upstream", "origin") if name in remotes), *remotes][:1]
    if not wanted:
        raise UsageError("This clone has no remote. Add the course's:", "git remote add upstream URL", AGAIN)
    if wanted[0] not in remotes:
        known = f"Remotes: {', '.join(remotes)}." if remotes else "To add it:"
        command = AGAIN if remotes else f"git remote add {wanted[0]} URL"
        raise UsageError(f"There is no remote {wanted[0]}. {known}", command)
    name = wanted[0]
    try:
        head = git.line("ls-remote", "--symref", name, "HEAD")
        branch = head.split("\t")[0].removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "main"
        git.run("fetch", "--quiet", "--no-tags", name, f"+refs/heads/{branch}:refs/remotes/{name}/{branch}")
    except GitError as error:
        what = f"{name} cannot be reached ({error}). {UNCHANGED} To see its URL:"
        raise UsageError(what, "git remote -v", "To retry:", AGAIN) from error
    return f"{name}/{branch}", git.line("rev-parse", f"refs/remotes/{name}/{branch}")


def make_plan(git: Git, folder: str, name: str, theirs: str) -> Plan | None:
    """Return what a sync will do, before anything is changed; None if nothing is new; UsageError on any obstacle."""
    ours = git.line("rev-parse", "HEAD")
    if git.says("merge-base", "--is-ancestor", theirs, ours):
        return None
    try:
        base = git.line("merge-base", ours, theirs)
    except GitError as error:
        alone, remote = f"You and {name} have no commit in common. {UNCHANGED}", name.partition("/")[0]
        if git.line("rev-parse", "--is-shallow-repository") == "true":
            what = f"{alone} Fetch the rest of your history:"
            raise UsageError(what, f"git fetch --unshallow {remote}", AGAIN) from error
        url = shlex.quote(git.line("remote", "get-url", remote))
        raise UsageError(
            f"{alone} Clone the course again, and copy your files there:",
            f"git clone {url} ../tiny-llm-new",
            f"cp -R {folder}/. ../tiny-llm-new/{folder}",
        ) from error
    fast_forward = base == ours
    if not fast_forward and not (git.says("var", "GIT_COMMITTER_IDENT") and git.says("var", "GIT_AUTHOR_IDENT")):
        commands = ("git config user.name NAME", "git config user.email ADDRESS", AGAIN)
        raise UsageError("A merge needs your name and address:", *commands)
    merged, conflicts = (theirs, []) if fast_forward else git.merged(ours, theirs, folder)
    if conflicts:
        files = shlex.join(conflicts)
        raise UsageError(
            f"You and upstream changed the same lines of {some(conflicts)}. {UNCHANGED}",
            "To take upstream's (yours stay in git's history):",
            f"git checkout {name} -- {files}",
            f'git commit -m "As upstream" -- {files}',
            AGAIN,
            "To merge them by hand:",
            f"git merge {name}",
        )
    outside = git.with_folder(merged, folder, git.entries(ours, folder))
    changed = tuple(git.paths("diff", "--name-only", "--no-renames", "-z", ours, outside))
    _refuse_overwriting(git, ours, changed)
    package = merge_package(git, folder, base, ours, theirs)
    tree = git.with_folder(outside, folder, package.committed)
    return Plan(base, ours, theirs, outside, tree, fast_forward, package, changed)


def _refuse_overwriting(git: Git, ours: str, changed: tuple[str, ...]) -> None:
    dirty = {*git.paths("diff", "--name-only", "-z", ours), *git.paths("diff", "--cached", "--name-only", "-z", ours)}
    tracked = {*git.paths("ls-tree", "-r", "--name-only", "-z", ours), *git.paths("ls-files", "-z")}
    if edited := [path for path in changed if path in dirty]:
        raise UsageError(
            f"You changed {some(edited)}, and so did upstream. {UNCHANGED} Stash yours, sync, and restore it:",
            f"git stash push -- {shlex.join(edited)}",
            AGAIN,
            "git stash pop",
        )
    if foreign := [path for path in changed if path not in tracked and (git.root / path).exists()]:
        raise UsageError(
            f"Upstream adds {some(foreign)}, where you have an untracked file. {UNCHANGED} Move it:",
            *(f"mv {shlex.quote(path)} {shlex.quote(f'{path}.mine')}" for path in foreign[:SHOWN]),
            AGAIN,
        )


def carry_out(git: Git, plan: Plan, folder: str, name: str) -> None:
    """Carry out the plan, or undo all of it and raise UsageError."""
    index = Path(git.root, git.line("rev-parse", "--git-path", "index"))
    git.says("update-index", "-q", "--refresh")
    before = index.read_bytes()
    try:
        write_files(git.root, {change.path: change.after for change in plan.package.changes})
        git.run("read-tree", "-m", "-u", plan.ours, plan.outside)
        gone = git.staged(folder).keys() - plan.package.staged.keys()
        git.run("update-index", "-z", "--index-info", stdin=index_lines(plan.package.staged, gone))
        commit = plan.theirs
        if not plan.fast_forward:
            message = ["-m", f"Merge {name} (pdm run sync)"]
            commit = git.line("commit-tree", plan.tree, "-p", plan.ours, "-p", plan.theirs, *message)
        git.run("update-ref", "-m", f"sync: {name}", "HEAD", commit, plan.ours)
    except BaseException as error:
        _undo(git, plan, index, before)
        if isinstance(error, OSError | GitError):
            what = f"The sync failed: {error}. Everything was restored. To find the cause:"
            raise UsageError(what, "pdm run doctor", AGAIN) from error
        raise
    git.says("update-index", "-q", "--refresh")


def _undo(git: Git, plan: Plan, index: Path, before: bytes) -> None:
    write_files(git.root, {change.path: change.before for change in plan.package.changes})
    index.write_bytes(before)
    # Outside the package, the changed paths were as in the commit, or absent. Delete them first: git believes that a
    # file of the same second, size and inode is unchanged.
    write_files(git.root, dict.fromkeys(plan.changed))
    there = set(git.paths("ls-files", "-z")) & set(plan.changed)
    git.run("checkout-index", "-f", "-z", "--stdin", stdin=b"".join(os.fsencode(path) + b"\0" for path in there))


def some(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
