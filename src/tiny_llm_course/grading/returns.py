"""Ask for a forgotten `return` where an error is about a None."""

import dis
import inspect
import itertools
import re
import traceback
from pathlib import Path
from types import FunctionType

QUESTION = ": is a `return` missing?"
NO_VALUE = re.compile(r"\b(?:gave|got|returned|is|are) None(?:Type)?, expected|, got None$")
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def asked(headline: str) -> str:
    """Return a headline, with the question if it says that a result is None."""
    return f"{headline}{QUESTION}" if NO_VALUE.search(headline) else headline


def missing(error: BaseException, package: Path) -> tuple[str, ...]:
    """Return a line on the package's functions that an error about a None may come from, as far as it is certain.

    They are in the files of the traceback, and can return None although they are annotated with another result.
    """
    if not isinstance(error, TypeError | AttributeError) or "NoneType" not in str(error):
        return ()
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    held = [each for f in frames for each in f.f_globals.values() if Path(f.f_code.co_filename).is_relative_to(package)]
    held += [part for each in held if isinstance(each, type) for part in vars(each).values()]
    functions = dict.fromkeys(inspect.unwrap(each) for each in held if callable(each))
    names = [f"`{f.__qualname__}`" for f in functions if isinstance(f, FunctionType) and _can_return_none(f, package)]
    return (f"{' and '.join(names[:2])} can return None{QUESTION}",) if names else ()


def _can_return_none(function: FunctionType, package: Path) -> bool:
    code, result = function.__code__, function.__annotations__.get("return")
    if "None" in str(result) or code.co_flags & GENERATORS or not Path(code.co_filename).is_relative_to(package):
        return False
    steps = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    if len(steps) <= 4:  # a protocol's method, without a body
        return False
    ends = (step for before, step in itertools.pairwise(steps) if before == ("LOAD_CONST", None))
    return ("RETURN_CONST", None) in steps or any(name == "RETURN_VALUE" for name, _ in ends)
