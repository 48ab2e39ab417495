"""Refuse a malformed registry by a ValueError that names the week, day or task and the key: readers need not check."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .requirements import known

Table = dict[str, Any]
Keys = Mapping[str, str]  # the kind of each one's value

STRING = "a string"
NUMBER = "a whole number"
STRINGS = "a list of strings"
TABLE = "a table"
TABLES = "a list of tables"
YES_NO = "true or false"

NO_KEYS: Keys = {}


def _keys(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


WEEK_KEYS = _keys(NUMBER, "number") | _keys(STRING, "title") | _keys(TABLES, "days")
WEEK_OPTIONS = _keys(TABLES, "stages engines modes") | _keys(STRING, "build calls launches") | _keys(TABLE, "open")
STAGE_KEYS = _keys(STRING, "name title model generate") | _keys(STRINGS, "needs")
STAGE_OPTIONS = _keys(STRINGS, "requires") | _keys(YES_NO, "rereads packed asked") | _keys(STRING, "config counts")
MODE_KEYS = _keys(STRING, "name title make") | _keys(STRINGS, "needs")
MODE_OPTIONS = _keys(STRINGS, "kernels requires") | _keys(YES_NO, "asked")
DAY_KEYS = _keys(NUMBER, "number") | _keys(STRING, "title chapter") | _keys(TABLES, "tasks")
OPEN_KEYS = _keys(STRING, "title of target chapter") | _keys(NUMBER, "minutes difficulty") | _keys(STRINGS, "hints")
OPEN_OPTIONS = _keys(STRINGS, "requires") | _keys(NUMBER, "seconds")
TASK_KEYS = _keys(STRING, "id title target tests") | _keys(STRINGS, "needs") | _keys(NUMBER, "minutes difficulty")
TASK_KEYS |= _keys(STRINGS, "forbidden hints")
TASK_OPTIONS = _keys(STRING, "program") | _keys(STRINGS, "requires") | _keys(NUMBER, "seconds")
TASK_OPTIONS |= _keys(STRINGS, "makes") | _keys(YES_NO, "optional")

OPEN = "C"  # instead of a number: 1.C is the open task of week 1
OTHER_LANGUAGES = (".cpp", ".h", ".metal")  # suffixes of the learner's files in other languages than Python
DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
PYTHON = re.compile(f"{DOTTED}:{DOTTED}")
NAME = r"[^\s/](?:(?! before )[^/])*(?<!\s)"
BOX = re.compile(rf"((?:{NAME}/)*){NAME}( before {NAME})?")
OTHER = re.compile(rf"(?:\w+/)*\w+(?:{'|'.join(map(re.escape, OTHER_LANGUAGES))}):{DOTTED}")


def check_registry(weeks: Sequence[Table]) -> None:
    """Check every level's keys and their types, then that ids, needs and targets agree."""
    tasks: list[Table] = []
    for week in weeks:
        _check_keys(week, WEEK_KEYS, f"week {week.get('number', 'without number')}", WEEK_OPTIONS)
        for key in ("calls", "launches"):
            if not PYTHON.fullmatch(week.get(key, "module:name")):
                raise ValueError(f"week {week['number']}: {key!r} is {week[key]!r}, which is not module:name")
        for j, day in enumerate(week["days"], 1):
            _check_keys(day, DAY_KEYS, f"day {week['number']}.{day.get('number', f'(at place {j})')}")
            for k, task in enumerate(day["tasks"], 1):
                place = f"{week['number']}.{day['number']}"
                _check_keys(task, TASK_KEYS, f"task {task.get('id', f'{k} of day {place}')}", TASK_OPTIONS)
                if not re.fullmatch(re.escape(place) + r"\.[1-9][0-9]*", task["id"]):
                    raise ValueError(f"task {task['id']}: its id does not match its place, day {place}")
                tasks.append(task)
        if "open" in week:
            tasks.append(_open_task(week))
        _check_distinct([day["number"] for day in week["days"]], f"week {week['number']}: day")
    _check_distinct([week["number"] for week in weeks], "week")
    ids = [task["id"] for task in tasks]
    _check_distinct(ids, "task")
    for i, task in enumerate(tasks):
        for need in task["needs"]:
            if need not in ids[:i]:
                fault = "which does not come before it" if need in ids else "which does not exist"
                raise ValueError(f"task {task['id']}: 'needs' names {need}, {fault}")
        if task.get("seconds", 1) < 1:
            raise ValueError(f"task {task['id']}: 'seconds' must be at least 1, not {task['seconds']}")
        _check_requires(task, f"task {task['id']}")
    _check_targets(tasks)
    _check_boxes(weeks)
    stages = [stage for key in ("stages", "engines") for week in weeks for stage in week.get(key, [])]
    _check_engines("stage", stages, ids, STAGE_KEYS, STAGE_OPTIONS)
    _check_engines("mode", [mode for week in weeks for mode in week.get("modes", [])], ids, MODE_KEYS, MODE_OPTIONS)


def _check_keys(table: Table, wanted: Keys, place: str, optional: Keys = NO_KEYS) -> None:
    for key in wanted:
        if key not in table:
            raise ValueError(f"{place}: the key {key!r} is missing")
    for key, value in table.items():
        kinds = {**wanted, **optional}
        if key not in kinds:
            raise ValueError(f"{place}: there is no key {key!r}; the keys are {', '.join(kinds)}")
        if not _is(value, kinds[key]):
            raise ValueError(f"{place}: {key!r} must be {kinds[key]}, not {value!r}")


def _open_task(week: Table) -> Table:
    """Return the open task of a week as a task among the others, which may use the one whose programs it judges."""
    place = f"week {week['number']}: 'open'"
    _check_keys(week["open"], OPEN_KEYS, place, OPEN_OPTIONS)
    of = week["open"]["of"]
    if of not in [task["id"] for day in week["days"] for task in day["tasks"]]:
        raise ValueError(f"{place}: 'of' names {of}, which is not a task of the week")
    return {**week["open"], "id": f"{week['number']}.{OPEN}", "needs": [of]}


def _check_engines(what: str, tables: list[Table], tasks: list[str], keys: Keys, options: Keys) -> None:
    for i, table in enumerate(tables, 1):
        place = f"{what} {table.get('name', i)}"
        _check_keys(table, keys, place, options)
        _check_requires(table, place)
        for key in ("model", "generate", "make", "config", "counts"):
            if not PYTHON.fullmatch(table.get(key, "module:name")):
                raise ValueError(f"{place}: {key!r} is {table[key]!r}, which is not module:name")
        for key in ("needs", "kernels"):
            if unknown := [need for need in table.get(key, []) if need not in tasks]:
                raise ValueError(f"{place}: {key!r} names {unknown[0]}, which does not exist")
    _check_distinct([table["name"] for table in tables], what)


def _check_requires(table: Table, place: str) -> None:
    try:
        known(table.get("requires", []))
    except ValueError as error:
        raise ValueError(f"{place}: 'requires': {error}") from error


def _is(value: object, wanted: str) -> bool:
    if wanted in (STRINGS, TABLES):
        member = str if wanted == STRINGS else dict
        return isinstance(value, list) and all(isinstance(item, member) for item in value)
    kind = {STRING: str, NUMBER: int, YES_NO: bool, TABLE: dict}[wanted]
    return type(value) is kind  # isinstance would take `true` for a number


def _check_distinct(items: Sequence[object], what: str) -> None:
    for i, item in enumerate(items):
        if item in items[:i]:
            raise ValueError(f"{what} {item} is listed twice")


def _check_targets(tasks: list[Table]) -> None:
    """Check that targets are distinct, and so are the programs that run those in other languages."""
    owners: dict[str, str] = {}
    for task in tasks:
        target = task["target"]
        in_python = not target.partition(":")[0].endswith(OTHER_LANGUAGES)
        if not (PYTHON if in_python else OTHER).fullmatch(target):
            raise ValueError(f"task {task['id']}: 'target' is {target!r}, which is not module:name")
        if in_python and "program" in task:
            raise ValueError(f"task {task['id']}: 'program' is for a target that is not Python; {target} is")
        if not in_python and not PYTHON.fullmatch(task.get("program", "")):
            raise ValueError(f"task {task['id']}: 'program' must be module:name, the function that runs {target}")
        for key in ("target", "program"):
            value = task.get(key)
            if value in owners:
                raise ValueError(f"task {task['id']}: {key!r} is {value}, the {owners[value]} already")
            if value:
                owners[value] = f"{key} of {task['id']}"


def _check_boxes(weeks: Sequence[Table]) -> None:
    """Check that each box of the engine has one task, a place among earlier ones, and frames made in the same week."""
    owners: dict[str, str] = {}
    frames: dict[str, str] = {}  # a box within each
    for week in weeks:
        for task in (task for day in week["days"] for task in day["tasks"]):
            place = f"task {task['id']}: 'makes'"
            for text in task.get("makes", []):
                if not BOX.fullmatch(text):
                    raise ValueError(f"{place} has {text!r}, which is not frame/name or frame/name before other")
                path, _, before = text.partition(" before ")
                *around, _ = path.split("/")
                if path in owners:
                    raise ValueError(f"{place} has {path}, which {owners[path]} makes already")
                other = "/".join([*around, before])
                if before and other not in owners.keys() | frames.keys():
                    raise ValueError(f"{place} puts {path} before {before}, but no earlier task makes {other}")
                owners[path] = task["id"]
                frames |= {"/".join(around[: i + 1]): path for i in range(len(around))}
        if unmade := sorted(frames.keys() - owners.keys()):
            raise ValueError(f"week {week['number']}: no task makes {unmade[0]}, the frame of {frames[unmade[0]]}")
