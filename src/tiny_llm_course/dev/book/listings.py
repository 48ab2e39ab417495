"""What the book repeats from elsewhere: `book/src/generated/`, made from the registry and the solution's signatures.

Chapters include these parts, so each signature or number of minutes is written once. What only one day
has comes from a script of `book/generate/weekN`: `day1.py` for 1.1, `dayC.py` for 1.C, `week.py` for the week.
"""

import importlib
import re
from types import ModuleType

import numpy as np

from ...course.entities import Day, Task
from ...course.registry import Course, load_course
from ...paths import BOOK, LEARNER, ROOT, SOLUTION, make_importable
from ...programs.packages import load_solution
from ...source.languages import language_of_target
from .drawing import ROLES, Canvas, matrix
from .engine import map_parts
from .measured import measured_parts
from .mistake_diffs import mistake_parts
from .model import Facts, Sentence, model_page
from .parts import Parts, is_there
from .quizzes import quiz_parts

PACKAGE = LEARNER.relative_to(ROOT).as_posix()
DOCSTRING = re.compile(r'("""(?:(?!""")[^\n])+)\n.*?"""', re.DOTALL)  # its first line, and what follows


def names_of_files(course: Course) -> list[str]:
    """List all generated files, without suffix: one per day, per week, and one for the course."""
    return [*(day.name for day in course.days()), *(str(week.number) for week in course.weeks), "course"]


def parts_of(name: str) -> Parts:
    """Make the parts of a file; none if a week has none.

    A day has `time`, `tasks`, `signature-2` of each task, its script's parts, a `map` of the engine, its
    `quiz`, its measurement (`measured`), and diffs of the mistakes that it puts into the engine (`mistake-2-no-scale`).
    The course has `hours`, the legend of the figures, and the whole model (`engine`).
    """
    course = load_course()
    make_importable()
    load_solution()  # as `tiny_llm_solution`, for the scripts
    if name == "course":
        return {"hours": _hours(course)} | legend_parts() | _engine(course)
    for day in course.days():
        if day.name == name:
            files = ", ".join(dict.fromkeys(f"`{PACKAGE}/{task.target.file}`" for task in day.tasks))
            own = {"time": f"**Time** {_minutes(day)} minutes. **You edit** {files}.\n", "tasks": _tasks(day)}
            own |= {f"signature-{task.number}": _signature(task) for task in day.tasks}
            own |= _of_the_script(day.week, f"day{name.rpartition('.')[2]}")
            return own | map_parts(course, day.week, day) | quiz_parts(day) | measured_parts(day) | mistake_parts(day)
    return _of_the_script(int(name), "week") | map_parts(course, int(name))


def _of_the_script(week: int, name: str) -> Parts:
    return dict(script.generated_parts()) if (script := _script(week, name)) else {}


def _script(week: int, name: str) -> ModuleType | None:
    there = is_there(BOOK / "generate" / f"week{week}" / f"{name}.py")
    return importlib.import_module(f"book.generate.week{week}.{name}") if there else None


def _engine(course: Course) -> Parts:
    """Return the page of the whole model; the first week chooses the sentence."""
    sentence: Sentence | None = None
    facts: dict[str, Facts] = {}
    for week in course.weeks:
        if script := _script(week.number, "engine"):
            facts |= script.engine_facts()
            sentence = script.engine_sentence() if week is course.weeks[0] else sentence
    return {"engine": model_page(course, sentence, facts)} if sentence else {}


def _hours(course: Course) -> str:
    rows = []
    for week in course.weeks:
        for day in week.days:
            title = f"[{day.title}]({day.chapter})"
            number = day.name.rpartition(".")[2]
            rows.append(f"| {number} | {title} | {len(day.tasks)} | {_length(_minutes(day))} |")
        count, minutes = sum(len(day.tasks) for day in week.days), sum(map(_minutes, week.days))
        rows.append(f"| | **Week {week.number}** | **{count}** | **{_length(minutes)}** |")
    return "\n".join(["| Day | Chapter | Tasks | Writing and testing |", "|---|---|---|---|", *rows, ""])


def _minutes(day: Day) -> int:
    return sum(task.minutes for task in day.tasks)


def _length(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _tasks(day: Day) -> str:
    lines = ["| Task | You write | Minutes |", "|---|---|---|"]
    for task in day.tasks:
        # With line-break opportunities for phones.
        name = re.sub(r"([._])(?=\w\w)|(?<=[a-z])(?=[A-Z])", r"\1<wbr>", str(task.target).replace(":", "."))
        lines.append(f"| [{task.label}](#task-{task.id.replace('.', '-')}) | <code>{name}</code> | {task.minutes} |")
    return "\n".join([*lines, ""])


def _signature(task: Task) -> str:
    off_limits = [f"`{name.replace('mlx.core.', 'mx.')}`" for name in task.forbidden]
    named = " or ".join(filter(None, (", ".join(off_limits[:-1]), *off_limits[-1:])))
    calls = f", without calling {named}" if named else ""
    target, language = task.target, language_of_target(task.target)
    listed = language.listing((SOLUTION / target.file).read_text(encoding="utf-8"), target.name)
    short = DOCSTRING.sub(r'\1"""', listed)
    more = "; the docstrings in the file state the rest" if short != listed else ""
    return f"In `{PACKAGE}/{target.file}`{calls}{more}:\n\n```{language.fence}\n{short}```\n"


def legend_parts() -> Parts:
    """Return `roles`, a table of the colors, and `squares`, a drawing of a small array."""
    rows = []  # of a role: a sentence, a formula, a box and a square
    for role, (letter, meaning) in ROLES.items():
        looks = f"role-{role}"
        drawn = (
            '<svg viewBox="0 0 92 26" width="92" height="26" role="img"><title>a box, an arrow, a square</title>'
            f'<rect x="2" y="3" width="30" height="20" rx="4" class="frame {looks}"/>'
            f'<polyline points="36,13 58,13" class="line {looks}"/>'
            f'<polygon points="64,13 57,9 57,17" class="head {looks}"/>'
            f'<rect x="70" y="5" width="16" height="16" class="fill {looks}"/></svg>'
        )
        cells = [f'<span class="{looks}">{role}</span>', f'<span class="{looks}"><i>{letter}</i></span>']
        cells += [f'<span class="drawn">{drawn}</span>', meaning]
        rows.append(f"| {' | '.join(cells)} |")
    roles = "\n".join(["| In a sentence | Letter | In a picture | What it is |", "|---|---|---|---|", *rows, ""])
    canvas, values = Canvas(), np.array([[4.0, 1.0, 0.25], [-4.0, -1.0, 0.0]])
    hidden = np.array([[False, False, False], [False, False, True]])
    matrix(canvas, values, ["first", "second"], ["first", "second", "third"], None, hidden=hidden)
    about = "Filled squares of three sizes for 4, 1 and 0.25; hollow squares for -4 and -1; a dot for a masked number."
    squares = canvas.figure("squares-course", "An array of two rows and three columns", about)
    return {"roles": roles, "squares": squares}
