"""Extract a failing check's case from its traceback: its inputs, the expected and the actual result.

The test kit's frames hold the call (`function`, `formula`, `args`, `kwargs`), a repeated one (`inputs`, `named`), the
inputs before it (`values`) and the results (`actual`, `expected`). A check of the learner's is called on `misjudged`.
"""

import ast
import contextlib
import inspect
import re
import textwrap
import traceback
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest

from ..course.entities import Task
from ..course.file_paths import name_of
from ..course.findings import shortened
from ..paths import COURSE, LEARNER, TESTS
from ..programs import packages
from ..source.parsing import parse_or_none
from ..testkit.cases import dtype_word, shape_words, type_words
from ..testkit.rounding import exact, to_float64
from .plugin import TASK, Reporting

NAMES = 12  # of a test's variables that are listed
SOURCE = 12  # lines of a test that are shown
NOT_LISTED = ModuleType | FunctionType | type
ROWS = 12  # of an array
COLUMNS = 100
VERDICT = re.compile(r"\bfail(_\w+)?\(")  # in a helper of the tests: of no interest beside the call before it
EDGE = 3  # numbers at both ends of an axis, where an array is too large


class KeptCase(NamedTuple):
    """A failing case: `names`, of which `listed` are shown; `call` repeats it; `source` is a test's own code."""

    names: dict[str, Any]
    listed: tuple[str, ...]
    call: str = ""
    source: tuple[str, ...] = ()


def kept_case(error: BaseException, program: Callable[..., Any]) -> KeptCase:
    """Return a failing check's case; `program` is the learner's, if the check does not say what it called."""
    if isinstance(error, BaseExceptionGroup):  # hypothesis: the same inputs gave different answers
        return kept_case(error.exceptions[0], program)
    names: dict[str, Any] = {"program": program}
    listed: dict[str, None] = {}
    test: FrameType | None = None
    call = ""
    agreed: Mapping[str, Any] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file, variables = Path(frame.f_code.co_filename), frame.f_locals
        if file.is_relative_to(LEARNER):  # the frames below were called by the learner's code
            break
        if file.is_relative_to(TESTS) and not call:
            test = frame
            own = _ours(variables)
            names |= _ours(frame.f_globals) | own
            listed |= dict.fromkeys(name for name, value in own.items() if not isinstance(value, NOT_LISTED))
            listed.pop("case", None)
        elif file.is_relative_to(COURSE / "testkit"):
            if "formula" in variables:
                agreed = variables
                called, call = _call(variables)
                names = {name: value for name, value in names.items() if isinstance(value, ModuleType)} | called
                listed = dict.fromkeys(name for name in called if name != "program")
            elif "misjudged" in variables:
                names["misjudged"], call = variables["misjudged"], "program(misjudged)"
                listed["misjudged"] = None
            elif variables.get("inputs"):  # the same numbers in another layout
                names |= _call({**agreed, "args": variables["inputs"], "kwargs": variables["named"]})[0]
            if variables.get("expected") is not None:
                names["expected"] = variables["expected"]
            if "actual" in variables:
                names["yours"] = variables["actual"]
    listed |= dict.fromkeys(name for name in ("expected", "yours") if name in names)
    source: tuple[str, ...] = ()
    if test is not None and not call:
        source, call = _source(test), _typed(test, getattr(program, "__name__", ""), names)
    order = sorted(listed, key=lambda name: name in ("expected", "yours"))
    return KeptCase(names, tuple(order[-NAMES:]), call, source)


def case_of(error: BaseException, task: Task) -> KeptCase | None:
    """Return the case in which a check of a task has failed; None if the task's file or function is missing."""
    with contextlib.suppress(packages.NotImportable, AttributeError):
        return kept_case(error, packages.program(task.program))
    return None


def _ours(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables without tests and pytest's names, which begin with @."""
    return {name: value for name, value in variables.items() if not name.startswith(("_", "@", "test_"))}


def _call(variables: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the inputs of a program that is compared with a formula, by the formula's names, and the call to type."""
    args, kwargs, formula = variables["args"], variables["kwargs"], variables["formula"]
    bound = inspect.signature(formula).bind(*args, **kwargs)
    for name, numbers in variables["values"].items():
        value = bound.arguments.get(name)
        if isinstance(value, mx.array) and not np.array_equal(numbers, to_float64(value), equal_nan=True):
            bound.arguments[name] = mx.array(numbers.astype(np.float32)).astype(value.dtype)  # changed since
    expected = variables.get("expected")
    if expected is None:
        a = [_as_float64(value) for value in bound.args]
        k = {name: _as_float64(value) for name, value in bound.kwargs.items()}
        with np.errstate(all="ignore"):
            expected = formula(*a, **k, r=exact)
    words = [f"{name}={name}" if name in kwargs else name for name in bound.arguments]
    return {**bound.arguments, "program": variables["function"], "expected": expected}, f"program({', '.join(words)})"


def _typed(frame: FrameType, name: str, names: Mapping[str, Any]) -> str:
    """Return a test's own call of the program, `module.name(...)`, if all of its arguments are among the names."""
    tree = parse_or_none(textwrap.dedent(inspect.getsource(frame.f_code)))
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Call(ast.Attribute(ast.Name(module), called)) if called == name:
                given = [*node.args, *(each.value for each in node.keywords)]
                known = all(isinstance(each, ast.Constant) or getattr(each, "id", "") in names for each in given)
                if known and isinstance(names.get(module), ModuleType):
                    return ast.unparse(node).replace(f"{module}.{name}", "program", 1)
    return ""


def _as_float64(value: Any) -> Any:
    return to_float64(value) if isinstance(value, mx.array) else value


def _source(frame: FrameType) -> tuple[str, ...]:
    lines, first = inspect.getsourcelines(frame.f_code)
    place = f"{name_of(Path(frame.f_code.co_filename))}:{first}"
    text = [line.rstrip() for line in lines if line.strip()]
    shown = [*takewhile(lambda line: not VERDICT.search(line), text)] if text[0].startswith("def ") else text
    while len(shown) > 1 and shown[-1].endswith(":"):  # the condition of a verdict
        shown.pop()
    shown = (shown if len(shown) > 1 else text)[:SOURCE]
    return (place, *shown, *["    ..."] * (len(text) > len(shown)))


def words_of(value: Any) -> str:
    """Return a value in one line: an array by dtype and shape, anything else by its type or value."""
    if isinstance(value, mx.array):
        return f"{dtype_word(value.dtype)}, {shape_words(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}, {shape_words(value.shape)} (NumPy)"
    if value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | dict | slice):
        return shortened(ascii(value))
    return type_words(value)


def numbers_of(value: Any) -> list[str]:
    """Return the rows of an array as text; none for anything else."""
    if not isinstance(value, mx.array | np.ndarray):
        return []
    # NumPy has no bfloat16.
    numbers = np.array(value.astype(mx.float32)) if isinstance(value, mx.array) else value
    options: dict[str, Any] = {"precision": 4, "suppress_small": True, "max_line_width": COLUMNS}
    rows = np.array2string(numbers, threshold=ROWS * EDGE * 2, edgeitems=EDGE, **options).splitlines()
    return rows if len(rows) <= ROWS else [*rows[: ROWS - 1], "..."]


def with_numbers(case: KeptCase) -> list[str]:
    """Return all that is listed of a case, arrays with their numbers."""
    widest = max(map(len, case.listed), default=0)
    lines = []
    for name in case.listed:
        value = case.names[name]
        lines.append(f"{name:<{widest}}  {words_of(value)}")
        lines += [f"  {row}" for row in numbers_of(value)]
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Reporting:
    """Show the arrays of the case below a failed check, in `pdm run test --full`."""
    report = yield
    graded = report.failed and TASK in item.stash
    if call.excinfo and graded and (case := case_of(call.excinfo.value, item.stash[TASK])):
        report.sections.append(("the case", "\n".join(with_numbers(case))))
    return report
