"""Ask for a forgotten `return` where an error is about a None."""

import dis
import inspect
import re
import traceback
from pathlib import Path
from types import FunctionType

QUESTION = ": is a `return` missing?"
SAID = re.compile(r"\b(?:gave|got|returned|is|are) None(?:Type)?, expected|, got None$")
NONE = re.compile("LOAD_CONST None RETURN_VALUE|RETURN_CONST None")


def asked(headline: str) -> str:
    """Return a headline, with the question if it says that a result is None."""
    return f"{headline}{QUESTION}" if SAID.search(headline) else headline


def missing(error: BaseException, package: Path) -> tuple[str, ...]:
    """Return a line on the package's functions, known in the traceback, that can return None but say otherwise."""
    if not isinstance(error, TypeError | AttributeError) or "NoneType" not in str(error):
        return ()
    held = [each for frame, _ in traceback.walk_tb(error.__traceback__) for each in frame.f_globals.values()]
    parts = [part for each in held if isinstance(each, type) for part in vars(each).values()]
    functions = filter(
        lambda each: _lacks_return(each, package),
        map(inspect.unwrap, [*held, *(getattr(part, "fget", part) for part in parts)]),
    )
    names = " and ".join(dict.fromkeys(f"`{each.__qualname__}`" for each in functions))
    return (f"{names} can return None{QUESTION}",) if names else ()


def _lacks_return(function: object, package: Path) -> bool:
    if not isinstance(function, FunctionType) or "None" in str(function.__annotations__.get("return")):
        return False
    steps = [f"{step.opname} {step.argrepr}".strip() for step in dis.get_instructions(function)]
    mine = Path(function.__code__.co_filename).is_relative_to(package) and not inspect.isgeneratorfunction(function)
    return mine and len(steps) > 4 and bool(NONE.search(" ".join(steps)))  # a protocol's method has no steps
