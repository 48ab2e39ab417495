"""`dev new-day`: scaffold a day from `dev/scaffold`, one file of each kind with a toy task; existing files stay."""

import json
import re
import shutil
import tempfile
from functools import partial
from pathlib import Path
from string import Template

from ..course.entities import Day, Target, Task
from ..course.file_paths import bench_path, chapter_path, name_of, quiz_path, registry_path, tests_path, variants_path
from ..course.registry import Course, UsageError, load_course
from ..paths import BOOK, COURSE, REGISTRY, SOLUTION
from .completeness import UNTITLED, link_to

TEMPLATES = COURSE / "dev" / "scaffold"
SUMMARY = BOOK / "src" / "SUMMARY.md"

Files = dict[Path, str]  # to write: their texts


def scaffold(name: str, title: str = "", week_title: str = "", target: str = "") -> Files:
    """Return the files to write for a day; UsageError if there are none, it cannot come next, or a file exists."""
    if not re.fullmatch(r"[1-9][0-9]?\.[1-9][0-9]?", name):
        raise UsageError(f"{name!r} is not a day. A day is named like 2.1.")
    week, number = map(int, name.split("."))
    course = load_course()
    if name in [day.name for day in course.days()]:
        if title or week_title or target:
            raise UsageError(f"Day {name} is registered; its titles and targets are in {name_of(registry_path(week))}")
        day = course.day(week, number)
        missing = {file: text for file, text in _of_day(day).items() if not file.exists()}
        if files := missing | _in_summary(course, day):
            return files
        raise UsageError(f"Day {name} has a file of each kind. To see what is missing:", f"pdm run dev check {name}")
    counts = {known.number: sum(not day.is_open for day in known.days) for known in course.weeks}
    following = [f"{week}.{count + 1}" for week, count in counts.items()]
    if name not in following and (week in counts or number > 1):
        raise UsageError(f"Day {name} cannot come next; {' or '.join([*following, 'the first day of a week'])} can.")
    target = target or f"week{week}_day{number}:twice"
    if not (wanted := Target.parse(target)).is_python or "." in wanted.name:
        raise UsageError(f"The toy task is a function in Python, and {target} is none.")
    if week_title and registry_path(week).exists():
        raise UsageError(f"Week {week} has its title: {name_of(registry_path(week))}")
    registry = _registry(week, number, title or UNTITLED, week_title or UNTITLED, target)
    with tempfile.TemporaryDirectory() as folder:  # the course as it will be once the registry is written
        shutil.copytree(REGISTRY, folder, dirs_exist_ok=True)
        for file, text in registry.items():
            Path(folder, file.name).write_text(text, encoding="utf-8")
        try:
            course = load_course(Path(folder))
        except ValueError as error:  # a target that is none, or another task's
            raise UsageError(f"{error}.") from error
    day = course.day(week, number)
    own = _solution(day) | _of_day(day)
    if taken := [file for file in own if file.exists()]:
        raise UsageError(f"{name_of(taken[0])} is there, though day {name} is not registered.")
    return registry | own | _in_summary(course, day)


def write(files: Files) -> None:
    """Write the files, creating their folders."""
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def _filled(template: str, **words: object) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(words)


def _registry(week: int, number: int, title: str, week_title: str, target: str) -> Files:
    words = {"title": title, "target": target, "task_title": target.partition(":")[2].replace("_", " ").capitalize()}
    day = _filled("day", week=week, number=number, **{key: _quoted(word) for key, word in words.items()})
    file, head = registry_path(week), _filled("week", week=week, title=_quoted(week_title))
    return {file: (file.read_text(encoding="utf-8") if file.exists() else head) + day}


_quoted = partial(json.dumps, ensure_ascii=False)  # which TOML reads as well


def _solution(day: Day) -> Files:
    """Return the module of the day's toy task, and the `__init__.py` files that its folders lack."""
    target = day.tasks[0].target
    file = SOLUTION / target.file
    packages = [folder / "__init__.py" for folder in file.parents if folder.is_relative_to(SOLUTION)]
    files = {init: f'"""{day.title}."""\n' for init in reversed(packages) if not init.exists()}
    return files | {file: _filled("solution", title=day.title, function=target.name)}


def _of_day(day: Day) -> Files:
    words = {"week": day.week, "number": day.number, "day": day.name, "title": day.title}
    each = [words | _words(task) for task in day.tasks]
    imports = "\n".join(sorted({str(of["imports"]) for of in each}))
    tests = "".join(_filled("tests_of_task", **of) for of in each)
    sections = "".join(_filled("chapter_of_task", **of) for of in each)
    return {
        tests_path(day.tasks[0]): _filled("tests", imports=imports, **words) + tests,
        **{variants_path(task): _filled("variants", **_words(task)) for task in day.tasks},
        chapter_path(day): _filled("chapter", sections=sections, **words),
        quiz_path(day): _filled("quiz", **each[0]),
        bench_path(day): _filled("bench", **each[0]),
    }


def _words(task: Task) -> dict[str, object]:
    package, _, module = f"tiny_llm.{task.program.module}".rpartition(".")
    return {
        "task": task.id,
        "dashed": task.id.replace(".", "-"),
        "task_number": task.number,
        "task_title": task.title,
        "tests": task.tests,
        "imports": f"from {package} import {module}",
        "module": f"{package}.{module}",
        "function": task.program.name.partition(".")[0],
        "program": f"{module}.{task.program.name}",
    }


def _in_summary(course: Course, day: Day) -> Files:
    """Return the book's table of contents with the chapter added, if it is missing, and a new week's page."""
    text = SUMMARY.read_text(encoding="utf-8")
    if f"({day.chapter})" in text:
        return {}
    lines = text.splitlines()
    link = link_to(day)
    chapters = [i for i, line in enumerate(lines) if re.match(r"\s*- \[", line)]
    of_week = [i for i in chapters if f"(week{day.week}/" in lines[i]]
    files: Files = {}
    if of_week:
        margin = lines[of_week[-1]].partition("-")[0]
        lines.insert(of_week[-1] + 1, f"{margin}- {link}")
    else:
        title = f"Week {day.week}: {course.week(day.week).title}"
        page = SUMMARY.with_name(f"week{day.week}") / "overview.md"
        files = {page: f"# {title}\n\n## Check yourself\n"}
        place = chapters[-1] + 1 if chapters else len(lines)
        lines[place:place] = [f"- [{title}](week{day.week}/overview.md)", f"  - {link}"]
    return {**files, SUMMARY: "\n".join([*lines, ""])}
