"""Describe a failing case in words: its inputs, shapes, dtypes and types."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from ..course.findings import CheckFailed

CASE_NOTE = "case: "  # begins the note of an exception that holds its case


@contextmanager
def noted(case: str) -> Iterator[None]:
    """Attach the case to an exception raised in the block."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, CheckFailed):  # it has its own case
            error.add_note(f"{CASE_NOTE}{case}")
        raise


def describe(arguments: dict[str, Any], seed: int, dtype: mx.Dtype) -> tuple[str, int]:
    """Return the inputs in words and their number of elements: `float32, x 2 x 3, axis -1, seed 4`.

    The first word is the result's dtype; floats of another dtype have theirs after the shape.
    """
    words = [dtype_word(dtype)]
    for name, v in arguments.items():
        if isinstance(v, mx.array):
            other = mx.issubdtype(v.dtype, mx.floating) and v.dtype != dtype
            words.append(f"{name} {shape_words(v.shape)}{f' in {dtype_word(v.dtype)}' if other else ''}")
        else:
            text = f"{v:.4g}" if isinstance(v, float) else str(v)
            if isinstance(v, list | tuple) and len(text) > 60:
                text = f"{text[:56]} ..."
            words.append(f"no {name}" if v is None else f"{name} {text}")
    return f"{', '.join(words)}, seed {seed}", sum(v.size for v in arguments.values() if isinstance(v, mx.array))


def shape_words(shape: tuple[int, ...]) -> str:
    """Return `2 x 3`, or `a single number` for no dimensions."""
    return " x ".join(str(n) for n in shape) or "a single number"


def dtype_word(dtype: mx.Dtype) -> str:
    """Return `float16` for mx.float16."""
    return str(dtype).removeprefix("mlx.core.")


def type_words(v: Any) -> str:
    """Return a value's type in words: `None`, or `a dict`."""
    if v is None:
        return "None"
    name = f"{type(v).__module__}.{type(v).__qualname__}".removeprefix("builtins.")
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
