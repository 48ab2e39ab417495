"""What a program does on some inputs, in a form that can be compared: its result, or how it stops."""

import contextlib
import dataclasses
import dis
import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from .rounding import close

Program = Callable[..., Any]

# Two names of one operation: a bad shape, or a bad rank, is refused alike by both.
SAME_OPERATOR = {"unflatten": "reshape", "argpartition": "partition", "topk": "partition"}


@dataclasses.dataclass(frozen=True)
class Stopped:
    """An exception: its type, and what it is about, unless Python code raised it with a message of its own.

    `about` is the function that MLX names ("[matmul] ..."), or what the message first quotes, or its first words.
    """

    kind: str
    about: str = ""

    @staticmethod
    def by(error: BaseException) -> "Stopped":
        """Return what an exception says."""
        kind = type(error).__name__
        if about := getattr(error, "about", ""):  # a KernelFault's
            return Stopped(kind, about)
        try:
            message = str(error)[:1000]
        except Exception:
            message = ""
        if isinstance(error, KeyError):  # how a program calls its keys is its own
            message = "a key"
        if isinstance(error, OSError) and error.strerror:  # not the path, which may be a temporary one
            message = error.strerror
        found = re.match(r"\[(\w+)\]|(\w+)\(\)", message) or re.search(r"'([^']*)'", message)
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        if at and at.tb_frame.f_code.co_code[at.tb_lasti] == dis.opmap["RAISE_VARARGS"]:  # the innermost line raised it
            return Stopped(kind)
        about = (found[1] or found[found.lastindex or 0]).lower() if found else " ".join(message.split()[:3])
        return Stopped(kind, SAME_OPERATOR.get(about, about))


Outcome = tuple[Any, ...] | Stopped  # the arrays of one probe


def outcome(run: Callable[[Program], Any], subject: Program) -> Outcome:
    """Run a probe on a program, and return its result as a tuple, or how it stops. Prints are discarded."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = run(subject)
            result = result if isinstance(result, tuple) else (result,)
            mx.eval(*(x for x in result if isinstance(x, mx.array)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() too
        return Stopped.by(error)
    return result


def same(mine: Outcome, other: Outcome, closeness: float) -> bool:
    """Return whether two outcomes are equal: up to rounding, or in how the programs stop."""
    if isinstance(mine, Stopped) or isinstance(other, Stopped):
        return mine == other if isinstance(mine, Stopped) and isinstance(other, Stopped) else False
    return len(mine) == len(other) and all(close(a, b, closeness) for a, b in zip(mine, other, strict=True))


def refusal(call: Callable[[], Any], error: type[Exception] = ValueError) -> int:
    """Return 1 if a call raises this kind of error, 2 if it raises another one, 0 if it raises none."""
    try:
        result = call()
        mx.eval([x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, mx.array)])
    except error:
        return 1
    except Exception:
        return 2
    return 0


def refusals(call: Callable[[Any], Any], cases: Sequence[Any], error: type[Exception] = ValueError) -> mx.array:
    """Return the `refusal` of a call for each case; if every case raises another kind of error, raise it."""
    found = [refusal(partial(call, case), error) for case in cases]
    if set(found) == {2}:
        mx.eval(call(cases[0]))
    return mx.array(found)
