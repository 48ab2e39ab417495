"""Refuse a malformed registry, so that nothing that reads it has to check again.

Works on the plain tables of the file: `registry.py` makes its objects from them afterwards. Every complaint is a
ValueError that names the week, day or task and the key.
"""

import re
from collections.abc import Sequence
from typing import Any

Table = dict[str, Any]

STRING = "a string"
NUMBER = "a whole number"
STRINGS = "a list of strings"
TABLES = "a list of tables"

REGISTRY_KEYS = {"weeks": TABLES}
WEEK_KEYS = {"number": NUMBER, "title": STRING, "days": TABLES}
DAY_KEYS = {"number": NUMBER, "title": STRING, "chapter": STRING, "tasks": TABLES}
TASK_KEYS = {
    "id": STRING,
    "title": STRING,
    "targets": STRINGS,
    "tests": STRING,
    "needs": STRINGS,
    "minutes": NUMBER,
    "difficulty": NUMBER,
    "forbidden": STRINGS,
    "hints": STRINGS,
}

TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_registry(registry: Table) -> None:
    """Check every level's keys and their types, then that ids, needs and targets agree with each other."""
    _check_keys(registry, REGISTRY_KEYS, "the registry")
    tasks: list[Table] = []
    for i, week in enumerate(registry["weeks"], 1):
        _check_keys(week, WEEK_KEYS, f"week {week.get('number', f'at place {i}')}")
        for j, day in enumerate(week["days"], 1):
            _check_keys(day, DAY_KEYS, f"day {week['number']}.{day.get('number', f'(at place {j})')}")
            for k, task in enumerate(day["tasks"], 1):
                place = f"{week['number']}.{day['number']}"
                _check_keys(task, TASK_KEYS, f"task {task.get('id', f'{k} of day {place}')}")
                if not re.fullmatch(re.escape(place) + r"\.[1-9][0-9]*", task["id"]):
                    raise ValueError(f"task {task['id']}: its id does not match its place, day {place}")
                tasks.append(task)
        _check_distinct([day["number"] for day in week["days"]], f"week {week['number']}: day")
    _check_distinct([week["number"] for week in registry["weeks"]], "week")
    _check_distinct([task["id"] for task in tasks], "task")
    _check_needs(tasks)
    _check_targets(tasks)


def _check_keys(table: Table, wanted: dict[str, str], place: str) -> None:
    for key in wanted:
        if key not in table:
            raise ValueError(f"{place}: the key {key!r} is missing")
    for key, value in table.items():
        if key not in wanted:
            raise ValueError(f"{place}: there is no key {key!r}; the keys are {', '.join(wanted)}")
        if not _is(value, wanted[key]):
            raise ValueError(f"{place}: {key!r} must be {wanted[key]}, not {value!r}")


def _is(value: object, wanted: str) -> bool:
    if wanted in (STRINGS, TABLES):
        member = str if wanted == STRINGS else dict
        return isinstance(value, list) and all(isinstance(item, member) for item in value)
    return type(value) is (str if wanted == STRING else int)  # isinstance would take `true` for a number


def _check_distinct(items: Sequence[object], what: str) -> None:
    for i, item in enumerate(items):
        if item in items[:i]:
            raise ValueError(f"{what} {item} is there twice")


def _check_needs(tasks: list[Table]) -> None:
    ids = [task["id"] for task in tasks]
    for i, task in enumerate(tasks):
        for need in task["needs"]:
            if need not in ids[:i]:
                fault = "which does not come before it" if need in ids else "which does not exist"
                raise ValueError(f"task {task['id']}: 'needs' names {need}, {fault}")


def _check_targets(tasks: list[Table]) -> None:
    owners: dict[str, str] = {}
    for task in tasks:
        if not task["targets"]:
            raise ValueError(f"task {task['id']}: 'targets' is empty")
        for target in task["targets"]:
            if not TARGET.fullmatch(target):
                raise ValueError(f"task {task['id']}: 'targets' names {target!r}, which is not module:name")
            if target in owners:
                raise ValueError(f"task {task['id']}: 'targets' names {target}, a target of {owners[target]} already")
            owners[target] = task["id"]
