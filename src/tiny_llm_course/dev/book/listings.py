"""What the book repeats from elsewhere: `book/src/generated/`, made from the registry and the solution's signatures.

Chapters include these parts, so each signature or number of minutes is written once. What only one day has comes from a
script of `book/generate/weekN`: `day1.py` for 1.1, `dayC.py` for 1.C, `week.py` for the week. The course's own pages
have `book/generate/course.py`.
"""

import importlib
import re
from types import ModuleType

from ...course.entities import Day, Task
from ...course.registry import Course, load_course
from ...paths import BOOK, LEARNER, ROOT, SOLUTION, make_importable
from ...programs.packages import load_solution
from ...source.languages import language_of_target
from .engine import map_parts
from .measured import measured_parts
from .mistake_diffs import mistake_parts
from .parts import Parts, is_there
from .quizzes import quiz_parts
from .wrapping import wrapped, wrapped_c

PACKAGE = LEARNER.relative_to(ROOT).as_posix()
DOCSTRING = re.compile(r'("""(?:(?!""")[^\n])+)\n.*?"""', re.DOTALL)  # its first line, and what follows

CONTRACT = "**Contract** the docstrings in these files; the chapter shows their first lines."


def names_of_files(course: Course) -> list[str]:
    """List all generated files, without suffix: one per day, per week, and one for the course."""
    return [*(day.name for day in course.days()), *(str(week.number) for week in course.weeks), "course"]


def parts_of(name: str) -> Parts:
    """Make the parts of a file; none if a week has none.

    A day has `time`, `tasks`, `signature-2` of each task, its script's parts, a `map` of the engine, its
    `quiz`, its measurement (`measured`), and diffs of the mistakes that it puts into the engine (`mistake-2-no-scale`).
    The course has `hours` and its script's parts.
    """
    course = load_course()
    make_importable()
    load_solution()  # as `tiny_llm_solution`, for the scripts
    if name == "course":
        return {"hours": _hours(course)} | _of_the_script("course")
    for day in course.days():
        if day.name == name:
            files = ", ".join(dict.fromkeys(f"`{PACKAGE}/{task.target.file}`" for task in day.tasks))
            rest = sum(task.minutes for task in day.tasks if task.optional)
            more = f", plus {rest} for optional tasks" if rest else ""
            contract = f" {CONTRACT}" if any(DOCSTRING.search(_listing(task)) for task in day.tasks) else ""
            time = f"**Time** {_minutes(day)} minutes{more}. **You edit** {files}.{contract}\n"
            own = {"time": time, "tasks": _tasks(day)}
            own |= {f"signature-{task.number}": _signature(task) for task in day.tasks}
            own |= _of_the_script(f"week{day.week}", f"day{name.rpartition('.')[2]}")
            return own | map_parts(course, day.week, day) | quiz_parts(day) | measured_parts(day) | mistake_parts(day)
    return _of_the_script(f"week{name}", "week") | map_parts(course, int(name))


def _of_the_script(*place: str) -> Parts:
    return dict(script.generated_parts()) if (script := script_at(*place)) else {}


def script_at(*place: str) -> ModuleType | None:
    """Return the module of a script of `book/generate`, by its folder and name; None if there is none."""
    there = is_there(BOOK.joinpath("generate", *place[:-1], f"{place[-1]}.py"))
    return importlib.import_module(".".join(["book.generate", *place])) if there else None


def _hours(course: Course) -> str:
    rows = []
    for week in course.weeks:
        for day in week.days:
            title = f"[{day.title}]({day.chapter})"
            number = day.name.rpartition(".")[2]
            rows.append(f"| {number} | {title} | {_count(day)} | {_length(_minutes(day))} |")
        count, minutes = sum(map(_count, week.days)), sum(map(_minutes, week.days))
        rows.append(f"| | **Week {week.number}** | **{count}** | **{_length(minutes)}** |")
    return "\n".join(["| Day | Chapter | Tasks | Writing and testing |", "|---|---|---|---|", *rows, ""])


def _count(day: Day) -> int:
    return sum(not task.optional for task in day.tasks)


def _minutes(day: Day) -> int:
    return sum(task.minutes for task in day.tasks if not task.optional)


def _length(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _tasks(day: Day) -> str:
    lines = ["| Task | You write | Minutes |", "|---|---|---|"]
    for task in day.tasks:
        # With line-break opportunities for phones.
        name = re.sub(r"([._])(?=\w\w)|(?<=[a-z])(?=[A-Z])", r"\1<wbr>", str(task.target).replace(":", "."))
        link, kind = f"[{task.label}](#task-{task.id.replace('.', '-')})", ", optional" if task.optional else ""
        lines.append(f"| {link}{kind} | <code>{name}</code> | {task.minutes} |")
    return "\n".join([*lines, ""])


def _signature(task: Task) -> str:
    off_limits = [f"`{name.replace('mlx.core.', 'mx.')}`" for name in task.forbidden]
    named = " or ".join(filter(None, (", ".join(off_limits[:-1]), *off_limits[-1:])))
    calls = f", without calling {named}" if named else ""
    fence = language_of_target(task.target).fence
    shown = (wrapped if fence == "python" else wrapped_c)(DOCSTRING.sub(r'\1"""', _listing(task)))
    return f"In `{PACKAGE}/{task.target.file}`{calls}:\n\n```{fence}\n{shown}```\n"


def _listing(task: Task) -> str:
    """Return the signature and docstrings of a task's target, from the solution."""
    source = (SOLUTION / task.target.file).read_text(encoding="utf-8")
    return language_of_target(task.target).listing(source, task.target.name)
