"""`pdm run sync`: upstream's changes, brought into a checkout in which a learner has written code."""

import re
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from .git import Git, GitError
from .paths import BOOK, LEARNER, REGISTRY, ROOT
from .registry import Course, Day, Task, load_course
from .screen import say
from .sync_files import Change, write_files
from .sync_git import SHOWN, Plan, carry_out, fetch, make_plan

FOLDER = LEARNER.relative_to(ROOT).as_posix()
LOCK = "pdm.lock"


@click.command(short_help="Bring in the course's new version; what you wrote stays.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.option("--remote", help="Where upstream is (default: the remote upstream, or else origin).")
def sync(dry_run: bool, remote: str | None) -> int:
    """Bring in the course's newest version; what you have written in src/tiny_llm stays."""
    bring_in(ROOT, dry_run, remote)
    return 0


def bring_in(root: Path, dry_run: bool = False, remote: str | None = None) -> None:
    """Sync the clone at `root`, and say what has been done.

    Raises:
        UsageError: it cannot be done, and nothing is changed.
    """
    git = Git(root)
    name, theirs = fetch(git, remote)
    plan = make_plan(git, FOLDER, name, theirs)
    if plan is None:
        say(f"Nothing new in {name}.", colour="green")
        if name.startswith("origin/"):
            say("If origin is your fork, say once where the course is:")
            say("    git remote add upstream URL")
        return
    old, new = (_course(git, commit) for commit in (plan.ours, theirs))
    count = int(git.line("rev-list", "--count", f"{plan.ours}..{theirs}"))
    say(f"{name}: {count} new commit{'s' * (count > 1)}" + ", a dry run" * dry_run, bold=True)
    backup = f".tiny-llm/backups/{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while (root / backup).exists():
        number += 1
        backup = f"{re.sub('_.*', '', backup)}_{number}"
    saved = _backup(plan, backup)
    if not dry_run:
        write_files(root, saved)
        carry_out(git, plan, FOLDER, name)
    _report(plan, backup if saved and not dry_run else None)
    if LOCK in plan.changed:
        say("✓ the course's packages have changed")
        say("    pdm install", bold=True)
    _report_days(old, new)
    again = _worth_testing(root, plan, new) if new else []
    if again:
        say("Worth testing again:")
        say(f"    pdm run test {' '.join(again)}", bold=True)
    if dry_run:
        say("Nothing is changed. For good:")
        say("    pdm run sync", bold=True)
    elif not again:
        say("Your next step: pdm run test")


def _backup(plan: Plan, folder: str) -> dict[str, bytes | None]:
    """The files of a backup: the learner's as they were, and upstream's where something of it is left out."""
    saved: dict[str, bytes | None] = {}
    for change in plan.package.changes:
        inside = change.path.removeprefix(f"{FOLDER}/")
        if change.before is not None and change.before != change.after:
            saved[f"{folder}/{inside}"] = change.before
        if change.merged.kept and change.upstream is not None:
            saved[f"{folder}/{_beside(inside)}"] = change.upstream
    return saved


def _beside(path: str) -> str:
    """The name in a backup under which upstream's version stands beside the learner's."""
    file = Path(path)
    return file.with_name(f"{file.stem}.upstream{file.suffix}").as_posix()


def _report(plan: Plan, backup: str | None) -> None:
    for change in plan.package.changes:
        _report_change(change, backup)
    if plan.changed:
        say(f"✓ outside {FOLDER}, as git merges it: {len(plan.changed)} file{'s' * (len(plan.changed) > 1)}")
    if not plan.fast_forward:
        say("✓ one commit joins your commits and upstream's")
    if backup:
        say("Your files as they were:")
        say(f"    {backup}")


def _report_change(change: Change, backup: str | None) -> None:
    merged = change.merged
    what = "new" if change.before is None else "removed" if change.after is None else "updated"
    if change.before == change.after:
        what = "as you have it"
    say(f"{'~' if merged.kept else '✓'} {change.path}: {what}", colour="yellow" if merged.kept else None)
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
        say("    upstream's file, to compare:")
        say(f"    {backup}/{_beside(change.path.removeprefix(f'{FOLDER}/'))}")


def _report_days(old: Course | None, new: Course | None) -> None:
    known = {(day.week, day.number) for day in _days(old)}
    fresh = [day for day in _days(new) if (day.week, day.number) not in known]
    if old and fresh:
        names = [f"{day.week}.{day.number} {day.title}" for day in fresh]
        chapter = (BOOK / "src" / fresh[0].chapter).relative_to(ROOT).as_posix()
        for name in names[:SHOWN]:
            say(f"✓ new day {name}")
        say(f"    read {chapter}")


def _worth_testing(root: Path, plan: Plan, course: Course) -> list[str]:
    """The days and tasks that the learner has written and that upstream's changes may concern, as `test` takes them."""
    touched = {
        f"{_module(change.path)}:{name}"
        for change in plan.package.changes
        for name in [*change.merged.taken, *(kept.name for kept in change.merged.kept)]
    }
    found = []
    for day in _days(course):
        retested = any(path.startswith(f"tests/week{day.week}/test_day{day.number}.") for path in plan.changed)
        tasks = [task for task in day.tasks if (retested or _concerns(task, touched)) and _written(root, plan, task)]
        found += [f"{day.week}.{day.number}"] if len(tasks) == len(day.tasks) else [task.id for task in tasks]
    return found


def _concerns(task: Task, touched: Iterable[str]) -> bool:
    names = [str(target) for target in task.targets]
    return any(
        f"{one}.".startswith(f"{other}.") for name in names for t in touched for one, other in ((name, t), (t, name))
    )


def _written(root: Path, plan: Plan, task: Task) -> bool:
    """Whether none of the task's stubs is left in the learner's file, as it is after the sync."""
    path = f"{FOLDER}/{task.targets[0].module.replace('.', '/')}.py"
    after = {change.path: change.after for change in plan.package.changes}
    text = after[path] if path in after else (root / path).read_bytes() if (root / path).is_file() else None
    return text is not None and f'raise NotImplementedError("{task.label}")'.encode() not in text


def _module(path: str) -> str:
    return path.removeprefix(f"{FOLDER}/").removesuffix(".py").replace("/", ".")


def _days(course: Course | None) -> Sequence[Day]:
    return [day for week in course.weeks for day in week.days] if course else []


def _course(git: Git, commit: str) -> Course | None:
    """The registry of a commit; None if it has none that this version can read."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-sync-") as folder:
        file = Path(folder, REGISTRY.name)
        try:
            file.write_bytes(git.blob(f"{commit}:{REGISTRY.relative_to(ROOT).as_posix()}"))
            return load_course(file)
        except (GitError, ValueError):
            return None
