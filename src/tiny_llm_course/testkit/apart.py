"""Known programs in a process of their own, for a check that must not see which one it is given.

That process draws an order, which it tells nobody before all have had their turn, and runs the program of the turn on
what it is sent. A check here has one and the same function throughout, and nothing of a program but what it computes.
Only arrays and plain values go from one process to the other. It is started as
`python -m tiny_llm_course.testkit.apart 1.1.2`, and ends with whoever has started it.
"""

import builtins
import dataclasses
import io
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import mlx.core as mx
import numpy as np

from ..course.findings import CheckFailed, Finding, Kind
from ..course.registry import load_course
from ..paths import ROOT
from .cases import dtype_word, type_words
from .kernels import with_counts
from .outcomes import Program
from .variants import Variant, Variants, load_variants

LENGTH = 8  # bytes, which say how many follow


class Known(NamedTuple):
    """What may be known of a program, after its turn."""

    place: int  # among all, the right ones first, in the order of their file
    name: str  # empty for the solution
    right: bool
    question: str


class Apart:
    """The known programs of a task, from outside.

    for program in apart.turns(): ...
    for known in apart.had_turns(): ...
    """

    __slots__ = ("_process",)  # so that no method of it can be replaced

    def __init__(self, task: str) -> None:
        command = [sys.executable, "-P", "-m", __name__, task]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def is_there(self) -> bool:
        """Whether it still answers."""
        return self._process.poll() is None

    def turns(self) -> Iterator[Program]:
        """One function, again and again: each time it is another program, in an order that is drawn anew."""
        held = self._held()
        for _ in range(self._ask("shuffle")):
            self._ask("next")
            yield self._call
        if self._held() != held:
            raise CheckFailed(Finding(Kind.FORBIDDEN, "your check replaces the process that it is given programs by"))

    def had_turns(self) -> list[Known]:
        """The programs in the order of their turns, which are over."""
        return [Known(*known) for known in self._ask("reveal")]

    def _held(self) -> tuple[Any, ...]:
        return self._process, self._process.stdin, self._process.stdout

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        raised, result, changed = self._ask("call", args, kwargs)
        for array, now in zip(_arrays(args, kwargs), changed, strict=True):
            if now is not None:
                array[...] = now
        if raised:
            raise _exception(raised)(result)
        return result

    def _ask(self, *request: Any) -> Any:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests
        assert answers
        try:
            _send(requests, _as_bytes(request))
            return _received(answers)
        except (EOFError, BrokenPipeError):
            self._process.kill()
            self._process.wait()
            headline = "the process of the programs has ended: your check ends it, or asks it which one it is given"
            raise CheckFailed(Finding(Kind.FORBIDDEN, headline)) from None


def programs_of(known: Variants) -> list[Variant]:
    """All known programs, the right ones first; of kernels in Metal such as give what is counted, too."""
    programs = [known.solution, *known.accepted_programs, *known.ways, *known.wrong_programs]
    if not known.task.target.is_metal:
        return programs
    return [dataclasses.replace(each, make=partial(_counted, each)) for each in programs]


def _counted(variant: Variant) -> Program:
    return with_counts(variant.program)


def _serve(known: Variants, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until nobody asks any more, or asks for what must not be known yet."""
    programs = programs_of(known)
    order: list[int] = []
    turn = -1
    while True:
        match _received(requests):
            case ("shuffle",):
                order = random.SystemRandom().sample(range(len(programs)), len(programs))
                turn = -1
                answer = _as_bytes(len(order))
            case ("next",) if turn + 1 < len(order):
                turn += 1
                answer = _as_bytes(None)
            case ("call", args, kwargs) if turn >= 0:
                answer = _called(programs[order[turn]].program, args, kwargs)
            case ("reveal",) if turn + 1 == len(order):
                told = [(i, programs[i]) for i in order]
                answer = _as_bytes([(i, each.name, not each.question, each.question) for i, each in told])
            case _:
                return
        _send(answers, answer)


def _called(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """What a program raises, or else gives, and what it makes of the caller's arrays, if it changes them."""
    before = [mx.array(array) for array in _arrays(args, kwargs)]
    mx.eval(before)
    try:
        raised, result = "", program(*args, **kwargs)
        _as_bytes(result)  # here, so that what MLX raises only now belongs to the program
    except Exception as error:
        raised, result = type(error).__name__, str(error)
    after = zip(before, _arrays(args, kwargs), strict=True)
    return _as_bytes((raised, result, [None if mx.array_equal(a, b, equal_nan=True) else b for a, b in after]))


def _arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[mx.array]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, mx.array)]


def _exception(name: str) -> type[Exception]:
    """Python's exception of a name; of what is none of Python's own, the most general one."""
    kind = getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError


# From one process to the other


class _Pickler(pickle.Pickler):
    """Refuses what is neither an array nor plain."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, mx.array):
            wide = thing.dtype == mx.bfloat16  # which NumPy has not
            numbers = np.array(thing.view(mx.uint16) if wide else thing)
            return array, (numbers.tobytes(), numbers.dtype.str, thing.shape, wide)
        if isinstance(thing, mx.Dtype):
            return dtype, (dtype_word(thing),)
        if isinstance(thing, np.generic):
            return type(thing.item()), (thing.item(),)
        if isinstance(thing, slice) or any(thing is each for each in ALLOWED.values()):
            return NotImplemented
        raise TypeError(f"a program takes MLX arrays and plain values, not {type_words(thing)}")


class _Unpickler(pickle.Unpickler):
    """Makes nothing but arrays and plain values."""

    def find_class(self, module: str, name: str) -> Any:
        return ALLOWED[name]


def array(numbers: bytes, kind: str, shape: tuple[int, ...], wide: bool) -> mx.array:
    """An array, of its numbers as NumPy has them."""
    made = mx.array(np.frombuffer(numbers, kind).reshape(shape))
    return made.view(mx.bfloat16) if wide else made


def dtype(name: str) -> mx.Dtype:
    """A dtype, of its name."""
    found: mx.Dtype = getattr(mx, name)
    return found


ALLOWED: dict[str, Any] = {each.__name__: each for each in (array, dtype, slice, bool, int, float, complex)}


def _as_bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _send(pipe: Any, message: bytes) -> None:
    pipe.write(len(message).to_bytes(LENGTH) + message)
    pipe.flush()


def _received(pipe: Any) -> Any:
    """The next message; an EOFError if there is none, as the other process has ended."""
    size = pipe.read(LENGTH)
    if len(size) < LENGTH:
        raise EOFError
    return _Unpickler(io.BytesIO(pipe.read(int.from_bytes(size)))).load()


def main() -> None:
    """Serve the known programs of the task that the command line names."""
    mx.set_default_device(mx.cpu)  # where every check computes that does not ask for another
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a program prints must not come between
    try:
        _serve(load_variants(load_course().task(sys.argv[1])), sys.stdin.buffer, answers)
    except (EOFError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
