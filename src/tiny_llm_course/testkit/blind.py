"""Known programs in another process, for a check that must not know which program it is given.

The process shuffles them, runs the current one on the inputs that it is sent, and reveals the order after all trials.
Only arrays and plain values cross the pipe. Started as `python -m tiny_llm_course.testkit.blind 1.1.2`.
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

LENGTH = 8  # bytes of a message's length prefix


class KnownProgram(NamedTuple):
    """What `reveal` says about a program."""

    place: int  # index among all programs: the right ones first, in the order of their file
    name: str  # empty for the solution
    right: bool
    question: str


class BlindPrograms:
    """The known programs of a task in another process: `trials` runs them, then `reveal` names them."""

    __slots__ = ("_process",)  # a check cannot replace its methods

    def __init__(self, task: str) -> None:
        command = [sys.executable, "-P", "-m", __name__, task]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def trials(self) -> Iterator[Program]:
        """Yield the same function once per program, in a new random order: each time it runs another program."""
        held = self._held()
        for _ in range(self._ask("shuffle")):
            self._ask("next")
            yield self._call
        if self._held() != held:
            raise CheckFailed(Finding(Kind.FORBIDDEN, "your check replaces the process that runs the programs"))

    def reveal(self) -> list[KnownProgram]:
        """Return the programs in the order of their trials, once all are over."""
        return [KnownProgram(*known) for known in self._ask("reveal")]

    def _held(self) -> tuple[Any, ...]:
        return self._process, self._process.stdin, self._process.stdout

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        raised, result, changed = self._ask("call", args, kwargs)
        for array, now in zip(_arrays(args, kwargs), changed, strict=True):
            if now is not None:
                array[...] = now
        if raised:
            kind = getattr(builtins, raised, None)
            raise (kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError)(result)
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
            headline = "the process that runs the programs has ended: your check ended it, or asked it which one runs"
            raise CheckFailed(Finding(Kind.FORBIDDEN, headline)) from None


def programs_of(known: Variants) -> list[Variant]:
    """Return all known programs of a task, the right ones first; those of Metal kernels also return their counts."""
    programs = [known.solution, *known.accepted_programs, *known.ways, *known.wrong_programs]
    if not known.task.target.source.endswith(".metal"):
        return programs
    return [dataclasses.replace(each, make=partial(lambda v: with_counts(v.program), each)) for each in programs]


def _serve(known: Variants, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the parent ends, or asks for what it must not know yet."""
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
                trials = [(i, programs[i]) for i in order]
                answer = _as_bytes([(i, each.name, not each.question, each.question) for i, each in trials])
            case _:
                return
        _send(answers, answer)


def _called(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return what a program raises or returns, and the caller's arrays that it changed."""
    before = [mx.array(array) for array in _arrays(args, kwargs)]
    mx.eval(before)
    try:
        raised, result = "", program(*args, **kwargs)
        _as_bytes(result)  # here, so that an exception of MLX's lazy evaluation belongs to the program
    except Exception as error:
        raised, result = type(error).__name__, str(error)
    after = zip(before, _arrays(args, kwargs), strict=True)
    return _as_bytes((raised, result, [None if mx.array_equal(a, b, equal_nan=True) else b for a, b in after]))


def _arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[mx.array]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, mx.array)]


# From one process to the other


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, mx.array):
            wide = thing.dtype == mx.bfloat16  # NumPy has no bfloat16
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
    def find_class(self, module: str, name: str) -> Any:
        return ALLOWED[name]


def array(numbers: bytes, kind: str, shape: tuple[int, ...], wide: bool) -> mx.array:
    """Build an array from NumPy's bytes."""
    made = mx.array(np.frombuffer(numbers, kind).reshape(shape))
    return made.view(mx.bfloat16) if wide else made


def dtype(name: str) -> mx.Dtype:
    """Return MLX's dtype of this name."""
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
    size = pipe.read(LENGTH)
    if len(size) < LENGTH:
        raise EOFError
    return _Unpickler(io.BytesIO(pipe.read(int.from_bytes(size)))).load()


def main() -> None:
    """Serve the known programs of the task named on the command line."""
    mx.set_default_device(mx.cpu)  # as for every check that is not marked with another device
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a program's prints must not mix with the answers
    try:
        _serve(load_variants(load_course().task(sys.argv[1])), sys.stdin.buffer, answers)
    except (EOFError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
