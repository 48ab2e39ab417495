"""What the failing checks of a program have in common, and what the solution raises where the program raises nothing.

Neither is a guess at the mistake: both are seen in the task's own checks.
"""

import inspect
import itertools
import math
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any

import mlx.core as mx
import pytest

from ..course.entities import Task
from ..course.findings import Claim, Kind, message_of, shortened
from ..paths import SOLUTION
from ..programs.packages import SOLUTION_NAME, installed, program
from ..testkit.cases import dtype_word
from .failures import Failure, Failures
from .unread import unread

FEWEST = 2  # failing checks that a condition must separate from others
ENOUGH = 4  # that a number must separate: few have many in common by chance
CHANCES = 50  # to one that no pair tried separates as many checks, chosen at random
OTHERS = 3  # checks on the other side
CALLS = 200  # of the program, which are looked at in one check
AXES = 4  # from the last one, which are compared
CHANCE = re.compile(r" is (?!-?0(\.0)?$)-?[\d.]|more than once$")  # what a few checks may have in common by chance
SIMPLE = int | float | str | None  # a default that can be shown
Condition = tuple[str, str]  # its kind, and in words
Calls = set[tuple[tuple[int, int], int]]  # an object and the number of a call of it, 0 for `__init__`
Separations = dict[tuple[Condition, ...], set[str]]  # conditions, and the checks in which all of them hold
Run = Callable[[pytest.Item], Failure | None]


def observed(task: Task, items: Sequence[pytest.Item], failures: Failures, run: Run) -> Claim | None:
    """Claim what is seen in the checks of a failing program, without a name for its mistake."""
    failed = [(failure, item) for item in items if (failure := failures[item.name])]
    failure, first = min(failed, key=lambda each: each[0].finding.rank())
    said = unread(program(task.program), program(task.program, SOLUTION_NAME))
    said = said or (_refusal(task, first, run) if failure.finding.kind is Kind.NO_ERROR else "")
    said = said or _condition(task, items, failures, run)
    return Claim([], [], place=shortened(said)) if said else None


def _condition(task: Task, items: Sequence[pytest.Item], failures: Failures, run: Run) -> str:
    """Return the condition on inputs that holds in all failing checks and in no other; "" unless one kind does."""
    failing = {item.name for item in items if failures[item.name]}
    passing = {item.name for item in items} - failing
    if len(failing) < FEWEST or len(passing) < OTHERS or all(each.stops for each in failures.values() if each):
        return ""
    target, seen, where = program(task.program), dict[Condition, set[str]](), dict[str, dict[Condition, Calls]]()
    for item in items:
        with _conditions(target) as where[item.name]:
            run(item)
        for condition in where[item.name]:
            seen.setdefault(condition, set()).add(item.name)
    called = [names for (kind, _), names in seen.items() if kind == "call"]
    seen = {each: names for each, names in seen.items() if each[0] == "call" or names not in called}
    plain = [f"`{name}` is called" for name in ("__call__", getattr(target, "__name__", ""))]  # what it is for
    tests = [{name.partition("[")[0] for name in names} for names in (failing, passing)]
    few = len(failing) < ENOUGH or (len(tests[0]) == 1 and not tests[0] & tests[1])  # one test's own numbers
    telling = {
        each: names for each, names in seen.items() if each[1] not in plain and not (few and CHANCE.search(each[1]))
    }
    single: Separations = {(condition,): names for condition, names in telling.items()}
    wide = [condition for condition, names in seen.items() if names > failing]
    tried = len({frozenset(names) for names in seen.values()}) ** 2 // 2
    proven = math.comb(len(items), len(failing)) > CHANCES * tried and len(failing) <= len(passing)
    pairs = itertools.combinations(wide, 2) if proven else ()
    both: Separations = {
        (a, b): {name for name in seen[a] & seen[b] if _together(where[name][a], where[name][b])}
        for a, b in pairs
        if a[0] != b[0]
    }
    for names, among in ((failing, single), (passing, single), (failing, both)):
        alike = [conditions for conditions, separated in among.items() if separated == names]
        if names is passing:  # neither what a second call adds nor what failing checks lack is a reason to pass
            shared = [set().union(*(_named(words) for _, words in where[name])) for name in failing]
            alike = [each for each in alike if all(_named(each[0][1]) <= held for held in shared)]
            alike = [each for each in alike if not each[0][1].endswith("more than once")]
        if alike:
            unique = len({tuple(kind for kind, _ in conditions) for conditions in alike}) == 1
            verb, words = "fails" if names is failing else "passes", " and ".join(words for _, words in alike[0])
            return f"Your code {verb} all {len(names)} checks in which {words}, and no others." if unique else ""
    return ""


def _named(words: str) -> set[str]:
    """Return the names of which a condition speaks."""
    return {*re.findall("`(.*?)`", words)}


def _together(first: Calls, second: Calls) -> bool:
    """Return whether two conditions hold in one call, or one of them in the `__init__` of the object that is called."""
    one, other = ({each for each, _ in some} for some in (first, second))
    new = {each for each, call in [*first, *second] if call == 0}
    return bool(first & second or new & one & other)


@contextmanager
def _conditions(target: Any) -> Iterator[dict[Condition, Calls]]:
    """Collect the conditions that hold in some call of a function, or of a class's methods, in the block."""
    found: dict[Condition, Calls] = {}
    members = vars(target) if isinstance(target, type) else {"": target}
    public = [each for name, each in members.items() if name.startswith("__") or not name.startswith("_")]
    functions = [inspect.unwrap(each) for each in public if callable(each)]
    defaults = {each.__code__: _defaults(each) for each in functions if hasattr(each, "__code__")}
    calls: Counter[CodeType] = Counter()
    made: Counter[int] = Counter()  # an id is used again when its object is gone

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code in defaults and calls[code] < CALLS:
            calls[code] += 1
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            arguments = {name: frame.f_locals[name] for name in names}
            me, is_new = id(arguments.pop("self", None)), code.co_name == "__init__"
            made[me] += is_new
            conditions = [("call", f"`{code.co_name}` is called"), *_of(arguments)]
            for name, usual in defaults[code].items():
                given = arguments[name]
                if given is usual or isinstance(given, mx.array) or (isinstance(given, SIMPLE) and given == usual):
                    continue
                words = f"{usual!r} (its default)" if isinstance(usual, SIMPLE) else "its default"
                conditions.append((f"value of {name}", f"`{name}` is not {words}"))
            if calls[code] > 1:
                conditions.append(("call", f"`{code.co_name}` is called more than once"))
            for condition in conditions:
                found.setdefault(condition, set()).add(((me, made[me]), 0 if is_new else sum(calls.values())))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _of(arguments: dict[str, Any]) -> Iterator[Condition]:
    """Yield the conditions that hold for a call's arguments and their attributes."""
    for name, value in arguments.items():
        recorder = type(value).__module__.startswith("tests.")  # what it notes says nothing of the argument
        attributes = {} if isinstance(value, type) or recorder else getattr(value, "__dict__", {})
        inner = {f"{name}.{key}": each for key, each in attributes.items() if not key.startswith("_")}
        for whole, part in [(name, value), *inner.items()]:
            last = whole.rpartition(".")[2]  # an object keeps its arguments under their names
            yield from ((kind.format(last), f"`{whole}` {words}") for kind, words in _of_value(part, whole != name))
    arrays = {name: value for name, value in arguments.items() if isinstance(value, mx.array)}
    for (a, first), (b, second) in itertools.combinations(arrays.items(), 2):
        if first.dtype != second.dtype:
            yield "dtypes", f"`{a}` is {dtype_word(first.dtype)} and `{b}` {dtype_word(second.dtype)}"
        if first.ndim != second.ndim:
            yield "ranks", f"`{a}` and `{b}` have different numbers of dimensions"
        for axis in range(-1, -1 - min(AXES, first.ndim, second.ndim), -1):
            if (one := first.shape[axis]) != (other := second.shape[axis]):
                how = "longer" if one > other else "shorter"
                yield f"sizes {axis}", f"axis {axis} of `{a}` and of `{b}` differ in size"
                yield f"sizes {axis}", f"axis {axis} of `{a}` is {how} than of `{b}`"
    numbers = {name: value for name, value in arguments.items() if type(value) in (int, float)}
    for (a, one), (b, other) in itertools.combinations(numbers.items(), 2):
        if one != other:
            yield "order", f"`{a}` is {'less' if one < other else 'greater'} than `{b}`"


def _of_value(value: Any, is_attribute: bool) -> Iterator[Condition]:
    """Yield what holds for one value: the kind, and the words that follow its name. Attributes have no numbers."""
    if isinstance(value, mx.array):
        yield "dimensions", f"has {value.ndim} dimension{'s' * (value.ndim != 1)}"
        yield "dtype", f"is {dtype_word(value.dtype)}"
        if value.dtype in (mx.float16, mx.bfloat16):
            yield "dtype", "is float16 or bfloat16"
        for axis in range(-1, -1 - min(AXES, value.ndim), -1):
            if (size := value.shape[axis]) < 2:
                yield f"size {size} {axis}", f"has size {size} in axis {axis}"
    elif value is None or isinstance(value, bool | str):
        yield "value of {}", f"is {value!r}"
    elif isinstance(value, int | float) and not is_attribute:
        yield "value of {}", f"is {value!r}"
        if value > 0 or value < 0:  # NaN is neither
            yield "value of {}", f"is {'positive' if value > 0 else 'negative'}"
    elif isinstance(value, list | tuple | dict):
        yield "length of {}", f"has {('no entry', 'one entry', 'several entries')[min(len(value), 2)]}"


def _refusal(task: Task, item: pytest.Item, run: Run) -> str:
    """Return what the solution raises in a check; "" if it raises several errors."""
    with installed(task.program, program(task.program, SOLUTION_NAME)), _raised() as messages:
        run(item)
    return f"Our solution raises here: {messages.pop()}" if len(messages) == 1 else ""


@contextmanager
def _raised() -> Iterator[set[str]]:
    """Collect the exceptions that the solution raises on purpose in the block."""
    found: set[str] = set()
    folder = str(SOLUTION)

    def ours(frame: FrameType | None) -> bool:
        return frame is not None and frame.f_code.co_filename.startswith(folder)

    def leaves(frame: FrameType, event: str, what: Any) -> Any:
        if event == "exception" and not ours(frame.f_back) and _is_deliberate(what[1], what[2], folder):
            found.add(f"{what[0].__name__}: {message_of(what[1])}")
        return leaves

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: leaves if event == "call" and ours(frame) else None)
    try:
        yield found
    finally:
        sys.settrace(before)


def _is_deliberate(error: BaseException, passed: TracebackType, folder: str) -> bool:
    """Return whether an exception begins at a `raise` in the folder or in MLX, not in what Python itself refuses."""
    first = traceback.extract_tb(passed)[-1]
    return first.filename.startswith(folder) and (str(first.line).startswith("raise ") or str(error).startswith("["))
