"""What a probe asks of a program, taken down, so that it can be asked again: of another one, and with more to do."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx

from .variants import Program

ANSWERS = (mx.array, str, bytes, int, float, list, tuple, dict, set, type(None))  # not objects to ask further
MOST_ITEMS = 1 << 20  # taken from an iterator


@dataclasses.dataclass(frozen=True)
class Call:
    """One call: of the program itself (no method), or of a method of what the program made."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def values(self) -> list[Any]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()]

    def map(self, change: Callable[[Any], Any]) -> "Call":
        """The call with changed arguments."""
        return Call(
            self.method,
            tuple(change(value) for value in self.args),
            {name: change(value) for name, value in self.kwargs.items()},
        )


Asked = tuple[Call, ...]  # a call of the program, then calls of what it made


def taken_down(probe: Callable[[Program], Any], program: Program) -> Asked:
    """The probe's first call of the program, and all that it then asks of what the program made."""
    everything: list[list[Call]] = []

    def recording(*args: Any, **kwargs: Any) -> Any:
        made = program(*args, **kwargs)
        everything.append([Call("", args, kwargs)])
        if isinstance(made, (*ANSWERS, Iterator)):
            return made
        return _Witness(made, everything[-1])

    functools.update_wrapper(recording, program, updated=())  # a probe may want to know the program's module
    probe(recording)
    return tuple(everything[0])


class _Witness:
    """Stands before an object and takes down what is called."""

    def __init__(self, made: Any, calls: list[Call]) -> None:
        self._made = made
        self._calls = calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append(Call("__call__", args, kwargs))
        return self._made(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._made, name)
        if not callable(found) or isinstance(found, mx.array):
            return found

        def recording(*args: Any, **kwargs: Any) -> Any:
            self._calls.append(Call(name, args, kwargs))
            return found(*args, **kwargs)

        return recording


def ask(program: Program, asked: Asked) -> list[Any]:
    """The answers to all calls, computed to the end."""
    made = program(*asked[0].args, **asked[0].kwargs)
    answers = [made] if len(asked) == 1 else []
    for call in asked[1:]:
        answers.append(getattr(made, call.method)(*call.args, **call.kwargs))
    answers = [list(itertools.islice(a, MOST_ITEMS)) if isinstance(a, Iterator) else a for a in answers]
    mx.eval([a for a in answers if isinstance(a, mx.array)])
    return answers


def all_axes(asked: Asked, factor: int) -> Asked:
    """Every axis of every array is so many times as long."""
    return tuple(call.map(lambda v: _longer(v, factor)) for call in asked)


def all_axes_and_numbers(asked: Asked, factor: int) -> Asked:
    """The same, and whole numbers are so many times as large: sizes that go with the arrays."""
    return tuple(call.map(lambda v: v * factor if type(v) is int and v > 0 else _longer(v, factor)) for call in asked)


def batch(asked: Asked, factor: int) -> Asked:
    """The first axis of the arrays of the last calls, and lists; what the object is made of stays."""
    kept = len(asked) > 1
    return (*asked[:kept], *(call.map(lambda v: _more(v, factor, (list, mx.array))) for call in asked[kept:]))


def texts(asked: Asked, factor: int) -> Asked:
    """Texts and lists are repeated."""
    return tuple(call.map(lambda v: _more(v, factor, (list, str))) for call in asked)


def again(asked: Asked, factor: int) -> Asked:
    """What is asked of an object is asked so many times, unless it is about arrays: their size is what counts."""
    arrays = any(isinstance(value, mx.array) for call in asked for value in call.values)
    return asked if arrays else asked[:1] + asked[1:] * factor


def _longer(value: Any, factor: int) -> Any:
    if not isinstance(value, mx.array) or not value.ndim:
        return value
    return mx.tile(value, [factor if length > 1 else 1 for length in value.shape])


def _more(value: Any, factor: int, kinds: tuple[type, ...]) -> Any:
    if not isinstance(value, kinds):
        return value
    if isinstance(value, mx.array):
        return mx.tile(value, [factor] + [1] * (value.ndim - 1)) if value.ndim else value
    repeated: Any = value
    return repeated * factor


def size(asked: Asked) -> int:
    """How much is in the arguments: elements of arrays and lists, letters, and the whole numbers themselves."""
    return len(asked) + sum(_size(value) for call in asked for value in call.values)


def _size(value: Any) -> int:
    if isinstance(value, mx.array):
        return value.size
    if isinstance(value, list | str):
        return len(value)
    return value if type(value) is int else 0


def in_words(asked: Asked) -> str:
    """What the program is given, e.g. "arrays of 64 x 96 x 128 and 64 x 160 x 128"."""
    values = [value for call in asked for value in call.values]
    arrays = [" x ".join(map(str, v.shape)) for v in values if isinstance(v, mx.array) and v.ndim]
    if arrays:
        return f"arrays of {_list(arrays)}"
    if len(asked) > 2:
        return f"{len(asked) - 1} calls"
    long = [f"a {'text' if isinstance(v, str) else 'list'} of {len(v)}" for v in values if isinstance(v, list | str)]
    return _list([*long, *(str(v) for v in values if type(v) is int)]) or "no inputs"


def _list(words: list[str]) -> str:
    """The first three that differ, as a sentence has them."""
    few = list(dict.fromkeys(words))
    few = few[:3] + ["more"] * (len(few) > 3)
    return " and ".join([", ".join(few[:-1]), few[-1]] if few[1:] else few)
