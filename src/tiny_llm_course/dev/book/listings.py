"""What the book repeats from elsewhere: `book/src/generated/`, made from the registry and the solution's signatures.

A chapter includes these parts, so that a signature, a docstring, a hint or a number of minutes is written only once.
What only one week has is made by the scripts of `book/generate/weekN`.
"""

import re
import runpy
from collections.abc import Iterator

from ...course.nouns import Day, Task
from ...course.places import name_of
from ...course.registry import Course, load_course
from ...paths import BOOK, LEARNER, ROOT, SOLUTION, make_importable
from ...source.languages import language_of_target
from .broken import broken_parts
from .engine import engine_maps
from .legend import legend_parts
from .measured import measured_parts
from .model import Facts, Sentence, model_page
from .parts import FOLDER, Parts, as_files, parts_in, present, present_files
from .quizzes import quiz_parts

PACKAGE = LEARNER.relative_to(ROOT).as_posix()
DUNDER = re.compile(r"(?<![\w`])(__\w+?__)(?!\w)")


def generated_parts(course: Course) -> Parts:
    """The text of every generated part.

    A day has its minutes and files (`time`), its `tasks`, `signature-2` and `hints-2` of each task, its `quiz`, and
    what its measurement found (`measured`), what the mistakes change that it puts into the engine (`mistake-2-no-scale`
    of task 2), and, like its week, a `map` of the engine. The course has its `hours`, the
    legend of the pictures, and the whole model (`engine`), in whose boxes stands what scripts of a week know of them
    (`engine_facts`). What else these make has names of their own.
    """
    parts = {("course", "hours"): _hours(course)} | legend_parts()
    for day in course.days():
        parts[day.name, "time"] = f"**Time** {_minutes(day)} minutes. **You edit** {_files(day)}.\n"
        parts[day.name, "tasks"] = _tasks(day)
        for task in day.tasks:
            parts[day.name, f"signature-{task.number}"] = _signature(task)
            parts[day.name, f"hints-{task.number}"] = _hints(task)
    make_importable()
    sentence: Sentence | None = None
    facts: dict[str, Facts] = {}
    for script in sorted((BOOK / "generate").glob("week*/*.py")):
        made = runpy.run_path(str(script))
        parts |= made["generated_parts"](course)
        facts |= made.get("engine_facts", dict)()
        if "engine_sentence" in made:
            sentence = made["engine_sentence"]()
    if maps := engine_maps(course):
        whole = model_page(course, sentence, facts) if sentence else present("course", "engine")
        parts |= maps | {("course", "engine"): whole}
    return parts | quiz_parts(course) | measured_parts(course) | broken_parts()


def write() -> list[str]:
    """Write the files, remove what is not generated any more, and give the names of the files that changed."""
    changed = []
    for name, wanted, _ in _not_as_generated():
        changed.append(name)
        if wanted is None:
            (FOLDER / name).unlink()
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(wanted, encoding="utf-8", newline="\n")
    return changed


def differences() -> list[str]:
    """One line for each part of `book/src/generated/` that is not what would be generated; none if all are."""
    found = []
    for name, wanted, there in _not_as_generated():
        file = name_of(FOLDER / name)
        if wanted is None or there is None:
            found.append(f"{file} {_fault(wanted, there)} (pdm run dev book)")
            continue
        ours, theirs = parts_in(wanted), parts_in(there)
        apart = [anchor for anchor in ours | theirs if ours.get(anchor) != theirs.get(anchor)]
        found += [f"{file}:{a} {_fault(ours.get(a), theirs.get(a))} (pdm run dev book)" for a in apart]
        if not apart:  # what differs is none of its parts
            found.append(f"{file} {_fault(wanted, there)} (pdm run dev book)")
    return found


def _fault(wanted: str | None, present: str | None) -> str:
    return "is not generated any more" if wanted is None else "is missing" if present is None else "is out of date"


def _not_as_generated() -> Iterator[tuple[str, str | None, str | None]]:
    """The files that differ: by name, the text that each should have and has; None for one that is not there."""
    wanted, present = as_files(generated_parts(load_course())), present_files()
    for name in sorted(wanted.keys() | present.keys()):
        if wanted.get(name) != present.get(name):
            yield name, wanted.get(name), present.get(name)


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
    rows = [
        f"| [{task.label}](#task-{task.id.replace('.', '-')}) | {_name(task)} | {task.minutes} |" for task in day.tasks
    ]
    head = ["| Task | You write | Minutes |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _name(task: Task) -> str:
    """On a phone, a long name goes on in the next line."""
    name = re.sub(r"([._])(?=\w\w)|(?<=[a-z])(?=[A-Z])", r"\1<wbr>", str(task.target).replace(":", "."))
    return f"<code>{name}</code>"


def _files(day: Day) -> str:
    return ", ".join(f"`{file}`" for file in dict.fromkeys(f"{PACKAGE}/{task.target.file}" for task in day.tasks))


def _signature(task: Task) -> str:
    off_limits = [f"`{name.replace('mlx.core.', 'mx.')}`" for name in task.forbidden]
    named = " or ".join(filter(None, (", ".join(off_limits[:-1]), *off_limits[-1:])))
    calls = f", without calling {named}" if named else ""
    target, language = task.target, language_of_target(task.target)
    listed = language.listing((SOLUTION / target.file).read_text(encoding="utf-8"), target.name)
    return f"In `{PACKAGE}/{target.file}`{calls}:\n\n```{language.fence}\n{listed}```\n"


def _hints(task: Task) -> str:
    """Folded, the next rung below the last: each is opened by itself. Bare, __init__ would be a bold "init"."""
    count = len(task.hints)
    texts = [DUNDER.sub(r"`\1`", text) for text in task.hints]
    return "\n".join(
        f"<details>\n<summary>Hint {rung} of {count}</summary>\n\n{text}\n\n</details>\n"
        for rung, text in enumerate(texts, 1)
    )
