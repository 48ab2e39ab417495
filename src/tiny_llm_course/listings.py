"""What the book repeats from elsewhere: `book/src/generated/`, made from the registry and the solution's signatures.

A chapter includes these files, so that a signature, a docstring, a hint or a number of minutes is written only once.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from . import engine_map, measured, widgets
from .depth import depth_table
from .paths import BOOK, LEARNER, ROOT, SOLUTION
from .quizzes import quiz_files
from .registry import Course, Day, Target, Task, load_course
from .stubs import listing

FOLDER = BOOK / "src" / "generated"
PACKAGE = LEARNER.relative_to(ROOT).as_posix()
DUNDER = re.compile(r"(?<![\w`])(__\w+?__)(?!\w)")


def generated_files(course: Course) -> dict[str, str]:
    """The text of every file of `book/src/generated/`, by its name.

    `1.1-tasks.md` is a day's minutes, files and tasks; `1.1.2-signature.md` and `1.1.2-hints.md` belong to a task;
    `1.1-map.md` is the engine with a day's parts lit; what a widget is given has the name of its element;
    `quiz-1.1.md` is a day's quiz; `1.1-measured.md` is what its measurement found; `hours.md` is how long everything
    takes; `depth.md` is day 5's table.
    """
    files = {"hours.md": _hours(course), "depth.md": depth_table(), **quiz_files(course)}
    for day in (day for week in course.weeks for day in week.days):
        files[f"{day.week}.{day.number}-tasks.md"] = _tasks(day)
        for task in day.tasks:
            files[f"{task.id}-signature.md"] = _signature(task)
            files[f"{task.id}-hints.md"] = _hints(task)
    return files | engine_map.generated_files(course) | widgets.generated_files() | measured.generated_files(course)


def write() -> list[str]:
    """Write the files, remove what is not generated any more, and give the names of the files that changed."""
    changed = []
    for name, wanted in _not_as_generated():
        changed.append(name)
        if wanted is None:
            (FOLDER / name).unlink()
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(wanted, encoding="utf-8", newline="\n")
    return changed


def differences() -> list[str]:
    """One line for each file of `book/src/generated/` that is not what would be generated; none if all are."""
    found = []
    for name, wanted in _not_as_generated():
        file = FOLDER / name
        what = "is not generated any more" if wanted is None else "is out of date" if file.exists() else "is missing"
        found.append(f"{file.relative_to(ROOT).as_posix()} {what} (pdm run dev book)")
    return found


def _not_as_generated() -> Iterator[tuple[str, str | None]]:
    """The files that differ, by name, with the text they should have; None for a file that should not be there."""
    wanted = generated_files(load_course())
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    for name in sorted(wanted.keys() | present.keys()):
        if wanted.get(name) != present.get(name):
            yield name, wanted.get(name)


def _hours(course: Course) -> str:
    rows = []
    for week in course.weeks:
        for day in week.days:
            title = f"[{day.title}]({day.chapter})"
            rows.append(f"| {day.number} | {title} | {len(day.tasks)} | {_length(_minutes(day))} |")
        count, minutes = sum(len(day.tasks) for day in week.days), sum(map(_minutes, week.days))
        rows.append(f"| | **Week {week.number}** | **{count}** | **{_length(minutes)}** |")
    return "\n".join(["| Day | Chapter | Tasks | Writing and testing |", "|---|---|---|---|", *rows, ""])


def _minutes(day: Day) -> int:
    return sum(task.minutes for task in day.tasks)


def _length(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _tasks(day: Day) -> str:
    files = _files(tuple(target for task in day.tasks for target in task.targets))
    rows = [
        f"| [{task.label}](#task-{task.id.replace('.', '-')}) | {_names(task)} | {task.minutes} |" for task in day.tasks
    ]
    head = ["| Task | You write | Minutes |", "|---|---|---|"]
    return "\n".join([f"**Time** {_minutes(day)} minutes. **You edit** {files}.", "", *head, *rows, ""])


def _names(task: Task) -> str:
    """On a phone, a long name goes on in the next line."""
    names = [
        re.sub(r"([._])|(?<=[a-z])(?=[A-Z])", r"\1<wbr>", f"{target.module}.{target.name}") for target in task.targets
    ]
    return ", ".join(f"<code>{name}</code>" for name in names)


def _files(targets: tuple[Target, ...]) -> str:
    return ", ".join(f"`{file}`" for file in dict.fromkeys(_file(target, PACKAGE) for target in targets))


def _file(target: Target, package: str) -> str:
    return f"{package}/{target.module.replace('.', '/')}.py"


def _signature(task: Task) -> str:
    off_limits = [f"`{name.replace('mlx.core.', 'mx.')}`" for name in task.forbidden]
    calls = f", without calling {' or '.join(off_limits)}" if off_limits else ""
    parts = [f"In {_files(task.targets)}{calls}:"]
    for target in task.targets:
        source = Path(_file(target, SOLUTION.as_posix())).read_text(encoding="utf-8")
        parts.append(f"```python\n{listing(source, target.name)}```")
    return "\n\n".join(parts) + "\n"


def _hints(task: Task) -> str:
    """Folded, the next rung below the last: each is opened by itself. Bare, __init__ would be a bold "init"."""
    count = len(task.hints)
    texts = [DUNDER.sub(r"`\1`", text) for text in task.hints]
    return "\n".join(
        f"<details>\n<summary>Hint {rung} of {count}</summary>\n\n{text}\n\n</details>\n"
        for rung, text in enumerate(texts, 1)
    )
