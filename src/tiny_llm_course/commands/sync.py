"""`pdm run sync`: merge upstream's changes into a checkout with learner code."""

import os
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from ..course.entities import Task
from ..course.file_paths import chapter_path, name_of, tests_path
from ..course.registry import Course, UsageError, load_course
from ..learner.backups import back_up
from ..learner.sync.files import Change
from ..learner.sync.git import Git, GitError
from ..learner.sync.plan import SHOWN, Plan, carry_out, fetch, make_plan
from ..paths import LEARNER, REGISTRY, ROOT
from ..source.languages import language_of_target
from ..terminal.screen import say

FOLDER = LEARNER.relative_to(ROOT).as_posix()
LOCK = "pdm.lock"


@click.command()
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--remote", help="The git remote of the course (default: upstream, or else origin).")
def sync(dry_run: bool, remote: str | None) -> int:
    """Update the course to its newest version; what you wrote in src/tiny_llm is kept."""
    try:
        bring_in(ROOT, dry_run, remote)
    except UsageError as error:
        first, *more = str(error).splitlines()
        # git's commands need a `cd` before them if the current folder is not the clone's root.
        if Path.cwd() == ROOT or all(not line.startswith("    ") or line.startswith("    pdm run") for line in more):
            raise
        raise UsageError("\n".join([first, f"    cd {shlex.quote(os.path.relpath(ROOT))}", *more])) from error
    return 0


def bring_in(root: Path, dry_run: bool = False, remote: str | None = None) -> None:
    """Sync the clone at `root` and print what was done; raise UsageError, with nothing changed, if that fails."""
    git = Git(root)
    name, theirs = fetch(git, remote)
    plan = make_plan(git, FOLDER, name, theirs)
    if plan is None:
        say(f"Nothing new in {name}.", color="green")
        if name.startswith("origin/"):
            say("If origin is your fork, add the course as a remote once:\n    git remote add upstream URL")
        return
    old, new = (_course(git, commit) for commit in (plan.ours, theirs))
    count = int(git.line("rev-list", "--count", f"{plan.ours}..{theirs}"))
    say(f"{name}: {count} new commit{'s' * (count > 1)}" + ", a dry run" * dry_run, bold=True)
    backup = ""
    if not dry_run:
        if saved := _saved(plan):
            backup = back_up(saved, root).relative_to(root).as_posix()
        carry_out(git, plan, FOLDER, name)
    _report(plan, backup)
    if LOCK in plan.changed:
        say("✓ the course's packages have changed\n    pdm install", bold=True)
    known = {day.name for day in old.days()} if old else set()
    fresh = [day for day in new.days() if day.name not in known] if old and new else []
    for day in fresh[:SHOWN]:
        say(f"✓ new {'open task' if day.is_open else 'day'} {day.name} {day.title}")
    if fresh:
        say(f"    read {name_of(chapter_path(fresh[0]))}")
    again = _worth_testing(root, plan, new) if new else []
    if again:
        say(f"Worth testing again:\n    pdm run test {' '.join(again)}", bold=True)
    if dry_run:
        say("Nothing has changed. To sync:\n    pdm run sync", bold=True)
    elif not again:
        say("Your next step: pdm run test")


def _saved(plan: Plan) -> dict[str, bytes]:
    """Return the files to back up: the learner's as they were, and upstream's where part of it is left out."""
    saved: dict[str, bytes] = {}
    for change in plan.package.changes:
        inside = change.path.removeprefix(f"{FOLDER}/")
        if change.before is not None and change.before != change.after:
            saved[inside] = change.before
        if change.merged.kept and change.upstream is not None:
            saved[_beside(inside)] = change.upstream
    return saved


def _beside(path: str) -> str:
    """Return the name of upstream's version in a backup, next to the learner's."""
    file = Path(path)
    return file.with_name(f"{file.stem}.upstream{file.suffix}").as_posix()


def _report(plan: Plan, backup: str) -> None:
    for change in plan.package.changes:
        _report_change(change, backup)
    if plan.changed:
        say(f"✓ outside {FOLDER}, merged by git: {len(plan.changed)} file{'s' * (len(plan.changed) > 1)}")
    if not plan.fast_forward:
        say("✓ a merge commit joins your commits and upstream's")
    if backup:
        say(f"Backup of your files:\n    {backup}")


def _report_change(change: Change, backup: str) -> None:
    merged = change.merged
    what = "new" if change.before is None else "removed" if change.after is None else "updated"
    if change.before == change.after:
        what = "unchanged"
    say(f"{'~' if merged.kept else '✓'} {change.path}: {what}", color="yellow" if merged.kept else None)
    for verb, names in (("new", merged.added), ("updated", merged.taken), ("removed", merged.removed)):
        for name in dict.fromkeys(names[:SHOWN]) if what == "updated" else ():
            say(f"    {verb:<8} {name}")
        if what == "updated" and len(names) > SHOWN:
            say(f"    {verb:<8} {len(names) - SHOWN} more")
    for kept in merged.kept:
        say(f"    yours    {kept.name}")
        for line in kept.reason.split("; "):
            say(f"      {line}")
    if backup and merged.kept and change.upstream is not None:
        say(f"    upstream's file, to compare:\n    {backup}/{_beside(change.path.removeprefix(f'{FOLDER}/'))}")


def _worth_testing(root: Path, plan: Plan, course: Course) -> list[str]:
    """Return the written days and tasks that upstream's changes may affect, as `test` takes them."""
    touched = {
        (change.path.removeprefix(f"{FOLDER}/"), name)
        for change in plan.package.changes
        for name in [*change.merged.taken, *(kept.name for kept in change.merged.kept)]
    }
    found = []
    for day in course.days():
        concerned = [t for t in day.tasks if name_of(tests_path(t)) in plan.changed or _concerns(t, touched)]
        tasks = [task for task in concerned if _written(root, plan, task)]
        found += [day.name] if len(tasks) == len(day.tasks) else [task.id for task in tasks]
    return found


def _concerns(task: Task, touched: Iterable[tuple[str, str]]) -> bool:
    own = task.target.name
    names = [name for file, name in touched if file == task.target.file]
    return any(f"{one}.".startswith(f"{other}.") for name in names for one, other in ((own, name), (name, own)))


def _written(root: Path, plan: Plan, task: Task) -> bool:
    """Return whether the learner's file holds none of the task's stubs after the sync."""
    path = f"{FOLDER}/{task.target.file}"
    after = {change.path: change.after for change in plan.package.changes}
    text = after[path] if path in after else (root / path).read_bytes() if (root / path).is_file() else None
    language = language_of_target(task.target)
    return text is not None and not language.holds_stub(text.decode(errors="replace").replace("\r\n", "\n"), task)


def _course(git: Git, commit: str) -> Course | None:
    """Return the registry of a commit, or None if this version cannot read it."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as folder:
        try:
            for name, (_, blob) in git.entries(commit, REGISTRY.relative_to(ROOT).as_posix()).items():
                Path(folder, Path(name).name).write_bytes(git.blob(blob))
            return load_course(Path(folder))
        except (GitError, ValueError):
            return None
